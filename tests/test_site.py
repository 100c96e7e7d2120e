"""The documentation site: it builds, every link holds, and its search finds the right page first."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TITLE = 1000.0  # how much more a heading counts than a text, as in the site's own configuration

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a broken link, or a page that is in no menu, fails."""
    pytest.importorskip("mkdocs", reason="pip install 'levelhead[docs]'")
    pytest.importorskip("mkdocstrings", reason="pip install 'levelhead[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_the_site_has_notebooks_and_the_reference(site: Path) -> None:
    assert (site / "notebooks" / "audit" / "index.html").is_file()
    assert "learn_gates" in (site / "reference" / "index.html").read_text(encoding="utf-8")
    commands = (site / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    assert 'id="levelhead-audit"' in commands
    assert "--max-perplexity" in commands
    assert "MitigateSettings" in (site / "reference" / "settings" / "index.html").read_text(encoding="utf-8")


def test_technical_words_lead_to_the_glossary_which_has_a_place_for_each(site: Path) -> None:
    places = set(re.findall(r'id="(term-[^"]+)"', (site / "glossary" / "index.html").read_text("utf-8")))
    linked = set()
    for page in site.rglob("index.html"):
        linked |= set(re.findall(r"glossary/#(term-[^\"]+)\"", page.read_text(encoding="utf-8")))
    assert len(linked) > 30
    assert linked <= places


def test_notes_of_the_laboratory_are_not_part_of_the_help(site: Path) -> None:
    assert not (site / "notes").exists()


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        ("latex table", {"reproduce/"}),
        ("time limit", {"mitigate/", "scale/"}),
        ("compare two models", {"survey/"}),
        ("slow", {"scale/"}),
        ("chat", {"chat/"}),
        ("null models", {"method/null-models/"}),
    ],
)
def test_a_search_finds_the_right_page_first(site: Path, query: str, pages: set[str]) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert found(entries, query)[0] in pages


def found(entries: list[dict[str, Any]], query: str) -> list[str]:
    """Pages in the order in which a search lists them: every term may be the beginning of a word, rare terms
    count more, and a heading counts more than the text below it (BM25 by field, as lunr has it)."""
    fields = [{name: Counter(tokens(entry[name])) for name in ("title", "text")} for entry in entries]
    scores: dict[str, float] = {}
    for term in tokens(query):
        for name, boost in (("title", TITLE), ("text", 1.0)):
            counts = [sum(n for word, n in each[name].items() if word.startswith(term)) for each in fields]
            rare = math.log(1 + len(entries) / (1 + sum(count > 0 for count in counts)))
            for entry, each, count in zip(entries, fields, counts, strict=True):
                length = sum(each[name].values())
                score = (
                    boost * rare * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 10)) if count else 0
                )
                scores[entry["location"]] = scores.get(entry["location"], 0.0) + score
    pages: dict[str, float] = {}
    for location, score in scores.items():
        page = location.partition("#")[0]
        pages[page] = max(score, pages.get(page, 0.0))
    return sorted(pages, key=lambda page: -pages[page])


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub(r"<[^>]+>", " ", text).casefold())
