"""How often does an audit speak where there is nothing, and where there is something?

    python -m benchmarks.calibrate --model lh:bert-mini --twins 50 --random 20 -o calibration.jsonl
    python -m benchmarks.calibrate --model lh:bert-mini --planted 20 --rise 0.3 -o calibration.jsonl

Models without meaning: twins of a model (its words' rows dealt out anew) and models of its shape with
random weights. Each is audited as any model would be, with twins of its own as its null. A claim that holds
there is a false alarm: at most 5 % may be, counted with Clopper and Pearson's exact interval, alone and
after Holm's correction on a page of all claims. Models with a known bias: a twin into which an association
is planted that raises |SEAT| by `--rise`. Lines are added to the file as they come, one for each model;
what is there already is not asked again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks.calibrated_claims import CLAIMS, Evidence, Subject
from levelhead.edits.gates import all_heads
from levelhead.measures.catalog import ALPHA
from levelhead.measures.corrections import holm
from levelhead.models.model import Model, load
from levelhead.models.sources import Source
from levelhead.models.twins import draw_twin, twin_copy
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.scoring.seat import absolute_seats
from levelhead.scoring.word_table import word_table
from levelhead.studies.planted.planting import Planter

PLANTED_HEADS = 3
_STRONGEST = 4.0  # of a plant; what does not raise |SEAT| enough then is tried in other heads
_HALVINGS = 5  # of the range of strengths
_TRIES = 10
_SEEDS_APART = 1_000_003  # between a model's own seed and those of its twins
PAGE = "any claim of the page"


@dataclass(frozen=True)
class Audited:
    """One model and the evidence for every claim."""

    model: str
    kind: str  # "twin", "random" or "planted 0.3"
    seed: int
    evidence: tuple[Evidence, ...]

    def spoken(self) -> dict[str, bool]:
        """Whether each claim holds alone, and whether any holds on a page of all of them."""
        alone = {each.claim: each.p < ALPHA and each.beyond for each in self.evidence}
        printed = [each for each in self.evidence if each.on_page]
        adjusted = holm([each.p for each in printed])
        page = any(p < ALPHA and each.beyond for p, each in zip(adjusted, printed, strict=True))
        return {**alone, PAGE: page}


# ---- models whose truth is known


@dataclass(frozen=True)
class Known:
    """A model with its kind and the seed that it was made with."""

    kind: str
    seed: int
    model: Model


def random_weights(model: Model, seed: int) -> Model:
    """A model of the same shape with weights that never saw a text."""
    torch.manual_seed(seed)
    hf = type(model.hf)(model.hf.config).to(model.device).eval().requires_grad_(False)
    return Model(Source(f"{model.name} random {seed}", hf, model.tokenizer, "random weights", ()))


def shuffled(model: Model, seed: int) -> Model:
    """A twin as a model of its own, so that it can have twins itself."""
    return twin_copy(model, draw_twin(model, seed))


def planted(model: Model, seed: int, rise: float, bias: str = "gender") -> Model:
    """A twin into which an association X-A, Y-B is planted that raises SEAT in its direction by `rise`."""
    twin, test, rng = shuffled(model, seed), load_words(bias), np.random.default_rng(seed)
    table = word_table(test, template_contexts(test, 2))
    contexts = template_contexts(test, 6)
    planter = Planter(twin, [context for i, context in enumerate(contexts) if i % 6 > 1])
    before = absolute_seats(twin, table, [()])[0]
    for _ in range(_TRIES):
        chosen = [all_heads(twin)[i] for i in rng.permutation(len(all_heads(twin)))[:PLANTED_HEADS]]
        low, high = 0.0, _STRONGEST
        if absolute_seats(planter.planted(dict.fromkeys(chosen, high)), table, [()])[0] - before < rise:
            continue
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            copy = planter.planted(dict.fromkeys(chosen, middle))
            enough = absolute_seats(copy, table, [()])[0] - before >= rise
            low, high = (low, middle) if enough else (middle, high)
        return planter.planted(dict.fromkeys(chosen, high))
    raise SystemExit(f"No plant into {PLANTED_HEADS} heads of {twin.name} raises SEAT by {rise}.")


# ---- counting


@dataclass(frozen=True)
class Rate:
    """How often a claim was made."""

    times: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's 95 % interval, exact for every count."""
        low = 0.0 if not self.times else stats.beta.ppf(0.025, self.times, self.of - self.times + 1)
        high = 1.0 if self.times == self.of else stats.beta.ppf(0.975, self.times + 1, self.of - self.times)
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.times} of {self.of}: {self.times / self.of:.1%} [{low:.1%}, {high:.1%}]"


def rates(audited: Sequence[Audited]) -> dict[str, Rate]:
    """How often each claim was made, by claim; a claim that a model cannot be asked does not count there."""
    spoken = [each.spoken() for each in audited]
    names = dict.fromkeys(name for each in spoken for name in each)
    return {
        name: Rate(sum(each.get(name, False) for each in spoken), sum(name in each for each in spoken))
        for name in names
    }


def read(path: Path) -> list[Audited]:
    """What a file holds; a line that was cut off is left out."""
    audited = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            fields = json.loads(line)
        except json.JSONDecodeError:
            continue
        evidence = tuple(Evidence(**each) for each in fields.pop("evidence"))
        audited.append(Audited(**fields, evidence=evidence))
    return audited


def add(path: Path, audited: Audited) -> None:
    """Add a line to the file, on a line of its own even where the last one was cut off."""
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if cut_off else "") + json.dumps(asdict(audited)) + "\n")


# ---- the command


def _subjects(options: argparse.Namespace, model: Model, done: set[tuple[str, str, int]]) -> Iterator[Known]:
    """Everything that is still to be audited."""
    seeds = {
        "twin": options.twins,
        "random": options.random,
        f"planted {options.rise:g}": options.planted,
    }
    for kind, number in seeds.items():
        for seed in range(options.seed, options.seed + number):
            if (model.name, kind, seed) in done:
                continue
            if kind == "twin":
                yield Known(kind, seed, shuffled(model, seed))
            elif kind == "random":
                yield Known(kind, seed, random_weights(model, seed))
            else:
                yield Known(kind, seed, planted(model, seed, options.rise, options.words))


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit what is asked for, add it to the file, and print the rates of all that the file holds."""
    options = _options(arguments)
    path = Path(options.output)
    asked = [CLAIMS[name] for name in options.claims]
    for name in options.model:
        model = load(name, device=options.device)
        done = {(each.model, each.kind, each.seed) for each in read(path)}
        for known in _subjects(options, model, done):
            about = Subject(known.model, options.words, options.null, known.seed + _SEEDS_APART)
            evidence = tuple(each for claims in asked for each in claims(about))
            add(path, Audited(name, known.kind, known.seed, evidence))
            print(f"{name}, {known.kind} {known.seed}: {len(evidence)} claims tested", file=sys.stderr)
    _print(read(path))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    parser.add_argument("--model", nargs="+", default=["lh:bert-mini", "lh:gpt-mini", "lh:nli-mini"])
    parser.add_argument("--twins", type=int, default=0, help="models without meaning: twins")
    parser.add_argument("--random", type=int, default=0, help="models without meaning: random weights")
    parser.add_argument("--planted", type=int, default=0, help="models with a planted bias")
    parser.add_argument("--rise", type=float, default=0.3, help="of SEAT, by the plant")
    parser.add_argument("--claims", nargs="+", choices=list(CLAIMS), default=list(CLAIMS))
    parser.add_argument("--words", default="gender", help="a shipped word list or a file")
    parser.add_argument("--null", type=int, default=19, help="twins of each model, its null")
    parser.add_argument("--seed", type=int, default=0, help="the first model's; use others than for tuning")
    parser.add_argument("--device", default=None)
    parser.add_argument("-o", "--output", default="calibration.jsonl")
    return parser.parse_args(arguments)


def _print(audited: Sequence[Audited]) -> None:
    kinds = dict.fromkeys(each.kind for each in audited)
    for kind in kinds:
        some = [each for each in audited if each.kind == kind]
        table = Table("claim", "made", title=f"{kind}: {len(some)} models", title_justify="left")
        for name, rate in rates(some).items():
            table.add_row(name, str(rate))
        Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
