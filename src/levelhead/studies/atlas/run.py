"""The atlas: a head map for each of several objectives, what of it holds, and whether the maps agree.

    maps        scores of all heads on all items, and on halves of the items that share no cluster
    null        the same in null models, on the same items and splits
    heads       which hold on other items, farther than any head does in a null model (measures/maps.py)
    agreement   Spearman's rho of every two maps, against the same two in null models (measures/maps.py)
    top         heads among the highest tenth of every map, against chance and null models

See docs/atlas.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from itertools import combinations, product, starmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head, Variant
from levelhead.engine.effort import speed_of, tokens_of
from levelhead.errors import CannotDo
from levelhead.measures.certified import size_growth, size_p_value
from levelhead.measures.maps import (
    FEWEST,
    HeadTest,
    ScoredMap,
    against_null_models,
    halves_agreement,
    head_test,
    held_scores,
    map_agreement,
    shared_top,
)
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, holm, spearman
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.probes.agreement import agreement_for
from levelhead.progress import BACK, Plan, announced, duration, steps
from levelhead.runs.folder import Run
from levelhead.runs.study import WEIGHTS_HASH, Key
from levelhead.scoring.natural import NaturalItems, natural_values
from levelhead.scoring.placed import keeping_long_work, note_places, stored_of
from levelhead.studies.atlas import MAPS_TABLE, Atlas
from levelhead.studies.atlas.catalog import localizer_of
from levelhead.studies.atlas.head_ablation import HeadAblation
from levelhead.studies.atlas.protocol import Localizer, scored_several
from levelhead.studies.atlas.questions import Question, ShippedItems, questions
from levelhead.studies.atlas.records import (
    MapAgreement,
    MapLine,
    MappedHead,
    MappedObjective,
    ObjectiveLeftOut,
    ObjectiveMap,
    TopOfAll,
    TransferCell,
)
from levelhead.studies.atlas.settings import AtlasSettings, AtlasStored
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.heads.null_models import drawable_null_models
from levelhead.studies.heads.records import LARGEST_HELD
from levelhead.studies.heads.scores import finite

Doubles = NDArray[np.float64]
Open = Run[AtlasStored]
Maps = Mapping[str, Sequence[ObjectiveMap]]  # objective -> the model's map, then those of its null models


def atlas(model: Model, settings: AtlasSettings | None, folder: str | Path) -> Atlas:
    """Map every objective and write the maps into a folder; None: the default settings.

    A folder of a killed run with the same settings is finished.
    """
    settings = settings or AtlasSettings()
    localizer = localizer_of(settings.localizer, "heads")
    found = questions(model, settings)
    reasons = {each.name: localizer.why_not(model, each.whole) for each in found.kept}
    mappable = [each for each in found.kept if not reasons[each.name]]
    left_out = [*found.left_out, *(ObjectiveLeftOut(name, why) for name, why in reasons.items() if why)]
    if not mappable:
        why = "; ".join(f"{each.objective}: {each.reason}" for each in left_out)
        raise CannotDo(f"{model.name} has none of the objectives. {why}.")
    stored = stored_of(model, Atlas, AtlasStored, settings)
    hashes = {WEIGHTS_HASH: model.fingerprint, **model.facts()}
    hashes |= {f"items of {each.name}": each.fingerprint for each in mappable}
    with (
        Run.open(folder, Atlas, stored, hashes=hashes) as run,
        keeping_long_work(run, [model]),
        announced("Atlas", lambda: _times(model, localizer, mappable, settings, run)),
    ):
        run.results(Atlas.left_out, lambda: left_out)
        # of the model, then of its null models; each is stored as soon as it is there
        drawable, _ = drawable_null_models(model, settings.null)
        maps: dict[str, list[ObjectiveMap]] = {each.name: [] for each in mappable}
        with steps("Maps", len(mappable) * (1 + drawable)) as advance:
            for number, each in product((None, *range(drawable)), mappable):
                seed = None if number is None else null_model_seed(settings.seed, number)
                mapped = partial(_mapped, model, localizer, each, (number, seed))
                maps[each.name] += run.results(_key(each, number), mapped)
                advance(1)
        tests: dict[str, HeadTest | None] = {}
        for name, (own, *nulls) in maps.items():
            halves, of_nulls = np.array(own.halves), np.array([null.halves for null in nulls])
            tests[name] = head_test(halves, of_nulls) if len(nulls) > 1 else None
        run.results(Atlas.objectives, lambda: _objectives(mappable, maps, tests))
        heads = run.results(Atlas.heads, lambda: _heads(maps, tests))
        lines = [
            MapLine(
                h.objective, h.head.layer + 1, h.head.head + 1, h.score, h.stderr, h.held, h.p, h.significant
            )
            for h in heads
        ]
        run.file(MAPS_TABLE, lines)
        run.results(Atlas.agreements, lambda: _agreements(maps, settings))
        if len(maps) > 1:
            run.result(Atlas.top, lambda: _top(maps))
        if settings.transfer:
            run.results(Atlas.transfer, lambda: transferred(model, mappable, maps, settings))
        note_places(run, [model])
        return Atlas(run.data())


def _times(
    model: Model, localizer: Localizer, mappable: Sequence[Question], settings: AtlasSettings, run: Open
) -> Plan:
    """What the maps which are missing take on this machine, and which option makes them fewer."""
    nulls, _ = drawable_null_models(model, settings.null)
    missing = {
        each.name: sum(_key(each, number) not in run for number in (None, *range(nulls))) for each in mappable
    }
    if not any(missing.values()):
        return Plan()
    tokens: dict[str, float] = {}
    for each in mappable:  # tokens that pass through all blocks for one map and those of its halves
        objectives = [each.whole, *(half for split in each.splits for half in split)]
        read = {id(one.reading): tokens_of(model, one.reading) for one in objectives}
        once_each = sum(read[id(one.reading)] for one in objectives)
        if isinstance(localizer, HeadAblation):  # a head takes half of the blocks, in the mean
            tokens[each.name] = (1 + model.layers * model.heads / 2) * once_each
        else:  # the answer, the same with what a way back needs, and a way back for each objective
            tokens[each.name] = sum(2 * one for one in read.values()) + BACK * once_each
    moved = 0.0
    if settings.transfer:  # every measure of the model, and without the heads of each objective
        moved = (1 + len(mappable)) * sum(tokens_of(model, each.whole.reading) for each in mappable)
    speed = speed_of(model)
    once = speed.plan(sum(tokens.values()) + moved).seconds
    shorter = f"--null 0 takes about {duration(once)}" if nulls else "--limit takes fewer items"
    every = sum(missing[name] * each for name, each in tokens.items())
    return speed.plan(every + moved, shorter=shorter)


# ---- maps


def _key(question: Question, number: int | None) -> Key[ObjectiveMap]:
    """Where the map of the model, or of a null model of this number, is kept."""
    return Atlas.maps.of(f"{question.name}/{'model' if number is None else f'null model {number + 1}'}")


def _mapped(
    model: Model, localizer: Localizer, question: Question, null: tuple[int | None, int | None]
) -> list[ObjectiveMap]:
    """One objective in the model, or in the null model of this number and seed."""
    number, seed = null
    with nullcontext() if seed is None else as_null_model(model, draw_null_model(model, seed)):
        halves = [half for split in question.splits for half in split]
        whole, *parts = scored_several(localizer, model, [question.whole, *halves])
        value = question.whole.values(model)[0] if whole.objective is None else whole.objective
    if not np.isfinite(value):
        raise CannotDo(f"{question.name} is {value} in {model.name}: it has no map. Leave it out.")
    return [
        ObjectiveMap(
            objective=question.name,
            null_model=number,
            value=float(value),
            scores=_grid(whole.values),
            stderr=tuple(tuple(finite(each) for each in row) for row in whole.stderr),
            halves=tuple(
                (_grid(first.values), _grid(second.values))
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ),
        )
    ]


def _grid(values: Doubles) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in values)


# ---- what holds


def _objectives(
    mappable: Sequence[Question], maps: Maps, tests: Mapping[str, HeadTest | None]
) -> list[MappedObjective]:
    found = []
    for each in mappable:
        own, *nulls = maps[each.name]
        test = tests[each.name]
        if test is None:
            held = held_scores(np.array(own.halves))
            largest = Measurement(LARGEST_HELD, float(np.abs(held).max()), n=held.size)
        else:
            largest = test.largest
        halves = halves_agreement(np.array(own.halves), [np.array(null.halves) for null in nulls])
        found.append(MappedObjective(each.name, each.whole.unit, own.value, each.items, halves, largest))
    return found


def _heads(maps: Maps, tests: Mapping[str, HeadTest | None]) -> list[MappedHead]:
    found = []
    for name, (own, *_) in maps.items():
        scores, test = np.array(own.scores), tests[name]
        held = held_scores(np.array(own.halves))
        rank = stats.rankdata(-scores, method="ordinal").reshape(scores.shape)
        for head in starmap(Head, np.ndindex(*scores.shape)):
            p = None if test is None else float(test.p_value[head])
            stderr = own.stderr[head.layer][head.head]
            found.append(
                MappedHead(name, head, float(scores[head]), stderr, float(held[head]), p, int(rank[head]))
            )
    return found


# ---- agreement


def _agreements(maps: Maps, settings: AtlasSettings) -> list[MapAgreement]:
    """Every two maps; the p-values are corrected for all pairs together."""
    resampling, measured = Resampling(seed=settings.seed), dict[tuple[str, str], Measurement]()
    for pair in combinations(maps, 2):
        (one, *nulls), (other, *others) = maps[pair[0]], maps[pair[1]]
        first, second = (
            ScoredMap(np.array(each.scores), np.array(each.stderr, np.float64)) for each in (one, other)
        )
        found = [
            spearman(np.ravel(each.scores), np.ravel(its.scores)).value
            for each, its in zip(nulls, others, strict=True)
        ]
        known = [rho for rho in found if rho is not None]
        agreed = map_agreement(first, second, resampling)
        measured[pair] = against_null_models(agreed, known if len(known) >= FEWEST else [])
    p = [np.nan if each.null is None else each.null.p_value for each in measured.values()]
    corrected = holm(np.array(p, np.float64))
    return [
        MapAgreement(*pair, each, finite(own))
        for (pair, each), own in zip(measured.items(), corrected, strict=True)
    ]


def _top(maps: Maps) -> TopOfAll:
    by_model = list(zip(*maps.values(), strict=True))  # [model, then null models][objective]
    own, *nulls = [[np.array(each.scores) for each in of_model] for of_model in by_model]
    found = shared_top(own, nulls)
    width = own[0].shape[1]
    heads = tuple(Head(unit // width, unit % width) for unit in found.units)
    return TopOfAll(found.k, heads, found.by_chance, found.in_null_models, found.p)


# ---- transfer


def transferred(
    model: Model, mappable: Sequence[Question], maps: Maps, settings: AtlasSettings
) -> list[TransferCell]:
    """The matrix of objectives and measures: what was optimized by what was measured.

    Each objective chooses its highest heads on the first half of its items. They are ablated, and every bias
    and every cost that the model can show is measured on the second half, in natural units: by how
    much its size grows. The intervals hold for all cells together.
    """
    chosen: dict[str, list[Head]] = {}
    for each in mappable:  # the highest heads of the first half of the first split
        scores = np.array(maps[each.name][0].halves[0][0])
        chosen[each.name] = highest(scores, min(settings.transfer, scores.size - 1))
    variants: list[Variant] = [(), *(removed(model, heads) for heads in chosen.values())]
    # the first split's second half, with texts and tasks that show what it costs: no head is chosen on these
    later = ShippedItems.of(model, settings).parts[0].report
    held_out = NaturalItems(later, later.prompts, agreement=agreement_for(later.test))
    shipped = natural_values(model, held_out, variants)
    benchmarks = [each.held_out(model, variants) for each in mappable if each.held_out is not None]
    biases, costs = [*shipped.biases, *benchmarks], shipped.costs
    found: dict[str, float | None] = {}  # by measure: the p of its bias against the null models of the maps
    for each in mappable:
        own, *nulls = [of_model.value for of_model in maps[each.name]]
        if each.whole.name == each.measure:  # |SEAT| is another number than the gap of cosines
            found[each.measure] = size_p_value(own, nulls)
    corrected = holm(np.asarray([np.nan if p is None else p for p in found.values()], np.float64))
    detected = {name: finite(p) for name, p in zip(found, corrected, strict=True)}
    cells = len(mappable) * (len(biases) + len(costs))
    return [
        TransferCell(
            optimized=each.name,
            heads=tuple(chosen[each.name]),
            measured=measured.name,
            cost=is_cost,
            own=measured.name == each.measure,
            unit=measured.unit,
            cells=cells,
            p_bias=None if is_cost else detected.get(measured.name),
            **asdict(size_growth(measured.paired(number), cells)),
        )
        for number, each in enumerate(mappable, start=1)
        for is_cost, some in ((False, biases), (True, costs))
        for measured in some
    ]
