"""Mitigations: which of them lowers the bias on held-out items, and what does each cost?"""

from __future__ import annotations

import shlex
from pathlib import Path

from levelhead.runs.files import CsvFile
from levelhead.runs.study import Many, One, Study
from levelhead.studies.mitigate.records import (
    BiasDetected,
    BiasMoved,
    BiasSpilled,
    BudgetPlan,
    CandidateTested,
    MethodLeftOut,
    MethodTimed,
    ModelWritten,
    NotCompared,
    OddsMoved,
    TextOutside,
)
from levelhead.studies.mitigate.settings import MitigateSettings, MitigateStored

CHOSEN_MODEL = "model"  # a folder: the certified model, as transformers loads it
TIMES = CsvFile("times.csv", MethodTimed)


class Mitigate(Study[MitigateStored]):
    """What mitigations buy and cost: `candidates`, `certified`, `detected`, `moved`, `left_out`."""

    name = "mitigate"
    title = "Mitigations"
    question = "Which mitigation lowers the bias on held-out items, and what does each cost?"
    about = "Try mitigations on a model, and certify on held-out items what each buys and costs."
    settings_type = MitigateSettings
    stored = MitigateStored
    order = 10
    writes_page = True
    document = "mitigate.md"
    unserved = "it edits the network"
    says = (
        *(
            "sentence",
            "detected",
            "outside",
            "certified",
            "candidates",
            "moved",
            "left_out",
            "odds",
            "spillover",
        ),
        *("times", "written_model"),
    )

    plan = One(BudgetPlan, "What fits into the budget, where there is one.")
    detected = One(BiasDetected, "Whether there is a bias to lower.")
    outside = One(TextOutside, "Which text from elsewhere certificates are evaluated on too.")
    left_out = Many(MethodLeftOut, "Mitigations that were not tried.")
    candidates = Many(CandidateTested, "Every candidate, in the order of the tests.")
    moved = Many(BiasMoved, "Every bias before and after every candidate, on held-out items.")
    not_compared = Many(NotCompared, "Candidates whose texts are not compared, and why.")
    odds = Many(OddsMoved, "Odds of some held-out prompts before and after every candidate.")
    spillover = Many(BiasSpilled, "Every candidate on every bias that it was not fitted on.")
    written = One(ModelWritten, "Which candidate was written as a model, or why none was.")

    @property
    def certified(self) -> tuple[CandidateTested, ...]:
        """Those that are certified, the largest gain first: all certificates hold together."""
        passed = [each for each in self.candidates if each.certificate.certified]
        return tuple(sorted(passed, key=lambda each: -each.certificate.gain))

    @property
    def written_model(self) -> Path | None:
        """The folder of the certified model; None where none was written."""
        folder = self.folder / CHOSEN_MODEL
        return folder if folder.is_dir() else None

    @property
    def times(self) -> dict[str, MethodTimed]:
        """What each mitigation took, by its name."""
        return {each.method: each for each in TIMES.read(self.folder)}

    def notes(self) -> list[str]:
        """Where the certified model is, where one was written, and how it is served."""
        if self.written_model is None:
            return []
        return [
            f"Model: {self.written_model}",
            *(["Serve it: " + self.serve_command] if self.serve_command else []),
        ]

    @property
    def serve_command(self) -> str:
        """What puts the certified model in front of clients; empty where it writes no text."""
        writes = self.written is not None and "CausalLM" in self.written.load_with
        return shlex.join(["levelhead", "serve", str(self.folder)]) if writes else ""

    @property
    def sentence(self) -> str:
        """What the run found, gain and loss together."""
        return str(self.part("chapter").sentence(self))
