"""PDF: printed by the Chromium that is there, and one line where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelhead.errors import BadRun, CannotDo
from levelhead.pages.chapters import Chapter
from levelhead.pages.pdf import find_chromium, write_pdf, write_pdfs


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any browser: its folder of programs and that of playwright are empty."""
    for name in ("bin", "browsers"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    return tmp_path


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_without_a_browser_there_is_one_line_that_says_what_to_do(bare: Path) -> None:
    with pytest.raises(
        CannotDo, match=r"No Chromium to print report\.html with: chromium, chromium-browser"
    ) as told:
        write_pdf(bare / "report.html", bare / "report.pdf")
    assert "\n" not in str(told.value)
    assert not (bare / "report.pdf").exists()


def test_the_browser_on_the_path_comes_before_that_of_playwright(bare: Path) -> None:
    own = program(bare / "browsers" / "chromium-1187" / "chrome-linux" / "chrome", "#!/bin/sh\n")
    assert find_chromium() == own
    chrome = program(bare / "bin" / "google-chrome", "#!/bin/sh\n")
    assert find_chromium() == chrome
    chromium = program(bare / "bin" / "chromium", "#!/bin/sh\n")
    assert find_chromium() == chromium


def test_a_browser_that_prints_nothing_is_one_line_with_its_last_word(bare: Path) -> None:
    program(bare / "bin" / "chromium", "#!/bin/sh\necho first >&2\necho 'no display' >&2\nexit 3\n")
    with pytest.raises(CannotDo, match=r"did not print report\.html: no display\."):
        write_pdf(bare / "report.html", bare / "report.pdf")


PRINTS = '#!/bin/sh\nfor o in "$@"; do case $o in --print-to-pdf=*) f=${o#*=};; esac; last=$o; done\n'


def test_a_page_and_its_appendix_are_two_files_beside_it(bare: Path) -> None:
    program(bare / "bin" / "chromium", f'{PRINTS}echo "%PDF-1.4 /Title (levelhead) $last" > "$f"\n')
    page = bare / "audit.html"
    page.write_text(f'<section id="{Chapter.APPENDIX}"></section>', encoding="utf-8")
    first, rest = write_pdfs(page)
    assert (first, rest) == (bare / "audit.pdf", bare / "audit-appendix.pdf")
    assert first.read_text(encoding="utf-8").endswith("audit.html\n")
    assert rest.read_text(encoding="utf-8").endswith("audit.html#appendix\n")


def test_a_page_without_an_appendix_is_one_file_and_no_foreign_one_is_replaced(bare: Path) -> None:
    program(bare / "bin" / "chromium", f"{PRINTS}echo '%PDF-1.4 /Title (levelhead)' > \"$f\"\n")
    page = bare / "heads.html"
    page.write_text("<main></main>", encoding="utf-8")
    assert write_pdfs(page) == [bare / "heads.pdf"]
    page.write_text(f'<section id="{Chapter.APPENDIX}"></section>', encoding="utf-8")
    (bare / "heads-appendix.pdf").write_text("%PDF-1.4 /Title (a thesis)", encoding="utf-8")
    with pytest.raises(BadRun, match="was not written by this command"):
        write_pdfs(page)


def test_what_the_browser_prints_becomes_the_file_and_a_foreign_pdf_stays(bare: Path) -> None:
    script = '#!/bin/sh\nfor o in "$@"; do case $o in --print-to-pdf=*) f=${o#*=};; esac; done\n'
    program(bare / "bin" / "chromium", f"{script}echo '%PDF-1.4 /Title (levelhead: x)' > \"$f\"\n")
    page, out = bare / "report.html", bare / "report.pdf"
    assert write_pdf(page, out).read_text(encoding="utf-8").startswith("%PDF-1.4")
    write_pdf(page, out)  # our own is replaced
    out.write_text("%PDF-1.4 /Title (a thesis)", encoding="utf-8")
    with pytest.raises(BadRun, match="was not written by this command"):
        write_pdf(page, out)
    assert "thesis" in out.read_text(encoding="utf-8")
    assert "levelhead" in write_pdf(page, out, force=True).read_text(encoding="utf-8")
