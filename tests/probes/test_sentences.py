import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.sentences import (
    CounterExtraction,
    StereotypeSentence,
    extract_counter_sentences,
    fluency_sentences,
    shipped_counter_sentences,
)
from levelhead.probes.words import WordTest, load_words

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_corpus = pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="needs ../shared/data/corpus")

# Written down here once more, so that the scan does not lean on the lists that the generator reads.
GENDERED = {
    *(
        "she",
        "he",
        "her",
        "him",
        "his",
        "hers",
        "herself",
        "himself",
        "woman",
        "man",
        "women",
        "men",
        "girl",
        "boy",
    ),
    *("girls", "boys", "lady", "gentleman", "ladies", "gentlemen", "mother", "father", "sister", "brother"),
    *(
        "aunt",
        "uncle",
        "wife",
        "husband",
        "daughter",
        "son",
        "grandmother",
        "grandfather",
        "grandma",
        "grandpa",
    ),
    *("niece", "nephew", "bride", "groom", "widow", "widower", "queen", "king", "actress", "actor"),
    *("male", "female", "guy", "lad", "lass", "sir", "madam", "mr", "mrs", "ms", "girlfriend", "boyfriend"),
    *("waitress", "waiter", "housewife", "mom", "dad", "businessman", "chairman", "policeman", "fisherman"),
}
PAIRS = {
    ("she", "he"),
    ("woman", "man"),
    ("lady", "gentleman"),
    ("girl", "boy"),
    ("mother", "father"),
    ("sister", "brother"),
    ("aunt", "uncle"),
    ("wife", "husband"),
    ("daughter", "son"),
    ("grandmother", "grandfather"),
    ("niece", "nephew"),
}


def tokens(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def check(sentence: StereotypeSentence) -> None:
    """The spans hold the words, and cutting them out of both texts leaves the same."""
    s = sentence
    assert s.text[slice(*s.attribute_span)].lower() == s.attribute.lower()
    assert s.text[slice(*s.target_span)].lower() == s.target.lower()
    assert s.counter[slice(*s.counter_attribute_span)].lower() == s.counterpart.lower()
    assert s.counter[slice(*s.counter_target_span)] == s.text[slice(*s.target_span)]
    (a, b), (c, d) = s.attribute_span, s.counter_attribute_span
    assert (s.text[:a], s.text[b:]) == (s.counter[:c], s.counter[d:])
    assert s.text[a].isupper() == s.counter[c].isupper()


def disagreeing_articles(text: str) -> list[str]:
    """By letter; the shipped words have no silent h and no "uni-" except "university"."""
    articles = re.findall(r"\b(an?) ([a-z]+)", text.lower())
    return [
        word for art, word in articles if (art == "an") != (word[0] in "aeiou" and not word.startswith("uni"))
    ]


# --- fluency


def test_fluency_text_has_at_least_220_distinct_sentences_of_6_to_30_words() -> None:
    sentences = fluency_sentences()
    assert len(sentences) >= 220
    assert len(set(sentences)) == len(sentences)
    assert all(6 <= len(s.split()) <= 30 for s in sentences)
    assert all(s == s.strip() and s[-1] in '.?!"' and (s[0].isupper() or s[0] == '"') for s in sentences)


def test_fluency_text_is_varied_in_its_openings_forms_and_words() -> None:
    sentences = fluency_sentences()
    openings = Counter(" ".join(s.split()[:3]) for s in sentences)
    assert max(openings.values()) <= 3
    assert sum("?" in s for s in sentences) >= 15
    assert sum('"' in s for s in sentences) >= 20
    assert sum(bool(re.search(r"\d", s)) for s in sentences) >= 4
    assert len({t for s in sentences for t in tokens(s)}) >= 1100


def test_fluency_text_names_no_gender_beside_a_stereotyped_word() -> None:
    test = load_words("gender")
    stereotyped = {
        w.lower() for w in (*test.X, *test.Y) if w not in {"kitchen", "strong", "kind", "warm", "quiet"}
    }
    assert [
        s for s in fluency_sentences() if GENDERED & set(tokens(s)) and stereotyped & set(tokens(s))
    ] == []


# --- counter-stereotype sentences, shipped


def test_at_least_500_distinct_sentences_half_of_each_group() -> None:
    sentences = shipped_counter_sentences()
    assert len({s.text for s in sentences}) == len({s.counter for s in sentences}) == len(sentences) >= 500
    groups = Counter(s.group for s in sentences)
    assert groups["A"] == groups["B"]


def test_at_least_60_templates_stand_behind_them() -> None:
    blanks = set()
    for s in shipped_counter_sentences():
        (a, b), (c, d) = sorted([s.attribute_span, s.target_span])
        blanks.add(re.sub(r"\b([Aa])n _", r"\1 _", f"{s.text[:a]}_{s.text[b:c]}_{s.text[d:]}"))
    assert len(blanks) >= 60


def test_shipped_spans_are_right_and_only_the_attribute_changes() -> None:
    for sentence in shipped_counter_sentences():
        check(sentence)


def test_attribute_pairs_are_true_counterparts_in_the_direction_of_the_group() -> None:
    for s in shipped_counter_sentences():
        assert ((s.attribute, s.counterpart) if s.group == "A" else (s.counterpart, s.attribute)) in PAIRS


def test_a_scan_finds_exactly_one_gendered_word_and_one_stereotyped_word_in_each() -> None:
    sentences, test = shipped_counter_sentences(), load_words("gender")
    gendered = GENDERED | {w.lower() for w in (*test.A, *test.B)}
    stereotyped = {s.target for s in sentences} | {w.lower() for w in (*test.X, *test.Y)}
    for s in sentences:
        assert [t for t in tokens(s.text) if t in gendered] == [s.attribute], s.text
        assert [t for t in tokens(s.counter) if t in gendered] == [s.counterpart], s.counter
        assert [t for t in tokens(s.text) if t in stereotyped] == [s.target], s.text


def test_groups_agree_with_the_shipped_gender_list() -> None:
    test = load_words("gender")
    sides = {**dict.fromkeys(test.X, "A"), **dict.fromkeys(test.Y, "B")}
    known = [s for s in shipped_counter_sentences() if s.target in sides]
    assert len(known) >= 500
    assert all(sides[s.target] == s.group for s in known)


def test_articles_agree_in_the_original_and_in_the_counter() -> None:
    sentences = shipped_counter_sentences()
    assert any(" an engineer" in s.text for s in sentences)
    assert any(" an emotional " in s.text for s in sentences)
    for s in sentences:
        assert disagreeing_articles(s.text) == disagreeing_articles(s.counter) == [], s.text


def test_the_attribute_comes_first_in_at_least_four_of_five() -> None:
    for sentences in (shipped_counter_sentences(), shipped_counter_sentences(500, seed=1)):
        assert 0.8 <= sum(s.attribute_first for s in sentences) / len(sentences) < 1
        assert all(s.attribute_first == (s.attribute_span[1] <= s.target_span[0]) for s in sentences)


def test_a_sample_is_balanced_seeded_and_uses_every_template() -> None:
    one, same, other = (shipped_counter_sentences(500, seed=seed) for seed in (7, 7, 8))
    assert one == same != other
    assert Counter(s.group for s in one) == {"A": 250, "B": 250}
    assert len(set(one)) == 500
    assert Counter(s.group for s in shipped_counter_sentences(5)) == {"A": 3, "B": 2}
    uses = Counter(
        re.sub(rf"\b(an?) {s.target}|{s.target}", "_", s.counter.replace(s.counterpart, "")) for s in one
    )
    assert max(uses.values()) <= 8


@pytest.mark.parametrize("n", [0, -1, 10**6])
def test_a_size_that_is_not_shipped_is_refused(n: int) -> None:
    with pytest.raises(BadOption, match=f"^{n} counter-stereotype .* ships 1 to "):
        shipped_counter_sentences(n)


# --- counter-stereotype sentences, from a corpus


GENDER = WordTest(
    "small",
    A=("woman", "she", "her", "heiress", "queen", "aunt", "diva"),
    B=("man", "he", "his", "heir", "king", "uncle"),
    X=("nurse", "gentle", "hair_salon"),
    Y=("engineer", "bold"),
    pairs=(
        ("woman", "man"),
        ("she", "he"),
        ("her", "his"),
        ("heiress", "heir"),
        ("queen", "king"),
        ("aunt", "uncle"),
    ),
)


def extract(
    folder: Path, *sentences: str, test: WordTest = GENDER, n: int = 500, seed: int = 0
) -> CounterExtraction:
    path = folder / "corpus.txt"
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return extract_counter_sentences(test, path, n, seed)


def test_the_counterpart_keeps_the_case_and_moves_the_later_span(tmp_path: Path) -> None:
    extraction = extract(
        tmp_path,
        "Yesterday a woman became a nurse here.",
        "He was an engineer in the army.",
        "THE WOMAN WAS GENTLE TO EVERYONE.",
        "The Nurse was the woman's only friend.",
        "The hair salon where the woman works is closed.",
    )
    for sentence in extraction.sentences:
        check(sentence)
    assert {s.counter for s in extraction.sentences} == {
        "Yesterday a man became a nurse here.",
        "She was an engineer in the army.",
        "THE MAN WAS GENTLE TO EVERYONE.",
        "The Nurse was the man's only friend.",
        "The hair salon where the man works is closed.",
    }
    assert not extraction.skipped
    assert Counter(s.group for s in extraction.sentences) == {"A": 4, "B": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The woman and the man met a nurse.", "several attribute words"),
        (
            "The woman lost the coat that was hers, said the nurse.",
            "several attribute words",
        ),  # not in the list
        ("The woman was a gentle nurse to all.", "several target words"),
        ("Yesterday a woman became an engineer here.", "the target word is stereotyped with the other group"),
        ("Yesterday the nurse forgot her coat here.", "the counterpart depends on grammar"),
        ("Yesterday the diva was gentle to everyone.", "the attribute word has no counterpart"),
        ("Yesterday Queen Elizabeth thanked the nurse warmly.", "the attribute word is part of a name"),
        ("A gentle Queen Anne ruled the country.", "the attribute word is part of a name"),
        ("In no man's land stood a bold tree.", "the attribute word names nobody"),
        ("A nurse slept.", "fewer than 4 or more than 60 words"),
        ("A nurse slept on the sofa.", "no attribute word or no target word"),
        ("The woman slept on the sofa.", "no attribute word or no target word"),
    ],
)
def test_every_skipped_sentence_has_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    extraction = extract(tmp_path, text, "Yesterday a woman became a nurse here.")
    assert len(extraction.sentences) == 1
    assert extraction.skipped == {reason: 1}


def test_sentences_with_bytes_that_are_not_utf8_are_counted_and_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(b"Yesterday a woman became a nurse here.\nIn the caf\xe9 a woman became a nurse.\n")
    extraction = extract_counter_sentences(GENDER, path)
    assert [s.text for s in extraction.sentences] == ["Yesterday a woman became a nurse here."]
    assert extraction.skipped == {"not UTF-8 text": 1}


def test_a_swap_that_would_break_the_article_is_skipped(tmp_path: Path) -> None:
    test = WordTest("faith", ("imam",), ("pastor",), ("strict",), ("kind",), pairs=(("imam", "pastor"),))
    extraction = extract(
        tmp_path, "They met an imam who was strict.", "They said the imam was strict.", test=test
    )
    assert [s.counter for s in extraction.sentences] == ["They said the pastor was strict."]
    assert extraction.skipped == {"the article would not agree": 1}


def test_a_word_that_is_attribute_and_target_at_once_is_skipped(tmp_path: Path) -> None:
    test = WordTest(
        "both", ("blonde",), ("blond",), ("blonde", "shy"), ("bold",), pairs=(("blonde", "blond"),)
    )
    extraction = extract(
        tmp_path, "Everyone saw the blonde person leave.", "The blond person was bold today.", test=test
    )
    ((reason, skipped),) = extraction.skipped.items()
    assert ("attribute and target" in reason, skipped) == (True, 1)


def test_pronouns_do_not_count_where_the_test_is_not_about_gender(tmp_path: Path) -> None:
    test = WordTest("race", ("black",), ("white",), ("athlete",), ("lawyer",), pairs=(("black", "white"),))
    extraction = extract(tmp_path, "She said that the white lawyer knew her.", test=test)
    assert [s.counter for s in extraction.sentences] == ["She said that the black lawyer knew her."]


def test_a_sample_is_seeded_distinct_and_independent_of_the_order(tmp_path: Path) -> None:
    lines = [f"On day {i} the woman met a nurse." for i in range(200)]
    one = extract(tmp_path, *lines, *lines, n=20, seed=1)
    assert one.sentences == extract(tmp_path, *reversed(lines), n=20, seed=1).sentences
    assert one.sentences != extract(tmp_path, *lines, n=20, seed=2).sentences
    assert len({s.text for s in one.sentences}) == len(one.sentences) == 20
    assert not one.skipped


def test_every_sentence_is_drawn_equally_often(tmp_path: Path) -> None:
    lines = [f"On day {i} the woman met a nurse." for i in range(10)]
    drawn = Counter(
        s.text for seed in range(400) for s in extract(tmp_path, *lines, n=3, seed=seed).sentences
    )
    assert sum(drawn.values()) == 1200
    assert all(85 <= drawn[line] <= 155 for line in lines)  # 120 expected, sd 9.2


def test_bad_requests_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"^0 sentences were asked for"):
        extract(tmp_path, "Yesterday a woman became a nurse.", n=0)
    with pytest.raises(BadOption, match=r"^seed must be 0 or greater"):
        extract(tmp_path, "Yesterday a woman became a nurse.", seed=-1)
    with pytest.raises(
        BadProbe, match=r"no counter-stereotype with words of small \(no attribute word .*: 1\)"
    ):
        extract(tmp_path, "Nothing of interest is in here.")
    with pytest.raises(BadProbe, match="swapping words needs pairs"):
        extract(tmp_path, "Any text will do.", test=WordTest("bare", ("she",), ("he",), ("shy",), ("bold",)))


def check_extraction(extraction: CounterExtraction, test: WordTest) -> None:
    pairs = {(a.lower(), b.lower()) for a, b in test.pairs} | {(b.lower(), a.lower()) for a, b in test.pairs}
    attributes = {w.lower() for w in (*test.A, *test.B)}
    targets = {"A": set(test.X), "B": set(test.Y)}
    for s in extraction.sentences:
        check(s)
        assert (s.attribute, s.counterpart) in pairs
        assert s.target in targets[s.group]
        assert s.attribute not in {"her", "his", "him", "hers"}
        # Hyphenated words are words of their own ("wise-woman"), so only free-standing tokens are counted.
        free = re.findall(r"(?<![\w-])[a-z]+(?![\w-])", s.text.lower().replace("’", "'"))
        assert [t for t in free if t in attributes] == [s.attribute], s.text


def test_shipped_sentences_as_a_corpus_come_back_as_the_same_stereotypes(tmp_path: Path) -> None:
    shipped = {s.text: s for s in shipped_counter_sentences()}
    test = load_words("gender")
    extraction = extract(tmp_path, *shipped, test=test, n=len(shipped))
    check_extraction(extraction, test)
    assert len(extraction.sentences) > 0.7 * len(shipped)
    assert len(extraction.sentences) + sum(extraction.skipped.values()) == len(shipped)
    for sentence in extraction.sentences:
        ours = shipped[sentence.text]
        assert (sentence.target_span, sentence.attribute_span) == (ours.target_span, ours.attribute_span)
        assert (sentence.group, sentence.counter) == (ours.group, ours.counter)


@needs_corpus
def test_the_corpus_gives_sentences_that_pass_an_independent_scan() -> None:
    test = load_words("gender")
    extraction = extract_counter_sentences(test, SHARED / "corpus")
    assert len(extraction.sentences) >= 200
    assert min(Counter(s.group for s in extraction.sentences).values()) >= 30
    check_extraction(extraction, test)


@needs_corpus
def test_comments_of_redditbias_give_sentences_too(tmp_path: Path) -> None:
    with next((SHARED / "redditbias").glob("*.csv")).open(encoding="utf-8") as handle:
        comments = [row["comment"] for row in csv.DictReader(handle)]
    test = load_words("gender")
    extraction = extract(tmp_path, *(" ".join(c.split()) + "." for c in comments), test=test)
    assert len(extraction.sentences) >= 20
    check_extraction(extraction, test)
