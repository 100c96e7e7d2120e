"""An audit with enough null models tries mitigations on its own items, and answers from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.inference.check import Plan, check, threshold
from levelhead.inference.contents import open_contents
from levelhead.pages.blocks import Shown
from levelhead.runs.common import BASE, SAME_ITEMS
from levelhead.scoring.natural import COSINE, INFERENCES, natural_bias
from levelhead.studies.audit import Audit
from levelhead.studies.audit.arena import certified_items, tried_methods
from levelhead.studies.audit.extent import Extent
from levelhead.studies.audit.run import audit, claimed_bias
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.mitigate import run as mitigating
from levelhead.studies.mitigate.chapter import chapters as mitigation_chapters
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.protocol import mitigations
from levelhead.studies.mitigate.run import detect
from levelhead.studies.mitigate.trying import Aim, PartValues
from tests.audit_sizes import FEWEST, ask_few_tests, ask_little
from tests.studies.test_mitigating import ask_few_frames
from tests.tiny import tiny
from tests.word_lists import gender_toml

ENOUGH = replace(FEWEST, triples=10, sentences=20, null=3)


def take_for_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights have no bias that stands out from null models: an audit would try nothing."""
    monkeypatch.setattr(mitigating, "detect", lambda *given: replace(detect(*given), detected=True))


@pytest.mark.nightly
def test_an_audit_that_claims_nothing_tries_nothing_else_it_certifies_or_says_what_was_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_little(monkeypatch, tmp_path)
    ask_few_tests(monkeypatch, "career")
    ask_few_frames(monkeypatch)
    monkeypatch.setattr("levelhead.studies.audit.arena.SENSE_EVERY", 20)
    model = tiny("bert", "nsp", layers=2, max_position_embeddings=256)
    settings = AuditSettings(bias=gender_toml(tmp_path), sizes=ENOUGH)
    audit(model, settings, tmp_path / "run")
    contents = open_contents(tmp_path / "run")
    assert contents.audit is not None
    assert not claimed_bias(contents.audit)  # its weights are random
    assert contents.mitigate is None
    monkeypatch.setattr("levelhead.studies.audit.run.claimed_bias", lambda _: COSINE)
    take_for_detected(monkeypatch)
    audit(model, settings, tmp_path / "run")
    contents = open_contents(tmp_path / "run")
    assert contents.audit is not None
    run = contents.mitigate
    assert run is not None
    assert run.settings.null == 3
    assert run.settings.objective == COSINE
    methods = {each.method for each in run.candidates} | {each.method for each in run.left_out}
    assert methods == {each.name for each in tried_methods(model, settings.top)}
    assert [each.name for each in run.candidates if each.method == "ablated heads"] == ["3 ablated heads"]
    assert not run.spillover
    assert contents.address(run.candidates[0]).startswith("mitigate:")
    (judged,) = check(contents, Plan((threshold("certified=1", "min"),)))
    assert judged.value == len(run.certified)
    recipes = [path.read_text(encoding="utf-8") for path in sorted((tmp_path / "run/recipes").glob("*.toml"))]
    assert sorted(recipes) == sorted(each.recipe for each in run.candidates if each.recipe)
    variants = [name for name in contents.audit.measurements if name != BASE]
    if run.certified:
        assert recipes[0] == run.certified[0].recipe
        assert variants == [SAME_ITEMS, run.certified[0].name]
    else:
        assert not variants
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="mitigate"' in page


@pytest.mark.nightly
def test_a_classifier_beside_the_model_has_candidates_and_both_share_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_little(monkeypatch, tmp_path)
    ask_few_tests(monkeypatch, "career")
    ask_few_frames(monkeypatch)
    monkeypatch.setattr("levelhead.studies.audit.arena.SENSE_EVERY", 20)
    monkeypatch.setattr("levelhead.studies.audit.run.claimed_bias", lambda _: COSINE)
    take_for_detected(monkeypatch)
    model, nli = (tiny("bert", kind, layers=2, max_position_embeddings=256) for kind in ("nsp", "nli"))
    sizes = replace(ENOUGH, occupations=(16, 1), abilities=60)
    settings = AuditSettings(bias=gender_toml(tmp_path), nli=nli, sizes=sizes)
    audit(model, settings, tmp_path / "run")
    contents = open_contents(tmp_path / "run")
    assert contents.audit is not None
    beside = contents.audit.nli_mitigate
    assert beside is not None
    assert beside.settings.objective == INFERENCES
    assert len(contents.arenas) == 2
    tried = {each.method for each in beside.candidates} | {each.method for each in beside.left_out}
    assert "projective setting" in tried
    split = parts(certified_items(Extent(settings, model).battery()), 0)
    symmetrized = next(each for each in contents.arenas[0].candidates if each.method == "symmetrized")
    (method,) = mitigations(("symmetrized",))
    (alone,) = (
        PartValues.of(model, split.test)
        .and_of(model, method.candidates(model, split.fit))
        .tested(
            method.candidates(model, split.fit),
            Aim(COSINE, natural_bias(model, split.order, COSINE).sign, beside.settings.margins),
        )
    )
    assert symmetrized.certificate.p_gain == min(1.0, 2 * alone.p_gain)
    (table,) = (
        block.table
        for section in mitigation_chapters(contents)
        for block in section.blocks
        if isinstance(block, Shown) and block.table.name == "mitigate"
    )
    assert len(table.rows) == sum(len(run.candidates) for run in contents.arenas)


@pytest.mark.parametrize(
    ("holding", "bias"),
    [
        ((), ""),
        (("strength",), ""),
        (("lpbs career", "strength", "association"), "fill-in gap"),
        (("association",), "cosine gap"),
        (("association", "preference"), "preference"),
        (("association", "preference", "log-odds"), "log-odds"),
    ],
)
def test_mitigations_are_judged_by_a_bias_that_the_page_claims(
    holding: tuple[str, ...], bias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("association", "preference", "log-odds", "lpbs career", "strength")
    claims = [(name, None, name in holding) for name in names]
    monkeypatch.setattr("levelhead.studies.audit.run.headline_claims", lambda run: claims)
    assert claimed_bias(Audit.__new__(Audit)) == bias
