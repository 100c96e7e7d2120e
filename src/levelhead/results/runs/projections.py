"""A run of projections of every kind."""

from __future__ import annotations

from levelhead.measures.measurement import Measurement
from levelhead.results import layout
from levelhead.results.records.projections import Observation, PredictedLabels, SettingMeasured, SubspaceFit
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import SweepRunSettings


class SweepRun(StudyRun[SweepRunSettings]):
    """Projections of every kind, on two models."""

    LAYOUT = layout.SWEEP

    @property
    def model(self) -> str:
        """The next-sentence model."""
        return self.settings.model

    @property
    def subspaces(self) -> tuple[SubspaceFit, ...]:
        """What was fitted at each location."""
        return self.data.records(layout.SUBSPACES)

    @property
    def measured(self) -> tuple[SettingMeasured, ...]:
        """Every measure of every setting, deeper ones last."""
        keys = (
            layout.NEXT_SENTENCES,
            layout.INFERENCES,
            layout.DEPTH_NEXT_SENTENCES,
            layout.DEPTH_INFERENCES,
        )
        return tuple(measured for key in keys for measured in self.data.records(key))

    @property
    def inferences(self) -> tuple[SettingMeasured, ...]:
        """The classifier's measures of the paper's settings."""
        return self.data.records(layout.INFERENCES)

    @property
    def answers(self) -> list[tuple[PredictedLabels, ...]]:
        """The classifier's answers, chunk by chunk: each has one record a setting."""
        return list(self.data.family(layout.INFERENCE_ANSWERS).values())

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The paper's observations on these models."""
        return self.data.records(layout.OBSERVATIONS)

    @property
    def correlation(self) -> Measurement | None:
        """Strength with fairness over the settings."""
        return self.data.single(layout.CORRELATION)
