"""An audit answers at once: the first look, its page, and what stays when the whole is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.cli.printed import print_first_look
from levelhead.inference.contents import open_contents
from levelhead.pages.what_now import what_now
from levelhead.runs.presets import QUICK, AuditSizes
from levelhead.studies.audit import FIRST_LOOK, Audit, extent
from levelhead.studies.audit.run import audit
from tests.audit_sizes import FEWEST, FEWEST_AT_FIRST, ask_little
from tests.report.synthetic import write_audit
from tests.tiny import tiny
from tests.word_lists import gender_toml

RELOADS = 'http-equiv="refresh"'
KNOWLEDGE = "Counterexamples"


def few(full: bool, quick: bool, large: bool, huge: bool = False) -> AuditSizes:
    """A preset that asks as little as can be."""
    return FEWEST_AT_FIRST if quick else FEWEST


def looked_at(run: Path, told: Callable[[Audit, Path], None]) -> Audit:
    """An audit of a tiny model that asks little."""
    with pytest.MonkeyPatch.context() as patch:
        ask_little(patch, run.parent)
        patch.setattr(extent, "audit_preset", few)
        settings = lh.settings.AuditSettings(bias=gender_toml(run.parent))
        return audit(tiny("bert", "nsp"), settings, run, first_look=told, device="cpu")


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, list[str]]:
    """An audit, and its page as it was at the first look."""
    pages, run = list[str](), tmp_path_factory.mktemp("looked") / "run"

    def told(_: Audit, page: Path) -> None:
        assert not (run / "heads").exists()  # the whole has not begun
        pages.append(page.read_text(encoding="utf-8"))

    return looked_at(run, told), pages


@pytest.mark.slow
def test_the_page_of_a_first_look_is_there_first_and_reloads_itself_until_the_whole_is(
    looked: tuple[Audit, list[str]],
) -> None:
    result, pages = looked
    (page,) = pages
    assert "First look:" in page
    assert RELOADS in page
    assert "If the audit was stopped, run the same command again" in page  # which a kill does not change
    assert "The audit goes on" not in page
    assert KNOWLEDGE not in page
    whole = result.report.read_text(encoding="utf-8")
    assert "First look:" not in whole
    assert KNOWLEDGE in whole
    assert RELOADS not in whole
    inner = Audit.open(result.folder / FIRST_LOOK)
    assert inner.settings.quick
    assert not inner.recommended
    assert not Audit.open(result.folder).settings.quick


@pytest.mark.slow
def test_an_audit_that_ends_at_its_first_look_goes_on_to_the_same_bytes(
    looked: tuple[Audit, list[str]],
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    run = looked[0].folder.parent / "again"
    with pytest.raises(KeyboardInterrupt):
        looked_at(run, ended)
    stopped = (run / "report.html").read_text(encoding="utf-8")
    assert RELOADS not in stopped
    assert "The whole audit was stopped: run the same command again to resume it." in stopped
    looked_at(run, lambda *_: None)
    for part in (".", "heads", "counteracts", FIRST_LOOK):
        name = f"{part}/results.jsonl"
        assert (run / name).read_bytes() == (looked[0].folder / name).read_bytes(), name
    assert RELOADS not in (run / "report.html").read_text(encoding="utf-8")


def test_audits_of_given_sizes_and_quick_ones_have_no_first_look_of_their_own() -> None:
    model = tiny("bert")
    assert extent.Extent(lh.settings.AuditSettings(sizes=FEWEST), model).first_look is None
    assert extent.Extent(lh.settings.AuditSettings(quick=True), model).first_look is None
    first = extent.Extent(lh.settings.AuditSettings(null=2, full=True), model).first_look
    assert first is not None
    assert extent.Extent(first, model).sizes == QUICK.with_null(2)


def test_the_answers_of_a_first_look_are_said_beside_the_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_audit(tmp_path / "run")
    contents = open_contents(run)
    box = what_now(contents)
    assert box is not None
    print_first_look(Audit.open(run), run / "report.html")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(answer in captured.err for _, answer in box.answers)
    assert "First look" in captured.err
