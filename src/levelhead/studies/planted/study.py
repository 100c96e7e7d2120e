"""A benchmark with a known truth: bias is planted into chosen heads, and each localizer must find them.

    gradient    b = d|SEAT| / d gate (docs/method.md, Head scores)
    ablation    how far |SEAT| falls when the head alone is removed (Ablation)
    attention   how far attention to the attribute falls when the stereotype is turned (Counter-stereotypes)
    and every other localizer of heads that is registered, by its scores for |SEAT| (docs/atlas.md)

Two kinds of plant (planting.py): "value" writes a direction into the target words, "attention" makes target
words look at the stereotyped attribute words. The heads are drawn anew for every seed. A localizer ranks all
heads of the planted copy, once by its own scores ("alone"), once by what changed against the unmodified model
("compared"), which takes out the bias that the model had before.

    precision@k = share of the k planted heads among its k highest       by chance k / heads
    mean rank of the planted heads, 1 is the highest                      by chance (heads + 1) / 2

The plant strengthens what the model leans to already: X-A where its SEAT is above 0, else X-B. See
docs/planted.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from levelhead.edits.gates import all_heads
from levelhead.edits.head import Head
from levelhead.engine.helped import crew_of
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.statistics import mean_sd
from levelhead.models.model import Model
from levelhead.probes.contexts import contexts_fingerprint
from levelhead.probes.words import in_memory, words_name
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.planted import (
    ABS_SEAT,
    MEAN_RANK,
    PRECISION,
    PlantedBase,
    PlantSummary,
    PlantTrial,
)
from levelhead.results.runs import PlantedRun
from levelhead.results.settings import PlantedRunSettings
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.scoring.seat import ask_seat
from levelhead.studies.planted.planting import Kind, Planter
from levelhead.studies.planted.searching import LOCALIZERS, Questions, localize, precision, prepare, ranks
from levelhead.studies.planted.settings import LARGEST, PlantedSettings

WAYS = ("alone", "compared")
_STRENGTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # of a value plant


def plant_and_find(model: Model, settings: PlantedSettings | None, folder: str | Path) -> PlantedRun:
    """Plant, let every localizer search, and write its trials and their summary into a run folder.

    None: the default settings.
    """
    settings, in_all = settings or PlantedSettings(), model.layers * model.heads
    if settings.heads >= in_all:
        raise BadOption(f"{settings.heads} heads came; {model.name} has {in_all}. Plant into fewer.")
    questions = prepare(model, settings)
    run_settings = PlantedRunSettings(
        study=layout.PLANTED.study,
        model=model.name,
        layers=model.layers,
        heads_in_all=in_all,
        words_in_memory=in_memory(settings.bias),
        loading=loaded_as([model]),
        **asdict(replace(settings, bias=words_name(settings.bias))),
    )
    hashes = {
        "weights": model.fingerprint,
        **model.facts(),
        "words": questions.test.fingerprint(),
        "contexts": contexts_fingerprint((*questions.table.contexts, *questions.fitting)),
    }
    with (
        Run.open(folder, layout.PLANTED, run_settings, hashes=hashes) as run,
        keeping_long_work(run, [model]),
    ):
        base = run.result(layout.PLANTED_BASE, lambda: _base(model, questions))
        seeds = range(settings.seed, settings.seed + settings.seeds)
        planned = {
            layout.PLANT_TRIALS.of(f"{kind}/{seed}"): (kind, seed)
            for kind in settings.kinds
            for seed in seeds
        }
        missing = [plant for key, plant in planned.items() if key not in run]
        tried = _trials(model, questions, settings, base, missing)
        trials = [trial for key in planned for trial in run.results(key, partial(next, tried))]
        run.results(layout.PLANT_SUMMARY, lambda: summary(trials, settings, in_all))
        note_places(run, [model])
        return PlantedRun(run.data())


# ---- trials


def _trials(
    model: Model,
    questions: Questions,
    settings: PlantedSettings,
    base: PlantedBase,
    plants: Sequence[tuple[Kind, int]],
) -> Iterator[list[PlantTrial]]:
    """The trials of each kind and seed, one after the other, or each by one of the model's workers."""
    if (crew := crew_of(model)) is not None:
        shared = crew.crew.share(questions)
        yield from crew.call(_tried, [(shared, settings, base, *plant) for plant in plants])
        return
    planters = {kind: Planter(model, questions.fitting, kind) for kind, _ in plants}
    for kind, seed in plants:
        yield _trial(planters[kind], questions, settings, seed, base)


def _tried(
    model: Model, questions: Questions, settings: PlantedSettings, base: PlantedBase, kind: Kind, seed: int
) -> list[PlantTrial]:
    return _trial(Planter(model, questions.fitting, kind), questions, settings, seed, base)


def choose(
    planter: Planter, questions: Questions, settings: PlantedSettings, seed: int, base: PlantedBase
) -> tuple[dict[Head, float], list[Head]]:
    """Heads drawn at random with the strength of their plants, and drawn heads that cannot carry one.

    A value plant is as strong as it must be to raise |SEAT| by settings.rise alone; a head that never does,
    because it hardly attends to the target words or because later layers undo what it writes, is no truth to
    look for.
    """
    everyone = all_heads(planter.model)
    if planter.kind == "value" and base.abs_seat + settings.rise > LARGEST:
        raise CannotDo(
            f"|SEAT| of {planter.model.name} is {base.abs_seat:.3f} and at most {LARGEST:g}, so no plant can "
            f"raise it by {settings.rise:g}. Ask for a smaller rise."
        )
    chosen: dict[Head, float] = {}
    refused: list[Head] = []
    for i in np.random.default_rng(seed).permutation(len(everyone)):
        head = everyone[i]
        if planter.kind == "attention":
            strength: float | None = settings.nats
        else:
            strength = _enough(planter, questions, head, settings, base)
        if strength is None:
            refused.append(head)
        else:
            chosen[head] = _leaning(base) * strength
        if len(chosen) == settings.heads:
            return chosen, refused
    raise CannotDo(
        f"Only {len(chosen)} of {len(everyone)} heads of {planter.model.name} can raise |SEAT| by "
        f"{settings.rise:g} alone. Plant into fewer heads, or ask for a smaller rise."
    )


def _leaning(base: PlantedBase) -> float:
    """1 where the unmodified model ties X to A, −1 where it ties X to B."""
    return -1.0 if base.seat < 0 else 1.0


def _enough(
    planter: Planter, questions: Questions, head: Head, settings: PlantedSettings, base: PlantedBase
) -> float | None:
    """The smallest strength tried that raises |SEAT| enough; None where none of them does."""
    for strength in _STRENGTHS:
        copy = planter.planted({head: _leaning(base) * strength})
        (size,) = questions.objective.sizes(copy, label="Plant")
        if size - base.abs_seat >= settings.rise:
            return strength
    return None


def _trial(
    planter: Planter, questions: Questions, settings: PlantedSettings, seed: int, base: PlantedBase
) -> list[PlantTrial]:
    """Every localizer, in both ways, on one planted copy."""
    strengths, refused = choose(planter, questions, settings, seed, base)
    heads = sorted(strengths)
    after = localize(planter.planted(strengths), questions)
    trials = []
    for name in base.suspicion:
        alone = after.by_localizer[name]
        for way, scores in zip(WAYS, (alone, alone - np.array(base.suspicion[name])), strict=True):
            placed = ranks(scores, heads)
            trials.append(
                PlantTrial(
                    kind=planter.kind,
                    seed=seed,
                    heads=tuple(heads),
                    strengths=tuple(strengths[head] for head in heads),
                    refused=tuple(refused),
                    abs_seat_before=base.abs_seat,
                    abs_seat=after.abs_seat,
                    localizer=name,
                    way=way,
                    precision=precision(scores, heads),
                    ranks=tuple(placed),
                    mean_rank=float(np.mean(placed)),
                )
            )
    return trials


def _base(model: Model, questions: Questions) -> PlantedBase:
    """The unmodified model."""
    seat = ask_seat(model, questions.test, questions.table.contexts, intervals=False)[0]
    if seat.value is None:
        raise CannotDo(f"{questions.test.name}: there is nothing to find, because {seat.reason}.")
    suspicion = localize(model, questions)
    stored = {
        name: tuple(map(tuple, suspicion.by_localizer[name].tolist())) for name in suspicion.by_localizer
    }
    return PlantedBase(seat.value, suspicion.abs_seat, stored)


def summary(trials: Sequence[PlantTrial], settings: PlantedSettings, heads: int) -> list[PlantSummary]:
    """Mean and standard deviation over seeds, with the level of chance; heads: how many the model has."""
    records: list[PlantSummary] = []
    for kind in settings.kinds:
        of_kind = [trial for trial in trials if trial.kind == kind]
        for name in dict.fromkeys(trial.localizer for trial in of_kind):
            for way in WAYS:
                some = [trial for trial in of_kind if (trial.localizer, trial.way) == (name, way)]
                precisions, mean_ranks = [t.precision for t in some], [t.mean_rank for t in some]
                records += [
                    PlantSummary(kind, name, way, measurement, None)
                    for measurement in (
                        mean_sd(PRECISION, precisions, settings.heads / heads),
                        mean_sd(MEAN_RANK, mean_ranks, (heads + 1) / 2),
                    )
                ]
        seats = [t.abs_seat for t in of_kind if (t.localizer, t.way) == (LOCALIZERS[0], WAYS[0])]
        before = of_kind[0].abs_seat_before
        records.append(PlantSummary(kind, "", "", mean_sd(ABS_SEAT, seats), before))
    return records
