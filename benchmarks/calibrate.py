"""`make calibrate`: how often does the audit claim something of models that know nothing, and of others?

Null models of the shipped models, whose rows are really exchanged, and copies with random weights go through
a small audit each (SIZES, with the whole gender list). Every claim that the headline can make must be false
in at most 5 % of them. Claims are those of inference/headline.py, judged as on a page; seeds differ from
those of the tests.

`--planted N --rise 0.3,0.5`: N null models for each rise, into which an association is planted that raises
|SEAT| so far (benchmarks/plants.py). Of those the audit must speak. They are asked for the association alone,
which must hold at its share of the error, as on a page whose other claims do not hold. `--association` asks
null models for nothing else either, which takes a fifth of the time.

Every finished model is a line of claims.jsonl in the folder --out; a run that was cut goes on from there, and
models come in a drawn order, so that what it has is a fair part of the whole.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from benchmarks.plants import planted_null_model
from levelhead.inference.claims import MAIN_SHARE
from levelhead.inference.headline import headline_claims
from levelhead.measures.catalog import ALPHA
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model, load
from levelhead.models.null_model import draw_null_model, null_model_copy, null_model_seed
from levelhead.probes.contexts import TEMPLATES, template_contexts
from levelhead.probes.words import ALL_WORDS, load_words
from levelhead.runs.presets import AuditSizes
from levelhead.studies.audit import Audit
from levelhead.studies.audit.run import audit
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.heads.null_models import ask_seat_rows

SIZES = AuditSizes(
    score_contexts=3,
    counter_sentences=150,
    triples=2,
    occupations=(6, 2),
    abilities=30,
    sentences=40,
    backgrounds=1,
    head_nulls=5,
    triple_nulls=5,
    prompt_nulls=5,
)
FIRST_SEED = 9_000  # of the figures; tests use others
ASSOCIATION, ANY = "association", "any claim of the page"
CERTIFIED = "a mitigation is certified"
FILE = "claims.jsonl"


@dataclass(frozen=True)
class Subject:
    """A null model, or with nothing but what was planted."""

    base: str
    kind: str  # "null model", "random weights" or "planted"
    seed: int
    rise: float = 0.0  # of |SEAT|, by the plant


@dataclass(frozen=True)
class Asking:
    """What models are asked, and where they run."""

    device: str = "cpu"
    dtype: str | None = None  # as for load; plants are fitted in float32 all the same
    sizes: AuditSizes = SIZES
    association_only: bool = False  # of every model; of planted ones always


@dataclass(frozen=True)
class Outcome:
    """Which claims the audit of a subject made, or why there was no audit."""

    subject: Subject
    claims: Mapping[str, bool]
    seconds: float  # of the process's CPU
    reason: str = ""

    def line(self) -> str:
        """The outcome as a line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Outcome:
        """The outcome that `line` wrote."""
        data = json.loads(line)
        return cls(Subject(**data["subject"]), data["claims"], data["seconds"], data["reason"])


# ---- one model


def subject_model(subject: Subject, device: str) -> Model:
    """The subject as a model of its own."""
    model = load(subject.base, device=device)
    if subject.kind == "null model":
        return null_model_copy(model, draw_null_model(model, subject.seed))
    if subject.kind == "planted":
        return planted_null_model(model, subject.seed, subject.rise)
    torch.manual_seed(subject.seed)
    with torch.no_grad():
        for name, weight in model.hf.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, 0.02)
            else:
                weight.fill_(1.0 if name.endswith("weight") else 0.0)
    return model


def outcome_of(subject: Subject, asking: Asking) -> Outcome:
    """A small audit of the subject, and which claims it makes; one that fails says why."""
    torch.set_num_threads(1)
    start = time.process_time()
    claims: dict[str, bool] = {}
    reason = ""
    try:
        claims = claims_of(subject, asking)
    except Exception as error:  # one model of many must not end the others
        reason = f"{type(error).__name__}: {error}"
    return Outcome(subject, claims, time.process_time() - start, reason)


def claims_of(subject: Subject, asking: Asking) -> dict[str, bool]:
    """Whether the page of a small audit makes each of its claims; of a planted model, the association."""
    if asking.association_only or subject.kind == "planted":
        return {ASSOCIATION: holds_alone(association(subject, asking))}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = subject_model(subject, asking.device)
        model.hf.save_pretrained(folder / "model")
        model.tokenizer.save_pretrained(folder / "model")
        settings = AuditSettings(sizes=asking.sizes, seed=subject.seed)
        audit(str(folder / "model"), settings, folder / "run", device=asking.device, dtype=asking.dtype)
        run = Audit.open(folder / "run")
        return {name: holds for name, _, holds in headline_claims(run)} | {CERTIFIED: bool(run.recommended)}


def association(subject: Subject, asking: Asking) -> Measurement:
    """SEAT of the gender list against null models of the subject."""
    model, test = subject_model(subject, asking.device), load_words("gender")
    if asking.dtype is not None:
        model.hf.to(getattr(torch, asking.dtype))
    planned = asking.sizes.null
    drawn = (draw_null_model(model, null_model_seed(subject.seed, number)) for number in range(planned))
    contexts = template_contexts(test, asking.sizes.contexts or len(TEMPLATES))
    return ask_seat_rows(model, test, contexts, drawn, planned=planned).rows[ALL_WORDS]


def holds_alone(seat: Measurement) -> bool:
    """Whether the association holds on a page on which no other claim does."""
    return seat.null is not None and seat.null.p_value < MAIN_SHARE * ALPHA and seat.beyond(seat.null.floor)


# ---- all models


def subjects(
    bases: Sequence[str], null_models: int, random: int, planted: int = 0, rises: Sequence[float] = ()
) -> Iterator[Subject]:
    """Null models, random models and, for each rise, planted ones, shared out over the bases."""
    for number in range(null_models):
        yield Subject(bases[number % len(bases)], "null model", FIRST_SEED + number)
    for number in range(random):
        yield Subject(bases[number % len(bases)], "random weights", FIRST_SEED + 500 + number)
    for rise in rises:
        for number in range(planted):
            yield Subject(bases[number % len(bases)], "planted", FIRST_SEED + 700 + number, rise)


def finished(file: Path) -> dict[Subject, Outcome]:
    """What an earlier run of the same folder has done; a last line that was cut off does not count."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    outcomes = [Outcome.of_line(line) for line in lines if line.endswith("\n")]
    return {outcome.subject: outcome for outcome in outcomes}


def outcomes_of(
    chosen: Iterable[Subject], file: Path, processes: int, asking: Asking
) -> dict[Subject, Outcome]:
    """The outcome of every subject; those of the file are not asked again, others are added to it."""
    done = finished(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(outcome.line() for outcome in done.values()), encoding="utf-8")
    wanted = list(chosen)
    left = [subject for subject in wanted if subject not in done]
    order = np.random.default_rng(len(wanted)).permutation(len(left))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(outcome_of, left[i], asking) for i in order]):
            outcome = future.result()
            done[outcome.subject] = outcome
            with file.open("a", encoding="utf-8") as lines:
                lines.write(outcome.line())
    return {subject: done[subject] for subject in wanted}


# ---- what is printed


@dataclass(frozen=True)
class Share:
    """How often a claim was made, with the exact 95 % interval (Clopper and Pearson)."""

    claim: str
    made: int
    models: int

    @property
    def percent(self) -> str:
        """The share with its interval."""
        interval = stats.binomtest(self.made, self.models).proportion_ci(method="exact")
        return f"{100 * self.made / self.models:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"

    def __str__(self) -> str:
        return f"{self.claim:28} {self.made:3} of {self.models:3}   {self.percent}"


def shares(outcomes: Sequence[Outcome]) -> list[Share]:
    """Every claim that was tested in any of the models, and whether any was made at all."""
    made: Counter[str] = Counter()
    tested: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.claims:
            for name, holds in {**outcome.claims, ANY: any(outcome.claims.values())}.items():
                tested[name] += 1
                made[name] += holds
    return [Share(name, made[name], models) for name, models in tested.items()]


def printed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """False alarms of each kind of model, then how often plants are spoken of, rise by rise."""
    for kind in ("null model", "random weights"):
        for share in shares([outcome for outcome in outcomes if outcome.subject.kind == kind]):
            yield f"{kind:15} {share}"
    planted = [outcome for outcome in outcomes if outcome.subject.kind == "planted"]
    for rise in sorted({outcome.subject.rise for outcome in planted}):
        for share in shares([outcome for outcome in planted if outcome.subject.rise == rise]):
            if share.claim == ASSOCIATION:
                yield f"planted {rise:<7g} {share}"
    if without := [outcome for outcome in outcomes if outcome.reason]:
        yield f"{len(without)} models gave no page, the first: {without[0].reason}"
    seconds = [outcome.seconds for outcome in outcomes]
    yield f"{len(seconds)} models, {sum(seconds) / max(1, len(seconds)):.0f} s of CPU each"


def main() -> None:
    """Print the table; the folder keeps every model's claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--null-models", type=int, default=100)
    parser.add_argument("--random", type=int, default=40)
    parser.add_argument("--planted", type=int, default=0, help="models for each rise")
    parser.add_argument("--rise", default="0.3", help="of |SEAT|; several with commas between")
    parser.add_argument("--models", default="lh:bert-mini,lh:gpt-mini,lh:nli-mini")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", help="as of `levelhead audit`; bfloat16 is twice as fast on many CPUs")
    parser.add_argument("--association", action="store_true", help="ask for nothing else")
    parser.add_argument("--out", type=Path, default=Path("runs/calibration"))
    given = parser.parse_args()
    rises = [float(rise) for rise in given.rise.split(",")]
    chosen = subjects(given.models.split(","), given.null_models, given.random, given.planted, rises)
    asking = Asking(given.device, given.dtype, association_only=given.association)
    outcomes = outcomes_of(chosen, given.out / FILE, given.processes, asking)
    print(*printed(list(outcomes.values())), sep="\n")


if __name__ == "__main__":
    main()
