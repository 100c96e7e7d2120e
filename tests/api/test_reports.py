"""Check, compare, card and report from Python: of results and of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import levelhead as lh
from levelhead.errors import BadOption
from levelhead.pages.card import HEADING
from levelhead.studies.audit import Audit
from tests.report.synthetic import write_audit


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit.open(write_audit(tmp_path / "run"))


def test_a_check_holds_or_not_and_shows_what_was_judged(audit: Audit) -> None:
    seat = audit["seat"].value
    assert seat is not None
    kept = lh.check(audit, {"seat": abs(seat) + 1}, {"lms": 0.0})
    assert kept.holds
    assert kept
    assert kept.verdict == "holds"
    broken = lh.check(audit.folder, {"seat": abs(seat) / 2})
    assert not broken
    assert list(broken.to_frame()["outcome"]) == ["fails"]
    assert broken.plot().to_dict()
    assert "fails" in broken._repr_html_()
    assert broken.to_json()["exit"] == 1


def test_an_audit_compares_with_itself_before_and_after_and_with_another(
    audit: Audit, tmp_path: Path
) -> None:
    within = lh.compare(audit)
    assert within.runs[0] == "before"
    other = write_audit(tmp_path / "other", model="lh:other", shift=0.2)
    beside = lh.compare(audit, other)
    frame = beside.to_frame()
    line = frame[(frame["measure"] == "seat") & (frame["run"] == "lh:other")].iloc[0]
    difference = beside.measures["seat"].differences[0]
    assert difference is not None
    assert line["difference"] == pytest.approx(difference.value)
    assert beside.plot().to_dict()
    folder = beside.save(tmp_path / "kept")
    assert {path.name for path in folder.iterdir()} == {"table.csv", "measured.json", "comparison.html"}
    with pytest.raises(BadOption, match="At least one run must be given"):
        lh.compare()


def test_a_card_is_markdown_and_a_report_a_page_that_is_written_on_request(
    audit: Audit, tmp_path: Path
) -> None:
    assert lh.card(audit).startswith(HEADING)
    page = lh.report(audit)
    assert page.html == lh.report(audit.folder, tmp_path / "page.html").html
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert page._repr_html_().startswith("<iframe srcdoc=")
    assert "<script" not in page._repr_html_()  # escaped inside the frame
