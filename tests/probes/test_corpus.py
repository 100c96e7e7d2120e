"""Sentences of files, folders and hub datasets, read in small pieces."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelhead.errors import BadProbe
from levelhead.probes.corpus import corpus_sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We left! Did you? Yes.", ["It rained.", "We left!", "Did you?", "Yes."]),
        (
            "Mr. Hall met Dr. J. K. Bell in the U.S. Senate. They spoke.",
            ["Mr. Hall met Dr. J. K. Bell in the U.S. Senate.", "They spoke."],
        ),
        ("It cost 3.5 dollars, e.g. in shops. 12 were sold.", ["It cost 3.5 dollars, e.g. in shops.", "12 were sold."]),
        (
            '"It is late." She left. (He did not.) They slept.',
            ['"It is late."', "She left.", "(He did not.)", "They slept."],
        ),
        ("the film , a hit . He had a role .", ["the film , a hit .", "He had a role ."]),
        ("A Heading\nThe text begins here.\n", ["A Heading", "The text begins here."]),
        (
            "A line that was wrapped\nin the middle goes on.\nNext one.\n",
            ["A line that was wrapped in the middle goes on.", "Next one."],
        ),
        ("One paragraph\n\nanother paragraph", ["One paragraph", "another paragraph"]),
        ("\n \n", []),
    ],
)
def test_sentences_are_split_where_a_reader_would(text: str, expected: list[str]) -> None:
    assert list(split_sentences(text.splitlines(keepends=True))) == expected


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["She left", " early", ". ", "It rained. ", "\n", "and so", " Mr. Hall "]), max_size=40),
    st.integers(1, 9),
)
def test_sentences_do_not_depend_on_the_pieces_of_a_long_line(parts: list[str], size: int) -> None:
    lines = "".join(parts).splitlines(keepends=True)
    pieces = [line[i : i + size] for line in lines for i in range(0, len(line), size)]
    assert list(split_sentences(pieces)) == list(split_sentences(lines))


def test_a_text_without_line_breaks_splits_like_the_same_text_with_them(tmp_path: Path) -> None:
    sentences = [f"Sentence {i} has a few words in it." for i in range(6000)]
    (tmp_path / "long.txt").write_text(" ".join(sentences))
    assert list(corpus_sentences(tmp_path / "long.txt")) == sentences


def test_a_folder_is_read_in_order_of_its_txt_files_without_joining_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("she was kind")
    (tmp_path / "a.txt").write_text("We know that")
    (tmp_path / "deep" / "c.txt").write_text("he was bold")
    (tmp_path / "d.md").write_text("not a corpus file")
    assert list(corpus_sentences(tmp_path)) == ["We know that", "she was kind", "he was bold"]


def test_a_line_without_any_full_stop_does_not_fill_the_memory() -> None:
    pieces = (f"word{i} " * 8000 for i in range(100))
    tracemalloc.start()
    try:
        longest = max(len(sentence) for sentence in split_sentences(pieces))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert longest < 200_000
    assert peak < 10_000_000


def hub(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], known: str = "org/news") -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def load_dataset(path: str, config: str | None, *, split: str, streaming: bool) -> list[dict[str, Any]]:
        calls.append((path, config, split, streaming))
        if path != known:
            raise FileNotFoundError(f"Dataset {path} is not on the hub\nsecond line")
        return rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_a_hub_dataset_is_streamed_by_name_config_split_and_column(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": 1, "title": "No", "body": "She left. We know"}, {"id": 2, "title": "No", "body": "it was late"}]
    calls = hub(monkeypatch, rows)
    assert list(corpus_sentences("hub:org/news/en:test:body")) == ["She left.", "We know", "it was late"]
    assert calls == [("org/news", "en", "test", True)]


def test_two_parts_are_tried_as_owner_and_name_and_then_as_name_and_config(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = hub(monkeypatch, [{"n": 3, "text": "She left."}], known="news")
    assert list(corpus_sentences("hub:news/en")) == ["She left."]
    assert calls == [("news/en", None, "train", True), ("news", "en", "train", True)]


def test_hub_mistakes_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, [{"n": 3, "body": "She left."}])
    for source, expected in [
        ("hub:nothing", r"the dataset cannot be read \(Dataset nothing is not on the hub\)"),
        ("hub:org/news:train:text", 'no text column "text" in this dataset; text columns: body'),
        ("hub:", "no dataset named"),
    ]:
        with pytest.raises(BadProbe, match=expected) as caught:
            list(corpus_sentences(source))
        assert "\n" not in str(caught.value)


def test_a_missing_datasets_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadProbe, match=r"pip install levelhead\[hub\]"):
        list(corpus_sentences("hub:org/news"))
