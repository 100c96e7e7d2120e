import difflib
from pathlib import Path

import pytest

from levelhead.errors import BadProbe
from levelhead.probes.pairs import InputPair, gender_sentence_pairs, load_pairs, nli_pair_inputs, read_pairs
from levelhead.probes.swap import swap

NLI_DATA = Path(__file__).resolve().parents[2] / "src" / "levelhead" / "probes" / "data" / "nli"


def differing_words(feminine: str, masculine: str) -> list[tuple[str, str]]:
    return [(f, m) for f, m in zip(feminine.split(), masculine.split(), strict=True) if f != m]


def test_at_least_120_sentence_pairs_ship_and_none_is_repeated() -> None:
    pairs = gender_sentence_pairs()
    assert len(pairs) >= 120
    assert len({pair.feminine for pair in pairs}) == len({pair.masculine for pair in pairs}) == len(pairs)
    assert all(pair.feminine[1] is None and pair.masculine[1] is None for pair in pairs)


def test_at_least_120_pair_inputs_ship_and_none_is_repeated() -> None:
    pairs = nli_pair_inputs()
    assert len(pairs) >= 120
    assert len({pair.feminine for pair in pairs}) == len({pair.masculine for pair in pairs}) == len(pairs)
    assert all(pair.feminine[1] and pair.masculine[1] for pair in pairs)


@pytest.mark.parametrize(
    "pair", [*gender_sentence_pairs(), *nli_pair_inputs()], ids=lambda pair: pair.feminine[0]
)
def test_shipped_pair_is_aligned_and_its_masculine_form_is_the_swapped_feminine_form(pair: InputPair) -> None:
    assert pair.aligned
    for feminine, masculine in zip(pair.feminine, pair.masculine, strict=True):
        if feminine is not None and masculine is not None:
            swapped = swap(feminine)
            assert not swapped.problems
            assert swapped.text == masculine


def test_shipped_sentences_use_many_different_gender_words() -> None:
    used = [
        words
        for pair in gender_sentence_pairs()
        for words in differing_words(pair.feminine[0], pair.masculine[0])
    ]
    assert len({(f.strip(".,?!'s").lower(), m.strip(".,?!'s").lower()) for f, m in used}) >= 45
    most = max(used.count(words) for words in set(used))
    assert most <= len(used) / 4


def test_pair_inputs_differ_in_the_hypothesis_in_the_premise_or_in_both() -> None:
    pairs = nli_pair_inputs()
    sides = [(p.feminine[0] != p.masculine[0], p.feminine[1] != p.masculine[1]) for p in pairs]
    assert sides.count((False, True)) >= 50
    assert sides.count((True, False)) >= 25
    assert sides.count((True, True)) >= 25


def test_pair_inputs_never_use_the_wording_of_the_occupation_probe() -> None:
    contexts = [line.strip() for line in (NLI_DATA / "contexts.txt").read_text().splitlines() if line.strip()]
    occupations = {
        line.strip() for line in (NLI_DATA / "occupations.txt").read_text().splitlines() if line.strip()
    }
    assert contexts
    assert occupations
    for pair in nli_pair_inputs():
        premise, hypothesis = pair.feminine
        assert hypothesis is not None
        for text in (premise, hypothesis):
            assert not any(text.rstrip(".").endswith(context) for context in contexts), text
        subject = premise.split()[1].strip(",.").lower()
        about_person = hypothesis.startswith(("The woman", "The man"))
        assert not (premise.startswith("The ") and subject in occupations and about_person)


def test_shipped_sentences_are_not_variants_of_one_mold() -> None:
    texts = [pair.feminine[0] for pair in gender_sentence_pairs()]
    close = [
        (one, other)
        for i, one in enumerate(texts)
        for other in texts[i + 1 :]
        if difflib.SequenceMatcher(None, one.split(), other.split()).ratio() > 0.8
    ]
    assert close == []


def test_own_file_of_two_columns_loads(tmp_path: Path) -> None:
    file = tmp_path / "own.tsv"
    file.write_text("feminine\tmasculine\nShe ran.\tHe ran.\n\nHer dog sleeps.\tHis dog sleeps.\n")
    assert load_pairs(file) == (
        InputPair(("She ran.", None), ("He ran.", None)),
        InputPair(("Her dog sleeps.", None), ("His dog sleeps.", None)),
    )


def test_own_file_of_four_columns_loads_without_a_header_and_with_windows_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "own.tsv"
    file.write_bytes("\ufeffA cat sat.\tShe sat.\tA cat sat.\tHe sat.\r\n".encode())
    assert load_pairs(file) == (InputPair(("A cat sat.", "She sat."), ("A cat sat.", "He sat.")),)


def test_pairs_of_unequal_length_are_kept_and_flagged(tmp_path: Path) -> None:
    file = tmp_path / "own.tsv"
    file.write_text("The bride laughed.\tThe happy groom laughed.\nShe ran.\tHe ran.\n")
    assert [pair.aligned for pair in load_pairs(file)] == [False, True]


def test_a_pair_input_is_unaligned_when_only_its_second_text_is_longer() -> None:
    assert not InputPair(("It rains.", "She is wet."), ("It rains.", "He is very wet.")).aligned
    # Equal in sum is not enough: each text is aligned by itself.
    assert not InputPair(("It rains.", "She is wet."), ("It rains hard.", "He's wet.")).aligned


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("She ran.\tHe ran.\nShe sat.\n", r"own\.tsv line 2: 1 columns.*two columns"),
        ("She ran.\tHe ran.\nA\tshe\tA\the\n", r"own\.tsv line 2: 4 columns, 2 in the other lines"),
        ("She ran, he ran.\n", r"own\.tsv line 1: 1 columns"),
        ("a\tb\tc\n", r"own\.tsv line 1: 3 columns"),
        ("She ran.\tHe ran.\n\n \tHe sat.\n", r"own\.tsv line 3: column 1 of 2 is empty"),
        ("They ran.\tThey ran.\n", r"own\.tsv line 1: both sides are 'They ran\.'"),
        ("", r"own\.tsv: no pairs in it"),
        ("feminine\tmasculine\n", r"own\.tsv: no pairs in it"),
    ],
)
def test_bad_pair_files_get_one_line_that_names_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.tsv"
    file.write_text(text)
    with pytest.raises(BadProbe, match=message) as caught:
        load_pairs(file)
    assert "\n" not in str(caught.value)


def test_bad_lines_are_left_out_with_their_numbers_and_reasons(tmp_path: Path) -> None:
    file = tmp_path / "own.tsv"
    file.write_text("She ran.\tHe ran.\nShe sat.\nHer.\tHis.\nThey ran.\tThey ran.\na\tb\tc\td\n\tHe.\n")
    loaded = read_pairs(file)
    assert [pair.feminine[0] for pair in loaded.pairs] == ["She ran.", "Her."]
    assert [(item.line, item.reason) for item in loaded.unusable] == [
        (2, "another number of columns"),
        (4, "both sides are the same"),
        (5, "another number of columns"),
        (6, "a column is empty"),
    ]
    with pytest.raises(BadProbe, match=r"^own\.tsv line 2: 1 columns"):
        load_pairs(file)
    file.write_text("She sat.\nHe sat.\n")
    with pytest.raises(
        BadProbe, match=r"^own\.tsv: no line in it can be used \(another number of columns: 2\)"
    ):
        read_pairs(file)


def test_missing_or_binary_pair_files_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="No such file"):
        load_pairs(tmp_path / "none.tsv")
    file = tmp_path / "bad.tsv"
    file.write_bytes(b"\xff\xfe\x00\x9c")
    with pytest.raises(BadProbe, match="not UTF-8"):
        load_pairs(file)
