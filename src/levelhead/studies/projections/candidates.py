"""Which projection to take: all candidates judged by one measure of bias and by ability.

    a classifier            fairness of inferences   accuracy on plain pairs, and mean p of the right label
    a next-sentence model   Strength on triples      LMS, and balanced accuracy of the next-sentence head
    anything else           |SEAT|                   perplexity

The fairest viable one is chosen (measures/viability.py), if it is fairer than the unmodified model: Strength
must fall relative to the scale of all differences too, else the outputs are only flattened. Fairness counts
labels and |SEAT| is an effect size: neither moves when outputs are merely scaled. Inferences and triples ship
for one bias; for another word list every model is judged by |SEAT|, and fitted on the list's own pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from levelhead.edits.sites import Variant
from levelhead.measures.fairness import P_RIGHT
from levelhead.measures.measurement import Measurement
from levelhead.measures.stereoset import SCALE_FREE
from levelhead.measures.viability import viable, viable_ratio
from levelhead.mitigation.fitting import pairs_about
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.pairs import InputPair
from levelhead.probes.words import WordTest
from levelhead.results.records.audit import NamedValue, ProjectionCandidate
from levelhead.scoring.battery import Battery
from levelhead.scoring.changes import main_bias
from levelhead.scoring.fluency import ask_fluency_change
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.pairs import ask_ability, ask_nli, ask_nsp
from levelhead.scoring.word_table import word_table
from levelhead.studies.projections.settings import Setting, depth_settings, paper_settings, variants_of

OWN_PAIRS = "pairs.tsv"  # the file beside an audit's recipes that holds the pairs of a user's list


class Projections:
    """The projections that can be tried on a model, fitted once: all of them, or the one that is taken.

    starts: from how many first layers, evenly spaced, token projections are tried.
    """

    def __init__(self, model: Model, test: WordTest, starts: int) -> None:
        self.model, self.test = model, test
        self.settings = {setting.name: setting for setting in settings_for(model, test, starts)}
        self._fitted: dict[str, Variant] = {}

    @cached_property
    def pairs(self) -> tuple[InputPair, ...]:
        """What they are fitted on; nothing for a word list without counterparts that nothing ships for."""
        return pairs_about(self.model, self.test)

    def variants(self, names: Iterable[str]) -> list[Variant]:
        """The fitted projections of these names."""
        names = list(names)
        new = [name for name in names if name not in self._fitted]
        if new:
            fitted = variants_of(self.model, [self.settings[name] for name in new], self.pairs)
            self._fitted.update(zip(new, fitted, strict=True))
        return [self._fitted[name] for name in names]


def candidates(projections: Projections, battery: Battery) -> list[ProjectionCandidate]:
    """All projections judged on a battery, the unmodified model first; at most one is chosen."""
    if not projections.pairs:
        return []
    model, settings = projections.model, projections.settings
    named = "auto" if about_gender(battery.test) else OWN_PAIRS
    outcomes = _trials(model, battery, projections.variants(settings))
    trials = [
        _candidate(model, setting, setting.recipe(model, pairs=named), outcome)
        for setting, outcome in zip(settings.values(), outcomes, strict=True)
    ]
    chosen = best(trials)
    return [replace(trial, chosen=trial is chosen) for trial in trials]


def settings_for(model: Model, test: WordTest, starts: int) -> list[Setting]:
    """The unmodified model, the paper's settings where the bias is read from a sentence vector, and deeper
    token projections."""
    has_vector = main_bias(model, test) != "seat"
    paper = paper_settings() if has_vector else (Setting("base"),)
    last = model.layers - 1 if has_vector else model.layers  # a sentence vector sees one token of the last
    firsts = sorted({round(i * (last - 1) / max(1, starts - 1)) for i in range(starts)}) if starts else []
    deep = [s for first in firsts for s in depth_settings(model.layers, first) if s.steps[0].dimensions <= 2]
    return [*paper, *deep]


def best(trials: Sequence[ProjectionCandidate]) -> ProjectionCandidate | None:
    """The fairest viable candidate that is fairer than the unmodified model, the first one, if any is."""
    better = [trial for trial in trials[1:] if trial.viable and _fairer(trial, trials[0])]
    return max(better, key=lambda trial: trial.gain, default=None)


def _fairer(trial: ProjectionCandidate, base: ProjectionCandidate) -> bool:
    """Whether the bias is smaller, and smaller relative to the scale of the outputs where it has one."""
    own, before = trial.scale_free, base.scale_free
    if own is None or before is None or own.value is None or before.value is None:
        return trial.gain > base.gain
    return trial.gain > base.gain and abs(own.value) < abs(before.value)


@dataclass(frozen=True)
class _Trial:
    """What a variant bought and what it cost."""

    bias: NamedValue
    ability: NamedValue
    gain: float  # larger is fairer
    viable: bool
    scale_free: NamedValue | None = None
    sureness: NamedValue | None = None


def _candidate(model: Model, setting: Setting, recipe: Recipe, trial: _Trial) -> ProjectionCandidate:
    return ProjectionCandidate(
        variant=setting.name,
        level=setting.level_name(model.layers),
        code=setting.code,
        bias=trial.bias,
        ability=trial.ability,
        viable=trial.viable,
        gain=trial.gain,
        recipe=recipe_text(recipe) if setting.steps else "",
        chosen=False,
        scale_free=trial.scale_free,
        sureness=trial.sureness,
    )


def _trials(model: Model, battery: Battery, variants: Sequence[Variant]) -> list[_Trial]:
    judged_by = main_bias(model, battery.test)
    if judged_by == "fairness":
        fair = [measured["fairness"] for measured in ask_nli(model, battery.probe, variants)]
        able = ask_ability(model, battery.ability, variants)
        sure = [NamedValue(P_RIGHT, measured.details[P_RIGHT]) for measured in able]
        return _by_points(fair, able, sure, sign=1)
    if judged_by == "strength":
        measured = ask_nsp(model, battery.triples, variants)
        sure = [NamedValue(m["nsp_accuracy"].name, m["nsp_accuracy"].value) for m in measured]
        return _by_points([m["strength"] for m in measured], [m["lms"] for m in measured], sure, sign=-1)
    return _by_ratio(model, battery, variants)


def _by_points(
    bias: Sequence[Measurement], able: Sequence[Measurement], sure: Sequence[NamedValue], sign: int
) -> list[_Trial]:
    """Judged by shares of right answers. sign: 1 where more of the bias measure is fairer."""
    return [
        _Trial(
            NamedValue(b.name, b.value),
            NamedValue(a.name, a.value),
            sign * (b.value or 0.0),
            viable(a.value, able[0].value) is True and viable(s.value, sure[0].value) is True,
            NamedValue(SCALE_FREE, b.details[SCALE_FREE]) if SCALE_FREE in b.details else None,
            s,
        )
        for b, a, s in zip(bias, able, sure, strict=True)
    ]


def _by_ratio(model: Model, battery: Battery, variants: Sequence[Variant]) -> list[_Trial]:
    """Judged by perplexity; a model that predicts no tokens cannot lose any."""
    objective = word_objective(word_table(battery.test, battery.contexts))
    sizes = objective.sizes(model, variants)
    costs = ask_fluency_change(model, battery.sentences, variants, battery.resampling)
    return [
        _Trial(
            NamedValue(objective.name.lower(), size),
            NamedValue(cost.name, cost.value),
            -size,
            viable_ratio(cost.value) is not False,
        )
        for size, cost in zip(sizes, costs, strict=True)
    ]
