"""What steers a terminal or turns a line around is shown by number, whichever way data leave."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.api.shown import html_table
from levelhead.cli.main import main
from levelhead.escaping import escaped, escaped_in
from levelhead.inference.comparing import compare
from levelhead.inference.contents import open_contents
from levelhead.pages.card import card, model_index
from levelhead.pages.page import render
from levelhead.pages.presented import comparison_page, presented
from levelhead.pages.renderers import RENDERERS, notebook_html
from levelhead.pages.tables import Cell, Part
from tests.report.synthetic import write_audit
from tests.typed import Typed

_CODES = (0, 7, 8, 11, 13, 27, 127, 0x85, 0x9B, 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), 0x2066, 0x2069)
STEERING = "".join(map(chr, _CODES))
NAME = f"red{STEERING}model"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OWN = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)  # what ships with a page


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of a model with a hostile name."""
    return write_audit(tmp_path_factory.mktemp("steering") / "run", NAME)


def test_line_ends_and_tabs_stay_and_all_else_is_a_number() -> None:
    assert escaped("a\tb\nc") == "a\tb\nc"
    assert escaped("\x1b[31m\u202eabc\u2069") == r"\u001b[31m\u202eabc\u2069"
    assert json.loads(escaped(json.dumps("x\u202e\x9b", ensure_ascii=False))) == "x\u202e\x9b"
    cell = Cell((Part("plain"),), "plain")
    assert escaped_in(cell) is cell
    assert escaped_in({"a": [replace(cell, raw="\u202e")]}) == {"a": [replace(cell, raw=r"\u202e")]}


def _html(folder: Path) -> str:
    return OWN.sub("", render(presented(open_contents(folder))))


def _charts(folder: Path) -> str:
    """What the page's scripts draw."""
    page = render(presented(open_contents(folder)))
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)
    assert data
    return "".join(json.dumps(json.loads(each), ensure_ascii=False) for each in data)


WRITERS: dict[str, Callable[[Path], str]] = {
    "markdown": lambda folder: RENDERERS["markdown"](presented(open_contents(folder))),
    "latex": lambda folder: RENDERERS["latex"](presented(open_contents(folder))),
    "csv": lambda folder: RENDERERS["csv"](presented(open_contents(folder))),
    "comparison": lambda folder: RENDERERS["markdown"](comparison_page(compare([folder, folder]))),
    "html": _html,
    "charts": _charts,
    "card": lambda folder: card(open_contents(folder)),
    "model index": lambda folder: model_index(open_contents(folder)),
    "notebook": lambda _: notebook_html(NAME, [NAME], {}),
    "python": lambda _: html_table(NAME, [{NAME: NAME}]),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_no_renderer_lets_a_steering_character_through(name: str, run: Path) -> None:
    text = WRITERS[name](run)
    assert not RAW.search(text), repr(RAW.findall(text))
    if name not in ("csv", "latex"):  # which have no model's name in their tables
        assert r"\u202e" in text


def test_junit_shows_them_too(run: Path, tmp_path: Path, typed: Typed) -> None:
    file = tmp_path / "checked.xml"
    assert typed("check", str(run), "--max", "seat=9", "--junit", str(file))[0] == 0
    text = file.read_text(encoding="utf-8")
    assert r"\u202e" in text
    assert not RAW.search(text)


@pytest.mark.parametrize("tty", [True, False])
@pytest.mark.parametrize(
    "words", [["card"], ["report", "--as", "text"], ["compare", "RUN"], ["compare", "RUN", "--json"]]
)
def test_neither_pipes_nor_terminals_get_one(
    words: list[str], tty: bool, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return tty

    stream = Stream()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(
            sys,
            "argv",
            ["levelhead", words[0], str(run), *(str(run) if word == "RUN" else word for word in words[1:])],
        )
        patch.setenv("COLUMNS", "400")
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    printed = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())  # rich paints tables
    assert not RAW.search(printed)
    assert r"\u202e" in printed
    if "--json" in words:
        assert NAME in json.loads(printed)["runs"][0]
