"""Files of the user's: one line for what cannot be read, and items that are left out, never forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelhead.errors import BadProbe
from levelhead.probes import files
from levelhead.probes.benchmark_files import Reader, Source, json_rows, table_rows
from levelhead.probes.files import (
    LONGEST,
    BadItem,
    Place,
    UnusableItem,
    by_reason,
    is_whole,
    nothing_left,
    parse_json,
    parse_toml,
    read_text,
    shown,
    usable,
)
from levelhead.probes.pairs import read_pairs


def even(n: int) -> int:
    if n % 2:
        raise BadItem(Place("numbers.txt", n), "odd", f"{n} is odd.")
    return n


def test_items_that_cannot_be_used_are_left_out_in_order_with_line_reason_and_complaint() -> None:
    left_out: list[UnusableItem] = []
    assert list(usable(range(1, 6), even, left_out, strict=False)) == [2, 4]
    assert [item.line for item in left_out] == [1, 3, 5]
    assert by_reason(left_out) == {"odd": 3}
    assert left_out[1] == UnusableItem(3, "odd", "numbers.txt line 3: 3 is odd.")


def test_a_strict_reader_raises_the_first_complaint() -> None:
    with pytest.raises(BadProbe, match=r"^numbers\.txt line 1: 1 is odd\.$"):
        list(usable(range(1, 6), even, [], strict=True))


def test_other_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        list(usable([0], lambda n: 1 // n, [], strict=False))


def test_reasons_are_counted_commonest_first_and_the_first_complaint_is_kept() -> None:
    items = [
        UnusableItem(1, "a", "f line 1: x"),
        UnusableItem(2, "b", "f line 2: y"),
        UnusableItem(3, "b", "z"),
    ]
    assert list(by_reason(items).items()) == [("b", 2), ("a", 1)]
    message = str(nothing_left("f", "line", items))
    assert message.startswith("f: no line")
    assert "(b: 2, a: 1)" in message
    assert message.endswith("f line 1: x")


def test_texts_are_read_with_and_without_a_mark_and_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffcafé".encode())
    assert read_text(path, "Give text.") == "café"
    path.write_bytes(b"caf\xe9")
    for bad, message in [
        (path, "not UTF-8 text"),
        (tmp_path, "cannot be read"),
        (Path("a\0b"), "cannot be read"),
    ]:
        with pytest.raises(BadProbe, match=message) as caught:
            read_text(bad, "Give text.")
        assert str(caught.value).endswith("Give text.")
        assert "\n" not in str(caught.value)


def test_json_says_why_it_cannot_be_read_and_where() -> None:
    assert parse_json('{"a": [1, 2.5, null]}') == ({"a": [1, 2.5, None]}, "", 0)
    _, reason, line = parse_json("{\n oops}")
    assert (reason.startswith("not JSON ("), line) == (True, 2)
    assert "nested too deep" in parse_json("[" * 100_000)[1]
    assert "too long" in parse_json("9" * 5000)[1]


def test_toml_says_why_it_cannot_be_read() -> None:
    path = Path("own.toml")
    assert parse_toml(path, "a = 1", "") == {"a": 1}
    for text, message in [
        ("a =", "is not TOML"),
        ("a = " + "[" * 5000, "nested"),
        ("a = " + "9" * 5000, "long"),
    ]:
        with pytest.raises(BadProbe, match=rf"^own\.toml .*{message}.* See the docs\.$"):
            parse_toml(path, text, "See the docs.")


def test_any_value_can_be_shown() -> None:
    nest: list[object] = []
    for _ in range(100_000):
        nest = [nest]
    assert shown("word") == "'word'"
    assert len(shown("w" * 500)) == 61
    assert shown(16**5000) == "int, too long to show"
    assert shown(nest) == "list, too long to show"


def test_half_a_character_is_seen() -> None:
    assert is_whole("😀 é")
    assert not is_whole("\ud83d")


# ---- texts and files that nobody meant to give


def test_a_text_of_more_than_100000_characters_is_left_out_with_its_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "long.tsv"
    file.write_text(f"She left.\tHe left.\nShe {'x' * LONGEST}\tHe left.\n", encoding="utf-8")
    read = read_pairs(file)
    assert len(read.pairs) == 1
    (left,) = read.unusable
    assert (left.line, left.reason) == (2, "a text is too long")
    assert left.complaint.startswith("long.tsv line 2: a text of 100,0")
    with pytest.raises(BadProbe, match=r"^long.tsv line 2: a text of [\d,]+ characters; at most 100,000 "):
        read_pairs(file, strict=True)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_benchmark_of_nothing_but_huge_texts_is_one_line(ending: str, tmp_path: Path) -> None:
    file, huge = tmp_path / f"huge.{ending}", "word " * 2_000_000
    row = {"context": huge, "question": "Who?", "ans0": "a", "ans1": "b", "ans2": "c"}
    if ending == "jsonl":
        file.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n", encoding="utf-8")
        reader = Reader(Source(str(file), "a benchmark", ("*",)))
        assert reader.read(json_rows(file), lambda row: row.text("context")) == []
        assert "huge.jsonl line 1: a text of 10,000,000 characters" in str(reader.nothing_left("question"))
        return
    file.write_text(f"a,b\nx,{huge}\n", encoding="utf-8")
    with pytest.raises(BadProbe, match=r"^huge.csv line 2: "):
        table_rows(file, ("a",))


def test_a_file_larger_than_any_published_one_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_LARGEST", 10)
    (tmp_path / "large.txt").write_text("more than ten", encoding="utf-8")
    with pytest.raises(BadProbe, match="13 bytes; at most 10 are allowed"):
        read_text(tmp_path / "large.txt", "Give a smaller one.")


def test_a_huge_text_in_toml_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        BadProbe, match=r"own.toml: a text of 100,001 characters; at most 100,000 are allowed"
    ):
        parse_toml(tmp_path / "own.toml", f'a = ["{"x" * 100_001}"]', "")
