"""An edit that halves every logit changes no rank and no relative preference: it is no mitigation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from levelhead.inference.headline import headline
from levelhead.measures.measurement import Measurement
from levelhead.measures.paired import strength_change
from levelhead.measures.statistics import Resampling
from levelhead.measures.stereoset import SCALE_FREE, triple_strength
from levelhead.measures.viability import viable
from levelhead.probes.triples import Triple, TriplePair, TripleSet
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.audit import NamedValue, ProjectionCandidate
from levelhead.results.records.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.results.runs import open_audit
from levelhead.scoring.next_sentences import HEAD, TripleAnswers
from levelhead.scoring.pairs import triple_measures
from tests.report.test_headline import SETTINGS, seat

FEW = Resampling(100)
EDITED = "sent: halved"
PAIRS = 60
Doubles = NDArray[np.float64]
Measured = dict[str, Measurement]


def triples() -> TripleSet:
    """Texts do not matter here: the answers are drawn."""
    pairs = [
        TriplePair(
            Triple(f"t{number}", f"She waits {number}.", "a", "b", "c", "F", ""),
            Triple(f"s{number}", f"He waits {number}.", "b", "a", "c", "M", ""),
        )
        for number in range(PAIRS)
    ]
    return TripleSet("drawn", tuple(pairs), {}, "0" * 64, "pairs")


def measured(x: Doubles) -> Measured:
    return triple_measures(triples(), TripleAnswers(1 / (1 + np.exp(-x)), x, HEAD), FEW)


def logits(seed: int, loudness: float) -> Doubles:
    """A biased head, louder or softer: related sentences are likelier than unrelated ones."""
    drawn = np.random.default_rng(seed).standard_t(4, size=(2 * PAIRS, 3)) + np.asarray([1.3, 1.0, -1.0])
    return np.asarray(loudness * drawn)


def candidate(name: str, of_variant: Measured, base: Measured) -> ProjectionCandidate:
    """A projection judged as a next-sentence model's are: by Strength, viable by LMS."""
    strength, lms = of_variant["strength"].value, of_variant["lms"].value
    assert strength is not None
    values = NamedValue("strength", strength), NamedValue("lms", lms)
    is_viable = viable(lms, base["lms"].value) is True
    return ProjectionCandidate(name, "SENT", "", *values, is_viable, -strength, recipe="", chosen=False)


def strengths(x: Doubles) -> Doubles:
    p = 1 / (1 + np.exp(-x))
    original, twin = p[:PAIRS], p[PAIRS:]
    return triple_strength(original[:, 0], original[:, 1], twin[:, 1], twin[:, 0])


def finding(folder: Path, before: Doubles, after: Doubles) -> str:
    """What the page says of an edit from logits to logits, were it chosen."""
    base, edited = measured(before), measured(after)
    contexts = [pair.original.context for pair in triples().pairs]
    edited["strength change"] = strength_change(strengths(before), strengths(after), contexts, resampling=FEW)
    trials = [
        candidate(BASE, base, base),
        replace(candidate(EDITED, edited, base), chosen=True),
    ]
    with Run.open(folder, layout.AUDIT, SETTINGS) as run:
        for variant, key, values in (
            (BASE, layout.MEASURED.of("triples"), base),
            (SAME_ITEMS, layout.VERIFIED.of(f"{SAME_ITEMS}/triples"), base),
            (EDITED, layout.VERIFIED.of(f"{EDITED}/triples"), edited),
        ):
            run.results(key, [MeasuredVariant(variant, "tiny", each) for each in values.values()].copy)
        held = MeasuredVariant(BASE, "tiny", seat(1.2))  # without null models nothing is said of a change
        run.result(layout.MEASURED.of("seat"), lambda: held)
        run.results(layout.CANDIDATES, trials.copy)
    return next(text for text in headline(open_audit(folder)).findings if "projections" in text)


@pytest.mark.parametrize("loudness", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_halved_logits_are_never_called_a_mitigation(tmp_path: Path, seed: int, loudness: float) -> None:
    x = logits(seed, loudness)
    before, after = measured(x), measured(0.5 * x)
    text = finding(tmp_path / "run", x, 0.5 * x)
    assert "only flattens the outputs" in text or "is not shown to" in text
    assert "lowers" not in text
    assert after["preference"].details[SCALE_FREE] == pytest.approx(before["preference"].details[SCALE_FREE])
    assert after["ss_paired"].value == before["ss_paired"].value


def test_an_edit_that_caps_strong_stereotypes_alone_is_not_called_flat(tmp_path: Path) -> None:
    x = logits(0, 1.0) + np.asarray([1.5, 0.0, 0.0])
    gap = x[:, 0] - x[:, 1]
    even = x.copy()
    even[:, 0] = x[:, 1] + np.minimum(gap, 0.8)
    text = finding(tmp_path / "run", x, even)
    assert "only flattens" not in text
    assert "relative to the scale" in text
