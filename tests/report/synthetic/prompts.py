"""A CounterActs run of one model, untouched and changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from levelhead.edits.sites import Head
from levelhead.measures.log_odds import NO_TOP_K
from levelhead.measures.measurement import Null
from levelhead.runs.common import BASE
from levelhead.runs.folder import Run, text_hash
from levelhead.studies.counteracts import OCCUPATIONS, Counteracts, cells_label
from levelhead.studies.counteracts.records import ClozeCell, ClozeForm, OccupationLine
from levelhead.studies.counteracts.settings import CounteractsStored
from tests.report.synthetic.measurements import WEIGHTS, measured

KINDS = (BASE, "target counter semantic", "unrelated")
KS = (3, 5, 10)
CLOSED_HEADS = (Head(3, 4), Head(0, 1))
CLOSED = "without heads 4-5, 1-2"


def write_prompts(
    folder: Path,
    model: str = "lh:tiny",
    seed: int = 0,
    drift: float = 0.0,
    edited: Sequence[str] = (),
) -> Path:
    """A CounterActs run: the model, the same without two heads, or, as in an audit, under named edits."""
    variants = (BASE, *(edited or (CLOSED,)))
    settings = CounteractsStored(
        study=Counteracts.name,
        seed=seed,
        models=(model,),
        variants=variants,
        prompts="gender-occupation",
        verbalizer=None,
        per_background=2,
        ks=KS,
        draws=2000,
        remove_heads=() if edited else CLOSED_HEADS,
        groups=("female", "male"),
        kinds=KINDS,
        n_prompts=754,
    )
    hashes = {f"weights of {model}": WEIGHTS, **{f"edits {name}": text_hash(name) for name in edited}}
    hashes["prompts and words"] = "cd" * 8
    with Run.open(folder, Counteracts, settings, hashes=hashes) as run:
        for number, variant in enumerate(variants):
            label, moved = cells_label(model, variant), drift + number / 50
            forms = [ClozeForm(model, variant, "sentence pair", ("mums",))]
            cells = [cell for k in KS for cell in _cells(model, variant, k, moved)]
            cells += _log_odds_cells(model, variant, moved)
            run.file(OCCUPATIONS.of(label), _occupations(seed, moved))
            run.results(Counteracts.forms.of(label), forms.copy)
            run.results(Counteracts.cells.of(label), cells.copy)
    return folder


def _cells(model: str, variant: str, k: int, drift: float) -> Iterator[ClozeCell]:
    masses = {"female mass": 0.03 * k, "male mass": 0.02 * k + drift, "margin": 0.01 * k + drift}
    measurements = [measured(name, value, 0.01, 58) for name, value in masses.items()]
    measurements.append(measured("share without group words", 0.5 / k, -1, 58))
    details = {"base": 0.01 * k, "reached": 0.01 * k + drift, "reached_low": None, "reached_high": None}
    change = measured("margin change", drift, 0.02, 58, details=details)
    for kind in KINDS:
        for group in ("", "female", "male"):
            for each in measurements:
                yield ClozeCell(model, variant, k, kind, group, each)
            if kind != BASE:
                yield ClozeCell(model, variant, k, kind, group, change, "no change", "weakens")


def _log_odds_cells(model: str, variant: str, drift: float) -> Iterator[ClozeCell]:
    """A level that is clear, knowledge that clearly turns it, and knowledge that does a little."""
    dealt = Null("occupations permuted between the groups, two-sided", 9_999, 0.0, 0.05, 0.0001)
    changes = {"target counter semantic": -0.5, "unrelated": 0.1}
    for kind in KINDS:
        change = changes.get(kind, 0.0)
        level = measured("log_odds", 0.4 + change + drift, 0.1, 58, neutral=0.0, null=dealt)
        yield ClozeCell(model, variant, NO_TOP_K, kind, "", level)
        if kind != BASE:
            p, word = (0.0001, "overturns") if change < 0 else (0.03, "strengthens")
            details = {"base": 0.4 + drift, "reached": 0.4 + change + drift}
            held = Null("null models; p two-sided", 9, 0.02, 0.03, p)
            moved = measured("log_odds change", change, 0.07, 58, neutral=0.0, details=details, null=held)
            yield ClozeCell(model, variant, NO_TOP_K, kind, "", moved, word, "weakens")


def _occupations(seed: int, drift: float) -> Iterator[OccupationLine]:
    """Margins without knowledge at k = 5; the first occupation has no group word."""
    reason = "no prompt has a word of either group in its top 5"
    rng = np.random.default_rng(seed)
    for i in range(20):
        value = None if i == 0 else float(rng.normal(0.05, 0.01) + drift)
        yield OccupationLine(
            5, BASE, "female", f"occupation {i}", "margin", value, None, None, 1, None if i else reason
        )
    yield from _occupation_odds(drift)


def _occupation_odds(drift: float) -> Iterator[OccupationLine]:
    """Log-odds of five occupations of either group, without knowledge and after a counterexample."""
    changes = {BASE: 0.0, "target counter semantic": -0.5}
    for kind, change in changes.items():
        for group, sign in (("female", 1), ("male", -1)):
            for i in range(5):
                odds = sign * (0.1 + 0.3 * i) + change + drift
                name = f"{group} job {i}"
                yield OccupationLine(NO_TOP_K, kind, group, name, "log_odds", odds, None, None, 1, None)
