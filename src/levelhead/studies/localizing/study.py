"""The atlas: a head map for each of several objectives, what of it holds, and whether the maps agree.

    maps        scores of all heads on all items, and on halves of the items that share no cluster
    null        the same in null models, on the same items and splits
    heads       which hold on other items, farther than any head does in a null model (measures/head_null.py)
    agreement   Spearman's rho of every two maps, against the same two in null models (measures/maps.py)
    top         heads among the highest tenth of every map, against chance and null models

See docs/atlas.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import combinations, starmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.head import Head
from levelhead.errors import CannotDo
from levelhead.measures.corrections import holm
from levelhead.measures.head_null import HeadTest, head_test, held_scores
from levelhead.measures.maps import (
    FEWEST,
    ScoredMap,
    against_null_models,
    halves_agreement,
    map_agreement,
    shared_top,
)
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, spearman
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.probes.words import in_memory, words_name
from levelhead.progress import steps
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.heads import LARGEST_HELD
from levelhead.results.records.localizing import (
    MapAgreement,
    MapLine,
    MappedHead,
    MappedObjective,
    ObjectiveLeftOut,
    ObjectiveMap,
    TopOfAll,
)
from levelhead.results.runs import AtlasRun
from levelhead.results.settings import AtlasRunSettings
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.studies.heads.null_models import drawable_twins
from levelhead.studies.heads.scores import finite
from levelhead.studies.localizing.catalog import localizer_of
from levelhead.studies.localizing.protocol import Localizer, scored_several
from levelhead.studies.localizing.questions import Question, Questions, questions
from levelhead.studies.localizing.settings import AtlasSettings
from levelhead.studies.localizing.transfer import transferred

Doubles = NDArray[np.float64]
Open = Run[AtlasRunSettings]
Maps = Mapping[str, Sequence[ObjectiveMap]]  # objective -> the model's map, then those of its null models


def atlas(model: Model, settings: AtlasSettings | None, folder: str | Path) -> AtlasRun:
    """Map every objective and write the maps into a folder; None: the default settings.

    A folder of a killed run with the same settings is finished.
    """
    settings = settings or AtlasSettings()
    localizer = localizer_of(settings.localizer, "heads")
    asked = _askable(localizer, model, questions(model, settings))
    hashes = {"weights": model.fingerprint, **model.facts()}
    hashes |= {f"items of {each.name}": each.fingerprint for each in asked.asked}
    with (
        Run.open(folder, layout.ATLAS, _run_settings(model, settings), hashes=hashes) as run,
        keeping_long_work(run, [model]),
    ):
        run.results(layout.OBJECTIVES_LEFT_OUT, lambda: list(asked.left_out))
        maps = _maps(model, localizer, asked.asked, settings, run)
        tests = {name: _test(of_one) for name, of_one in maps.items()}
        run.results(layout.MAPPED_OBJECTIVES, lambda: _objectives(asked.asked, maps, tests))
        heads = run.results(layout.MAPPED_HEADS, lambda: _heads(maps, tests))
        run.file(layout.MAPS_TABLE, [_line(each) for each in heads])
        run.results(layout.MAP_AGREEMENTS, lambda: _agreements(maps, settings))
        if len(maps) > 1:
            run.result(layout.TOP_OF_ALL, lambda: _top(maps))
        if settings.transfer:
            run.results(layout.TRANSFER, lambda: transferred(model, asked.asked, maps, settings))
        note_places(run, [model])
        return AtlasRun(run.data())


def _run_settings(model: Model, settings: AtlasSettings) -> AtlasRunSettings:
    return AtlasRunSettings(
        study=layout.ATLAS.study,
        seed=settings.seed,
        model=model.name,
        objectives=settings.objectives,
        benchmark_files={name: str(path) for name, path in settings.data.items()},
        bias=words_name(settings.bias),
        localizer=settings.localizer,
        splits=settings.splits,
        null=settings.null,
        limit=settings.limit,
        transfer=settings.transfer,
        words_in_memory=in_memory(settings.bias),
        loading=loaded_as([model]),
    )


def _askable(localizer: Localizer, model: Model, found: Questions) -> Questions:
    """The questions that the localizer can score too; one line where nothing is left."""
    reasons = [localizer.why_not(model, each.whole) for each in found.asked]
    kept = tuple(each for each, reason in zip(found.asked, reasons, strict=True) if not reason)
    refused = [
        ObjectiveLeftOut(each.name, reason)
        for each, reason in zip(found.asked, reasons, strict=True)
        if reason
    ]
    left_out = (*found.left_out, *refused)
    if not kept:
        why = "; ".join(f"{each.objective}: {each.reason}" for each in left_out)
        raise CannotDo(f"{model.name} has none of the objectives. {why}.")
    return Questions(kept, left_out)


# ---- maps


def _maps(
    model: Model, localizer: Localizer, asked: Sequence[Question], settings: AtlasSettings, run: Open
) -> Maps:
    """The maps of the model, then those of its null models; each is stored as soon as it is there."""
    nulls, _ = drawable_twins(model, settings.null)
    maps: dict[str, list[ObjectiveMap]] = {each.name: [] for each in asked}
    with steps("Maps", len(asked) * (1 + nulls)) as advance:
        for number in (None, *range(nulls)):
            of_whom = "model" if number is None else f"null model {number + 1}"
            for each in asked:
                key = layout.OBJECTIVE_MAPS.of(f"{each.name}/{of_whom}")
                seed = None if number is None else twin_seed(settings.seed, number)
                found = run.results(key, partial(_mapped, model, localizer, each, (number, seed)))
                maps[each.name] += found
                advance(1)
    return maps


def _mapped(
    model: Model, localizer: Localizer, asked: Question, null: tuple[int | None, int | None]
) -> list[ObjectiveMap]:
    """One objective in the model, or in the null model of this number and seed."""
    number, seed = null
    with nullcontext() if seed is None else twinned(model, draw_twin(model, seed)):
        halves = [half for split in asked.splits for half in split]
        whole, *parts = scored_several(localizer, model, [asked.whole, *halves])
        value = asked.whole.values(model)[0] if whole.objective is None else whole.objective
    if not np.isfinite(value):
        raise CannotDo(f"{asked.name} is {value} in {model.name}: it has no map. Leave it out.")
    return [
        ObjectiveMap(
            objective=asked.name,
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


def _test(maps: Sequence[ObjectiveMap]) -> HeadTest | None:
    """The test of a map's heads; None without null models."""
    own, *nulls = [np.array(each.halves) for each in maps]
    return head_test(own, np.array(nulls)) if len(nulls) > 1 else None


def _objectives(
    asked: Sequence[Question], maps: Maps, tests: Mapping[str, HeadTest | None]
) -> list[MappedObjective]:
    found = []
    for each in asked:
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


def _line(each: MappedHead) -> MapLine:
    place = each.head.layer + 1, each.head.head + 1
    return MapLine(each.objective, *place, each.score, each.stderr, each.held, each.p, each.significant)


# ---- agreement


def _agreements(maps: Maps, settings: AtlasSettings) -> list[MapAgreement]:
    """Every two maps; the p-values are corrected for all pairs together."""
    resampling = Resampling(seed=settings.seed)
    measured = {pair: _agreement(maps[pair[0]], maps[pair[1]], resampling) for pair in combinations(maps, 2)}
    p = [np.nan if each.null is None else each.null.p_value for each in measured.values()]
    corrected = holm(np.array(p, np.float64))
    return [
        MapAgreement(*pair, each, finite(own))
        for (pair, each), own in zip(measured.items(), corrected, strict=True)
    ]


def _agreement(
    one: Sequence[ObjectiveMap], other: Sequence[ObjectiveMap], resampling: Resampling
) -> Measurement:
    measured = map_agreement(_scored(one[0]), _scored(other[0]), resampling)
    pairs = zip(one[1:], other[1:], strict=True)
    nulls = [spearman(np.ravel(first.scores), np.ravel(second.scores)).value for first, second in pairs]
    known = [rho for rho in nulls if rho is not None]
    return against_null_models(measured, known if len(known) >= FEWEST else [])


def _scored(each: ObjectiveMap) -> ScoredMap:
    return ScoredMap(np.array(each.scores), np.array(each.stderr, np.float64))


def _top(maps: Maps) -> TopOfAll:
    by_model = list(zip(*maps.values(), strict=True))  # [model, then null models][objective]
    own, *nulls = [[np.array(each.scores) for each in of_model] for of_model in by_model]
    found = shared_top(own, nulls)
    width = own[0].shape[1]
    heads = tuple(Head(unit // width, unit % width) for unit in found.units)
    return TopOfAll(found.k, heads, found.by_chance, found.in_null_models, found.p)
