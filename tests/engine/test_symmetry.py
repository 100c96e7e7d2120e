"""A model asked under the exchange of groups: f_s(y | x) = f_s(σy | σx), exactly, whatever f is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Site, Variant
from levelhead.engine.readings import (
    Pooled,
    Predictions,
    SentenceVectors,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
)
from levelhead.engine.run import read, read_one
from levelhead.engine.symmetry import TokenClasses, token_classes
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, find_word, token_id
from levelhead.models.model import Model, load
from levelhead.probes.bias import swap_for
from levelhead.probes.group_swap import GenderSwap, GroupSwap, RowSwap
from levelhead.probes.name_beliefs import strange_names
from levelhead.probes.words import load_words
from levelhead.progress import counted_work
from tests.tiny import tiny

SWAP = GenderSwap()
SYMMETRIZED: Variant = (Symmetrized(SWAP),)
TEXTS = [
    "She saw him in the kitchen.",
    "The nurse said that she was tired.",
    "He gave her a book.",
    "The engineer was tired.",
]


def _tokens(model: Model, *words: str) -> list[int]:
    """The tokens of words that are one token each."""
    tokens = [token for word in words if (token := token_id(model, word)) is not None]
    assert len(tokens) == len(words), words
    return tokens


def _swapped(texts: list[str]) -> list[str]:
    return [SWAP(text).text for text in texts]


def _blanks(model: Model, texts: list[str]) -> list[str]:
    mask = model.tokenizer.mask_token
    return [f"{text} {mask} was tired." for text in texts] if mask else texts


@pytest.fixture(params=["bert", "gpt2", "llama"])
def speaker(request: pytest.FixtureRequest) -> Model:
    return tiny(request.param)


def test_probabilities_at_a_blank_are_the_mean_over_both_texts(speaker: Model) -> None:
    tokens = _tokens(speaker, "she", "he")
    texts = _blanks(speaker, TEXTS)
    reading = TokenLogProbs(texts, tokens)
    p, p_swapped = (np.exp(read_one(speaker, TokenLogProbs(t, tokens))[0]) for t in (texts, _swapped(texts)))
    expected = (p + p_swapped[:, [1, 0]]) / 2
    assert np.exp(read_one(speaker, reading, [SYMMETRIZED])[0]) == pytest.approx(expected, rel=1e-5)


def test_she_and_he_are_equally_likely_where_no_group_is_named(speaker: Model) -> None:
    tokens = _tokens(speaker, "she", "he")
    texts = _blanks(speaker, ["The nurse was tired.", "The engineer was tired."])
    base, symmetrized = read_one(speaker, TokenLogProbs(texts, tokens), [(), SYMMETRIZED])
    assert symmetrized[:, 0] == pytest.approx(symmetrized[:, 1], abs=1e-6)
    assert abs(base[:, 0] - base[:, 1]).max() > 1e-4


def passed(model: Model, texts: list[str], variant: Variant = ()) -> float:
    """Tokens that run through the network for what is likely behind texts, or at their blanks."""
    with counted_work() as done:
        read_one(model, TokenLogProbs(texts, _tokens(model, "she", "he")), [variant])
    return sum(done)


def test_a_text_that_the_exchange_leaves_as_it_is_takes_one_pass_and_others_two(speaker: Model) -> None:
    neutral, others = _blanks(speaker, TEXTS[3:]), _blanks(speaker, TEXTS[:3])
    assert passed(speaker, neutral, SYMMETRIZED) == passed(speaker, neutral) > 0
    both = passed(speaker, others) + passed(speaker, _swapped(others))
    assert passed(speaker, others, SYMMETRIZED) == both
    every = list(range(int(speaker.config.vocab_size)))
    logs = [read_one(speaker, TokenLogProbs(t, every))[0] for t in (neutral, _swapped(neutral))]
    two = token_classes(speaker, SWAP).mixed(logs, every)
    (one,) = read_one(speaker, TokenLogProbs(neutral, every), [SYMMETRIZED])
    assert one == pytest.approx(two, abs=1e-6)


def test_what_the_model_believes_of_a_name_is_read_once(speaker: Model) -> None:
    first, second = (_blanks(speaker, [f"Zenobia {verb} the nurse."]) for verb in ("saw", "knows"))
    assert strange_names(first) == strange_names(second) == ["Zenobia"]
    assert passed(speaker, first, SYMMETRIZED) > 2 * passed(
        speaker, first
    )  # its name, and those of the table
    plain = passed(speaker, second)
    assert passed(speaker, second, SYMMETRIZED) in (plain, plain + passed(speaker, _swapped(second)))
    with torch.no_grad():
        next(speaker.hf.parameters()).mul_(1.5)
    assert passed(speaker, second, SYMMETRIZED) > 2 * plain  # other weights may believe something else


def test_her_is_mixed_with_his_and_him_together() -> None:
    """p_s(her) = ½ [p(her) + p'(his) + p'(him)], p' after the orientation; his and him share as they did
    before."""
    classes = TokenClasses((((4,), (5, 6)),), ())
    here, there = np.log([[0.4, 0.1, 0.3, 0.2]]), np.log([[0.2, 0.5, 0.1, 0.2]])
    tokens = (4, 5, 6, 9)
    mixed = np.exp(classes.mixed([here, there], tokens))
    assert mixed[0] == pytest.approx([(0.4 + 0.6) / 2, 0.3 * 0.25, 0.3 * 0.75, 0.2])
    back = np.exp(classes.mixed([there, here], tokens))
    assert mixed[0, 0] == pytest.approx(back[0, 1] + back[0, 2])
    assert mixed[0, 1] + mixed[0, 2] == pytest.approx(back[0, 0])


def test_probabilities_still_add_up_to_one(speaker: Model) -> None:
    every = range(int(speaker.config.vocab_size))
    (logs,) = read_one(speaker, TokenLogProbs(_blanks(speaker, TEXTS), every), [SYMMETRIZED])
    assert np.exp(logs.astype(np.float64)).sum(axis=-1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)


def test_likeliest_tokens_are_those_of_the_mixture(speaker: Model) -> None:
    texts = _blanks(speaker, TEXTS)
    every = range(int(speaker.config.vocab_size))
    (logs,) = read_one(speaker, TokenLogProbs(texts, every), [SYMMETRIZED])
    likeliest = read_one(speaker, Predictions(texts, 3), [SYMMETRIZED])
    assert likeliest.log_probs[0] == pytest.approx(np.sort(logs, axis=-1)[:, :-4:-1], abs=1e-6)


def test_a_text_and_its_counterfactual_are_equally_likely(speaker: Model) -> None:
    """P_s(x) = ½ P(x) + ½ P(σx) of a causal model; a masked one word by word."""
    texts = [*TEXTS, *_swapped(TEXTS)]
    scores = read_one(speaker, TokenLikelihoods(texts), [(), SYMMETRIZED])
    base, mixed = ([float(v.sum()) for v in values] for values in scores.values)
    n = len(TEXTS)
    assert mixed[:n] == pytest.approx(mixed[n:], abs=2e-5)
    assert max(abs(a - b) for a, b in zip(base[:n], base[n:], strict=True)) > 1e-3
    if "causal" in speaker.abilities:
        assert mixed[:n] == pytest.approx(np.logaddexp(base[:n], base[n:]) - np.log(2), abs=2e-5)
    assert mixed[3] == pytest.approx(base[3], abs=1e-5)  # names no group: as it was


def test_a_first_word_without_a_scored_token_at_some_turn_is_given_at_all_of_them() -> None:
    """Without an opening `he` has no token that is scored, `s-he` has one; what comes behind is mixed."""
    model = tiny("gpt2")
    assert model.opening.tokens is None
    scores = read_one(model, TokenLikelihoods(["he was tired.", "she was tired."]), [(), SYMMETRIZED])
    (he, she), (mixed_he, mixed_she) = scores.values
    assert len(she) == len(he) + 1
    assert mixed_she[0] == she[0]
    expected = np.logaddexp(he.sum(), she[1:].sum()) - np.log(2)
    assert mixed_he.sum() == pytest.approx(expected, abs=2e-5)
    assert mixed_she[1:] == pytest.approx(mixed_he, abs=2e-5)


def test_judgments_about_swapped_inputs_are_the_same_to_the_bit() -> None:
    for model in (tiny("bert", "nsp"), tiny("bert", "nli")):
        pairs = [Text(a, b) for a, b in pairwise(TEXTS)]
        oriented = [Text(SWAP(p.first).text, SWAP(str(p.second)).text) for p in pairs]
        (logits,) = read_one(model, Pooled([*pairs, *oriented]), [SYMMETRIZED])
        assert np.array_equal(logits[: len(pairs)], logits[len(pairs) :])
        (plain,) = read_one(model, Pooled([*pairs, *oriented]))
        p = torch.softmax(torch.from_numpy(plain), -1).numpy()
        mean = (p[: len(pairs)] + p[len(pairs) :]) / 2
        assert np.exp(logits[: len(pairs)]) == pytest.approx(mean, rel=1e-5)


def test_vectors_are_means_over_both_texts(speaker: Model) -> None:
    spans = [find_word(text, "tired") for text in (TEXTS[1], TEXTS[3])]
    texts = [TEXTS[1], TEXTS[3]]
    static = StaticVectors(texts, spans, [0, 1])
    moved = [SWAP(text).place(span) for text, span in zip(texts, spans, strict=True)]
    oriented = StaticVectors(_swapped(texts), moved, [0, 1])
    answers = read(speaker, [static, oriented])
    mean = (answers[static][0] + answers[oriented][0]) / 2
    assert read_one(speaker, static, [SYMMETRIZED])[0] == pytest.approx(mean, abs=1e-6)
    both = SentenceVectors([*TEXTS, *_swapped(TEXTS)])
    (vectors,) = read_one(speaker, both, [SYMMETRIZED])
    assert np.array_equal(vectors[: len(TEXTS)], vectors[len(TEXTS) :])


def test_symmetrized_and_other_variants_come_back_in_their_order(speaker: Model) -> None:
    tokens = _tokens(speaker, "she", "he")
    reading = TokenLogProbs(_blanks(speaker, TEXTS), tokens)
    ablated = removed(speaker, ["1-1"])
    variants = [SYMMETRIZED, (), (*ablated, *SYMMETRIZED), ablated]
    together = read_one(speaker, reading, variants)
    for variant, answer in zip(variants, together, strict=True):
        assert read_one(speaker, reading, [variant])[0] == pytest.approx(answer, abs=1e-6)
    assert not np.allclose(together[0], together[2])


def test_three_groups_are_averaged_over_all_turns() -> None:
    model = tiny("bert")
    swap = RowSwap("kind", (("nurse", "engineer", "teacher"),))
    tokens = _tokens(model, "nurse", "engineer", "teacher")
    mask = model.tokenizer.mask_token
    (logs,) = read_one(model, TokenLogProbs([f"A book: {mask}."], tokens), [(Symmetrized(swap),)])
    assert logs[0] == pytest.approx(np.full(3, logs[0, 0]), abs=1e-6)
    assert swap.groups == 3


def _assert_exact(model: Model, swap: GroupSwap, texts: list[str]) -> None:
    """Answers at every orientation are the answers at the text, with the groups of the words turned."""
    variant, causal = (Symmetrized(swap),), "causal" in model.abilities
    oriented = [[swap(text, t).text for text in texts] for t in range(swap.groups)]
    assert all(swap(text).changes and swap(text).reversible for text in texts)
    asked = [texts if causal else _blanks(model, texts) for texts in oriented]
    classes = token_classes(model, swap).classes
    assert classes
    for groups in classes:
        assert all(len(group) == 1 for group in groups)
        tokens = [token for group in groups for token in group]
        logs = [read_one(model, TokenLogProbs(own, tokens), [variant])[0] for own in asked]
        for t, log in enumerate(logs):
            assert np.roll(log, -t, axis=-1) == pytest.approx(logs[0], abs=1e-5)
    scores = [read_one(model, TokenLikelihoods(own), [variant]).values[0] for own in oriented]
    sums = [[float(each.sum(dtype=np.float64)) for each in own] for own in scores]
    assert sums == [pytest.approx(sums[0], abs=1e-4)] * swap.groups
    vectors = [read_one(model, SentenceVectors(own), [variant])[0] for own in oriented]
    for own in vectors:
        assert own == pytest.approx(vectors[0], abs=1e-5)
    if "nsp" in model.abilities:
        pairs = [Pooled([Text(text, "It was late.") for text in own]) for own in oriented]
        logits = [read_one(model, each, [variant])[0] for each in pairs]
        for own in logits:
            assert own == pytest.approx(logits[0], abs=1e-5)


@pytest.mark.parametrize("words", [("nurse", "engineer", "her"), ("nurse", "engineer")])
def test_of_k_groups_the_answers_at_every_orientation_are_the_answers_turned(
    speaker: Model, words: tuple[str, ...]
) -> None:
    _assert_exact(speaker, RowSwap("work", (words,)), ["The nurse was tired.", "She saw the engineer."])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
@pytest.mark.parametrize("bias", ["religion", "race", "three faiths"])
def test_shipped_models_symmetrized_over_other_groups_are_exact(name: str, bias: str) -> None:
    faiths = (("church", "temple", "palace"), ("Christian", "Jewish", "Muslim"), ("priest", "rabbi", "imam"))
    swap = RowSwap(bias, faiths) if bias == "three faiths" else swap_for(load_words(bias))
    texts = {
        "religion": ["Yesterday the imam prayed in the mosque.", "We know that Christianity is old."],
        "race": ["One of the African Americans was black.", "The white house is in Africa."],
        "three faiths": ["Yesterday the rabbi saw the church.", "Every Muslim family and the priest came."],
    }[bias]
    _assert_exact(load(name), swap, texts)


def test_what_looks_inside_is_refused_in_one_line(speaker: Model) -> None:
    with pytest.raises(CannotDo, match="looks inside the network"):
        read_one(speaker, States(TEXTS, Site(0, "block")), [SYMMETRIZED])
    with pytest.raises(CannotDo, match="give it as a variant"), speaker.edited(*SYMMETRIZED):
        pass


def test_words_of_several_tokens_are_named() -> None:
    classes = token_classes(tiny("bert"), SWAP)
    assert "duchess" in classes.split
    members = [token for groups in classes.classes for group in groups for token in group]
    assert len(members) == len(set(members)) > 0
