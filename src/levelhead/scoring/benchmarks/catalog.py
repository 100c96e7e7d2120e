"""All benchmarks, the built-in ones and those of a user's own: compared with null models, and as questions of
audits and surveys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.measurement import ABOUT_NULLS, NULL_MODELS, P_NULL_MODELS, Measurement
from levelhead.measures.null import ALPHA, NullDistribution, closed, looked_at, looks
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.progress import steps
from levelhead.runs.common import SAME_ITEMS, NullScore
from levelhead.runs.folder import text_hash
from levelhead.runs.presets import BENCHMARK_NULLS
from levelhead.scoring.benchmarks.bbq import BBQ
from levelhead.scoring.benchmarks.choices import FORM
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.discrim_eval import DISCRIM_EVAL
from levelhead.scoring.benchmarks.protocol import BENCHMARKS, Benchmark, Items, spread
from levelhead.scoring.benchmarks.redditbias import REDDITBIAS
from levelhead.scoring.benchmarks.sentence_seat import SENTENCE_SEAT
from levelhead.scoring.benchmarks.stereoset import STEREOSET, STEREOSET_INTER
from levelhead.scoring.benchmarks.winobias import WINOBIAS
from levelhead.scoring.benchmarks.winogender import WINOGENDER
from levelhead.scoring.benchmarks.winoqueer import WINOQUEER
from levelhead.scoring.objective import OBJECTIVES

FEWEST_ITEMS = 50  # that null models are scored on, where there are so many
BenchmarkFiles = Mapping[str, str | Path]  # the published file or folder of each benchmark, by its name
Kept = Callable[[str, Callable[[], Sequence[NullScore]]], Sequence[NullScore]]
BUILT_IN: tuple[Benchmark, ...] = (
    *(CROWS_PAIRS, STEREOSET, STEREOSET_INTER, BBQ, WINOBIAS),
    *(WINOGENDER, REDDITBIAS, WINOQUEER, DISCRIM_EVAL, SENTENCE_SEAT),
)
for _each in BUILT_IN:
    BENCHMARKS.register(_each)
OBJECTIVES.taken |= BENCHMARKS.taken  # a benchmark is an objective by its name


def benchmarks() -> dict[str, Benchmark]:
    return BENCHMARKS.known()


def benchmark_of(name: str) -> Benchmark:
    known = benchmarks()
    if name not in known:
        raise BadOption(f"No benchmark is called {name!r}. There are: {', '.join(known)}.")
    return known[name]


# ---- null models: is a score more than what words without meaning get? (models/null_model.py)


@dataclass(frozen=True)
class LoadedBenchmark:
    """A benchmark with its items, by a rule: everything that a model, or a null model, is scored on."""

    benchmark: Benchmark
    items: Items
    rule: str
    resampling: Resampling

    def scores(self, model: Model, variants: Sequence[Variant] = UNTOUCHED) -> list[list[Measurement]]:
        """Every score in every variant with its own test, and the data that it is about."""
        measured = self.benchmark.ask(model, self.items, variants, self.rule, self.resampling)
        return [self.about(each) for each in measured]

    def about(self, measured: Sequence[Measurement]) -> list[Measurement]:
        """Measurements that name their data: scores by another rule, or on other items, do not compare."""
        data = f"{self.benchmark.info.title}, rule {self.rule}"
        form = "chat" if self.items.chat else "text"

        def known(each: Measurement) -> dict[str, str]:
            how = [form, str(each.settings[FORM])] if FORM in each.settings else [form]
            return {"data": data, "data_hash": text_hash([self.items.fingerprint, self.rule, *how])}

        return [replace(each, settings={**each.settings, **known(each)}) for each in measured]

    def null_scores(self, model: Model, number: int) -> list[NullScore]:
        """Every score of one null model, relative to the scale of its own differences."""
        with as_null_model(model, draw_null_model(model, null_model_seed(self.resampling.seed, number))):
            return self.own_scores(model)

    def own_scores(self, model: Model) -> list[NullScore]:
        """Every score of the model on these items, in the same form."""
        (measured,) = self.benchmark.ask(model, self.items, UNTOUCHED, self.rule, self.resampling)
        return [NullScore(each.name, each.relative) for each in measured]


@dataclass(frozen=True)
class NullPlan:
    """How many null models a benchmark is compared with, at most, and on which of its items."""

    null: int
    every: int = 1  # one of so many items
    rounds: bool = False  # they come in rounds, and no more are run once every verdict is settled

    @property
    def work(self) -> float:
        """Times the benchmark's own work, at most; the model is scored again where not all items are used."""
        return (self.null + (self.every > 1)) / self.every


def usual_nulls(items: int) -> NullPlan:
    """Null models where nobody says how many: at most as much work as the benchmark itself.

    5 of them and the model again, on one of six items; on all of few items, which are there soon.
    """
    every = min(BENCHMARK_NULLS + 1, max(1, items // FEWEST_ITEMS))
    return NullPlan(BENCHMARK_NULLS, every, rounds=True)


def with_nulls(
    loaded: LoadedBenchmark,
    measured: Sequence[Measurement],
    plan: NullPlan,
    model: Model,
    kept: Kept = lambda label, ask: ask(),
) -> list[Measurement]:
    """Measurements compared with null models, on the same items as those.

    kept: given a label and how the scores that it stands for are made, those scores. Fewer than 2 null
    models: the measurements as they are. A model that has none states the reason in its settings.
    """
    if plan.null < 2:
        return list(measured)
    on, drawn, n = loaded, list[Sequence[NullScore]](), len(loaded.items.items)
    if plan.every > 1:
        on = replace(loaded, items=loaded.items.chosen(spread(n, -(-n // plan.every))))
    there = {each.name: each.relative for each in measured}

    def nulls_so_far() -> dict[str, NullDistribution]:
        # a score that one of the null models lacks has none
        relative: dict[str, list[float]] = defaultdict(list)
        for score in chain.from_iterable(drawn):
            relative[score.name] += [] if score.relative is None else [score.relative]
        known = {name: values for name, values in relative.items() if len(values) == len(drawn)}
        return {name: NullDistribution(np.asarray(values)) for name, values in known.items()}

    title = f"{loaded.benchmark.info.title} in {plan.null} null models (--null 0: none)"
    try:
        if plan.every > 1:
            own = kept(SAME_ITEMS, partial(on.own_scores, model))
            there = {each.name: each.relative for each in own}
        with steps(title, plan.null) as advance:
            for number in range(plan.null):
                if plan.rounds and number in looks(plan.null):
                    # They end when none still to come can change a verdict: a score's own test says no
                    # already, and the larger p counts; or the score is closed (measures/null.py).
                    nulls = nulls_so_far()
                    still_open = (each for each in measured if each.null is None or each.null.p_value < ALPHA)
                    pairs = [(there.get(each.name), nulls.get(each.name)) for each in still_open]
                    if all(v is None or null is None or closed(null, v, plan.null) for v, null in pairs):
                        break
                drawn.append(kept(str(number + 1), partial(on.null_scores, model, number)))
                advance(1)
    except CannotDo as error:
        return [replace(each, settings={**each.settings, ABOUT_NULLS: str(error)}) for each in measured]
    # The larger p counts. Gaps in nats are compared relative to the root mean square of each model's own; a
    # score that one of the null models lacks keeps its own test alone.
    nulls, held = nulls_so_far(), []
    about = {} if plan.every == 1 else {ABOUT_NULLS: f"on one of {plan.every} items"}
    for each in measured:
        null, value = nulls.get(each.name), there.get(each.name)
        if null is None or value is None or each.value is None:
            held.append(each)
            continue
        null = looked_at(null, value, plan.null) if plan.rounds else null
        known = replace(each, settings={**each.settings, **about})
        if each.null is None and each.relative is not None:  # it has no test of its own
            judged = null.judged(value, NULL_MODELS)
            details = {**each.details, P_NULL_MODELS: judged.p_value}
            held.append(replace(known, null=judged, details=details))
        else:
            held.append(null.harder(known, NULL_MODELS, value))
    return held
