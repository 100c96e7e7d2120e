"""`make calibrate`: how often does the audit claim something of models that know nothing, and of others?

Null twins of the shipped models, whose rows are really exchanged, and copies with random weights go through a
small audit each (SIZES). Every claim that the headline can make must be false in at most 5 % of them. Claims
are those of report/headline.py, judged as on a page; seeds differ from those of the tests.

`--planted N --rise 0.3`: twins into which an association is planted that raises |SEAT| so far
(benchmarks/plants.py). Of those the audit must speak.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from scipy import stats

from benchmarks.plants import planted_twin
from levelhead.models.model import Model, load
from levelhead.models.twins import draw_twin, twin_copy
from levelhead.report.headline import headline_claims
from levelhead.results.runs import open_audit
from levelhead.results.settings import AuditSizes
from levelhead.studies.extent import AuditSettings

SIZES = AuditSizes(
    experiments=("scores",),
    occupations=(6, 2),
    abilities=30,
    sentences=40,
    backgrounds=1,
    starts=0,
    screen=(2, 2),
    null=19,
)
FIRST_SEED = 7_000  # of the figures; tests use others


@dataclass(frozen=True)
class Subject:
    """A model without meaning, or with nothing but what was planted."""

    base: str
    kind: str  # "twin", "random weights" or "planted"
    seed: int
    rise: float = 0.0  # of |SEAT|, by the plant


def meaningless(subject: Subject, device: str) -> Model:
    """The subject as a model of its own."""
    model = load(subject.base, device=device)
    if subject.kind == "twin":
        return twin_copy(model, draw_twin(model, subject.seed))
    if subject.kind == "planted":
        return planted_twin(model, subject.seed, subject.rise)
    torch.manual_seed(subject.seed)
    with torch.no_grad():
        for name, weight in model.hf.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, 0.02)
            else:
                weight.fill_(1.0 if name.endswith("weight") else 0.0)
    return model


def claims_of(subject: Subject, device: str) -> dict[str, bool]:
    """Which claims a small audit of the subject makes, by their name."""
    from levelhead.auditing import audit

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = meaningless(subject, device)
        model.hf.save_pretrained(folder / "model")
        model.tokenizer.save_pretrained(folder / "model")
        audit(
            str(folder / "model"),
            folder / "run",
            AuditSettings(sizes=SIZES, seed=subject.seed),
            device=device,
        )
        return {name: holds for name, _, holds in headline_claims(open_audit(folder / "run"))}


def _claims(job: tuple[Subject, str]) -> tuple[Subject, dict[str, bool]]:
    return job[0], claims_of(*job)


def subjects(
    bases: Sequence[str], twins: int, random: int, planted: int = 0, rise: float = 0.3
) -> Iterator[Subject]:
    """Twins, random models and planted ones, shared out over the bases."""
    for number in range(twins):
        yield Subject(bases[number % len(bases)], "twin", FIRST_SEED + number)
    for number in range(random):
        yield Subject(bases[number % len(bases)], "random weights", FIRST_SEED + 500 + number)
    for number in range(planted):
        yield Subject(bases[number % len(bases)], "planted", FIRST_SEED + 700 + number, rise)


def table(results: Sequence[tuple[Subject, dict[str, bool]]]) -> list[dict[str, object]]:
    """How often every claim was made, with the exact 95 % interval (Clopper and Pearson)."""
    spoken: Counter[str] = Counter()
    tested: Counter[str] = Counter()
    for _, claims in results:
        for name, holds in {**claims, "any claim of the page": any(claims.values())}.items():
            tested[name] += 1
            spoken[name] += holds
    lines = []
    for name, n in tested.items():
        interval = stats.binomtest(spoken[name], n).proportion_ci(method="exact")
        lines.append(
            {
                "claim": name,
                "made": spoken[name],
                "models": n,
                "lower": round(interval.low, 3),
                "upper": round(interval.high, 3),
            }
        )
    return lines


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--twins", type=int, default=100)
    parser.add_argument("--random", type=int, default=40)
    parser.add_argument("--planted", type=int, default=0)
    parser.add_argument("--rise", type=float, default=0.3)
    parser.add_argument("--models", default="lh:bert-mini,lh:gpt-mini")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("calibration.json"))
    given = parser.parse_args()
    chosen = subjects(given.models.split(","), given.twins, given.random, given.planted, given.rise)
    jobs = [(each, given.device) for each in chosen]
    results = []
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for result in pool.map(_claims, jobs):
            results.append(result)
            lines = {
                kind: table([r for r in results if r[0].kind == kind])
                for kind in ("twin", "random weights", "planted")
            }
            given.out.write_text(json.dumps(lines, indent=1), encoding="utf-8")
    for kind, rows in lines.items():
        for row in rows:
            counts = f"{row['made']:3} of {row['models']:3}, at most {row['upper']:.3f}"
            print(f"{kind:15} {row['claim']:28} {counts}")


if __name__ == "__main__":
    main()
