"""A benchmark with a known truth: bias is planted into chosen heads, and each localizer must find them.

    gradient    b = d|SEAT| / d gate (SPEC A4)
    ablation    how far |SEAT| falls when the head alone is removed (A5)
    attention   how far attention from target to attribute falls when the stereotype is turned around (A6)

Two kinds of plant (studies/planted/planting.py): "value" writes a direction into the target words, "attention" makes
target words look at the stereotyped attribute words. The heads are drawn anew for every seed. A localizer
ranks all heads of the planted copy, once by its own scores ("alone"), once by what changed against the
untouched model ("compared"), which takes out the bias that the model had before.

    precision@k = share of the k planted heads among its k highest       by chance k / heads
    mean rank of the planted heads, 1 is the highest                      by chance (heads + 1) / 2

The plant strengthens what the model leans to already: X-A where its SEAT is above 0, else X-B. See
docs/planted.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.statistics import mean_sd
from levelhead.models.model import Model
from levelhead.probes.contexts import Context, contexts_fingerprint, template_contexts
from levelhead.probes.sentences import StereotypeSentence
from levelhead.probes.words import WordTest, load_words
from levelhead.results.folder import Row, Run, RunData, read_run
from levelhead.scoring.seat import absolute_seats, ask_seat
from levelhead.scoring.word_table import WordTable, word_table
from levelhead.studies.heads.counter import counter_attention, counter_sentences, sentence_source
from levelhead.studies.heads.learned_gates import sample_contexts
from levelhead.studies.heads.study import head_scores
from levelhead.studies.planted.planting import Kind, Planter

KINDS: tuple[str, ...] = get_args(Kind)
LOCALIZERS = ("gradient", "ablation", "attention")
WAYS = ("alone", "compared")
_STRENGTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # of a value plant
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class PlantedSettings:
    """What is planted, how often, and on how much the localizers look."""

    bias: str = "gender"
    heads: int = 3
    seeds: int = 5
    kinds: tuple[str, ...] = ("value", "attention")
    rise: float = 0.1  # of |SEAT|, by each value plant alone
    nats: float = 4.0  # of attention, by each attention plant
    words: int = 60  # at most, of each of A, B, X, Y
    sentences: str | None = (
        None  # where stereotype sentences come from: a corpus; by default the shipped ones
    )
    n_sentences: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise BadProbe(f"Kinds {', '.join(unknown) or 'none'} came; allowed are {', '.join(KINDS)}.")
        if min(self.heads, self.seeds, self.words - 1, self.n_sentences - 1) < 1:
            raise BadProbe("heads and seeds need at least 1, words and sentences at least 2.")


@dataclass(frozen=True)
class Questions:
    """What the localizers look at; the plant is fitted on other contexts."""

    test: WordTest
    table: WordTable
    fitting: Sequence[Context]
    sentences: Sequence[StereotypeSentence]


def plant_and_find(model: Model, settings: PlantedSettings, folder: str | Path) -> RunData:
    """Plant, search, and write one row for each seed and localizer, and the summary, into a run folder."""
    if settings.heads >= model.layers * model.heads:
        raise BadProbe(
            f"{settings.heads} heads came; {model.name} has {model.layers * model.heads}. Plant into fewer."
        )
    asked = questions(model, settings)
    about = {
        "study": "planted",
        "model": model.name,
        "layers": model.layers,
        "heads_in_all": model.layers * model.heads,
    }
    hashes = {
        "weights": model.fingerprint,
        "words": asked.test.fingerprint(),
        "contexts": contexts_fingerprint((*asked.table.contexts, *asked.fitting)),
    }
    with Run.open(folder, {**about, **asdict(settings)}, hashes=hashes) as run:
        before = run.result("base", lambda: _base(model, asked))[0]
        rows: list[Row] = []
        for kind in settings.kinds:
            planter = Planter(model, asked.fitting, cast(Kind, kind))
            for seed in range(settings.seed, settings.seed + settings.seeds):
                trial = partial(_trial, planter, asked, settings, seed, before)
                rows += run.result(f"planted/{kind}/{seed}", trial)
        run.result("summary", lambda: summary(rows, settings, model.layers * model.heads))
    return read_run(folder)


def questions(model: Model, settings: PlantedSettings) -> Questions:
    """Words, contexts and sentences."""
    test = load_words(settings.bias)
    contexts = template_contexts(test)
    looked_at = sample_contexts(test, contexts[::2], settings.words, settings.seed)
    fitting = [
        context for turn in (1, 5, 9, 13) for context in sample_contexts(test, contexts[turn::16], 90, turn)
    ]
    source = sentence_source(test, "templates", settings.sentences)
    sentences = counter_sentences(model, test, source, settings.n_sentences, settings.seed).sentences
    if len(sentences) < 2:
        raise BadProbe(f"{len(sentences)} usable stereotype sentences from {source}; at least 2 are needed.")
    return Questions(test, word_table(test, looked_at), fitting, sentences)


# ---- localizers


@dataclass(frozen=True)
class Found:
    """|SEAT| of a model and how strongly each localizer suspects each head."""

    seat: float
    suspicion: Mapping[str, Doubles]  # localizer -> [layer, head]


def localize(model: Model, asked: Questions) -> Found:
    """Let every localizer look at a model."""
    places: list[Head] = [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
    variants = [(), *(removed(model, [place]) for place in places)]
    seat, *without = absolute_seats(model, asked.table, variants, label="Ablation")
    original, counter = counter_attention(model, asked.sentences)
    change = _mean_of_scored(original - counter)
    shape = (model.layers, model.heads)
    return Found(
        seat,
        {
            "gradient": head_scores(model, asked.table).scores,
            "ablation": seat - np.reshape(without, shape),
            "attention": change,
        },
    )


def _mean_of_scored(change: Doubles) -> Doubles:
    """Mean over sentences of each head; a head that no sentence could score is the least suspected."""
    seen = ~np.isnan(change)
    mean = np.where(seen, change, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    return np.asarray(np.where(seen.any(0), mean, mean.min()), np.float64)


def ranks(suspicion: Doubles, heads: Sequence[Head]) -> list[float]:
    """Ranks of these heads, 1 for the most suspected; equal ones share the mean of their ranks."""
    order = stats.rankdata(-suspicion).reshape(suspicion.shape)
    return [float(order[place]) for place in heads]


def precision(suspicion: Doubles, heads: Sequence[Head]) -> float:
    """Share of these k heads among the k most suspected."""
    k = len(heads)
    return sum(rank <= k for rank in ranks(suspicion, heads)) / k


# ---- trials


def choose(
    planter: Planter, asked: Questions, settings: PlantedSettings, seed: int, before: Mapping[str, Any]
) -> tuple[dict[Head, float], list[Head]]:
    """Heads drawn at random with the strength of their plants, and heads that were drawn but cannot carry
    one.

    A value plant is as strong as it must be to raise |SEAT| by settings.rise alone; a head that never does,
    because it hardly attends to the target words or because later layers undo what it writes, is no truth to
    look for.
    """
    model, leans = planter.model, -1.0 if before["seat"] < 0 else 1.0
    chosen: dict[Head, float] = {}
    refused: list[Head] = []
    for i in np.random.default_rng(seed).permutation(model.layers * model.heads):
        place = (int(i) // model.heads, int(i) % model.heads)
        strength = (
            settings.nats if planter.kind == "attention" else _enough(planter, asked, place, settings, before)
        )
        if strength is None:
            refused.append(place)
        else:
            chosen[place] = leans * strength
        if len(chosen) == settings.heads:
            return chosen, refused
    raise CannotDo(
        f"Only {len(chosen)} of {model.layers * model.heads} heads of {model.name} can raise |SEAT| by "
        f"{settings.rise:g} alone. Plant into fewer heads, or ask for a smaller rise."
    )


def _enough(
    planter: Planter, asked: Questions, place: Head, settings: PlantedSettings, before: Mapping[str, Any]
) -> float | None:
    """The smallest strength tried that raises |SEAT| enough."""
    leans = -1.0 if before["seat"] < 0 else 1.0
    for strength in _STRENGTHS:
        copy = planter.planted({place: leans * strength})
        if absolute_seats(copy, asked.table, [()], label="Plant")[0] - before["abs_seat"] >= settings.rise:
            return strength
    return None


def _trial(
    planter: Planter, asked: Questions, settings: PlantedSettings, seed: int, before: Mapping[str, Any]
) -> list[Row]:
    strengths, refused = choose(planter, asked, settings, seed, before)
    heads = sorted(strengths)
    found = localize(planter.planted(strengths), asked)
    about = {
        "study": "planted",
        "kind": planter.kind,
        "seed": seed,
        "heads": [_named(place) for place in heads],
        "strengths": [strengths[place] for place in heads],
        "refused": [_named(place) for place in refused],
        "abs_seat_before": before["abs_seat"],
        "abs_seat": found.seat,
    }
    rows: list[Row] = []
    for name in LOCALIZERS:
        after = found.suspicion[name]
        for way, scores in zip(WAYS, (after, after - np.array(before[name])), strict=True):
            placed = ranks(scores, heads)
            told = {"localizer": name, "way": way, "precision": precision(scores, heads), "ranks": placed}
            rows.append({**about, **told, "mean_rank": float(np.mean(placed))})
    return rows


def _named(place: Head) -> str:
    return f"{place[0] + 1}-{place[1] + 1}"


def _base(model: Model, asked: Questions) -> Row:
    """The untouched model."""
    seat = ask_seat(model, asked.test, asked.table.contexts, intervals=False)[0]
    if seat.value is None:
        raise CannotDo(f"{asked.test.name}: there is nothing to find, because {seat.reason}.")
    found = localize(model, asked)
    about = {"study": "planted", "seat": seat.value, "abs_seat": found.seat}
    return {**about, **{name: found.suspicion[name].tolist() for name in LOCALIZERS}}


def summary(rows: Sequence[Row], settings: PlantedSettings, heads: int) -> list[Row]:
    """Mean and standard deviation over seeds, with the level of chance."""
    told: list[Row] = []
    for kind in settings.kinds:
        for name in LOCALIZERS:
            for way in WAYS:
                some = [r for r in rows if (r["kind"], r["localizer"], r["way"]) == (kind, name, way)]
                about = {"study": "planted", "kind": kind, "localizer": name, "way": way}
                found = mean_sd("precision", [r["precision"] for r in some], settings.heads / heads)
                placed = mean_sd("mean rank", [r["mean_rank"] for r in some], (heads + 1) / 2)
                told += [{**about, **found.to_json()}, {**about, **placed.to_json()}]
        seats = [
            r["abs_seat"]
            for r in rows
            if r["kind"] == kind and r["localizer"] == "gradient" and r["way"] == "alone"
        ]
        about = {"study": "planted", "kind": kind, "abs_seat_before": rows[0]["abs_seat_before"]}
        told.append({**about, **mean_sd("abs seat", seats).to_json()})
    return told
