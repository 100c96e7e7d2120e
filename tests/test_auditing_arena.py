"""An audit with enough null models runs the quickest mitigations on its own items, and answers from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.auditing import audit
from levelhead.pages.check import Plan, check, threshold
from levelhead.pages.contents import open_contents
from levelhead.pages.possible_ways import possible_ways
from levelhead.studies.extent import AuditSettings
from tests.audit_sizes import FEWEST, ask_few_prompts
from tests.tiny import tiny

ENOUGH = replace(FEWEST, triples=10, sentences=20, null=3)


@pytest.mark.slow
def test_an_audit_certifies_or_says_what_was_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_few_prompts(monkeypatch, tmp_path)
    model = tiny("bert", "nsp", max_position_embeddings=256)
    audit(model, tmp_path / "run", AuditSettings(sizes=ENOUGH))
    contents = open_contents(tmp_path / "run")
    run = contents.mitigations
    assert run is not None
    assert run.settings.null == 3
    assert {each.method for each in run.candidates} == {"symmetrized", "projected tokens"}
    assert not run.spillover
    assert contents.address(run.candidates[0]).startswith("mitigations:")
    (judged,) = check(contents, Plan((threshold("certified=1", "min"),)))
    assert judged.value == len(run.certified)
    ways = possible_ways(contents, {"seat": "strong"})
    assert run.candidates[0].name in [way.name for way in ways]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="mitigate"' in page
