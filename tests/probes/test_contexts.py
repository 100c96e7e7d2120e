"""Contexts: templates of ours, sentences of a corpus, and the words that a corpus lacks."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.contexts import (
    TEMPLATES,
    ContextIndex,
    WordFinder,
    contexts_fingerprint,
    corpus_contexts,
    surface,
    template_contexts,
)
from levelhead.probes.sentences import fluency_sentences, shipped_counter_sentences
from levelhead.probes.words import WordTest, load_words, shipped_words

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published data are not beside the checkout")

SMALL = WordTest("small", ("woman", "she"), ("man", "he"), ("kind",), ("bold",))
TEXT = "They saw that she was kind. We know he was bold."


def corpus(folder: Path, text: str) -> Path:
    path = folder / "corpus.txt"
    path.write_text(text, encoding="utf-8")
    return path


# ---- templates


def test_every_template_shows_the_word_at_its_span_after_a_space_and_not_first() -> None:
    contexts = template_contexts(load_words("gender"))
    for context in contexts:
        assert context.text[context.start : context.end] == context.word
        assert context.text[context.start - 1] == " "
        assert len(context.text[: context.start].split()) >= 3


def test_templates_are_varied_and_bleached_of_every_shipped_word() -> None:
    assert len(set(TEMPLATES)) == len(TEMPLATES) >= 10
    assert all(template.count("{}") == 1 for template in TEMPLATES)
    shipped = {
        word.lower()
        for name in shipped_words()
        for words in load_words(name).groups().values()
        for word in words
    }
    used = set(re.findall(r"[a-z]+", " ".join(TEMPLATES).lower()))
    assert used & shipped == set()


def test_repeated_entries_have_contexts_once_and_every_word_has_n() -> None:
    contexts = template_contexts(load_words("race"), n=10)
    counts = Counter((c.group, c.word) for c in contexts)
    assert set(counts.values()) == {10}
    assert counts["A", "black"] == 10
    assert len(counts) == 2 + 2 + 16 + 16


def test_joined_words_of_published_lists_are_written_as_words() -> None:
    context = template_contexts(replace(SMALL, X=("hair_salon",)), n=1)[-2]
    assert context.text[context.start : context.end] == "hair salon"
    assert context.word == "hair_salon"


@pytest.mark.parametrize("n", [0, len(TEMPLATES) + 1])
def test_a_number_of_templates_that_there_is_not_is_refused(n: int) -> None:
    with pytest.raises(BadOption, match=rf"{n} templates were asked for; there are 1 to {len(TEMPLATES)}"):
        template_contexts(SMALL, n=n)


# ---- finding words


@pytest.mark.parametrize(
    ("sentence", "hits"),
    [
        ("A Woman's work, and SHE knows.", [("woman", "Woman"), ("she", "SHE")]),
        ("She’ll come; she's here.", [("she", "She"), ("she", "she")]),
        ("Some womanly, woman-like women mention a shed.", []),
        ("A pre-woman era", []),
        ("(woman)—“she”", [("woman", "woman"), ("she", "she")]),
        ("Ma'am, ma’am, ma and Ma's", [("ma'am", "Ma'am"), ("ma'am", "ma’am"), ("ma", "ma"), ("ma", "Ma")]),
        ("Hair salon, hair salons, chair salon", [("hair salon", "Hair salon")]),
        ("Mrs. Hall and Mrs Bell", [("mrs.", "Mrs.")]),
        ("a well-known co-worker", [("co-worker", "co-worker")]),
    ],
)
def test_whole_words_are_found_in_any_case(sentence: str, hits: list[tuple[str, str]]) -> None:
    finder = WordFinder(["woman", "she", "ma'am", "ma", "hair_salon", "mrs.", "co-worker"])
    places = finder.find(sentence)[1]
    assert [(word, sentence[start:end]) for word, start, end in places] == hits


def places_by_regular_expressions(words: Iterable[str], lines: Iterable[str]) -> int:
    """How many words stand in the lines; each line is searched once more by one expression a word."""
    finder = WordFinder(words)
    total = 0
    for line in lines:
        places = sorted(finder.find(line)[1])
        slow = [
            (word, m.start(), m.end())
            for word in words
            for m in re.finditer(
                rf"(?<![\w])(?<!\w[-']){word}(?=(?:'(?:s|ll|d|ve|re|m))?(?![-']?\w))", line, re.IGNORECASE
            )
        ]
        assert places == sorted(slow), line
        total += len(places)
    return total


def test_finding_agrees_with_one_regular_expression_a_word_on_shipped_sentences() -> None:
    words = ("she", "he", "mother", "uncle", "lady", "nurse", "engineer", "strong", "the", "it")
    lines = [*fluency_sentences(), *(sentence.text for sentence in shipped_counter_sentences())]
    assert places_by_regular_expressions(words, lines) > 500


@needs_data
def test_finding_agrees_with_one_regular_expression_a_word_on_real_sentences() -> None:
    words = ("she", "he", "mother", "king", "actor", "strong", "wedding", "politics", "white")
    text = (DATA / "corpus" / "wikinews-sample.txt").read_text(encoding="utf-8")[:200_000].replace("’", "'")
    assert places_by_regular_expressions(words, text.splitlines()) > 100


# ---- a corpus


def test_a_small_corpus_gives_each_word_its_sentence_and_reports_the_rest(tmp_path: Path) -> None:
    index = corpus_contexts(SMALL, corpus(tmp_path, TEXT))
    assert [(c.word, c.group, c.text[c.start : c.end]) for c in index] == [
        ("she", "A", "she"),
        ("he", "B", "he"),
        ("kind", "X", "kind"),
        ("bold", "Y", "bold"),
    ]
    assert index.missing == ("woman", "man")
    assert index.occurrences == {"woman": 0, "she": 1, "man": 0, "he": 1, "kind": 1, "bold": 1}
    assert (len(index), index.sentences) == (4, 2)


def test_sentences_out_of_length_are_skipped_and_counted(tmp_path: Path) -> None:
    long = "She " + "and so on " * 30 + "was kind."
    index = corpus_contexts(SMALL, corpus(tmp_path, f"{TEXT}\nShe left.\n{long}\n"))
    assert index.skipped == {"fewer than 4 words": 1, "more than 60 words": 1}
    assert index.occurrences["she"] == 1


def test_bytes_that_are_not_utf8_do_not_enter_contexts(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(TEXT.encode() + b"\nIn the caf\xe9 she was kind again.\n")
    index = corpus_contexts(SMALL, path)
    assert index.skipped == {"not UTF-8 text": 1}
    assert len(index) == 4


def test_at_most_per_word_contexts_are_kept_and_repeats_of_a_sentence_are_one(tmp_path: Path) -> None:
    lines = [f"In year {i} she was kind and he was bold." for i in range(50)] + [
        "Then she was kind and he was bold."
    ] * 50
    index = corpus_contexts(SMALL, corpus(tmp_path, "\n".join(lines)), per_word=7)
    counts = Counter(c.word for c in index)
    assert counts == {"she": 7, "he": 7, "kind": 7, "bold": 7}
    assert len({(c.word, c.text) for c in index}) == 28
    everything = corpus_contexts(SMALL, corpus(tmp_path, "\n".join(lines)), per_word=1000)
    assert Counter(c.word for c in everything)["she"] == 51


def test_the_sample_follows_the_seed_and_not_the_order_of_the_corpus(tmp_path: Path) -> None:
    lines = [f"In year {i} she was kind and he was bold." for i in range(200)]
    first = corpus_contexts(SMALL, corpus(tmp_path, "\n".join(lines)), per_word=5, seed=3)
    again = corpus_contexts(SMALL, corpus(tmp_path, "\n".join(lines)), per_word=5, seed=3)
    turned = corpus_contexts(SMALL, corpus(tmp_path, "\n".join(reversed(lines))), per_word=5, seed=3)
    other = corpus_contexts(SMALL, corpus(tmp_path, "\n".join(lines)), per_word=5, seed=4)
    assert first.contexts == again.contexts == turned.contexts
    assert contexts_fingerprint(first) == contexts_fingerprint(again) != contexts_fingerprint(other)


def test_every_sentence_is_as_likely_to_be_drawn(tmp_path: Path) -> None:
    path = corpus(tmp_path, "\n".join(f"In year {i} she was kind and he was bold." for i in range(20)))
    drawn = Counter(
        c.text
        for seed in range(400)
        for c in corpus_contexts(SMALL, path, per_word=5, seed=seed)
        if c.word == "she"
    )
    assert len(drawn) == 20
    chi_square = sum((n - 100) ** 2 / 100 for n in drawn.values())
    assert chi_square < 43.8  # 99.9 % of chi-square with 19 degrees of freedom


def test_a_sentence_that_begins_with_the_word_is_taken_only_when_there_is_no_other(tmp_path: Path) -> None:
    text = "She was kind to us.\n“She was bold,” they said.\nLater she was kind.\nHe was bold enough.\n"
    index = corpus_contexts(SMALL, corpus(tmp_path, text))
    assert [c.text for c in index if c.word == "she"] == ["Later she was kind."]
    assert [c.text for c in index if c.word == "he"] == ["He was bold enough."]


def test_the_later_place_of_a_word_is_read_when_it_comes_twice(tmp_path: Path) -> None:
    index = corpus_contexts(SMALL, corpus(tmp_path, "When she left, she was kind and he was bold."))
    assert next(c.start for c in index if c.word == "she") == 15


def test_a_word_in_two_groups_has_its_contexts_in_both(tmp_path: Path) -> None:
    index = corpus_contexts(replace(SMALL, X=("he", "kind")), corpus(tmp_path, TEXT))
    assert [c.group for c in index if c.word == "he"] == ["B", "X"]


def test_a_set_without_any_word_in_the_corpus_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match=r'no usable sentence holds any of the 1 words of X \(X: "tearful"\)'):
        corpus_contexts(replace(SMALL, X=("tearful",)), corpus(tmp_path, TEXT))


def test_the_line_says_what_was_left_out_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(TEXT.encode() + b"\nShe was tearful.\nThe caf\xe9 was tearful.\nA tearful caf\xe9.\n")
    with pytest.raises(BadProbe, match=r"templates\. Left out: not UTF-8 text: 2, fewer than 4 words: 1\.$"):
        corpus_contexts(replace(SMALL, X=("tearful",)), path)


def test_the_only_sentence_of_a_set_in_other_bytes_is_named_as_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "wide.txt"
    path.write_bytes(TEXT.encode("utf-16"))
    assert len(corpus_contexts(SMALL, path)) == 4
    path.write_bytes(TEXT.encode("utf-16-le"))
    with pytest.raises(BadProbe, match=r"no sentence can be read \(not UTF-8 text: 1\)"):
        corpus_contexts(SMALL, path)


def test_race_words_are_found_and_the_repeat_does_not_double_them(tmp_path: Path) -> None:
    text = "The Black senator spoke. An African scholar and a white banker listened to the runner.\n"
    index = corpus_contexts(load_words("race"), corpus(tmp_path, text))
    assert Counter(c.word for c in index)["black"] == 1
    assert "Caucasian" in index.missing
    assert len(set(index.missing)) == len(index.missing)


def test_a_corpus_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="no such corpus"):
        corpus_contexts(SMALL, tmp_path / "none.txt")
    with pytest.raises(BadProbe, match=r"no \.txt or \.jsonl file in this folder"):
        corpus_contexts(SMALL, tmp_path)
    with pytest.raises(BadOption, match="0 contexts a word"):
        corpus_contexts(SMALL, corpus(tmp_path, TEXT), per_word=0)
    with pytest.raises(BadOption, match=r"^seed must be 0 or greater \(got -1\)$"):
        corpus_contexts(SMALL, corpus(tmp_path, TEXT), seed=-1)


def peak_of_indexing(path: Path, sentences: int, end: str) -> int:
    with path.open("w") as handle:
        handle.writelines(f"In year {i} she was kind and he was bold to us.{end}" for i in range(sentences))
    gc.collect()
    tracemalloc.start()
    try:
        index = corpus_contexts(SMALL, path, per_word=5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert index.occurrences["she"] == sentences
    return peak


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("end", ["\n", " "], ids=["lines", "one long line"])
def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("levelhead.probes.corpus.PIECE", 4096)
    peak_of_indexing(tmp_path / "first.txt", 1000, end)  # fills caches that last as long as the process
    small = peak_of_indexing(tmp_path / "small.txt", 1000, end)
    large = peak_of_indexing(tmp_path / "large.txt", 30_000, end)
    more = (tmp_path / "large.txt").stat().st_size - (tmp_path / "small.txt").stat().st_size
    assert large - small < more / 20


def check_index(test: WordTest, index: ContextIndex) -> None:
    """Spans hold their words, and a word has contexts or is missing, never both."""
    for context in index:
        assert context.text[context.start : context.end].lower() == surface(context.word).lower()
    for group, words in test.groups().items():
        have = {c.word for c in index if c.group == group}
        assert have | set(index.missing) >= set(words)
        assert have & set(index.missing) == set()


def test_shipped_sentences_as_a_corpus_give_contexts_of_every_group_with_right_spans(tmp_path: Path) -> None:
    test = load_words("gender")
    text = "\n".join(sentence.text for sentence in shipped_counter_sentences())
    index = corpus_contexts(test, corpus(tmp_path, text), per_word=5)
    check_index(test, index)
    assert len({c.word for c in index if c.group in "XY"}) > 0.3 * len({*test.X, *test.Y})


@pytest.mark.nightly
@needs_data
def test_real_corpora_give_contexts_of_every_group_with_right_spans() -> None:
    test = load_words("gender")
    index = corpus_contexts(test, DATA / "corpus", per_word=5)
    check_index(test, index)
    for group, words in test.groups().items():
        assert len({c.word for c in index if c.group == group}) > 0.4 * len(set(words))
