"""How often the arena certifies what is not there, and how often it certifies a planted bias away.

    python -m benchmarks.arena_error --nulls 40 --plants 10 --device cuda

Null models are twins of a model: the same weights, words without meaning. Whatever is certified on one is
wrong. Planted models are twins into which three heads tie word groups together (plants.py): a mitigation
should be certified to take that away. Each line is printed as soon as it is known.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from scipy import stats

from benchmarks.plants import planted_twin
from levelhead.errors import CannotDo
from levelhead.models.model import Model, load
from levelhead.models.twins import draw_twin, twin_copy, twin_seed
from levelhead.scoring.natural import COSINE
from levelhead.studies.mitigating.settings import MitigateSettings
from levelhead.studies.mitigating.study import run_mitigations

_APART = 7_000  # the seed of the models here, apart from those that detection draws
_TRIES = 5


def certified(model: Model, settings: MitigateSettings) -> list[str]:
    """The mitigations that the arena certifies on a model."""
    with TemporaryDirectory() as folder:
        run = run_mitigations(model, settings, Path(folder) / "run")
        return [each.name for each in run.certified]


def null_model(model: Model, number: int) -> Model:
    """A twin of a model."""
    return twin_copy(model, draw_twin(model, twin_seed(_APART, number)))


def planted_model(model: Model, number: int, rise: float) -> Model:
    """A twin with a planted association: the first seed from this one on whose heads can carry it."""
    for tries in range(_TRIES):
        try:
            return planted_twin(model, twin_seed(_APART + number, tries), rise)
        except CannotDo:
            continue
    raise CannotDo(f"No twin of {model.name} takes a plant of {rise:g}.")


def counted(title: str, made: Callable[[int], Model], runs: int, settings: MitigateSettings) -> int:
    """In how many of these models something is certified."""
    hits = 0
    for number in range(runs):
        names = certified(made(number), settings)
        hits += bool(names)
        print(f"{title} {number + 1}/{runs}: {', '.join(names) or 'nothing'} certified", flush=True)
    if runs:
        low, high = stats.binomtest(hits, runs).proportion_ci(0.95)
        print(f"{title}: certified in {hits} of {runs} [{low:.3f}, {high:.3f}]", flush=True)
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="lh:bert-mini")
    parser.add_argument("--nulls", type=int, default=40)
    parser.add_argument("--plants", type=int, default=10)
    parser.add_argument("--null-models", type=int, default=9, help="that each arena draws itself")
    parser.add_argument("--methods", default="", help="with commas; default: the quick ones")
    parser.add_argument("--rise", type=float, default=0.5, help="of |SEAT|, planted")
    parser.add_argument("--device", default=None)
    asked = parser.parse_args()
    model = load(asked.model, device=asked.device)
    methods = tuple(name.strip() for name in asked.methods.split(",") if name.strip())
    settings = MitigateSettings(methods=methods, null=asked.null_models, spillover=False)
    planted = MitigateSettings(methods=methods, objective=COSINE, null=asked.null_models, spillover=False)
    wrong = counted("null model", partial(null_model, model), asked.nulls, settings)
    found = counted("planted model", partial(planted_model, model, rise=asked.rise), asked.plants, planted)
    print(f"null models: {asked.nulls - wrong} of {asked.nulls} certify nothing (at least 95 % should)")
    print(f"planted models: {found} of {asked.plants} certified away (at least 90 % should)")


if __name__ == "__main__":
    main()
