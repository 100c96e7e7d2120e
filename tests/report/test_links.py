"""Every result leads to its place: a chapter on the page of its run, or the document that explains it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.api.reports import check, compare
from levelhead.cli.terminal import print_link
from levelhead.measures.catalog import BUILT_IN
from levelhead.pages.chapters import Chapter
from levelhead.pages.links import Document, Link, page_link
from levelhead.pages.page import write_report
from levelhead.runs.study import REPORT, studies
from levelhead.studies.audit import Audit
from levelhead.studies.heads import Heads
from tests.report.synthetic import write_audit, write_glue_run, write_heads, write_prompts, write_sweep

DOCS = Path(__file__).parents[2] / "docs"
STUDIES: tuple[tuple[Callable[[Path], Path], str, str], ...] = (
    (write_audit, Chapter.NOW, Document.REPORT),
    (write_heads, "heads", "heads.md"),
    (write_prompts, "counteracts", "counteracts.md"),
    (write_sweep, "projections", "projections.md"),
    (write_glue_run, "glue", "glue.md"),
)


@pytest.mark.parametrize(("write", "chapter", "document"), STUDIES)
def test_a_result_leads_to_its_document_until_its_page_is_written(
    tmp_path: Path, write: Callable[[Path], Path], chapter: str, document: str
) -> None:
    folder = write(tmp_path / "a run")
    result = lh.open_run(folder)
    assert result.link == Link(f"docs/{document}", (DOCS / document).as_uri())
    page = write_report(folder)
    assert str(result.link) == f"{page.resolve().as_uri()}#{chapter}"
    assert f'id="{chapter}"' in page.read_text(encoding="utf-8")
    assert result._repr_html_().endswith(f'<a href="{result.link}">{page.resolve()}#{chapter}</a></p>')


def test_a_study_inside_an_audit_leads_to_the_page_of_the_audit(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "audit")
    audit = Audit.open(folder)
    page = write_report(folder)
    assert audit.heads is not None
    assert str(audit.heads.link) == f"{page.as_uri()}#{Heads.name}"
    (folder / Audit.heads.folder / REPORT.name).write_text("<p>mine</p>", encoding="utf-8")
    assert str(audit.heads.link).endswith("/heads/report.html")  # its own page comes first; no such chapter


def test_every_study_has_a_home_and_every_document_is_there() -> None:
    for each in studies().values():
        assert each.document != Document.REPORT or each is Audit, each.name
        assert (DOCS / (each.document or Document.REPORT)).is_file()
    assert all((DOCS / document).is_file() for document in Document)


def test_every_built_in_measure_leads_to_a_heading_of_the_methods() -> None:
    text = (DOCS / Document.METHOD).read_text(encoding="utf-8")
    headings = {re.sub(r"[^a-z0-9]+", "-", line[3:].casefold()) for line in re.findall(r"^## .*", text, re.M)}
    for info in BUILT_IN:
        assert info.docs in headings, info.name


def test_results_without_a_run_lead_to_documents(tmp_path: Path) -> None:
    folder = write_heads(tmp_path / "heads")
    assert check(folder, {"seat": 5.0}).link.name == f"docs/{Document.CHECK}"
    assert compare(folder, folder).link.name == f"docs/{Document.REPORT}#compare"
    write_report(folder)
    assert check(folder, {"seat": 5.0}).link.name.endswith(f"report.html#{Chapter.MEASURED}")


def test_the_audit_of_a_program_shows_its_link_too(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "audit")
    page = write_report(folder)
    shown = Audit.open(folder)._repr_html_()
    assert f'href="{page.as_uri()}#{Chapter.NOW}"' in shown


def test_a_printed_run_has_its_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_heads(tmp_path / "heads")
    page = write_report(folder)
    print_link(Heads.open(folder))
    assert capsys.readouterr().out == f"Read on: {page.as_uri()}#{Heads.name}\n"


def test_names_are_escaped_and_a_page_that_is_a_trap_is_no_page(tmp_path: Path) -> None:
    assert "<b>" not in Link("<b>", "file:///<b>").html
    folder = write_heads(tmp_path / "heads")
    (folder / REPORT.name).symlink_to(tmp_path)
    assert page_link(folder, Heads.name) is None
