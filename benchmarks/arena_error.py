"""How often the arena certifies what is not there, and how often it certifies a planted bias away.

    python -m benchmarks.arena_error --nulls 40 --plants 10 --processes 16
    python -m benchmarks.arena_error --every 2 --null-models 5 --kept arena.jsonl

Null models keep the same weights, words without meaning. Whatever is certified on one
is wrong. Planted models are copies of the model itself in which three heads tie word groups together
(plants.py): a mitigation should be certified to lower that. (Of a planted null model no cost can be told: it
reads
nothing, and any change turns half of its answers around.) A bias that is not detected is never certified
away, so there the mitigations are not even tried. Each line is printed as soon as it is known, and is kept in
a file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from scipy import stats

from benchmarks.plants import planted_copy
from levelhead.errors import CannotDo
from levelhead.models.model import Model, load
from levelhead.models.null_model import draw_null_model, null_model_copy, null_model_seed
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import COSINE
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.run import detect, mitigate, shipped_battery
from levelhead.studies.mitigate.settings import MitigateSettings

_APART = 7_000  # the seed of the models here, apart from those that detection draws
_TRIES = 5
NULL, PLANTED = "null model", "planted model"


@dataclass(frozen=True)
class Outcome:
    """What the arena says of one model."""

    kind: str
    number: int
    detected: bool
    p: float | None  # of the bias against null models
    certified: tuple[str, ...]


@dataclass(frozen=True)
class Arena:
    """The arena at one size.

    every: n, where each n-th triple and sentence is asked
    look_first: whether mitigations are tried only after the bias was detected: cheaper where it rarely is
    """

    settings: MitigateSettings
    every: int = 1
    look_first: bool = True

    def battery(self, model: Model) -> Battery:
        """The shipped items, thinned out."""
        whole = shipped_battery(self.settings, model)
        return replace(
            whole, triples=whole.triples.every(self.every), sentences=whole.sentences[:: self.every]
        )

    def outcome(self, kind: str, number: int, model: Model) -> Outcome:
        """Detect, and try the mitigations where there is something to take away."""
        battery = self.battery(model)
        if self.look_first:
            found = detect(model, parts(battery, self.settings.seed), self.settings)
            if not found.detected:
                return Outcome(kind, number, found.detected, found.p, ())
        with TemporaryDirectory() as folder:
            run = mitigate(model, self.settings, Path(folder) / "run", battery)
            seen, names = run.detected, tuple(each.name for each in run.certified)
        assert seen is not None
        return Outcome(kind, number, seen.detected, seen.p, names)


def null_model(model: Model, number: int) -> Model:
    """A null model of a model."""
    return null_model_copy(model, draw_null_model(model, null_model_seed(_APART, number)))


def planted_model(model: Model, number: int, rise: float) -> Model:
    """A copy with a planted association: the first seed from this one on whose heads can carry it."""
    for tries in range(_TRIES):
        try:
            return planted_copy(model, null_model_seed(_APART + number, tries), rise)
        except CannotDo:
            continue
    raise CannotDo(f"No copy of {model.name} takes a plant of {rise:g}.")


@dataclass(frozen=True)
class Case:
    """One model that the arena is tried on: its kind and number, what it is made of, and what it is asked."""

    kind: str
    number: int
    base: str
    arena: Arena
    rise: float  # of |SEAT|, in a planted model
    device: str | None = None

    def outcome(self) -> Outcome:
        """Make the model and ask it, on one core."""
        torch.set_num_threads(1)
        model = load(self.base, device=self.device)
        plant = partial(planted_model, rise=self.rise)
        made = (plant if self.kind == PLANTED else null_model)(model, self.number)
        return self.arena.outcome(self.kind, self.number, made)


def outcomes_of(cases: Sequence[Case], kept: Path | None, processes: int) -> Iterator[Outcome]:
    """The outcome of every case, as soon as it is there; those in the file are not asked again."""
    known = known_outcomes(kept)
    yield from (known[case.kind, case.number] for case in cases if (case.kind, case.number) in known)
    left = [case for case in cases if (case.kind, case.number) not in known]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(case.outcome) for case in left]):
            outcome = future.result()
            if kept is not None:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            yield outcome


def counted(kind: str, outcomes: Sequence[Outcome]) -> int:
    """In how many models of a kind something is certified; printed with its interval."""
    own = [each for each in outcomes if each.kind == kind]
    hits = sum(bool(each.certified) for each in own)
    if own:
        low, high = stats.binomtest(hits, len(own)).proportion_ci(0.95)
        print(f"{kind}: certified in {hits} of {len(own)} [{low:.3f}, {high:.3f}]", flush=True)
    return hits


def known_outcomes(kept: Path | None) -> dict[tuple[str, int], Outcome]:
    """What an earlier, killed run has found; it is for the caller to give it the same options."""
    if kept is None or not kept.exists():
        return {}
    lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    found = [Outcome(**{**line, "certified": tuple(line["certified"])}) for line in lines]
    return {(each.kind, each.number): each for each in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="lh:bert-mini")
    parser.add_argument("--nulls", type=int, default=40)
    parser.add_argument("--plants", type=int, default=10)
    parser.add_argument("--null-models", type=int, default=9, help="that each arena draws itself")
    parser.add_argument("--methods", default="", help="with commas; default: the quick ones")
    parser.add_argument("--rise", type=float, default=0.5, help="of |SEAT|, planted")
    parser.add_argument("--every", type=int, default=1, help="ask every n-th triple and sentence")
    parser.add_argument("--kept", type=Path, default=None, help="a file to keep outcomes in, and go on from")
    parser.add_argument("--device", default=None)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    methods = tuple(name.strip() for name in asked.methods.split(",") if name.strip())
    settings = MitigateSettings(methods=methods, null=asked.null_models, spillover=False)
    planted = Arena(replace(settings, objective=COSINE), asked.every, look_first=False)
    kinds = ((PLANTED, planted, asked.plants), (NULL, Arena(settings, asked.every), asked.nulls))
    cases = [
        Case(kind, number, asked.model, arena, asked.rise, asked.device)
        for kind, arena, runs in kinds
        for number in range(runs)
    ]
    outcomes = []
    for outcome in outcomes_of(cases, asked.kept, asked.processes):
        outcomes.append(outcome)
        seen = "" if outcome.detected else "no bias detected, "
        names = ", ".join(outcome.certified) or "nothing"
        print(f"{outcome.kind} {outcome.number + 1}: {seen}{names} certified", flush=True)
    wrong, found = counted(NULL, outcomes), counted(PLANTED, outcomes)
    print(f"null models: {asked.nulls - wrong} of {asked.nulls} certify nothing (at least 95 % should)")
    print(f"planted models: {found} of {asked.plants} certified away (at least 90 % should)")


if __name__ == "__main__":
    main()
