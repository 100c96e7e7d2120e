"""How often a mitigation is called certified without qualification although its gain outside is none.

    python -m benchmarks.outside_error --processes 16 --device cuda --out outside-error.json

Null models (arena_error.py) have no bias that words mean: whatever is certified there is wrong. Overfitted
models are distilled on the very items that test them, so that they pass inside; what they gain on other text
is little or nothing. Each is also scored on shipped sentences that its certificate did not use: a verdict
*certified* is wrong where the mirror gap of those does not fall significantly (p > 0.05, one-sided).
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from scipy import stats

from benchmarks.arena_error import NULL, null_model
from levelhead import __version__
from levelhead.engine.distilling import Distilling, aligned
from levelhead.engine.training import Lesson, TrainingPlan
from levelhead.measures.certified import p_at_most
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import PREFERENCE
from levelhead.scoring.outside import drawn_outside, mirror_gaps, outside_text
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.protocol import register_mitigation
from levelhead.studies.mitigate.run import detect, mitigate, shipped_battery
from levelhead.studies.mitigate.settings import MitigateSettings
from levelhead.studies.mitigate.training import Means, TrainedMitigation

OVERFITTED = "overfitted model"
_FRESH = 300  # sentences that the certificate did not use
_LENGTH = 64  # tokens of a text


@dataclass(frozen=True)
class Overfitted(TrainedMitigation):
    """The symmetrized model distilled on the items of part C, which test it."""

    name = "overfitted"
    own_plan = TrainingPlan(steps=240, batch_size=16, word_vectors=False)

    def why_not(self, model: Model, fit: Battery) -> str:
        return ""

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        settings = MitigateSettings(seed=self.means.seed)
        tested = parts(shipped_battery(settings, model), settings.seed).test.battery
        triples = [each for p in tested.triples.pairs for each in (p.original, p.swapped) if each is not None]
        texts = [Text(f"{t.context} {each}") for t in triples for each in (t.stereotype, t.anti)]
        found = aligned(model, swap_for(fit.test), texts, _LENGTH).texts
        lesson = Distilling(model, swap_for(fit.test), found)
        return lesson, lesson


@dataclass(frozen=True)
class Outcome:
    """What the arena says of the candidate that gains most in one model, and what it does on fresh text."""

    kind: str
    number: int
    detected: bool
    verdict: str
    gain: float | None = None  # inside, nats
    before: float | None = None  # the mirror gap of the certificate
    after: float | None = None
    p_outside: float | None = None
    fresh_before: float | None = None  # the mirror gap of the sentences that the certificate did not use
    fresh_after: float | None = None
    p_fresh: float | None = None

    @property
    def wrong(self) -> bool:
        """Whether it is called certified without qualification, and does not gain on fresh text."""
        return self.verdict == "certified" and (
            self.kind == NULL or self.p_fresh is None or self.p_fresh > 0.05
        )


def outcome(kind: str, number: int, base: str, steps: int, device: str | None) -> Outcome:
    """One model in the arena, on one core."""
    torch.set_num_threads(1)
    model = load(base, device=device)
    if kind == NULL:
        model = null_model(model, number)
        settings = MitigateSettings(methods=("symmetrized",), null=9, spillover=False, writing=False)
        found = detect(model, parts(shipped_battery(settings, model), 0), settings)
        if not found.detected:
            return Outcome(kind, number, False, "not tested (no significant bias)")
    else:
        register_mitigation(Overfitted())
        settings = MitigateSettings(
            methods=("overfitted",),
            objective=PREFERENCE,
            # few and many steps, so that some hardly learn and others forget other text
            steps=steps * (1 + number % 4),
            null=9,
            spillover=False,
            writing=False,
            seed=number,
        )
    with TemporaryDirectory() as folder:
        run = mitigate(model, settings, Path(folder) / "run")
    best = max(run.candidates, key=lambda each: each.certificate.gain)
    tested, there = best.certificate, best.certificate.outside
    known = Outcome(kind, number, True, tested.verdict, tested.gain)
    if there is None or kind == NULL:
        return known
    test = shipped_battery(settings, model).test
    whole = outside_text(model, "", test)
    used = {*drawn_outside(model, whole, settings.seed).sentences}
    left = [i for i, text in enumerate(whole.sentences) if text not in used][:_FRESH]
    sentences, documents = (tuple(of[i] for i in left) for of in (whole.sentences, whole.documents))
    fresh = replace(whole, sentences=sentences, documents=documents)
    made = Overfitted(Means(steps=settings.steps, seed=settings.seed)).candidates(
        model, parts(shipped_battery(settings, model), settings.seed).fit
    )
    chosen = next(each for each in made if each.strength == best.strength)
    gap = mirror_gaps(model, fresh, swap_for(test), [(), chosen.edits]).paired(1)
    return replace(
        known,
        before=there.before,
        after=there.after,
        p_outside=there.p_gain,
        fresh_before=gap.mean(gap.before),
        fresh_after=gap.mean(gap.after),
        p_fresh=p_at_most(gap.before - gap.after, 0.0, gap),
    )


def outcomes(asked: argparse.Namespace) -> Iterator[Outcome]:
    """Every outcome as soon as it is there."""
    cases = [(OVERFITTED, n) for n in range(asked.overfitted)] + [(NULL, n) for n in range(asked.nulls)]
    with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn")) as pool:
        more = (asked.model, asked.steps, asked.device)
        for future in as_completed([pool.submit(outcome, *case, *more) for case in cases]):
            yield future.result()


def record(found: list[Outcome], command: str) -> dict[str, object]:
    """The record that benchmarks/result_pages.py makes a page of."""
    rows: list[list[str]] = [
        ["models", "number", "certified", "certified on our items only", "other verdicts", "wrong"],
        ["---", *["---:"] * 5],
    ]
    figures = {}
    for kind in (NULL, OVERFITTED):
        own = [each for each in found if each.kind == kind]
        full = sum(each.verdict == "certified" for each in own)
        only = sum(each.verdict == "certified on our items only" for each in own)
        wrong = sum(each.wrong for each in own)
        low, high = stats.binomtest(wrong, len(own)).proportion_ci(0.95) if own else (0.0, 1.0)
        share = f"{wrong} [{100 * low:.0f}, {100 * high:.0f} %]"
        rows.append([kind, *map(str, (len(own), full, only, len(own) - full - only)), share])
        figures[f"wrong {kind}s"] = f"{wrong} of {len(own)}"
    return {
        "made": {
            "command": f"`{command}`",
            "machine": f"{platform.system()} on {platform.machine()}, torch {torch.__version__}",
            "version": f"levelhead {__version__}",
        },
        "tables": {"verdicts": rows},
        "figures": figures,
        "values": [asdict(each) for each in sorted(found, key=lambda each: (each.kind, each.number))],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="lh:gpt-mini")
    parser.add_argument("--nulls", type=int, default=40)
    parser.add_argument("--overfitted", type=int, default=20)
    parser.add_argument("--steps", type=int, default=120, help="once to four times so many for each model")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", type=Path, default=None, help="the record that a result page is made of")
    asked = parser.parse_args()
    found = []
    for each in outcomes(asked):
        found.append(each)
        print(json.dumps(asdict(each)), flush=True)
        if asked.out is not None:
            command = (
                f"python -m benchmarks.outside_error --model {asked.model} --nulls {asked.nulls} "
                f"--overfitted {asked.overfitted} --steps {asked.steps}"
            )
            text = json.dumps(record(found, command), indent=1, ensure_ascii=False)
            asked.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
