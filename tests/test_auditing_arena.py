"""An audit with enough null models runs the quickest mitigations on its own items, and answers from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.auditing import audit
from levelhead.auditing.arena import claimed_bias
from levelhead.inference.check import check
from levelhead.inference.contents import open_contents
from levelhead.inference.thresholds import Plan, threshold
from levelhead.pages.possible_ways import possible_ways
from levelhead.results.runs import AuditRun
from levelhead.scoring.natural import COSINE
from levelhead.studies.extent import AuditSettings
from tests.audit_sizes import FEWEST, ask_few_tests, ask_little
from tests.studies.test_mitigating import ask_few_frames
from tests.tiny import tiny
from tests.word_lists import gender_toml

ENOUGH = replace(FEWEST, triples=10, sentences=20, null=3)


@pytest.mark.slow
def test_an_audit_that_claims_nothing_tries_nothing_else_it_certifies_or_says_what_was_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_little(monkeypatch, tmp_path)
    ask_few_tests(monkeypatch, "career")
    ask_few_frames(monkeypatch)
    monkeypatch.setattr("levelhead.auditing.arena._SENSE_EVERY", 20)
    model = tiny("bert", "nsp", layers=2, max_position_embeddings=256)
    settings = AuditSettings(bias=gender_toml(tmp_path), sizes=ENOUGH)
    audit(model, tmp_path / "run", settings)
    contents = open_contents(tmp_path / "run")
    assert contents.audit is not None
    assert not claimed_bias(contents.audit)  # its weights are random
    assert contents.mitigations is None
    monkeypatch.setattr("levelhead.auditing.arena.claimed_bias", lambda _: COSINE)
    audit(model, tmp_path / "run", settings)
    contents = open_contents(tmp_path / "run")
    run = contents.mitigations
    assert run is not None
    assert run.settings.null == 3
    assert run.settings.objective == COSINE
    assert {each.method for each in run.candidates} == {"symmetrized"}
    assert not run.spillover
    assert contents.address(run.candidates[0]).startswith("mitigations:")
    (judged,) = check(contents, Plan((threshold("certified=1", "min"),)))
    assert judged.value == len(run.certified)
    ways = possible_ways(contents, {"seat": "strong"})
    assert run.candidates[0].name in [way.name for way in ways]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="mitigate"' in page


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
    monkeypatch.setattr("levelhead.auditing.arena.headline.headline_claims", lambda run: claims)
    assert claimed_bias(AuditRun.__new__(AuditRun)) == bias
