"""Gender swapping: right about her, his and him; back again is where it began; what does not work is said."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.errors import BadProbe
from levelhead.probes.pairs import gender_sentence_pairs, nli_pair_inputs
from levelhead.probes.swap import (
    _read_words,
    gender_of,
    gendered,
    noteworthy,
    pairs,
    read,
    strangers,
    swap,
    swap_text,
)

HERE = Path(__file__).resolve()
SHARED = HERE.parents[3] / "shared" / "data"
PAGE = (HERE.parents[2] / "docs" / "results" / "swap.md").read_text(encoding="utf-8")
TABLES = HERE.parents[2] / "src" / "levelhead" / "probes" / "data"
needs_published = pytest.mark.skipif(not SHARED.exists(), reason="needs the published data in ../shared/data")


def table(file: Path, delimiter: str = "\t") -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        if delimiter == "\t":
            return list(csv.DictReader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE))
        return list(csv.DictReader(lines, delimiter=delimiter))


class Labeled(NamedTuple):
    """A sentence and its counterfactual, the words that must be reported in both, and where the line
    belongs."""

    half: str  # "seen" while rules were written, or "held out": drawn with a seed before any rule was changed
    kind: str  # contrast, frame (by construction) or ordinary
    feminine: str
    masculine: str
    reported: frozenset[str]


def labeled(half: str) -> list[Labeled]:
    lines = table(HERE.parent / "data" / "swap_sentences.tsv")
    return [
        Labeled(
            line["half"],
            line["kind"],
            line["feminine"],
            line["masculine"],
            frozenset(filter(None, line["reported"].split(","))),
        )
        for line in lines
        if line["half"] == half
    ]


def right_both_ways(sentence: Labeled) -> bool:
    forth, back = swap_text(sentence.feminine), swap_text(sentence.masculine)
    return (forth, back) == (sentence.masculine, sentence.feminine)


def reported_both_ways(sentence: Labeled) -> tuple[frozenset[str], frozenset[str]]:
    forth, back = swap(sentence.feminine), swap(sentence.masculine)
    return frozenset(p.word for p in forth.problems), frozenset(p.word for p in back.problems)


def wilson(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share: (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n). Wilson 1927."""
    p = successes / n
    middle, half_width = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half_width) / (1 + z * z / n), (middle + half_width) / (1 + z * z / n)


def test_wilsons_interval_of_8_in_10_is_that_of_the_textbooks() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)


SEEN, HELD_OUT = labeled("seen"), labeled("held out")

# Sentences of our own that the rules read wrongly: no list of words can tell these, a reader can.
KNOWN_WRONG = {"He read her poems before bed.": "to her, or those that she wrote"}


@pytest.mark.parametrize("sentence", SEEN, ids=lambda sentence: sentence.feminine)
def test_labeled_sentence_is_swapped_both_ways_as_a_person_would(sentence: Labeled) -> None:
    if sentence.feminine in KNOWN_WRONG:
        assert not right_both_ways(sentence), "no longer wrong: take it off KNOWN_WRONG"
    else:
        assert swap_text(sentence.feminine) == sentence.masculine
        assert swap_text(sentence.masculine) == sentence.feminine
        assert reported_both_ways(sentence) == (sentence.reported, sentence.reported)


def test_of_953_labeled_sentences_388_are_held_out_and_none_is_in_both_halves() -> None:
    assert len(SEEN) + len(HELD_OUT) == len({s.feminine for s in SEEN + HELD_OUT}) == 953
    assert len(HELD_OUT) == 388
    assert min(Counter(s.kind for s in HELD_OUT).values()) >= 100


def test_accuracy_on_held_out_sentences_is_what_the_page_says_less_a_margin() -> None:
    right = sum(map(right_both_ways, HELD_OUT))
    low, high = wilson(right, len(HELD_OUT))
    measured = re.search(
        r"(\d+) of 388 held-out sentences .*?: ([\d.]+) %, 95 % interval ([\d.]+) to ([\d.]+) %", PAGE
    )
    assert measured is not None
    stated = int(measured[1])
    assert stated - 4 <= right, f"{right} right, interval {low:.3f} to {high:.3f}; the page says {stated}"
    stated_interval = tuple(round(100 * bound, 1) for bound in wilson(stated, len(HELD_OUT)))
    assert stated_interval == (float(measured[3]), float(measured[4]))
    assert round(100 * stated / len(HELD_OUT), 1) == float(measured[2])


def test_words_to_report_are_reported_in_nearly_all_held_out_sentences_and_no_others() -> None:
    right = sum(reported_both_ways(s) == (s.reported, s.reported) for s in HELD_OUT)
    assert right >= 374 - 4  # measured: 374; the interval is 0.940 to 0.978
    with_names = [s for s in HELD_OUT if s.reported]
    assert sum(s.reported <= reported_both_ways(s)[0] for s in with_names) >= 16  # of 18; measured: 17


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("HER mother lost Her keys.", "HIS father lost His keys."),
        ("She brought her coffee to the office.", "He brought his coffee to the office."),
        ("He asked her questions and called her names.", "She asked him questions and called him names."),
        ("She's late, she'd said, but she'll come.", "He's late, he'd said, but he'll come."),
        ("She’s my mother-in-law’s aunt.", "He’s my father-in-law’s uncle."),
        ("the women's club and the girls' school", "the men's club and the boys' school"),
        ("Mrs. Lee met Mr. Hall.", "Mr. Lee met Mrs. Hall."),
        ("Mr. President, this is Sir Ian.", "Madam President, this is Dame Ian."),
        ("Dear Sir or Madam,", "Dear Madam or Sir,"),
        ("Yes, my lady.", "Yes, my lord."),
        ("ladies and gentlemen", "gentlemen and ladies"),
        (
            "The ladies' room is left of the gentlemen's club.",
            "The gentlemen's room is left of the ladies' club.",
        ),
        ("The actress and the policewoman", "The actor and the policeman"),
        ("Queen Anna and the princess", "King Anna and the prince"),
        ("She wrote her bachelor's thesis, then a bachelor's degree.", None),
        ("The schoolgirl's fiancée is a female firewoman.", "The schoolboy's fiancé is a male fireman."),
        ("Her dress\nand her hat.\n\nHer", "His dress\nand his hat.\n\nHim"),
        ("It is [her] own *her* hat.", "It is [his] own *his* hat."),
        ("", ""),
        ("  no one here  ", "  no one here  "),
    ],
)
def test_case_titles_contractions_and_genitives_are_kept(source: str, target: str | None) -> None:
    if target is not None:
        assert swap_text(source) == target
    assert swap_text(swap_text(source)) == source


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("He treats her very well.", "She treats him very well."),
        ("Her father left her money for her business.", "His mother left him money for his business."),
        ("She left her money for her business.", "He left his money for his business."),
        ("They want to get her money.", "They want to get his money."),
        ("He gave her money and she spent her money.", "She gave him money and he spent his money."),
        ("You should groom your hair.", "You should groom your hair."),
        ("The groom should groom his hair.", "The bride should groom her hair."),
        ("She mothers everyone; her mother does too.", "He mothers everyone; his father does too."),
        ("Lords and ladies left, said the Lord.", "Ladies and gentlemen left, said the Lord."),
    ],
)
def test_whose_money_it_is_and_what_is_a_verb(source: str, target: str) -> None:
    assert swap_text(source) == target


def test_every_form_of_an_occupation_is_swapped_alike() -> None:
    for text in ("landlord", "Landlord", "LANDLORD", "landlords", "Landlords", "a landlord's", "Landlords'"):
        for frame in ("{}", "{} met us", "We met {}", "Greedy {} met us"):
            counterfactual = swap_text(frame.format(text))
            assert "landlord" not in counterfactual.lower(), counterfactual
            assert swap_text(counterfactual) == frame.format(text)


def test_traits_stay_since_swapping_them_would_turn_the_label_round() -> None:
    swapped = swap("She is feminine, and her Manly handshake is not ladylike.")
    assert swapped.text == "He is feminine, and his Manly handshake is not ladylike."
    assert swapped.traits == ("feminine", "Manly", "ladylike")
    assert swapped.problems == ()
    assert gender_of("a feminine nurse") is None
    assert gender_of("a female nurse") == "F"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Zenobia lost her keys.", ["Zenobia"]),
        ("Zenobia Okafor lost her keys.", ["Zenobia"]),
        ("My aunt met Zenobia.", ["Zenobia"]),
        ("They gave Zenobia her prize.", ["Zenobia"]),
        ("Her sister Zenobia told Ansgar's wife.", ["Zenobia", "Ansgar"]),
        ("Zenobia lost the keys.", []),  # nothing was swapped
        ("Mrs. Okafor lost her keys in Timbuktu.", []),
        ("On Friday she met the Zenobia Quartet.", []),
        ("Dinner was late, so she left.", []),
        ("Loud noises make her jump.", []),
        ("Woman Loses Her Keys In Central Zenobia Park", []),
    ],
)
def test_a_name_that_no_table_has_is_reported_beside_a_swapped_word(text: str, names: list[str]) -> None:
    assert [p.word for p in swap(text).problems] == names
    assert all("in no table" in p.reason for p in swap(text).problems)


def test_strangers_are_named_whether_or_not_anything_was_swapped() -> None:
    assert [p.word for p in strangers("Zenobia lost the keys.")] == ["Zenobia"]
    assert strangers("The woman lost her keys.") == ()


@pytest.mark.parametrize(
    "text",
    [
        "The Isle of Man has no man-made lake.",
        "It is on king-size beds; thank god.",
        "Write to her_name@she.org or see www.she.com/he.",
        "If a customer calls, s/he gets an answer.",
        "A bachelor's degree is enough.",
        "Human chants, heresy, history and shed.",
    ],
)
def test_words_that_name_nobodys_gender_stay(text: str) -> None:
    assert swap(text).text == text
    assert gender_of(text) is None


def test_names_are_swapped_on_request_only_and_surnames_never() -> None:
    text = "Mary lent Stephen King's book to James."
    assert swap(text).text == text
    assert swap(text, names=True).text == "John lent Shirley King's book to Jane."
    assert swap_text(swap_text(text, names=True), names=True) == text
    assert [p.word for p in swap("Dr. King met Mrs. James.", names=True).problems] == ["King", "James"]


@pytest.mark.parametrize(
    ("text", "word", "reason"),
    [
        ("The maid left.", "maid", "no counterpart"),
        ("Stephen King left.", "King", "part of a name"),
        ("Mary left.", "Mary", "names=True"),
        ("Ms. Lee left.", "Ms.", "swaps back to 'Mrs.'"),
        ("The hostess left.", "hostess", "swaps back to 'host'"),
        ("sHe left.", "sHe", "capitals"),
        ("I heard his cry.", "his", "swaps back to 'him'"),
    ],
)
def test_what_cannot_be_swapped_or_would_not_come_back_is_reported(text: str, word: str, reason: str) -> None:
    problems = [p for p in swap(text).problems if p.word == word]
    assert len(problems) == 1
    assert reason in problems[0].reason
    assert text[problems[0].start :].startswith(word)


def test_changes_name_original_replacement_and_place() -> None:
    assert swap("She saw her.").changes == (("She", "He", 0), ("her", "him", 8))


def test_undo_restores_what_swapping_twice_does_not() -> None:
    text = "Ms. Lee, the hostess, wrote to the lord and his mum."
    assert swap_text(swap_text(text)) != text
    assert swap(text).undo() == text


def every_text() -> list[str]:
    """Every sentence of our own: labeled ones, triples and pairs, in both genders."""
    labels = [text for s in SEEN + HELD_OUT for text in (s.feminine, s.masculine)]
    inputs = [
        text for pair in (*gender_sentence_pairs(), *nli_pair_inputs()) for text in pair.feminine if text
    ]
    return [*labels, *triples(), *inputs]


def test_the_quick_reading_of_usual_words_is_that_of_word_by_word() -> None:
    letters = re.compile("[a-zß-ÿ]+")
    texts = [text for text in every_text() if not noteworthy().isdisjoint(letters.findall(text.lower()))]
    by_word = [_read_words(text, names=False) for text in texts]
    quick = [read(text, names=False) for text in texts]
    assert [(q.text, q.changes, q.problems) for q in quick] == [
        (w.text, w.changes, w.problems) for w in by_word
    ]
    with_tokens = sum(q.comes_back is None for q in quick)
    assert with_tokens < len(texts) / 3


def test_what_is_said_about_the_way_back_is_true_of_every_text() -> None:
    for text in every_text():
        comes_back = swap_text(swap_text(text)) == text
        assert comes_back == (not any("swaps back" in p.reason for p in swap(text).problems)), text


@given(
    st.text(st.sampled_from("her his him hers she Mr. Mrs. ladies' men's King God \"( -").map(str))
    | st.text()
)
def test_undo_is_exact_and_white_space_survives_in_any_text(text: str) -> None:
    swapped = swap(text, names=True)
    assert swapped.undo() == text
    assert re.findall(r"\s", swapped.text) == re.findall(r"\s", text)


@given(
    st.lists(
        st.sampled_from(["her", "his", "him", "saw", "gave", "and", "the", "kitchen", "cry", ",", "back"])
    )
)
def test_a_text_either_comes_back_or_says_which_word_does_not(words: list[str]) -> None:
    text = " ".join(words)
    swapped = swap(text)
    assert (swap_text(swapped.text) == text) == (not swapped.problems)


def test_the_word_table_is_one_to_one_under_each_guard() -> None:
    rows = table(TABLES / "swap" / "words.tsv")
    for guard in {row["guard"] for row in rows}:
        feminine = [row["feminine"].lower() for row in rows if row["guard"] == guard]
        masculine = [row["masculine"].lower() for row in rows if row["guard"] == guard]
        assert len(set(feminine)) == len(feminine)
        assert len(set(masculine)) == len(masculine)
        assert not set(feminine) & set(masculine)


def test_every_pair_is_swapped_both_ways_wherever_it_stands() -> None:
    assert len(pairs()) >= 300
    for feminine, masculine in pairs():
        assert swap_text(f"so {feminine} ,") == f"so {masculine} ,"
        assert swap_text(f"so {masculine} ,") == f"so {feminine} ,"
        assert (gender_of(f"so {feminine}"), gender_of(f"so {masculine}")) == ("F", "M")


def test_the_name_table_is_one_to_one_and_holds_no_gendered_word() -> None:
    rows = table(TABLES / "swap" / "names.tsv")
    names = [name for row in rows for name in (row["feminine"], row["masculine"])]
    assert len(rows) >= 600
    assert len({row["origin"] for row in rows}) >= 10
    assert len(set(names)) == len(names)
    assert not {name.lower() for name in names} & set(gendered.pairings())


def test_paired_names_are_alike_in_frequency() -> None:
    """Zipf frequencies: 1 is a factor of ten. Common names of men are more frequent than any of women."""
    rows = table(TABLES / "swap" / "names.tsv")
    apart = [abs(float(row["feminine_zipf"]) - float(row["masculine_zipf"])) for row in rows]
    assert sum(apart) / len(apart) < 0.4
    assert sum(each <= 0.5 for each in apart) > 0.7 * len(apart)


def test_a_text_without_capitals_has_its_names_swapped_but_no_ordinary_words() -> None:
    assert swap("mary gave grace to jane.", names=True).text == "john gave grace to james."
    assert swap("They met mary.", names=True).text == "They met mary."  # it has capitals, mary none


def test_a_first_name_between_title_and_surname_is_swapped() -> None:
    assert swap("Dr. Mary Collins left.", names=True).text == "Dr. John Collins left."
    assert swap("Dr. James left.", names=True).text == "Dr. James left."


def test_side_tables_name_gendered_words_and_known_guards_only() -> None:
    one_way, unpaired = table(TABLES / "swap" / "one_way.tsv"), table(TABLES / "swap" / "unpaired.tsv")
    assert {row["gender"] for row in one_way + unpaired} == {"F", "M"}
    assert not {row["word"] for row in unpaired} & set(gendered.pairings())
    phrases = (TABLES / "swap" / "phrases.txt").read_text(encoding="utf-8")
    assert set(re.findall(r"\[(.+?)\]", phrases)) <= set(gendered.pairings())


@pytest.mark.parametrize(
    ("text", "gender"),
    [
        ("She left.", "F"),
        ("Wait for him.", "M"),
        ("The queen met the king.", "mixed"),
        ("The nurse left.", None),
        ("Mary left.", None),
        ("The pregnant nurse left.", "F"),
        ("", None),
    ],
)
def test_gender_of_a_text(text: str, gender: str | None) -> None:
    assert gender_of(text) == gender


@pytest.mark.parametrize("bad", [None, 3, ["She left."], b"She left."])
def test_what_is_no_text_is_refused_in_one_line(bad: object) -> None:
    with pytest.raises(
        BadProbe, match=r"^swap takes one text \(str\), got \w+\. For a list, swap each of them\.$"
    ):
        swap(bad)  # type: ignore[arg-type]


def triples() -> Iterator[str]:
    for file in sorted((TABLES / "triples").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield from (row[key] for key in ("context", "stereotype", "anti", "unrelated"))


def test_every_sentence_of_the_shipped_triples_comes_back_and_leaves_no_problem() -> None:
    texts = list(triples())
    if not texts:
        pytest.skip("no shipped triples yet")
    assert len(texts) >= 600
    assert [text for text in texts if swap_text(swap_text(text)) != text] == []
    assert [text for text in texts if swap(text).problems] == []


GENDERED = re.compile(  # not gender_of: what is tested must not choose what it is tested on
    r"\b(?:s?he|hers?|him|his|herself|himself|wom[ae]n|m[ae]n|girls?|boys?|mothers?|fathers?|mom|dad|wife|husband|"
    r"sisters?|brothers?|daughters?|sons?|aunts?|uncles?|actress|actor|lady|ladies|lord|queen|king|mrs?|ms|miss)\b",
    re.IGNORECASE,
)


def held_set() -> dict[tuple[str, int], str]:
    """1,000 sentences with a gendered word, evenly spread over four published sources."""
    paragraphs = (SHARED / "corpus/wikipedia-people-sample.txt").read_text(encoding="utf-8").splitlines()
    stereoset = table(SHARED / "gender-swapped-stereoset/dev.csv", ",")
    crows = table(SHARED / "crows-pairs/crows_pairs_anonymized.csv", ",")
    snli = table(SHARED / "snli/test.tsv")
    sources = {
        "wikipedia": (400, [s for p in paragraphs for s in re.split(r'(?<=[.!?]) (?=[A-Z"])', p)]),
        "stereoset": (200, [row[key] for row in stereoset for key in ("context", "next_sentence")]),
        "crows": (150, [row[key] for row in crows for key in ("sent_more", "sent_less")]),
        "snli": (250, [row[key] for row in snli for key in ("premise", "hypothesis")]),
    }
    held = {}
    for source, (size, texts) in sources.items():
        gendered_texts = [text for text in dict.fromkeys(texts) if GENDERED.search(text)]
        held.update({(source, k): gendered_texts[k * len(gendered_texts) // size] for k in range(size)})
    return held


EXCEPTIONS = {
    ("wikipedia", 92): "'priestess' becomes 'priest', which is said of women and men and so stays",
    ("wikipedia", 108): "'Marquis' and 'Marquess' share 'Marchioness'",
    ("wikipedia", 212): "'bringing with her reinforcements': the object comes after 'with her'",
    ("wikipedia", 269): "'Miss', 'Ms.' and 'Mrs.' share 'Mr.'",
    ("crows", 110): "'pictures of her drunkenly laying': an adverb before the participle",
    ("crows", 118): "'people like her just want': the subject's verb comes after 'her just'",
}


@needs_published
def test_a_held_set_of_1000_published_sentences_comes_back_but_for_the_listed_exceptions() -> None:
    held = held_set()
    assert len(held) == 1000
    failed = {key for key, text in held.items() if swap_text(swap_text(text)) != text}
    assert failed == set(EXCEPTIONS)
    assert all(swap(held[key]).problems and swap(held[key]).undo() == held[key] for key in failed)


@needs_published
def test_the_published_swaps_are_matched_but_for_their_own_slips() -> None:
    rows = table(SHARED / "gender-swapped-stereoset/dev.csv", ",")
    texts = {row["context"]: row["gender_swapped_context"] for row in rows}
    texts |= {row["next_sentence"]: row["gender_swapped_next_sentence"] for row in rows}
    same = sum(swap_text(text) == theirs for text, theirs in texts.items())
    assert same / len(texts) > 0.94
    assert texts["The mother walked into her kitchen."] == "The father walked into him kitchen."
    assert swap_text("The mother walked into her kitchen.") == "The father walked into his kitchen."
