"""Runs of the heads study that are written by hand, for tests of what reads or fills them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelhead.edits.sites import Head
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import HeadScore, WordsUsed
from levelhead.studies.heads.settings import HeadsStored


def empty_run(folder: Path, model: str = "tiny", hashes: Mapping[str, str] | None = None) -> Run[HeadsStored]:
    """An open run without results."""
    settings = HeadsStored(
        study=Heads.name,
        seed=0,
        models=(model,),
        layers=3,
        heads=4,
        bias="gender",
        contexts="templates",
        experiments=("scores",),
        per_word=2,
        sentences=None,
        n_sentences=12,
        top=2,
        trim=False,
        resamples=100,
    )
    return Run.open(folder, Heads, settings, hashes=hashes)


def scored_run(
    folder: Path,
    name: str,
    scores: list[list[float]],
    seat: float,
    words: str = "gender",
    p: float | None = 0.05,
) -> Path:
    """A run with these scores of a model of that name; words: the hash of its word list."""
    order = sorted((score for layer in scores for score in layer), reverse=True)
    records = [
        HeadScore(Head(layer, head), score, 0.1, score / 2, p, 1 + order.index(score), abs(seat))
        for layer, of_layer in enumerate(scores)
        for head, score in enumerate(of_layer)
    ]
    used = WordsUsed("gender", ("A", "B", "X", "Y"), {"A": 2, "B": 2, "X": 2, "Y": 2}, 8, 16, (), {})
    with empty_run(folder / name, name, {"weights": name, "words": words}) as run:
        run.result(Heads.words, lambda: used)
        run.result(Heads.seat, lambda: MeasuredVariant(BASE, name, Measurement("seat", seat)))
        run.results(Heads.scores, lambda: records)
    return folder / name
