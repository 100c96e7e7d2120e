"""The wording of an audit's sentences, in one place: other tests ask what is claimed."""

from __future__ import annotations

from pathlib import Path

from levelhead.measures.measurement import Measurement, Null
from levelhead.runs.common import BASE
from levelhead.studies.audit import Audit
from tests.report.synthetic import measured, write_heads
from tests.report.test_headline import (
    headline_beside,
    headline_of,
    seat,
    strength,
)

FLOOR = "(0 is none, 2 the most; 0.17 ± 0.06 in null models, p {})"


def test_an_association_and_its_denial(tmp_path: Path) -> None:
    text, _ = headline_of(tmp_path / "clear", {BASE: [seat(1.2)]})
    value = f"SEAT 1.2 [1.1, 1.3] {FLOOR.format('< 0.001')}."
    assert text == f"tiny associates gender with stereotypes: {value}"
    text, _ = headline_of(tmp_path / "silent", {BASE: [seat(1.2, p=0.2)]})
    silent = "tiny: no association of gender with stereotypes is significantly different from null models, "
    assert text == f"{silent}on this much data: SEAT 1.2 [1.1, 1.3] {FLOOR.format('0.2')}."
    text, _ = headline_of(tmp_path / "none", {BASE: [seat(1.2, p=None)]})
    assert text.endswith("Not compared with null models: nothing is claimed.")


def test_what_was_not_measured_and_what_has_no_null(tmp_path: Path) -> None:
    missing = Measurement.missing("seat", "no word has a context")
    text, findings = headline_of(tmp_path, {BASE: [missing, measured("fairness", 0.52, 0.04)]})
    assert text == "tiny: the association of gender with stereotypes was not measured."
    assert findings == (
        "Inferences about occupations: fairness 0.52 [0.48, 0.56] "
        "(1 is fair: neutral for women and men alike).",
        "Not measured: seat (no word has a context).",
    )


def test_how_many_claims_were_corrected(tmp_path: Path) -> None:
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2), strength(0.4, 2.1, p=0.001)]})
    assert findings == (
        "Strength of stereotype in the most biased tenth of triples: 0.40 [0.39, 0.41]: "
        "0.23 ± 0.03 by chance, p 0.001.",
        "2 claims were tested on this page and corrected for their number "
        "(Holm; three quarters of the error go to the first).",
    )


def test_fill_in_prompts(tmp_path: Path) -> None:
    dealt = Null("occupations permuted", 9_999, 0.0, 0.05, 0.0001)
    level = measured("log_odds", 0.4, 0.1, 58, neutral=0.0, null=dealt)
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2), level]})
    assert findings[0] == (
        "Fill-in prompts: the odds of the two groups' words follow the stereotypes of occupations: log-odds "
        "0.40 [0.30, 0.50] (0 is none, 0.7 twice the odds; 0.00 ± 0.05 with occupations permuted, "
        "p < 0.001)."
    )


def test_heads_and_rows_of_words(tmp_path: Path) -> None:
    write_heads(tmp_path / Audit.heads.folder)
    text, findings = headline_beside(tmp_path)
    assert text.endswith(
        "; over the 14 words that are one token, where those show about none, 0.8 [0.4, 1.2]."
    )
    assert (
        "Scores against removing heads one by one: Spearman's rho 0.93 [0.89, 0.97] (1: the same order)."
        in findings
    )
    assert (
        "Of that contrast, 0.025 [0.015, 0.035] is what the stereotype does; apart from it, biased heads "
        "look 0.060 [0.050, 0.070] more than regular ones at A words, whatever is said."
    ) in findings
