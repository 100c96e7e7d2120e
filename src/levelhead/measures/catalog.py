"""All built-in measures in one place: what each is called, asks and means, for someone who has not read the
papers. Titles, texts and scales stand in catalog.toml; verdicts and sizes are worked out here."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.probes.glue import TASKS

Side = Literal["bias", "use"]  # a measure of bias, or of what the model is still good for
Direction = Literal["both", "above", "below", "none"]
Ability = Literal["mlm", "nsp", "nli", "causal", "embeddings"]  # every model has embeddings

ALPHA = 0.05  # a null's p must be below it
DOUBT = "doubt"  # the setting by which a measurement says that its model does not read plain English
DOUBTED = "no verdict: the model does not read plain English in the form in which it was evaluated"
UNTESTED = "not tested against a null model: nothing is claimed"
NOT_COMPARED = "not compared with null models (--null 0)"
TOO_FEW = "compared with too few null models: nothing is claimed"
# measures whose verdict needs null models: chance of the items alone says less, and would claim more
NEED_NULL_MODELS = frozenset({"seat", "preference", "ss_paired", "strength"})
_FLUENCY = "fluency"  # where perplexity is explained, of which less is better
GLUE = "glue"  # what the names of its measures begin with: glue/rte
_SEPARATORS = (" ", "/", ",", ":")  # between a measure's name and what it was measured on


@dataclass(frozen=True)
class MeasureInfo:
    """How a measure is shown and judged."""

    name: str  # as in results.jsonl
    title: str
    asks: str = ""  # one line
    reading: str = ""  # what the number means: its neutral value and its direction
    side: Side = "bias"
    neutral: float | None = None  # the value of an ideal model
    biased: Direction = "both"  # on which side of the neutral value bias lies
    scale: tuple[float, float] | None = None  # what a bar is drawn on
    needs: tuple[Ability, ...] = ("embeddings",)  # a model needs any one of them
    docs: str = ""  # anchor in docs/method.md
    digits: int = 3  # after the point, where it is printed
    above: str = "above the neutral value"
    below: str = "below the neutral value"
    logits: bool = False  # a difference of log-odds: 0.7 doubles the odds
    nats: bool = False  # in nats as it is, its natural unit

    @property
    def signed(self) -> bool:
        """Whether 0 is neutral and both directions are bias: thresholds then judge the absolute value."""
        return self.biased == "both" and self.neutral == 0

    @property
    def better(self) -> Literal["lower", "higher", ""]:
        """Where better models lie: lower (of signed measures the absolute value), higher; empty where a
        threshold on either side has a meaning, or nothing is known."""
        if self.side == "use":
            return "lower" if self.docs == _FLUENCY else "higher" if self.docs else ""
        if self.signed or self.biased == "above":
            return "lower"
        return "higher" if self.biased == "below" else ""


_TABLES = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
# how measures, and the scores of benchmarks, whose name and title come before theirs, are shown and judged
_MEASURES, SCORES = (
    {
        row["name"]: MeasureInfo(
            **dict[str, Any]((k, tuple(v) if isinstance(v, list) else v) for k, v in row.items())
        )
        for row in _TABLES[kind]
    }
    for kind in ("measure", "score")
)
BUILT_IN: tuple[MeasureInfo, ...] = (
    *_MEASURES.values(),
    *(  # the score on a task of GLUE goes by the task's first metric
        MeasureInfo(
            f"{GLUE}/{task.name}",
            f"GLUE, {task.folder}",
            f"Fine-tuned on {task.folder}: how well does the model answer its development set? "
            f"({task.metrics[0]})",
            "Higher is better; read it beside what always answering the most frequent class scores.",
            side="use",
            biased="none",
            scale=(-1, 1) if task.metrics[0] in ("matthews", "pearson") else (0, 1),
            docs="glue",
        )
        for task in TASKS.values()
    ),
)

GAP_INFO, EFFECT_INFO = SCORES["gap"], SCORES["effect"]

# names under which fluency is stored, and in what they differ from it: a change is a ratio, near 1
_FLUENCIES: dict[str, dict[str, Any]] = {
    "pppl": {},
    "perplexity": {},
    "fluency change": {"neutral": 1.0, "digits": 3},
}


def is_about(measure: str, name: str) -> bool:
    """Whether a measurement's name is that of a measure, or of it on one of several data sets."""
    return name == measure or (name.startswith(measure) and name[len(measure)] in _SEPARATORS)


@dataclass(frozen=True)
class Catalog:
    """Measures by name. A measure of yours joins with `CATALOG.joined_by(MeasureInfo(...))`."""

    measures: tuple[MeasureInfo, ...] = BUILT_IN

    def joined_by(self, *infos: MeasureInfo) -> Catalog:
        """This catalog and further measures; one with a known name takes that measure's place."""
        names = {info.name for info in infos}
        return Catalog((*(known for known in self.measures if known.name not in names), *infos))

    def info(self, name: str) -> MeasureInfo:
        """How a measure is shown; one that is not in the catalog is shown under its own name.

        A measure on one of several data sets, such as "lpbs career", is the measure with the data set's name
        behind its title. The longest name counts: "margin change" is not a "margin".
        """
        by_name = {info.name: info for info in self.measures}
        if name in by_name:
            return by_name[name]
        if name in _FLUENCIES and "fluency" in by_name:
            return replace(by_name["fluency"], name=name, **_FLUENCIES[name])
        if name.endswith(CHANGE) and (measure := by_name.get(name.removesuffix(CHANGE))) is not None:
            # a paired change is neither bias nor use, it rises or falls
            return replace(
                measure,
                name=name,
                title=f"{measure.title}: paired change",
                asks="",
                reading="0: no change on these items.",
                neutral=0.0,
                biased="none",
                scale=None,
                above="rises",
                below="falls",
            )
        for known in sorted(by_name, key=len, reverse=True):
            if is_about(known, name):
                rest = name[len(known) :].lstrip("".join(_SEPARATORS))
                return replace(by_name[known], name=name, title=f"{by_name[known].title}, {rest}")
        return MeasureInfo(name, name)

    def verdict(self, measurement: Measurement) -> str:
        """What a number says, and no more.

        Bias is claimed if the interval excludes the neutral value and the null's floor (where the null has a
        limit of its own, if that is above 0), with p < 0.05 against the null, or in the measure's own test
        where it has one. Without either nothing is claimed, and of some measures nothing without null models.
        """
        info, neutral, interval = self.info(measurement.name), measurement.neutral, measurement.interval
        value, null = measurement.value, measurement.null
        if value is None:
            return f"not measured: {measurement.reason}"
        if info.side == "use" or neutral is None:
            return ""
        if measurement.settings.get(DOUBT):
            return DOUBTED
        if interval is None:
            return "no interval: one number alone shows little"
        if (null is None or null.least is None) and interval[0] <= neutral <= interval[1]:
            return "not significantly different from neutral on this much data"
        # beyond neutral, and yet no claim: nothing to hold it against, or no more than that shows
        p, of_models = measurement.p_value, measurement.held_against_models
        if p is None or (measurement.name in NEED_NULL_MODELS and not of_models):
            return UNTESTED
        from levelhead.measures.null import says_too_little  # which needs numpy

        if p >= ALPHA and says_too_little(null):
            return TOO_FEW
        if p >= ALPHA or (null is not None and not measurement.beyond(null.floor)):
            if not of_models:
                return "not significant on this much data"
            return "not significantly different from null models on this much data"
        return info.above if value > (neutral if null is None else null.floor) else info.below


CATALOG = Catalog()
measure_info = CATALOG.info  # of a built-in measure
verdict = CATALOG.verdict


def bias_size(measurement: Measurement, neutral: float, biased: Direction = "both") -> Measurement:
    """How far a measurement lies from its neutral value, in the direction that counts as bias.

        size = |value − neutral|    where both directions are bias
             = value − neutral      where bias lies above
             = neutral − value      where it lies below

    Interval and items are mirrored with the value, so that the sizes of two models can be compared item by
    item also where one follows the stereotype and the other runs against it. Near the neutral value a
    mirrored interval may reach below 0: the data leave the direction open.
    """
    value = measurement.value
    if value is None:
        return measurement
    below = biased == "below" or (biased == "both" and value < neutral)
    sign = -1.0 if below else 1.0
    ends = sorted(sign * (end - neutral) for end in measurement.interval or ())
    items = {kind: tuple(sign * each for each in own) for kind, own in measurement.influence.items()}
    interval = (ends[0], ends[1]) if ends else None
    return replace(
        measurement, value=sign * (value - neutral), interval=interval, neutral=0.0, influence=items
    )


def main_names(names: Sequence[str]) -> list[str]:
    """Of the names of scores those of all items: not another's name with a group behind it."""
    longer = tuple(f"{name}," for name in names)
    return [name for name in names if not name.startswith(longer)]
