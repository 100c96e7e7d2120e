"""Word lists: ours, a user's, and the published ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.errors import BadProbe
from levelhead.probes.bias import about_gender, swap_for
from levelhead.probes.words import (
    WordTest,
    load_published_race,
    load_seat_test,
    load_words,
    shipped_words,
)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published data are not beside the checkout")

RELIGION = """\
name = "religion"
labels = ["Muslim", "Christian", "threat", "peace"]

A = ["mosque", "imam",
     "quran"]   # "church" in a comment is no word
B = ["church", "pastor", "bible"]
X = ["violent", "hostile"]
Y = ["peaceful"]
"""


def written(folder: Path, text: str, name: str = "religion.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(BadProbe) as caught:
        load_words(written(folder, text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_gender_has_over_200_distinct_pairs_and_80_targets_a_side_in_equal_number() -> None:
    test = load_words("gender")
    assert len(set(test.pairs)) == len(test.pairs) >= 200
    assert len(set(test.X)) == len(set(test.Y)) == len(test.X) >= 80
    assert ("she", "he") in test.pairs
    assert test.A[0] == "she"
    assert "nurse" in test.X
    assert "engineer" in test.Y


def test_the_kinds_of_gender_targets_are_the_whole_list_in_equal_numbers() -> None:
    test = load_words("gender")
    parts = test.by_part()
    assert {name: (len(part.X), len(part.Y)) for name, part in parts.items()} == {
        "occupations": (43, 43),
        "traits": (49, 49),
        "things": (43, 43),
    }
    assert sorted(word for part in parts.values() for word in part.X) == sorted(test.X)
    assert sorted(word for part in parts.values() for word in part.Y) == sorted(test.Y)
    assert parts["traits"].pairs == test.pairs
    assert load_words("race").by_part() == {}


def test_a_kind_needs_two_words_of_either_side_and_parts_change_the_fingerprint(tmp_path: Path) -> None:
    plain = RELIGION.replace('["peaceful"]', '["peaceful", "gentle"]')
    deeds = 'deeds = ["violent", "hostile", "peaceful"]'
    parts = f'[parts]\n{deeds}\nall = ["violent", "hostile", "peaceful", "gentle"]\n'
    test, without = load_words(written(tmp_path, plain + parts)), load_words(written(tmp_path, plain))
    assert list(test.by_part()) == ["all"]
    assert test.fingerprint() != without.fingerprint()


def test_a_test_of_some_words_keeps_a_pair_where_both_of_its_words_are_left() -> None:
    some = load_words("gender").of({"she", "he", "woman", "nurse", "engineer"})
    assert some.groups() == {"A": ("she", "woman"), "B": ("he",), "X": ("nurse",), "Y": ("engineer",)}
    assert some.pairs == (("she", "he"),)


def test_race_attributes_are_the_papers_three_pairs_with_their_repeats() -> None:
    test = load_words("race")
    assert test.A == ("black", "African", "black")
    assert test.B == ("Caucasian", "Caucasian", "white")
    assert len(test.X) == len(test.Y)
    assert "criminal" in test.X


@pytest.mark.parametrize("name", shipped_words())
def test_shipped_words_are_plain_words_in_one_group_only_and_targets_single_ones(name: str) -> None:
    test = load_words(name)
    assert test.name == name
    words = [set(group) for group in test.groups().values()]
    assert sum(map(len, words)) == len(set().union(*words))
    assert all(re.fullmatch(r"[A-Z]?[a-z]+( [a-z]+)?", word) for word in set().union(*words))
    assert all(word.isalpha() for word in (*test.X, *test.Y))
    assert test.pairs
    assert len(test.X) == len(test.Y)
    assert "A" not in test.labels


def test_twelve_tests_ship_and_each_says_what_it_does_not_cover() -> None:
    of_people = ("age", "black-women", "class", "disability", "nationality", "older-women", "religion")
    assert shipped_words() == tuple(sorted((*of_people, "career", "gender", "math", "race", "science")))
    for name in of_people:
        test = load_words(name)
        assert not about_gender(test)
        assert len(test.X) == len(test.Y) == 16
    assert all(load_words(name).not_covered for name in shipped_words())


@needs_data
def test_shipped_gender_words_are_not_the_published_lists() -> None:
    ours, theirs = load_words("gender"), load_words(DATA / "word-lists")
    assert len(set(ours.X) & set(theirs.X)) < len(theirs.X) / 2
    assert len(set(ours.Y) & set(theirs.Y)) < len(theirs.Y) / 2


def test_a_users_religion_list_loads_with_sets_of_different_size(tmp_path: Path) -> None:
    test = load_words(written(tmp_path, RELIGION))
    assert test.A == ("mosque", "imam", "quran")
    assert test.Y == ("peaceful",)
    assert test.labels == ("Muslim", "Christian", "threat", "peace")
    assert test.pairs == (("mosque", "church"), ("imam", "pastor"), ("quran", "bible"))


def test_pairs_alone_give_a_and_b_with_repeats_as_given(tmp_path: Path) -> None:
    text = 'pairs = [["black", "white"], ["black", "caucasian"]]\nX = ["x"]\nY = ["y"]\n'
    test = load_words(written(tmp_path, text, "colors.toml"))
    assert (test.A, test.B) == (("black", "black"), ("white", "caucasian"))
    assert test.name == "colors"


def test_x_and_y_are_trimmed_to_equal_size_only_when_asked(tmp_path: Path) -> None:
    path = written(tmp_path, RELIGION)
    assert len(load_words(path).X) == 2
    assert load_words(path, trim=True).X == ("violent",)


def test_attribute_sets_of_different_length_load_but_have_no_counterparts(tmp_path: Path) -> None:
    test = load_words(written(tmp_path, RELIGION.replace(', "bible"]', "]")))
    assert (len(test.A), len(test.B)) == (3, 2)
    with pytest.raises(BadProbe, match=r"religion: no pairs .*\|A\| = 3, \|B\| = 2"):
        test.counterparts()


def test_one_word_sets_load(tmp_path: Path) -> None:
    test = load_words(written(tmp_path, 'A = ["a"]\nB = ["b"]\nX = ["x"]\nY = ["y"]\n'))
    assert test.groups() == {"A": ("a",), "B": ("b",), "X": ("x",), "Y": ("y",)}


def test_counterparts_go_both_ways_and_keep_every_choice() -> None:
    both = load_words("gender").counterparts()
    assert both["her"] == ("him", "his")
    assert both["his"] == ("her", "hers")
    assert both["queen"] == ("king",)
    assert both["king"] == ("queen",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('Y = ["peaceful"]', 'Y = ["peaceful", "hostile"]', 'line 8: "hostile" is in Y and in X (line 7)'),
        ('"pastor"', '"Mosque"', 'line 6: "Mosque" is in B and in A (line 4)'),
        ('"hostile"]', '"quran"]', 'line 7: "quran" is in X and in A (line 5)'),
        ("labels", "label", 'line 2: unknown key "label". Did you mean "labels"?'),
        ("Y =", "Ys =", 'line 8: unknown key "Ys". Did you mean "Y"?'),
        ("Y =", "X =", 'line 8: the key "X" was already given in line 7'),
        ('["peaceful"]', "[]", "line 8: the list Y is empty"),
        ('["peaceful"]', '"peaceful"', "line 8: Y is 'peaceful'"),
        ('     "quran"]', "     7]", "line 5: 7 in A is not a word"),
        ('"hostile"]', '"hostile, cruel"]', 'line 7: "hostile, cruel" in X looks like several words'),
        ('"hostile"]', '" hostile"]', 'line 7: " hostile" in X is empty or has needless spaces'),
        ('"hostile"]', '""]', 'line 7: "" in X is empty or has needless spaces'),
        (
            '"violent", "hostile"',
            '"violent" "hostile"',
            'line 7: not valid TOML near \'X = ["violent" "hostile"]\'',
        ),
        ('"violent", "hostile"', "violent", "line 7: not valid TOML"),
        ('Y = ["peaceful"]', "", "the list Y is missing"),
        ('name = "religion"', "name = 5", "line 1: name is 5"),
        ('"threat", "peace"]', '"threat"]', "line 2: labels is"),
        ('["peaceful"]', '["peaceful"]\nparts = 3', "line 9: parts is 3; it must be a table"),
        ('["peaceful"]', '["peaceful"]\n[parts]\ndeeds = []', 'line 10: the part "deeds" is []'),
        ('["peaceful"]', '["peaceful"]\n[parts]\ndeeds = ["imam"]', "line 10: 'imam' in the part 'deeds'"),
    ],
)
def test_a_mistake_in_a_list_names_file_line_and_word(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    assert old in RELIGION
    message = complaint(tmp_path, RELIGION.replace(old, new))
    assert message.startswith("religion.toml")
    assert expected in message


def test_a_typo_in_a_pair_names_its_line_and_suggests_the_word(tmp_path: Path) -> None:
    message = complaint(tmp_path, RELIGION + 'pairs = [\n  ["imam", "pastor"],\n  ["mosqe", "church"],\n]\n')
    assert message.startswith('religion.toml line 11: "mosqe"')
    assert '"mosque"' in message


def test_a_pair_of_three_names_its_line(tmp_path: Path) -> None:
    message = complaint(
        tmp_path, RELIGION + 'pairs = [\n  ["imam", "pastor"],\n  ["mosque", "church", "temple"]]\n'
    )
    assert message.startswith("religion.toml line 11: ['mosque', 'church', 'temple']")


def test_strange_files_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b'X = ["caf\xe9"]')
    (tmp_path / "words.csv").write_text("a,b")
    for name, expected in [
        ("bytes.toml", "not UTF-8"),
        ("words.csv", "not a word list"),
        ("none.toml", "No word list"),
    ]:
        with pytest.raises(BadProbe, match=expected):
            load_words(tmp_path / name)
    assert "missing" in complaint(tmp_path, "")


def test_tables_in_place_of_lists_are_refused(tmp_path: Path) -> None:
    message = complaint(tmp_path, '[A]\nwords = ["a"]\n[B]\nwords = ["b"]\n')
    assert "A is {'words': ['a']}; it must" in message


def test_a_misspelt_shipped_name_suggests_the_right_one() -> None:
    with pytest.raises(BadProbe, match=r'No word list "gendr".*Did you mean "gender"\?'):
        load_words("gendr")


def test_a_file_of_the_same_name_does_not_hide_a_shipped_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "race").mkdir()
    assert load_words("race").name == "race"


def test_a_test_made_in_python_refuses_overlap_and_empty_sets() -> None:
    with pytest.raises(BadProbe, match='t: "kind" in X and in Y'):
        WordTest("t", ("a",), ("b",), ("kind", "x"), ("Kind",))
    with pytest.raises(BadProbe, match="t: the list B is empty"):
        WordTest("t", ("a",), (), ("x",), ("y",))


def test_fingerprint_follows_words_and_order_but_not_names(tmp_path: Path) -> None:
    first = load_words(written(tmp_path, RELIGION)).fingerprint()
    renamed = load_words(written(tmp_path, RELIGION.replace("threat", "menace"))).fingerprint()
    turned = load_words(written(tmp_path, RELIGION.replace('"violent", "hostile"', '"hostile", "violent"')))
    assert first == renamed
    assert first != turned.fingerprint()


def test_a_folder_in_the_form_of_the_published_gender_lists_loads_as_it_is(tmp_path: Path) -> None:
    written(tmp_path, "aunt\nqueen\naunt\n", "female.txt")
    written(tmp_path, "uncle\nking\nuncle\n", "male.txt")
    written(tmp_path, "sewing\nwelding\nhair_salon\ngarage\n\n", "stereotype.txt")
    test = load_words(tmp_path)
    assert test.pairs == (("aunt", "uncle"), ("queen", "king"), ("aunt", "uncle"))
    assert (test.X, test.Y) == (("sewing", "hair_salon"), ("welding", "garage"))
    written(tmp_path, "uncle\nking\n", "male.txt")
    with pytest.raises(BadProbe, match=r"3 words in female\.txt, 2 in male\.txt"):
        load_words(tmp_path)


@needs_data
def test_the_published_gender_folder_loads_as_it_is() -> None:
    test = load_words(DATA / "word-lists")
    assert [len(words) for words in test.groups().values()] == [222, 222, 84, 84]
    assert test.pairs[0] == ("countrywoman", "countryman")
    assert (test.X[0], test.Y[0], test.X[1], test.Y[1]) == ("aerobics", "adventurer", "apparel", "aggressive")


def test_a_file_in_the_form_of_the_published_race_attributes_loads_three_pairs_and_roles(
    tmp_path: Path,
) -> None:
    roles = {"black": ["a", "b"], "caucasian": ["c", "d", "e"], "asian": ["f"]}
    sets = [["black", "caucasian", "asian"]] * 2 + [["black", "white", "asian"], ["africa", "europe", "asia"]]
    content = {"definite_sets": sets, "analogy_templates": {"role": roles}, "testTerms": ["chair"]}
    test = load_words(written(tmp_path, json.dumps(content), "race.json"))
    assert test.pairs == (("black", "caucasian"), ("black", "caucasian"), ("black", "white"))
    assert (test.X, test.Y) == (("a", "b"), ("c", "d", "e"))
    assert load_words(test, trim=True).Y == ("c", "d")


@needs_data
def test_the_published_race_file_loads_and_trims_to_the_papers_ten_targets() -> None:
    test = load_words(DATA / "word-lists" / "race_attributes_optm.json")
    assert test.pairs == tuple((a.lower(), b.lower()) for a, b in load_words("race").pairs)
    assert (len(test.X), len(test.Y)) == (5, 6)
    trimmed = load_words(test, trim=True)
    assert len(trimmed.X + trimmed.Y) == 10


def seat_file(folder: Path, x: str) -> Path:
    parts = {"targ1": x, "targ2": "This is art.", "attr1": "This is he.", "attr2": "This is she."}
    content = {key: {"category": f"C-{key}", "examples": [text]} for key, text in parts.items()}
    return written(folder, json.dumps(content), "sent-own.jsonl")


def test_a_file_in_the_form_of_the_published_seat_tests_loads_with_its_categories(tmp_path: Path) -> None:
    test = load_seat_test(seat_file(tmp_path, "This is math."))
    assert (test.A, test.B) == (("This is he.",), ("This is she.",))
    assert (test.X, test.Y) == (("This is math.",), ("This is art.",))
    assert test.labels == ("C-attr1", "C-attr2", "C-targ1", "C-targ2")
    with pytest.raises(BadProbe, match=r'"This is he\." in A is a sentence.*levelhead seat'):
        load_words(seat_file(tmp_path, "This is math."))


@needs_data
@pytest.mark.parametrize("path", sorted((DATA / "seat").glob("*.jsonl")), ids=lambda p: p.stem)
def test_every_published_seat_file_loads(path: Path) -> None:
    test, raw = load_seat_test(path), json.loads(path.read_text())
    assert list(test.X) == raw["targ1"]["examples"]
    assert list(test.Y) == raw["targ2"]["examples"]
    assert list(test.A) == raw["attr1"]["examples"]
    assert test.labels[1] == raw["attr2"]["category"]


@needs_data
def test_a_weat_file_is_a_word_test_and_a_sentence_file_is_refused_as_one() -> None:
    assert load_words(DATA / "seat" / "weat7.jsonl").X[0] == "math"
    with pytest.raises(BadProbe, match=r'"This is an executive\." in A is a sentence.*levelhead seat'):
        load_words(DATA / "seat" / "sent-weat6.jsonl")


@pytest.mark.parametrize(
    "text", ["[]", '{"targ1": {"examples": []}}', '{"targ1": 3}', '{"attr1": {"examples": [1]}}']
)
def test_a_json_without_the_needed_parts_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text, "x.json")
    with pytest.raises(BadProbe, match=r"x\.json: no race attributes"):
        load_published_race(path)
    with pytest.raises(BadProbe, match=r"x\.json: attr1 must hold"):
        load_seat_test(path)


def test_broken_json_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match=r"x\.jsonl line 2: not JSON"):
        load_seat_test(written(tmp_path, '{"targ1":\n nothing}', "x.jsonl"))


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, f'{{"targ1": {"9" * 5000}}}', '{"attr1": {"examples": ["\\ud83d"]}}'],
    ids=["nest", "number", "surrogate"],
)
def test_a_json_that_cannot_be_read_or_written_is_one_line(tmp_path: Path, text: str) -> None:
    for load in (load_seat_test, load_published_race):
        with pytest.raises(BadProbe, match=r"^x\.json") as caught:
            load(written(tmp_path, text, "x.json"))
        assert "\n" not in str(caught.value)


def test_a_race_file_with_half_a_character_is_one_line(tmp_path: Path) -> None:
    roles = {"black": ["\ud83d"], "caucasian": ["b"]}
    content = {"definite_sets": [["black", "white"]] * 3, "analogy_templates": {"role": roles}}
    with pytest.raises(BadProbe, match="half a character"):
        load_published_race(written(tmp_path, json.dumps(content), "x.json"))


@pytest.mark.parametrize(
    "text",
    [f"X = {'[' * 5000}{']' * 5000}", f"X = {'9' * 5000}", f"name = 0x{'f' * 5000}", f"X = [0x{'f' * 5000}]"],
    ids=["nest", "number", "hexadecimal name", "hexadecimal word"],
)
def test_a_toml_that_cannot_be_read_or_shown_is_one_line(tmp_path: Path, text: str) -> None:
    assert len(complaint(tmp_path, text)) < 300


def test_a_folder_without_the_three_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "female.txt").write_text("she\n")
    with pytest.raises(BadProbe, match=r"male\.txt, stereotype\.txt not found"):
        load_words(tmp_path)


def test_the_page_about_own_words_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "own-words.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(toml|python)\n(.*?)```", page, re.DOTALL)
    (tmp_path / "religion.toml").write_text("".join(code for kind, code in blocks if kind == "toml"))
    python = "".join(code for kind, code in blocks if kind == "python")
    exec(compile(python, "own-words.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*\)\s+# (.*)", python)
    assert len(printed) == len(promised) == 5
    assert printed[:4] == promised[:4]
    attributes, targets = (
        ("muslim", "quran", "christian", "pastor", "bible"),
        ("violent", "dangerous", "radical"),
    )
    assert printed[4] == str((*attributes, *targets, "peaceful", "gentle", "moderate"))
    assert promised[4] == "the listed words that no sentence holds"


def test_texts_are_exchanged_by_the_pairs_or_by_rows_of_as_many_groups_as_a_list_states(
    tmp_path: Path,
) -> None:
    lists = {
        "X": ["violent", "strict"],
        "Y": ["gentle", "kind"],
        "pairs": [["mosque", "church"], ["imam", "priest"]],
    }
    test = load_words(lists)
    assert test.exchanged == ()
    assert test.rows == test.pairs
    path = tmp_path / "faiths.toml"
    rows = '[["mosque", "church", "temple"], ["imam", "priest", "monk"], ["Eid", "Easter", "Vesak"]]'
    path.write_text(f'X = ["violent"]\nY = ["gentle"]\npairs = [["mosque", "church"]]\nexchanged = {rows}\n')
    three = load_words(path)
    assert three.pairs == (("mosque", "church"),)
    assert swap_for(three)("The imam of the church").text == "The priest of the temple"
    assert swap_for(three).groups == 3


def test_a_part_of_a_list_exchanges_all_of_its_rows() -> None:
    test = load_words("religion")
    part = test.of({"mosque", "church", *test.X, *test.Y})
    assert part.pairs == (("mosque", "church"),)
    assert part.rows == test.rows == test.exchanged
    assert swap_for(part) == swap_for(test)
    own = replace(test, exchanged=()).of({"mosque", "church", *test.X, *test.Y})
    assert own.rows == test.pairs


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ('[["a", "b"], ["c", "d", "e"]]', "rows of exchanged have 2 and 3 words"),
        ('[["a"]]', "rows of exchanged have 1 words"),
        ("[]", "exchanged must be a list such as"),
        ('["a"]', '"a" in exchanged is not a row'),
    ],
)
def test_rows_without_one_word_per_group_are_refused_with_their_line(
    tmp_path: Path, rows: str, complaint: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'X = ["x"]\nY = ["y"]\npairs = [["m", "n"]]\nexchanged = {rows}\n')
    with pytest.raises(BadProbe, match="own.toml line 4: .*" + re.escape(complaint).replace('"a"', ".a.")):
        load_words(path)
