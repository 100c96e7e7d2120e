"""Sentences of files, folders and hub datasets, read in small pieces."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelhead.errors import BadProbe
from levelhead.probes.corpus import HEAD, corpus_sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We left! Did you? Yes.", ["It rained.", "We left!", "Did you?", "Yes."]),
        (
            "Mr. Hall met Dr. J. K. Bell in the U.S. Senate. They spoke.",
            ["Mr. Hall met Dr. J. K. Bell in the U.S. Senate.", "They spoke."],
        ),
        (
            "It cost 3.5 dollars, e.g. in shops. 12 were sold.",
            ["It cost 3.5 dollars, e.g. in shops.", "12 were sold."],
        ),
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
    st.lists(
        st.sampled_from(["She left", " early", ". ", "It rained. ", "\n", "and so", " Mr. Hall "]),
        max_size=40,
    ),
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


def refusal(source: str | Path) -> str:
    with pytest.raises(BadProbe) as caught:
        list(corpus_sentences(source))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- bytes


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_how_a_file_is_written(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "news.txt"
    path.write_bytes("In the café she was kind.\nHe left…".encode(encoding))
    assert list(corpus_sentences(path)) == ["In the café she was kind.", "He left…"]
    path.write_bytes('{"text": "In the café she was kind."}\n'.encode(encoding))
    assert list(corpus_sentences(path.rename(tmp_path / "news.jsonl"))) == ["In the café she was kind."]


def test_a_big_endian_mark_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "news.txt").write_bytes(b"\xfe\xff" + "She left.".encode("utf-16-be"))
    assert list(corpus_sentences(tmp_path / "news.txt")) == ["She left."]


def test_sentences_with_bytes_that_are_not_utf8_reach_no_reader_and_are_counted(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes(b"She left. In the caf\xe9 it rained. He came\x00. They slept.\n")
    skipped = Counter[str]()
    assert list(corpus_sentences(tmp_path / "old.txt", skipped)) == ["She left.", "They slept."]
    assert skipped == {"not UTF-8 text": 2}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_told_by_its_bytes(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "news.txt").write_bytes("She left.\nHe came.\n".encode(encoding))
    assert "(not UTF-8 text: " in refusal(tmp_path / "news.txt")


def test_an_empty_file_says_that_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    assert "it is empty" in refusal(tmp_path / "empty.txt")


# ---- rows


def json_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_of_json_lines_only_the_column_text_is_read(tmp_path: Path) -> None:
    rows = [
        {"label": "a man was here", "text": "She left. He\ncame."},
        {"label": "man", "text": "they slept"},
    ]
    assert list(corpus_sentences(json_lines(tmp_path / "a.jsonl", *rows))) == [
        "She left.",
        "He came.",
        "they slept",
    ]


def test_without_a_column_text_the_only_one_that_holds_text_is_read(tmp_path: Path) -> None:
    rows = [{"id": 1, "note": None, "body": "She left."}, {"id": 2, "note": None}, {"id": 3, "body": 4}]
    skipped = Counter[str]()
    assert list(corpus_sentences(json_lines(tmp_path / "a.jsonl", *rows), skipped)) == ["She left."]
    assert skipped == {"record without text": 2}


def test_of_several_text_columns_none_is_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"title": "No", "body": "She left.", "n": 3}
    hub(monkeypatch, [row])
    sources: list[tuple[Path | str, str]] = [
        (json_lines(tmp_path / "a.jsonl", row), 'Call the one to read "text".'),
        ("hub:org/news", "Write hub:NAME/CONFIG:SPLIT:COLUMN."),
    ]
    for source, advice in sources:
        message = refusal(source)
        assert message.startswith(f"{source}: ")
        assert all(term in message for term in ('"text"', "title, body", advice))


def test_half_a_character_in_json_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(r'{"text": "She \ud83d left. He came."}')
    assert list(corpus_sentences(path)) == ["He came."]


@pytest.mark.parametrize(
    "line",
    ["{half", "[1]", '"She left."', "[" * 100_000, f'{{"text": {"9" * 5000}}}'],
    ids=lambda line: line[:9],
)
def test_a_line_that_is_no_json_object_is_counted_and_the_rest_is_read(tmp_path: Path, line: str) -> None:
    skipped = Counter[str]()
    (tmp_path / "a.jsonl").write_text('{"text": "She left."}\n\n' + line + '\n{"text": "He came."}\n')
    assert list(corpus_sentences(tmp_path / "a.jsonl", skipped)) == ["She left.", "He came."]
    assert skipped == {"line that is no JSON object": 1}
    (tmp_path / "b.jsonl").write_text(line)
    assert "(line that is no JSON object: 1)" in refusal(tmp_path / "b.jsonl")


def test_entries_of_a_folder_that_cannot_be_read_are_counted_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("She left.")
    (tmp_path / "dead.txt").symlink_to(tmp_path / "nowhere.txt")
    (tmp_path / "closed.txt").write_text("He came.")
    (tmp_path / "folder.txt").mkdir()
    opened = Path.open

    def closed(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "closed.txt":  # root may read anything, so a mode would not do
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", closed)
    skipped = Counter[str]()
    assert list(corpus_sentences(tmp_path, skipped)) == ["She left."]
    assert skipped == {"file that cannot be read": 2}
    assert "cannot be read (Permission denied)" in refusal(tmp_path / "closed.txt")


def test_a_folder_of_files_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "dead.jsonl").symlink_to(tmp_path / "nowhere")
    assert "(file that cannot be read: 1)" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.TSV", "a.parquet", "a.txt.gz", "a.html"])
def test_a_file_that_is_no_plain_text_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"man": "She left."}')
    message = refusal(tmp_path / name)
    assert all(term in message for term in ("plain text", ".txt", ".jsonl"))


def test_a_folder_reads_txt_and_jsonl_and_counts_data_of_other_kinds(tmp_path: Path) -> None:
    json_lines(tmp_path / "b.jsonl", {"text": "he came"})
    json_lines(tmp_path / "c.jsonl", {"body": "they slept"})
    (tmp_path / "a.TXT").write_text("She left")
    for name in ("d.csv", "e.json", "README.md"):
        (tmp_path / name).write_text("a man, a plan")
    skipped = Counter[str]()
    assert list(corpus_sentences(tmp_path, skipped)) == ["She left", "he came", "they slept"]
    assert skipped == {"file that is no plain text": 2}


# ---- the hub


def hub(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], known: str = "org/news"
) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def load_dataset(path: str, config: str | None, *, split: str, streaming: bool) -> list[dict[str, Any]]:
        calls.append((path, config, split, streaming))
        if path != known:
            raise FileNotFoundError(f"Dataset {path} is not on the hub\nsecond line")
        return rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_a_hub_dataset_is_streamed_by_name_config_split_and_column(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"id": 1, "title": "No", "body": "She left. We know"},
        {"id": 2, "title": "No", "body": "it was late"},
    ]
    calls = hub(monkeypatch, rows)
    assert list(corpus_sentences("hub:org/news/en:test:body")) == ["She left.", "We know", "it was late"]
    assert calls == [("org/news", "en", "test", True)]


@pytest.mark.parametrize("source", ["hub:org/news", "hub:org/news:train:text"])
def test_a_null_cell_is_counted_and_no_other_column_is_read_in_its_place(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    texts = [None, "She left.", None, "It was late."]
    hub(monkeypatch, [{"title": f"The man of row {i}", "text": text} for i, text in enumerate(texts)])
    skipped = Counter[str]()
    assert list(corpus_sentences(source, skipped)) == ["She left.", "It was late."]
    assert skipped == {"record without text": 2}


def test_a_named_column_may_begin_with_nulls_but_must_hold_text_somewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nulls: list[dict[str, Any]] = [{"title": "No", "body": None}] * (HEAD + 5)
    hub(monkeypatch, [*nulls, {"title": "No", "body": "She left."}])
    assert list(corpus_sentences("hub:org/news:train:body")) == ["She left."]
    hub(monkeypatch, nulls)
    assert f"(record without text: {HEAD + 5})" in refusal("hub:org/news:train:body")


def test_two_parts_are_tried_as_owner_and_name_and_then_as_name_and_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = hub(monkeypatch, [{"n": 3, "text": "She left."}], known="news")
    assert list(corpus_sentences("hub:news/en")) == ["She left."]
    assert calls == [("news/en", None, "train", True), ("news", "en", "train", True)]


def test_hub_mistakes_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, [{"n": 3, "body": "She left."}])
    for source, expected in [
        ("hub:nothing", r"the dataset cannot be read \(Dataset nothing is not on the hub\)"),
        ("hub:org/news:train:text", 'no text column "text"; text columns: body'),
        ("hub:org/news:train:n", 'no text column "n"; text columns: body'),
        ("hub:", "no dataset named"),
    ]:
        with pytest.raises(BadProbe, match=expected) as caught:
            list(corpus_sentences(source))
        assert "\n" not in str(caught.value)


def test_a_missing_datasets_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadProbe, match=r"pip install levelhead\[hub\]"):
        list(corpus_sentences("hub:org/news"))


def test_reading_shows_how_many_characters_of_all_files_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    @contextmanager
    def steps(label: str, total: int) -> Iterator[Callable[[int], None]]:
        assert (label, total) == ("Reading corpus.txt", 2 * len(line) * 1000)
        yield done.append

    line = "The nurse was tired.\n"
    (tmp_path / "corpus.txt").write_text(line * 2000)
    monkeypatch.setattr("levelhead.progress.steps", steps)
    assert len(list(corpus_sentences(tmp_path / "corpus.txt"))) == 2000
    assert done == [len(line) * 1000] * 2
