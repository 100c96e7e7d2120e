"""The projective paper's 76 models as plans of projections, named relative to the last layer so that any
depth works (docs/method/projections.md, Projection).

An intervention at a location brings all later ones with it:

    SENT            the sentence vector                                            2 settings
    layer L         the first token of the last layer                            x 4 =  8
    layer L-1       every token of the last layer but one                        x 4 = 32
    layer L-1 + attn   query, key and value of every head of that layer, hard          32
    with the unmodified model and the sentence-debias baseline                          76

The paper's five-tuples (n11, c11, n12, c12, np) are read with the first two at the last layer but one: its
caption says otherwise, but its own observations hold only so. n = 1 is soft (weighted), c = 1 is
two-dimensional.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from levelhead.edits.sites import Variant
from levelhead.errors import CannotDo
from levelhead.mitigation.fitting import baseline_pairs, fit_steps
from levelhead.mitigation.recipe import Fit, Recipe, Step, step
from levelhead.models.model import Model
from levelhead.probes.pairs import InputPair
from levelhead.studies.projections.records import BASE_LEVEL, BASELINE_LEVEL, DEPTH_LEVEL

Level = Literal["base", "baseline", "sent", "cls", "tokens", "attention", "depth"]
LEVELS: tuple[Level, ...] = ("sent", "cls", "tokens", "attention")  # from the last location backwards
DEPTH_DIMENSIONS = (1, 2, 3, 4)
BASELINE_PAIRS = "baseline-pairs.tsv"


@dataclass(frozen=True)
class Setting:
    """One mitigated model: which projections, in the order in which they act."""

    level: Level
    steps: tuple[Step, ...] = ()

    @property
    def name(self) -> str:
        """Spelt out: `tokens: soft, 2-d; cls: hard, 1-d; sent: soft`."""
        if self.level == "base":
            return "base"
        if self.level == "baseline":
            return "sent-debias"
        if self.level == "depth":
            first = self.steps[0]
            return f"tokens from layer {first.layer + 1}: {_manner(first)}"
        shown = ["attn: hard, 1-d"] if self.level == "attention" else []
        shown += [f"{s.location}: {_manner(s)}" for s in self.steps if s.location in ("tokens", "cls")]
        return "; ".join([*shown, f"sent: {'soft' if self.sent.soft else 'hard'}"])

    @property
    def code(self) -> str:
        """The paper's tuple: (n11, c11, n12, c12, np), or its end where the earlier locations are left
        alone."""
        if self.level not in LEVELS:
            return ""
        numbers = [
            number
            for step in (self.at("tokens"), self.at("cls"))
            if step is not None
            for number in (int(step.soft), step.dimensions - 1)
        ]
        numbers.append(int(self.sent.soft))
        return f"({', '.join(map(str, numbers))})" if len(numbers) > 1 else str(numbers[0])

    @property
    def sent(self) -> Step:
        """The projection of the sentence vector, which every setting of the paper has."""
        step = self.at("sent")
        if step is None:
            raise KeyError(f"{self.name} leaves the sentence vector alone")
        return step

    def at(self, location: str) -> Step | None:
        """The projection at a location: cls is the first token of the last layer, tokens are all of the last
        layer but one."""
        return next((s for s in self.steps if s.location == location), None)

    def level_name(self, layers: int) -> str:
        """The level as tables call it, for a model with this many layers: base, sent-debias, SENT, layer 12,
        layer 11, layer 11 + attn, depth."""
        names: dict[Level, str] = {
            "base": BASE_LEVEL,
            "baseline": BASELINE_LEVEL,
            "sent": "SENT",
            "cls": f"layer {layers}",
            "tokens": f"layer {layers - 1}",
            "attention": f"layer {layers - 1} + attn",
            "depth": DEPTH_LEVEL,
        }
        return names[self.level]

    def recipe(self, model: Model, fit: Fit = "base", pairs: str = "auto") -> Recipe:
        """The recipe from which `levelhead debias` makes this model."""
        return Recipe(
            projections=self.steps,
            fit=fit,
            pairs=BASELINE_PAIRS if self.level == "baseline" else pairs,
            title=self.name,
            model=model.name,
            fingerprint=model.fingerprint,
        )


def paper_settings() -> tuple[Setting, ...]:
    """All 76 settings, in the order of the paper's Table 7."""
    flags = (False, True)
    sents = [step("sent", soft=soft) for soft in flags]
    places = [(soft, dimensions) for soft in flags for dimensions in (1, 2)]
    firsts = [step("cls", soft=soft, dimensions=dimensions) for soft, dimensions in places]
    tokens = [step("tokens", soft=soft, dimensions=dimensions) for soft, dimensions in places]
    attention = (step("query"), step("key"), step("value"))
    inner = [tuple(plan) for plan in product(tokens, firsts, sents)]
    return (
        Setting("base"),
        Setting("baseline", (sents[0],)),
        *(Setting("sent", (sent,)) for sent in sents),
        *(Setting("cls", tuple(plan)) for plan in product(firsts, sents)),
        *(Setting("tokens", plan) for plan in inner),
        *(Setting("attention", (*attention, *plan)) for plan in inner),
    )


def depth_settings(layers: int, first: int) -> tuple[Setting, ...]:
    """Token projections at every layer from `first` (an index from 0) to the last: 1 to 4 dimensions, hard
    and soft."""
    return tuple(
        Setting("depth", tuple(Step("tokens", layer, dimensions, soft) for layer in range(first, layers)))
        for dimensions in DEPTH_DIMENSIONS
        for soft in (False, True)
    )


def variants_of(
    model: Model, settings: Sequence[Setting], pairs: Sequence[InputPair], fit: Fit = "base"
) -> list[Variant]:
    """The settings as variants of a model. Settings that share a projection share the very object, so that
    the engine shares their layers.

    Of all 76 the untouched layers run once, the last layer but one twice (with and without attention), the
    last one nine times, for its first token only.
    """
    if model.layers < 2:
        raise CannotDo(
            f"{model.name} has {model.layers} layer; the paper's locations need a last and a last but one."
        )
    plain = [s for s in settings if s.level != "baseline"]
    variants = dict(zip(plain, fit_steps(model, pairs, [s.steps for s in plain], fit), strict=True))
    baselines = [s for s in settings if s.level == "baseline"]
    if baselines:
        fitted = fit_steps(model, baseline_pairs(), [s.steps for s in baselines])
        variants |= zip(baselines, fitted, strict=True)
    return [variants[setting] for setting in settings]


def passes(model: Model, settings: Sequence[Setting]) -> float:
    """Passes through all blocks that settings take together: as many runs of each block as it has different
    inputs or projections inside."""
    heads = ("query", "key", "value")
    plans = [
        [(each, site) for each in setting.steps if (site := each.site(model)).part != "pooled"]
        for setting in settings
    ]
    runs = 0
    for layer in range(model.layers):
        before = {
            tuple(
                each
                for each, site in plan
                if site.layer < layer or (site.layer == layer and site.part in heads)
            )
            for plan in plans
        }
        runs += len(before)
    return runs / model.layers


def _manner(step: Step) -> str:
    return f"{'soft' if step.soft else 'hard'}, {step.dimensions}-d"
