"""Figures that the three papers print, as records: what a comparison or a test of ours is compared with.

They are facts about other people's models. Errata are kept as printed; docs/method.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from levelhead.probes import shipped_toml

# ---- "Bias A-head?"


@dataclass(frozen=True)
class ModelSeat:
    """SEAT of a whole model (section 5.1, footnote 9, and section 7)."""

    model: str
    seat: float
    hub: str  # its name on the hub, without the owner


@dataclass(frozen=True)
class CounterResult:
    """A group of heads in the counter-stereotype experiment (sections 5.2 and 6, Figure 4)."""

    model: str
    bias: str
    heads: Literal["biased", "regular"]
    t: float
    p_value: str  # as printed: "0.93" or a bound such as "< 0.001"
    n: int


@dataclass(frozen=True)
class HeadMasking:
    """BERT-base with some heads masked (Table 1)."""

    strategy: Literal["none", "top", "bottom", "random"]
    heads: int
    seat: float
    pppl: float


@dataclass(frozen=True)
class GlueResult:
    """A GLUE task after fine-tuning with no head, the top 3 or all biased heads masked (Table 2)."""

    task: str
    metric: str
    full: float
    top_3: float
    every: float


@dataclass(frozen=True)
class LpbsResult:
    heads: int
    career: float
    math: float
    science: float


@dataclass(frozen=True)
class PublishedHeads:
    title: str
    models: tuple[ModelSeat, ...]
    counter_stereotypes: tuple[CounterResult, ...]
    running_example: tuple[float, float]  # attention in the original and in the counter-stereotype
    debiasing: tuple[HeadMasking, ...]
    glue: tuple[GlueResult, ...]
    lpbs: tuple[LpbsResult, ...]


@cache
def published_heads() -> PublishedHeads:
    data = shipped_toml("published/heads")
    original, counter = data["running_example"]
    return PublishedHeads(
        data["title"],
        tuple(ModelSeat(*line) for line in data["models"]),
        tuple(CounterResult(*line) for line in data["counter_stereotypes"]),
        (original, counter),
        tuple(HeadMasking(*line) for line in data["table1"]),
        tuple(GlueResult(*line) for line in data["table2"]),
        tuple(LpbsResult(*line) for line in data["table3"]),
    )


# ---- "Projective Methods"


Example = Mapping[str, float]  # next-sentence probabilities, and what is computed from them


@dataclass(frozen=True)
class BestOfLevel:
    """The best settings of an intervention level (Table 5)."""

    level: str
    strength: float
    strength_settings: str
    distance: float
    distance_settings: str
    fairness: float
    ability: float
    fairness_settings: str


@dataclass(frozen=True)
class Weighting:
    """SNLI accuracy without and with information weighting at SENT (Table 6)."""

    level: str
    pairs: int
    hard: float
    soft: float
    increase: float
    sd: float | None = None  # not printed for a single pair


@dataclass(frozen=True)
class DebiasedModel:
    """One of the 76 models (Table 7)."""

    level: str  # as printed: Base, Sent-debias, SENT, Layer 12, Layer 11, + attn
    settings: str  # as printed: "", "0" or "(0, 0, 1, 1, 0)"
    strength: float
    distance: float
    parity: float
    accuracy: float
    fairness: float
    ability: float  # SNLI accuracy


@dataclass(frozen=True)
class PublishedProjections:
    title: str
    triple_examples: tuple[Example, ...]  # of a triple of StereoSet (Table 1)
    strength_examples: tuple[Example, ...]  # of triple pairs (Table 3)
    distance_examples: tuple[Example, ...]  # of unrelated sentences after both contexts (Table 4)
    best: tuple[BestOfLevel, ...]
    weighting: tuple[Weighting, ...]
    models: tuple[DebiasedModel, ...]
    spearman: float
    spearman_p_value: float


@cache
def published_projections() -> PublishedProjections:
    """Figures of Dawkins et al. 2024, "Projective Methods for Mitigating Gender Bias"."""
    data = shipped_toml("published/projections")
    return PublishedProjections(
        data["title"],
        tuple(data["table1"]),
        tuple(data["table3"]),
        tuple(data["table4"]),
        tuple(BestOfLevel(*line) for line in data["table5"]),
        tuple(Weighting(*line) for line in data["table6"]),
        tuple(DebiasedModel(*line) for line in data["table7"]),
        data["spearman"]["rho"],
        data["spearman"]["p_value"],
    )


# ---- "Counteracts"


@dataclass(frozen=True)
class PublishedOccupation:
    """An occupation as printed, with the percentage of women who work in it (Table 1)."""

    name: str
    women: float


Claim = Literal["same", "overturns", "strengthens", "weakens"]


@dataclass(frozen=True)
class KnowledgeClaim:
    """What the text says that a kind of knowledge does to the stereotype in a family of models."""

    family: str
    kind: str
    claim: Claim


@dataclass(frozen=True)
class PaperModel:
    """A model that the paper evaluates, by its name on the hub."""

    family: str
    name: str


@dataclass(frozen=True)
class PublishedCounteracts:
    """What "Counteracts" prints: its results are figures without numbers, and sentences about them."""

    title: str
    prompts: int
    verbalizer_words: int
    occupations: tuple[PublishedOccupation, ...]
    claims: tuple[KnowledgeClaim, ...]
    models: tuple[PaperModel, ...]


@cache
def published_counteracts() -> PublishedCounteracts:
    data = shipped_toml("published/counteracts")
    occupations = tuple(PublishedOccupation(*line) for line in data["table1"])
    return PublishedCounteracts(
        data["title"],
        data["prompts"],
        data["verbalizer_words"],
        occupations,
        tuple(KnowledgeClaim(*line) for line in data["claims"]),
        tuple(PaperModel(*line) for line in data["models"]),
    )
