"""Runs of the heads study that are written by hand, for tests of what reads or fills them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.heads import HeadScore, WordsUsed
from levelhead.results.settings import HeadsRunSettings


def empty_run(
    folder: Path, model: str = "tiny", hashes: Mapping[str, str] | None = None
) -> Run[HeadsRunSettings]:
    """An open run without results."""
    settings = HeadsRunSettings(
        study=layout.HEADS.study,
        seed=0,
        model=model,
        layers=3,
        heads=4,
        bias="gender",
        contexts="templates",
        experiments=("scores",),
        per_word=None,
        contexts_per_word=2,
        sentences=None,
        n_sentences=12,
        top=2,
        trim=False,
        resamples=100,
    )
    return Run.open(folder, layout.HEADS, settings, hashes=hashes)


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
        run.result(layout.WORDS, lambda: used)
        run.result(layout.SEAT, lambda: MeasuredVariant(BASE, name, Measurement("seat", seat)))
        run.results(layout.SCORES, lambda: records)
    return folder / name
