"""An audit of every kind of model from end to end: it reports, and what it could not ask has a reason."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.auditing import Audit, audit
from levelhead.results.runs import open_heads
from tests.audit_sizes import FEWEST, ask_little
from tests.tiny import tiny
from tests.word_lists import gender_toml

PAIRS = ("preference", "strength", "lms")
INFERENCES = ("fairness", "ability")
KINDS = {  # model -> what it answers, and what it cannot answer
    "encoder without heads": (("seat",), (*PAIRS, *INFERENCES, "fluency", "lpbs career")),
    "masked": (("seat", "fluency", "lpbs career", "log_odds"), INFERENCES),
    "next sentences": (("seat", "fluency", *PAIRS), INFERENCES),
    "causal": (("seat", "fluency", *PAIRS, "log_odds"), (*INFERENCES, "lpbs career")),
    "classifier": (("seat", *INFERENCES), ("fluency", "lpbs career", "log_odds")),
}


def tiny_kind(kind: str) -> lh.Model:
    heads = {"encoder without heads": "base", "masked": "mlm", "next sentences": "nsp", "classifier": "nli"}
    return tiny("llama", layers=2) if kind == "causal" else tiny("bert", heads[kind], layers=2)


def audited(model: lh.Model, folder: Path) -> Audit:
    settings = lh.settings.AuditSettings(bias=gender_toml(folder), sizes=FEWEST)
    with pytest.MonkeyPatch.context() as patch:
        ask_little(patch, folder)
        return audit(model, folder / "run", settings)


def check_heads(model: lh.Model, folder: Path) -> None:
    """Every head has a score, and not all the same."""
    run = open_heads(folder / "run" / "heads")
    scores = [score.score for score in run.scores]
    assert len(scores) == model.layers * model.heads
    assert all(map(math.isfinite, scores))
    assert max(scores) > min(scores)


def check_whole(result: Audit, answered: tuple[str, ...], unanswered: tuple[str, ...]) -> None:
    for name in answered:
        assert result[name].value is not None, (name, result[name].reason)
    for name in unanswered:
        assert result[name].value is None, name
        assert result[name].reason, name
    assert result.findings
    assert result.report is not None
    assert "</html>" in result.report.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [k if k == "next sentences" else pytest.param(k, marks=pytest.mark.nightly) for k in KINDS]
)
def test_an_audit_of_a_model_of_each_ability_ends_with_a_report(kind: str, tmp_path: Path) -> None:
    answered, unanswered = KINDS[kind]
    check_whole(audited(tiny_kind(kind), tmp_path), answered, unanswered)


@pytest.mark.minilm
@pytest.mark.nightly
def test_an_audit_of_minilm_an_encoder_without_heads_ends_with_a_report(
    minilm: lh.Model, tmp_path: Path
) -> None:
    check_whole(audited(minilm, tmp_path), *KINDS["encoder without heads"])
    check_heads(minilm, tmp_path)


@pytest.mark.smollm2
@pytest.mark.nightly
def test_an_audit_of_smollm2_from_gguf_ends_with_a_report(smollm2: lh.Model, tmp_path: Path) -> None:
    check_whole(audited(smollm2, tmp_path), *KINDS["causal"])
    check_heads(smollm2, tmp_path)
