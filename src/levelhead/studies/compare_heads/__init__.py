"""The heads of several models side by side."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.options import Settings, option
from levelhead.runs.study import Many, Stored, Study
from levelhead.studies.compare_heads.records import Flip, ModelHeadScore, ModelPair, ScoredModelSummary


@dataclass(frozen=True)
class CompareHeadsSettings(Settings):
    """How far heads are followed."""

    top: int = option(5, "How many of the base's anti-biased heads to follow.", least=1)


@dataclass(frozen=True, kw_only=True)
class CompareHeadsStored(Stored, CompareHeadsSettings):
    """The settings as a run stores them; its models are the runs that were compared."""

    test: str
    seed: int = 0  # nothing is drawn


class CompareHeads(Study[CompareHeadsStored]):
    """The heads of several models side by side: `models`, `scores`, `pairs`, `flips`."""

    name = "compare_heads"
    title = "Heads of several models"
    question = "Whose heads carry the bias, and which anti-biased heads changed sides?"
    about = (
        "Compare the heads of several models: which carry the bias, and which anti-biased heads changed "
        "sides."
    )
    settings_type = CompareHeadsSettings
    stored = CompareHeadsStored
    takes = "runs"
    loads = False
    order = 57
    document = "heads.md"
    rows = ("scores",)
    says = ("models", "pairs", "flips")

    models = Many(ScoredModelSummary, "The models, the base first.")
    scores = Many(ModelHeadScore, "Every head's score in every model.")
    pairs = Many(ModelPair, "Every other model against the base.")
    flips = Many(Flip, "Anti-biased heads of the base that became biased.")

    @property
    def model(self) -> str:
        """The models that were compared."""
        return ", ".join(summary.model for summary in self.models)
