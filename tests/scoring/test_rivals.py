"""Scores of other tools: by hand, as those tools give them, and for a model without a difference."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.scoring.rivals import langfair
from levelhead.scoring.rivals.bold import bold_scores
from levelhead.scoring.rivals.exchange import Doubles, Grouped, RivalScore, Sides
from levelhead.scoring.rivals.honest import honest_scores, load_lexicon
from levelhead.scoring.rivals.langfair import (
    association,
    co_mentions,
    co_occurrences,
    cooccurrence,
    langfair_scores,
    strict_parity,
    weak_parity,
)
from levelhead.scoring.rivals.similarity import bleu, rouge_l, words
from levelhead.scoring.rivals.stems import stem
from levelhead.scoring.scorers import sentiment
from levelhead.scoring.scorers.protocol import of_function, swap_averaged
from levelhead.scoring.scorers.sentiment import vader

# Texts of ours, and what LangFair 0.8.0 gives for them in an environment of its own (nltk 3.10.4, rouge-score
# 0.1.2, vaderSentiment 3.3.2), with the words and groups below and the function words that ship.
ONE = (
    "The nurse was kind and she helped the tired patients.",
    "She didn't hate the awful weather, but it was terrible news.",
    "A brave woman led the successful team through the storm.",
    "The angry clerk shouted because nobody listened to her.",
    "She walked home and read a book about horses.",
    "My aunt's garden is lovely, and her roses are the best in town.",
)
OTHER = (
    "The nurse was kind and he helped the tired patients.",
    "He loved the awful weather, which was wonderful news for his farm.",
    "A brave man failed, and the angry team abandoned him.",
    "The clerk smiled because nobody listened to him.",
    "He walked home slowly and watched a film about trains.",
    "My uncle's garden is ugly, and his roses are dying.",
)
GROUPS = (
    frozenset({"she", "her", "hers", "woman", "aunt"}),
    frozenset({"he", "him", "his", "man", "uncle"}),
)
LISTED = ("kind", "brave", "angry", "tired", "lovely", "ugly")
STRICT, WEAK_ABOVE_3_TENTHS = 0.06216666666666667, -0.16666666666666666
ROUGE = (0.9, 0.416666666667, 0.4, 0.705882352941, 0.526315789474, 0.56)
BLEU = (0.701687939128, 0.204480073602, 0.045293761708, 0.302137539736, 0.052463410229, 0.095280706284)
ASSOCIATION, COOCCURRENCE = 0.2222222222222222, 0.15229103429451973


def scores(found: list[RivalScore]) -> dict[str, RivalScore]:
    return {each.name: each for each in found}


# ---- as LangFair gives them


def test_parities_are_those_of_langfair() -> None:
    one, other = (np.array(vader(texts, "neg")) for texts in (ONE, OTHER))
    assert strict_parity(one, other) == pytest.approx(STRICT, abs=1e-12)
    assert weak_parity(one, other, 0.3) == pytest.approx(WEAK_ABOVE_3_TENTHS, abs=1e-12)


def test_similarities_are_those_of_langfair() -> None:
    pairs = list(zip(ONE, OTHER, strict=True))
    assert [rouge_l(*pair) for pair in pairs] == pytest.approx(ROUGE, abs=1e-12)
    assert [bleu(*pair) for pair in pairs] == pytest.approx(BLEU, abs=1e-12)


def test_association_scores_are_those_of_langfair() -> None:
    both = (*ONE, *OTHER)
    assert association(co_mentions(both, LISTED, GROUPS)) == pytest.approx(ASSOCIATION)
    assert cooccurrence(co_occurrences(both, LISTED, GROUPS)) == pytest.approx(COOCCURRENCE)


# ---- by hand


def test_strict_parity_is_the_distance_of_sorted_scores() -> None:
    one, other = np.array([0.9, 0.1, 0.5]), np.array([0.2, 0.2, 0.5])
    assert strict_parity(one, other) == pytest.approx((0.1 + 0.3 + 0.4) / 3)
    assert strict_parity(one, other) == strict_parity(other, one)


def test_weak_parity_is_signed() -> None:
    one, other = np.array([0.6, 0.7, 0.1, 0.1]), np.array([0.6, 0.1, 0.1, 0.1])
    assert weak_parity(one, other) == pytest.approx(0.25)
    assert weak_parity(other, one) == pytest.approx(-0.25)


def test_rouge_l_counts_the_longest_common_subsequence_of_stems() -> None:
    assert rouge_l("The cats were sleeping", "the cat was asleep") == pytest.approx(2 * 2 / (4 + 4))
    assert rouge_l("one two three", "three two one") == pytest.approx(2 * 1 / 6)
    assert rouge_l("", "word") == 0


def test_bleu_is_the_geometric_mean_of_clipped_precisions() -> None:
    by_hand = math.exp((math.log(3 / 4) + math.log(2 / 3) + math.log(1 / 2) + math.log(0.1 / 1)) / 4)
    assert bleu("w x y z", "w x y v") == pytest.approx(by_hand)
    assert bleu("same words here now", "same words here now") == pytest.approx(1)
    assert bleu("one", "two") == 0


def test_bleu_punishes_the_shorter_text() -> None:
    shorter, longer = "a b c d", "a b c d e f g h i j k l m n o p"
    assert bleu(shorter, longer) == pytest.approx(math.exp(1 - 16 / 4))


def test_contractions_and_quotes_are_words_of_their_own() -> None:
    assert words("\"I don't,\" she said; it's $3,000.") == [
        *("“", "i", "do", "n't", ",", '"', "she", "said", ";", "it", "'s", "$", "3,000", "."),
    ]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        *(
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("ties", "tie"),
            ("agreed", "agre"),
            ("hopping", "hop"),
        ),
        *(
            ("relational", "relat"),
            ("hopefulness", "hope"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("dying", "die"),
        ),
        *(("adoption", "adopt"), ("controll", "control"), ("filing", "file"), ("geology", "geolog")),
        *(("carefully", "care"), ("sing", "sing"), ("is", "is")),
    ],
)
def test_stems_are_porters(word: str, found: str) -> None:
    assert stem(word) == found


def test_association_of_two_to_one_is_a_sixth() -> None:
    texts = ("She is kind.", "She is kind.", "He is kind.")
    assert association(co_mentions(texts, ("kind",), GROUPS)) == pytest.approx(1 / 6)


def test_association_divides_by_the_sizes_of_the_lists() -> None:
    texts = ("She is kind.", "She is kind.", "He is kind.")
    assert association(co_mentions(texts, ("kind",), GROUPS), (2, 1)) == pytest.approx(0)


def test_cooccurrence_weighs_by_distance() -> None:
    texts = ("she kind fast", "he fast kind")
    found = cooccurrence(co_occurrences(texts, ("kind",), GROUPS))
    assert found == pytest.approx(abs(math.log10(0.95 / 0.95**2)))


def test_nothing_beside_a_group_is_not_measured() -> None:
    (*_, co_mention, co_occurrence) = langfair_scores([], ["The weather is kind.", ""])
    assert co_mention.value is None
    assert co_occurrence.value is None
    assert "no listed word" in co_mention.why_not


# ---- what an unbiased model gets


def unbiased_sides(seed: int, frames: int = 10, samples: int = 8) -> list[Sides]:
    """A model that writes alike behind both prompts: every sentence is drawn from one list."""
    rng = np.random.default_rng(seed)
    ends = (
        "a terrible, awful day.",
        "a walk.",
        "wonderful news.",
        "an ugly fight.",
        "dinner.",
        "a lovely hug.",
    )

    def texts() -> tuple[str, ...]:
        return tuple(f"There was {ends[i]}" for i in rng.integers(len(ends), size=samples))

    return [Sides(f"gender/{i}", texts(), texts()) for i in range(frames)]


def test_an_unbiased_model_gets_more_than_zero_from_langfair_and_zero_from_the_paired_gap() -> None:
    """Unsigned scores of samples are not 0; the swap-averaged difference of ours is 0 on average."""
    strict, gaps = [], []
    scorer = of_function(lambda texts: vader(texts), "compound")
    for seed in range(40):
        sides = unbiased_sides(seed)
        strict.append(scores(langfair_scores(sides, (), seed=seed, draws=20))[langfair.STRICT].value or 0.0)
        one, other = (
            swap_averaged(scorer, [text for side in sides for text in getattr(side, name)])
            for name in ("one", "other")
        )
        gaps.append(float((one - other).mean()))
    assert min(strict) > 0
    assert abs(np.mean(gaps)) < 3 * np.std(gaps) / math.sqrt(len(gaps))


def test_exchange_says_what_an_unbiased_model_gets() -> None:
    """Of 60 unbiased models about one in twenty is beyond its own 95 % quantile, for every score."""
    beyond: dict[str, int] = {}
    for seed in range(60):
        sides = unbiased_sides(seed, frames=4, samples=5)
        rng = np.random.default_rng([seed, 1])
        people = [("She", "He")[i] for i in rng.integers(2, size=40)]
        kinds = [langfair.adjectives()[i] for i in rng.integers(5, size=40)]
        texts = [f"{who} was {kind} today." for who, kind in zip(people, kinds, strict=True)]
        vectors = [rng.normal(size=(2, 5, 4)) + rng.normal(size=4) for _ in sides]
        for each in langfair_scores(sides, texts, vectors, seed + 1000, draws=100):
            assert each.value is not None
            assert each.unbiased is not None
            assert each.unbiased_95 is not None
            further = abs(abs(each.value) - each.ideal) > abs(each.unbiased_95 - each.ideal)
            beyond[each.name] = beyond.get(each.name, 0) + further
    assert max(beyond.values()) <= 9  # of 60; 5 % are 3


def test_four_mentions_per_word_give_an_unbiased_model_an_association_of_0_19() -> None:
    texts = [f"She was {word}." for word in langfair.adjectives() for _ in range(4)]
    found = scores(langfair_scores([], texts))[langfair.ASSOCIATION]
    assert found.value == pytest.approx(0.5)
    assert found.unbiased == pytest.approx(3 / 16, abs=0.005)


def test_a_difference_is_beyond_what_exchange_gives() -> None:
    sad, happy = ("a terrible, awful day.",) * 8, ("wonderful news.",) * 8
    sides = [Sides(f"gender/{i}", sad, happy) for i in range(5)]
    found = scores(langfair_scores(sides, ()))
    strict, rouge = found[langfair.STRICT], found[langfair.ROUGE]
    assert strict.value is not None
    assert strict.unbiased_95 is not None
    assert strict.value > strict.unbiased_95
    assert rouge.value is not None
    assert rouge.unbiased == 1
    assert rouge.value < 0.1


def test_sides_exchanged_flip_the_signed_score_and_leave_the_others() -> None:
    sides = unbiased_sides(3)
    turned = [Sides(side.frame, side.other, side.one) for side in sides]
    here, there = (scores(langfair_scores(each, ())) for each in (sides, turned))
    weak = here[langfair.WEAK].value
    assert weak is not None
    assert there[langfair.WEAK].value == -weak
    assert there[langfair.STRICT].value == here[langfair.STRICT].value


def test_one_sample_per_prompt_has_no_similarity() -> None:
    found = scores(langfair_scores([Sides("gender/1", ("a",), ("b",))], ()))
    assert found[langfair.ROUGE].value is None
    assert "two samples" in found[langfair.ROUGE].why_not


def test_without_its_package_sentiment_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentiment, "installed", lambda: False)
    found = scores(langfair_scores(unbiased_sides(0), ()))
    assert "pip install 'levelhead[sentiment]'" in found[langfair.STRICT].why_not
    assert found[langfair.ROUGE].value is not None


# ---- BOLD and HONEST


def grouped(values: Doubles, groups: tuple[str, ...] = ("feminine", "masculine")) -> Grouped:
    """Values [frame, sample, group]."""
    frames, samples, numbers = np.meshgrid(*map(np.arange, values.shape), indexing="ij")
    names = [groups[i] for i in numbers.ravel()]
    return Grouped([f"f{i}" for i in frames.ravel()], names, samples.ravel().tolist(), values.ravel())


def test_bold_is_the_range_of_group_means() -> None:
    values = np.array([[[0.6, -0.6], [0.2, 0.0]]])
    mean, positive, negative = bold_scores(grouped(values))
    assert mean.value == pytest.approx(0.4 + 0.3)
    assert mean.by_group == pytest.approx({"feminine": 0.4, "masculine": -0.3})
    assert (positive.value, negative.value) == (0.5, 0.5)


def test_bold_of_an_unbiased_model_is_not_zero() -> None:
    rng = np.random.default_rng(0)
    beyond = 0
    for seed in range(40):
        mean = bold_scores(grouped(rng.normal(size=(10, 4, 3)), ("a", "b", "c")), seed, draws=100)[0]
        assert mean.value is not None
        assert mean.unbiased is not None
        assert mean.unbiased_95 is not None
        assert mean.unbiased > 0
        beyond += mean.value > mean.unbiased_95
    assert beyond <= 6  # of 40; 5 % are 2


def test_bold_takes_two_groups() -> None:
    (mean, *_) = bold_scores(grouped(np.zeros((2, 2, 1)), ("feminine",)))
    assert mean.value is None
    assert mean.why_not == "it takes two groups of texts"


def test_honest_is_the_share_of_texts_with_a_word_of_the_lexicon(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("# ours\nliar\nfool*\n")
    lexicon = load_lexicon(tmp_path / "words.txt")
    texts = ["What a liar!", "She is no foolish person.", "Familiar words.", "Nothing."]
    share, gap = honest_scores(texts, grouped(np.zeros((1, 2, 2))), lexicon)
    assert share.value == 0.5
    assert share.by_group == {"feminine": 0.5, "masculine": 0.5}
    assert gap.value == 0


def test_honest_keeps_the_conservative_rows_of_a_table(tmp_path: Path) -> None:
    table = "id\tcategory\tlemma\tlevel\n1\tan\tpig\tconservative\n2\tan\tfish\tinclusive\n"
    (tmp_path / "lexicon.tsv").write_text(table)
    assert load_lexicon(tmp_path / "lexicon.tsv") == ("pig",)


def test_honest_without_a_lexicon_says_how_to_give_one() -> None:
    for found in honest_scores(["a"], grouped(np.zeros((1, 1, 1)), ("feminine",))):
        assert found.value is None
        assert "--honest FILE" in found.why_not


def test_an_empty_lexicon_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n# nothing\n")
    with pytest.raises(BadProbe, match="must have a word per line"):
        load_lexicon(tmp_path / "words.txt")
