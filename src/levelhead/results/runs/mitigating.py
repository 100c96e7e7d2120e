"""A run of mitigations."""

from __future__ import annotations

from pathlib import Path

from levelhead.results import layout
from levelhead.results.records.mitigating import BiasDetected, BiasMoved, CandidateTested, MethodLeftOut
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
        """Those that are certified, the best first."""
        return tuple(each for each in self.candidates if each.certificate.certified)

    @property
    def written_model(self) -> Path | None:
        """The folder of the certified model; None where none was written."""
        folder = self.folder / layout.CHOSEN_MODEL
        return folder if folder.is_dir() else None

    @property
    def moved(self) -> tuple[BiasMoved, ...]:
        """Every bias before and after every candidate, on held-out items."""
        return self.data.records(layout.BIASES_MOVED)

    @property
    def left_out(self) -> tuple[MethodLeftOut, ...]:
        """Mitigations that could not run."""
        return self.data.records(layout.LEFT_OUT)
