"""An audit of every kind of model from end to end: it reports, and what it could not ask has a reason."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.errors import BadOption, CannotDo
from levelhead.inference.check import Plan, check, threshold
from levelhead.inference.contents import open_contents
from levelhead.inference.generation_claims import generation_claims, held
from levelhead.inference.headline import headline_claims, spoken_measures
from levelhead.measures.catalog import DOUBTED
from levelhead.studies.audit import Audit, extent
from levelhead.studies.audit.run import audit
from levelhead.studies.heads import Heads
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
        return audit(model, settings, folder / "run")


def check_heads(model: lh.Model, folder: Path) -> None:
    """Every head has a score, and not all the same."""
    run = Heads.open(folder / "run" / "heads")
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
    assert result.headline is not None
    assert result.headline.findings
    assert "</html>" in result.report.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [k if k == "next sentences" else pytest.param(k, marks=pytest.mark.nightly) for k in KINDS]
)
def test_an_audit_of_a_model_of_each_ability_ends_with_a_report(kind: str, tmp_path: Path) -> None:
    answered, unanswered = KINDS[kind]
    check_whole(audited(tiny_kind(kind), tmp_path), answered, unanswered)


@pytest.fixture(scope="module")
def with_texts(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("texts")
    settings = lh.settings.AuditSettings(bias=gender_toml(folder), sizes=FEWEST, generate=True)
    with pytest.MonkeyPatch.context() as patch:
        ask_little(patch, folder)
        patch.setattr(extent, "_CLUSTERS", 4)
        return audit(tiny("gpt2", layers=2, n_positions=512), settings, folder / "run")


@pytest.mark.slow
def test_an_audit_of_a_causal_model_includes_what_it_writes_where_that_is_asked(with_texts: Audit) -> None:
    inner = with_texts.generate
    assert inner is not None
    assert inner.plan is not None
    assert inner.settings.sets == ("occupations", "situations", "gender")
    assert with_texts["mirror divergence"].value is not None
    assert with_texts["who appears"].name == "who appears"
    page = with_texts.report.read_text(encoding="utf-8")
    assert 'id="generate-mirror"' in page
    assert "a size for comparisons: nothing is claimed" in page
    limits = [threshold("mirror divergence=100", "max"), threshold("who appears=1", "max")]
    judged = check(open_contents(with_texts.folder), Plan(tuple(limits)))
    assert [each.measure for each in judged] == ["mirror divergence", "who appears"]
    assert judged[0].reason == DOUBTED  # a tiny model reads no English
    opened = lh.open_run(with_texts.folder)
    assert isinstance(opened, Audit)
    assert opened.generate is not None


@pytest.mark.slow
def test_claims_of_texts_and_of_the_audit_are_corrected_together(with_texts: Audit) -> None:
    inner = with_texts.generate
    assert inner is not None
    own = {each.name for each, _, _ in generation_claims(inner)}
    assert own
    assert own <= {name for name, _, _ in headline_claims(with_texts)}
    assert held(inner, spoken_measures(with_texts)) <= own


def test_an_audit_that_cannot_include_texts_says_so_before_it_begins(tmp_path: Path) -> None:
    settings = lh.settings.AuditSettings(sizes=FEWEST, generate=True)
    with pytest.raises(CannotDo, match="writes no text: leave --generate out"):
        audit(tiny("bert", layers=2), settings, tmp_path / "masked")
    with pytest.raises(BadOption, match="generate must be left out for race"):
        audit(tiny("gpt2", layers=2), replace(settings, bias="race"), tmp_path / "race")


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
