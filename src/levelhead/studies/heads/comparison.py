"""Several models side by side: which heads carry the bias in each, and which changed sides (SPEC A12, Fig.
5).

Reads runs of the heads study, never a model. The first run is the base: a debiased or instruction-tuned twin
is held against it. A *flip* is a head that worked against the bias in the base (b < 0) and adds to it in the
other (b > 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadRun
from levelhead.measures.statistics import spearman
from levelhead.results.folder import Row, Run, RunData, read_run

Doubles = NDArray[np.float64]
_CERTAIN = 0.05  # q-value below which a head's sign counts as known


@dataclass(frozen=True)
class ScoredModel:
    """What a heads run says about a model."""

    name: str
    scores: Doubles  # [layer, head]
    q: Doubles  # [layer, head], NaN where there is none
    seat: Mapping[str, Any]  # its measurement
    test: str
    hashes: Mapping[str, str]  # of weights, words, contexts

    @classmethod
    def of(cls, run: RunData) -> ScoredModel:
        """From a run folder that holds head scores."""
        if "scores" not in run.results or run.settings.get("study") != "heads":
            raise BadRun(
                f"{run.folder} has no head scores. Give the folder of a finished `levelhead heads` run."
            )
        rows = run.results["scores"]
        shape = max(row["layer"] for row in rows), max(row["head"] for row in rows)
        scores, q = np.full(shape, np.nan), np.full(shape, np.nan)
        for row in rows:
            place = row["layer"] - 1, row["head"] - 1
            scores[place], q[place] = row["score"], np.nan if row["q"] is None else row["q"]
        seat, test = run.results["seat"][0], run.results["words"][0]["test"]
        return cls(str(run.settings["model"]), scores, q, seat, str(test), run.hashes)

    def row(self) -> Row:
        """The model as one line of a table."""
        most, least = (
            np.unravel_index(i, self.scores.shape) for i in (self.scores.argmax(), self.scores.argmin())
        )
        return {
            "study": "compare_heads",
            "model": self.name,
            "layers": self.scores.shape[0],
            "heads": self.scores.shape[1],
            "biased": int((self.scores > 0).sum()),
            "anti_biased": int((self.scores < 0).sum()),
            "most_biased": _named(most),
            "most_biased_score": float(self.scores.max()),
            "most_anti_biased": _named(least),
            "most_anti_biased_score": float(self.scores.min()),
            **self.seat,
        }


def compare_heads(folders: Sequence[str | Path], out: str | Path, top: int = 5) -> RunData:
    """Compare runs and write models, pairs and flips into a folder. top: how many anti-biased heads are
    followed."""
    if len(folders) < 2 or top < 1:
        raise BadRun(
            f"{len(folders)} runs and top={top} came; give two runs or more, the base first, and top >= 1."
        )
    models = [ScoredModel.of(read_run(folder)) for folder in folders]
    if len({model.hashes.get("words") for model in models}) > 1:
        tests = ", ".join(f"{model.name}: {model.test}, {model.hashes.get('words')}" for model in models)
        raise BadRun(f"The runs measured different word lists ({tests}). Compare runs of one list.")
    base, *others = models
    settings = {
        "study": "compare_heads",
        "runs": [str(folder) for folder in folders],
        "top": top,
        "test": base.test,
    }
    hashes = {f"weights {i + 1}": model.hashes.get("weights", "") for i, model in enumerate(models)}
    with Run.open(out, settings, hashes=hashes) as run:
        run.result("models", lambda: [model.row() for model in models])
        run.result("scores", lambda: [row for i, model in enumerate(models) for row in _score_rows(i, model)])
        run.result("pairs", lambda: [pair(base, other, top) for other in others])
        run.result("flips", lambda: [row for other in others for row in flips(base, other)])
    return read_run(out)


def pair(base: ScoredModel, other: ScoredModel, top: int) -> Row:
    """How a model's heads relate to the base's: rank correlation, flips in both directions, model-level
    bias."""
    told: Row = {"study": "compare_heads", "base": base.name, "model": other.name}
    told |= {"abs_seat_base": _size(base.seat), "abs_seat": _size(other.seat)}
    told["same_contexts"] = base.hashes.get("contexts") == other.hashes.get("contexts")
    if base.scores.shape != other.scores.shape:
        reason = f"{_shape(base)} heads against {_shape(other)}: heads have no counterparts"
        return {**told, "spearman": None, "flips": None, "reason": reason}
    turned = (base.scores < 0) & (other.scores > 0)
    most = np.argsort(base.scores.ravel(), kind="stable")[:top]
    followed = [int(i) for i in most if base.scores.flat[i] < 0]
    certain = turned & (base.q < _CERTAIN) & (other.q < _CERTAIN)
    return {
        **told,
        "spearman": spearman(base.scores.ravel(), other.scores.ravel()).to_json(),
        "anti_biased_in_base": int((base.scores < 0).sum()),
        "flips": int(turned.sum()),
        "certain_flips": int(certain.sum()),
        "flips_back": int(((base.scores > 0) & (other.scores < 0)).sum()),
        "followed": [_named(np.unravel_index(i, base.scores.shape)) for i in followed],
        "followed_flips": sum(bool(turned.flat[i]) for i in followed),
        "reason": "",
    }


def flips(base: ScoredModel, other: ScoredModel) -> list[Row]:
    """Every anti-biased head of the base that became biased, the one that was most anti-biased first."""
    if base.scores.shape != other.scores.shape:
        return []
    places = np.argwhere((base.scores < 0) & (other.scores > 0))
    rows = []
    for layer, head in sorted(places.tolist(), key=lambda place: float(base.scores[tuple(place)])):
        q = [float(model.q[layer, head]) for model in (base, other)]
        told = {
            "study": "compare_heads",
            "base": base.name,
            "model": other.name,
            "layer": layer + 1,
            "head": head + 1,
        }
        told |= {"score_base": float(base.scores[layer, head]), "score": float(other.scores[layer, head])}
        rows.append({**told, "certain": all(value < _CERTAIN for value in q)})  # NaN: no q, not certain
    return rows


def _score_rows(number: int, model: ScoredModel) -> list[Row]:
    return [
        {
            "number": number + 1,
            "model": model.name,
            "layer": layer + 1,
            "head": head + 1,
            "score": float(model.scores[layer, head]),
        }
        for layer, head in np.ndindex(model.scores.shape)
    ]


def _named(place: Sequence[Any]) -> str:
    return f"{int(place[0]) + 1}-{int(place[1]) + 1}"


def _shape(model: ScoredModel) -> str:
    return " x ".join(map(str, model.scores.shape))


def _size(seat: Mapping[str, Any]) -> float | None:
    return None if seat["value"] is None else abs(float(seat["value"]))
