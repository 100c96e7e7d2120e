"""A run of mitigations."""

from __future__ import annotations

from pathlib import Path

from levelhead.results import layout
from levelhead.results.records.mitigating import (
    BiasDetected,
    BiasMoved,
    BiasSpilled,
    CandidateTested,
    MethodLeftOut,
    MethodTimed,
    ModelWritten,
    OddsMoved,
)
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import MitigateRunSettings


class MitigateRun(StudyRun[MitigateRunSettings]):
    """What every candidate bought and cost on one model."""

    LAYOUT = layout.MITIGATE

    @property
    def model(self) -> str:
        """The model that was changed."""
        return self.settings.model

    @property
    def detected(self) -> BiasDetected | None:
        """Whether there is a bias to lower."""
        return self.data.single(layout.DETECTED)

    @property
    def candidates(self) -> tuple[CandidateTested, ...]:
        """Every candidate, in the order of the tests."""
        return self.data.records(layout.CANDIDATES_TESTED)

    @property
    def certified(self) -> tuple[CandidateTested, ...]:
        """Those that are certified, the largest gain first: all certificates hold together."""
        passed = [each for each in self.candidates if each.certificate.certified]
        return tuple(sorted(passed, key=lambda each: -each.certificate.gain))

    @property
    def written_model(self) -> Path | None:
        """The folder of the certified model; None where none was written."""
        folder = self.folder / layout.CHOSEN_MODEL
        return folder if folder.is_dir() else None

    @property
    def written(self) -> ModelWritten | None:
        """Which candidate was written as a model, or why none was."""
        return self.data.single(layout.WRITTEN)

    @property
    def odds(self) -> tuple[OddsMoved, ...]:
        """Odds of some held-out prompts before and after every candidate."""
        return self.data.records(layout.ODDS_MOVED)

    @property
    def spillover(self) -> tuple[BiasSpilled, ...]:
        """Every candidate on every bias that it was not fitted on."""
        return self.data.records(layout.SPILLOVER)

    @property
    def times(self) -> dict[str, MethodTimed]:
        """What each mitigation took, by its name."""
        return {each.method: each for each in layout.TIMES.read(self.folder)}

    @property
    def moved(self) -> tuple[BiasMoved, ...]:
        """Every bias before and after every candidate, on held-out items."""
        return self.data.records(layout.BIASES_MOVED)

    @property
    def left_out(self) -> tuple[MethodLeftOut, ...]:
        """Mitigations that were not tried."""
        return self.data.records(layout.LEFT_OUT)
