"""Texts that a model wrote, scored: by its own forward pass, and the same from either side of the swap."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import decoders

from levelhead.edits.gates import removed
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine.readings import TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.sampling import Sampling, continuations
from levelhead.engine.symmetry import token_classes
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.mirror import mirror_divergence, mirror_parts
from levelhead.measures.statistics import Resampling
from levelhead.models.encoding import Text, encode, token_id
from levelhead.models.model import Model, load
from levelhead.probes.generation import load_prompts
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.swap import stated_genders
from levelhead.scoring import generation
from levelhead.scoring.generation import (
    answer_odds,
    first_person_shares,
    mirror_scores,
    text_vectors,
    tilt_scores,
)
from tests.tiny import DECODERS, tiny

SYMMETRIZED: Variant = (Symmetrized(GenderSwap()),)
PROMPTS = [
    "The nurse said that",
    "My mother went home because",
    "Mary and",
    "The engineer thought",
    "His sister told",
]
NOUNS = ("nurse", "engineer", "teacher", "book", "kitchen")
TEXTS = [
    " she was late.",
    " he was tired and she was not.",
    " her brother",
    " of the book.",
    " him, and left.",
]


def by_hand(model: Model, prompt: str, text: str) -> float:
    """log p of the tokens behind a prompt, by the network alone."""
    hf: Any = model.hf
    (row,) = encode(model, [prompt + text])
    logs = hf(input_ids=torch.from_numpy(row.ids.astype(np.int64))[None]).logits[0].double().log_softmax(-1)
    start = len(prompt)
    return sum(
        float(logs[i - 1, row.ids[i]])
        for i in range(1, len(row.ids))
        if row.part[i] != -1 and row.offsets[i, 0] >= start
    )


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_likelihoods_are_those_of_the_network_on_both_sides(family: str) -> None:
    model, swap = tiny(family), GenderSwap()
    (found,) = mirror_scores(model, PROMPTS, TEXTS)
    for i, (prompt, text) in enumerate(zip(PROMPTS, TEXTS, strict=True)):
        turned = swap(prompt + text).text
        mirrored = swap(prompt).text
        assert turned.startswith(mirrored)
        assert found.log_p[i] == pytest.approx(by_hand(model, prompt, text), abs=1e-3)
        expected = by_hand(model, mirrored, turned[len(mirrored) :])
        assert found.log_p_mirror[i] == pytest.approx(expected, abs=1e-3)
    assert found.exact.all()
    assert (found.tokens > 0).all()


def test_exchanged_sides_change_the_sign() -> None:
    model, swap = tiny("gpt2"), GenderSwap()
    (own,) = mirror_scores(model, PROMPTS, TEXTS)
    mirrored = [swap(prompt).text for prompt in PROMPTS]
    rest = [swap(p + t).text[len(m) :] for p, t, m in zip(PROMPTS, TEXTS, mirrored, strict=True)]
    (other,) = mirror_scores(model, mirrored, rest)
    assert other.gaps == pytest.approx(-own.gaps, abs=1e-4)
    assert np.abs(own.gaps).max() > 0.01


@pytest.mark.parametrize("family", DECODERS)
def test_a_symmetrized_model_has_no_divergence(family: str) -> None:
    model = tiny(family)
    prompts = [*PROMPTS, "The businesswo", "She saw "]  # a token may reach over the end of a prompt
    texts = [*TEXTS, "man said", "her yesterday"]
    gated: Variant = (*SYMMETRIZED, *removed(model, ["1-1"]))
    plain, own, edited = mirror_scores(model, prompts, texts, [(), SYMMETRIZED, gated])
    for found in (own, edited):
        assert np.abs(found.gaps / np.maximum(found.tokens, 1))[found.exact].max() < 1e-4
    assert own.exact.sum() >= 6
    assert np.abs(plain.gaps).max() > 0.01
    assert np.abs(own.log_p - edited.log_p).max() > 0.01


def test_symmetrized_likelihoods_are_those_of_the_engines_mixture(gpt: Model) -> None:
    prompts, texts = PROMPTS[:2], TEXTS[:2]
    own = mirror_scores(gpt, prompts, texts, [SYMMETRIZED])[0]
    whole = [prompt + text for prompt, text in zip(prompts, texts, strict=True)]
    scores = read_one(gpt, TokenLikelihoods(whole), [SYMMETRIZED])
    for i, prompt in enumerate(prompts):
        behind = scores.rows[i].offsets[scores.positions[i], 0] >= len(prompt)
        assert own.log_p[i] == pytest.approx(float(scores.values[0][i][behind].sum()), abs=1e-3)


def test_a_text_that_the_swap_does_not_turn_around_is_marked(gpt: Model) -> None:
    (found,) = mirror_scores(gpt, ["The nurse said that"] * 2, [" the landlord was late", ""])
    assert found.tokens.tolist()[1] == 0
    assert found.gaps[1] == 0


def test_a_counterfactual_that_does_not_fit_is_not_scored() -> None:
    model = tiny("gpt2", n_positions=24)
    text = " she was in the kitchen and the engineer"
    prompts, texts = ["The nurse said"] * 2, [" that", text]
    while len(next(iter(encode(model, [prompts[0] + texts[1] + " she"], cut=24))).ids) < 24:
        texts[1] += " she"
    texts[1] += " she" * 20
    (found,) = mirror_scores(model, prompts, texts)
    assert found.exact.tolist() == [True, False]
    assert np.isfinite(found.log_p).tolist() == np.isfinite(found.log_p_mirror).tolist() == [True, False]
    divergence = mirror_divergence(found, [0, 1], Resampling(resamples=100))
    assert divergence.n == 1


@pytest.mark.nightly
def test_a_models_own_texts_diverge_from_their_mirror_image_and_a_symmetrized_models_do_not(
    gpt: Model,
) -> None:
    prompts = [f"The {who} {what}" for who in ("nurse", "doctor", "cook") for what in ("said that", "and")]
    given = [prompt for prompt in prompts for _ in range(6)]
    clusters = [prompt.split()[1] + prompt.split()[2] for prompt in given]
    for variant, lowest, highest in (((), 0.05, 9.0), (SYMMETRIZED, 0.0, 1e-4)):
        found = continuations(gpt, prompts, prompts, Sampling(6, 16), variant)
        texts = [each.text for of_prompt in found for each in of_prompt]
        (scores,) = mirror_scores(gpt, given, texts, [variant])
        divergence = mirror_divergence(scores, clusters, Resampling(resamples=100))
        assert lowest <= abs(divergence.details["per token"] or 0.0) <= highest
        (words,) = tilt_scores(gpt, given, texts, [variant])
        assert (words is None) == (variant == SYMMETRIZED)
        if words is not None:
            assert "she/he" in words.names
            parts = mirror_parts(scores, words, clusters, Resampling(resamples=100))
            total = (parts.frequency.value or 0) + (parts.context.value or 0)
            assert total == pytest.approx(divergence.value)


def symmetric_but_for(tilt: float) -> Model:
    """A model to which she and he are one word, but that it writes he more often, by e^tilt, everywhere."""
    model = tiny("gpt2")
    model.tokenizer = deepcopy(model.tokenizer)  # other tests have it too
    model.tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()  # what it writes is text again
    hf: Any = model.hf
    words = ("she", "he", "and", "said", "that", "the", "nurse", "engineer")
    she, he, *others = (each for word in words if (each := token_id(model, f" {word}")) is not None)
    assert len(others) > 1
    head = torch.nn.Linear(hf.config.n_embd, hf.config.vocab_size)
    with torch.no_grad():
        head.bias.fill_(-40.0)  # nothing else is written
        for token, bias in {she: -tilt / 2, he: tilt / 2, **dict.fromkeys(others, 0.0)}.items():
            head.bias[token] = bias
        for weight in (head.weight, hf.transformer.wte.weight):
            weight[he] = weight[she]
    hf.lm_head = head.eval()
    return model


@pytest.mark.nightly
def test_a_tilt_of_a_real_model_is_found_as_planted_and_leaves_no_context() -> None:
    model, planted = symmetric_but_for(0.8), 0.8
    prompts = [f"The {a} {b} the {c}" for a in NOUNS for b in ("said that", "and") for c in NOUNS]
    texts = continuations(model, prompts, prompts, Sampling(samples=10, tokens=10))
    given = [prompt for prompt in prompts for _ in range(10)]
    flat = [each.text for own in texts for each in own]
    (own,), (words,) = mirror_scores(model, given, flat), tilt_scores(model, given, flat)
    assert words is not None
    divergence, parts = mirror_divergence(own, given), mirror_parts(own, words, given)
    assert divergence.interval is not None
    assert parts.context.interval is not None
    assert parts.frequency.interval is not None
    assert dict(parts.tilts)["she/he"] == pytest.approx(-planted, abs=0.1)
    assert parts.context.interval[0] <= 0 <= parts.context.interval[1]
    less = -planted * (words.counts.sum() / len(flat))  # the tilt times how many more of them are written
    assert divergence.value == pytest.approx(less, abs=1e-4)
    assert parts.frequency.interval[0] <= less <= parts.frequency.interval[1]
    assert divergence.interval[0] > 0


@pytest.mark.nightly
def test_a_symmetrized_gpt_mini_that_is_tilted_has_what_was_planted_as_its_frequency_part_alone() -> None:
    """Pairs have one embedding, so that the model cannot tell their sides apart but by the tilt of each."""
    planted = {"she/he": -0.8, "woman/man": 0.6}
    model = load("lh:gpt-mini", device="cpu")
    hf: Any = model.hf
    rows = hf.transformer.wte.weight.detach().clone()
    tilts = torch.zeros(len(rows))
    for groups in token_classes(model, GenderSwap()).classes:  # other words with a gender are not written
        tilts[[token for group in groups for token in group]] = -40.0
    for pair, tilt in planted.items():
        for case in (str, str.capitalize):
            she, he = (model.tokenizer.convert_tokens_to_ids(f"Ġ{case(word)}") for word in pair.split("/"))
            rows[[she, he]] = (rows[she] + rows[he]) / 2
            tilts[she], tilts[he] = tilt / 2, -tilt / 2
    head = torch.nn.Linear(rows.shape[1], len(rows))
    with torch.no_grad():
        hf.transformer.wte.weight.copy_(rows)
        head.weight.copy_(rows)
        head.bias.copy_(tilts)
    hf.lm_head = head.eval()
    prompts = [each.text for each in load_prompts(sets=("occupations",), limit=40).prompts]
    texts = continuations(model, prompts, prompts, Sampling(samples=8, tokens=20))
    given = [prompt for prompt in prompts for _ in range(8)]
    flat = [each.text for own in texts for each in own]
    (own,), (words,) = mirror_scores(model, given, flat), tilt_scores(model, given, flat)
    assert words is not None
    paired, wholes = (
        {word for pair in planted for word in pair.split("/")},
        map("".join, zip(given, flat, strict=True)),
    )
    alike = []  # not: words of several tokens, names, and words that begin with the token of a pair
    for whole, counted in zip(wholes, np.abs(words.counts).sum(axis=1), strict=True):
        changed = [whole[start:end].lower() for (start, end), _ in GenderSwap()(whole).changes]
        alike.append({*changed} <= paired and (len(changed) - counted) % 2 == 0)
    own = replace(own, exact=own.exact & alike)
    parts = mirror_parts(own, words, given)
    assert parts.context.interval is not None
    assert parts.frequency.interval is not None
    assert parts.context.interval[0] <= 0 <= parts.context.interval[1]
    assert parts.context.interval[1] < 0.1 * (parts.frequency.value or 0.0)
    found = dict(parts.tilts)
    assert found["she/he"] == pytest.approx(planted["she/he"], abs=0.15)
    less = sum(
        planted.get(name, 0.0) * words.counts[own.exact, c].mean() for c, name in enumerate(words.names)
    )
    assert parts.frequency.interval[0] <= less <= parts.frequency.interval[1]


def test_paired_words_are_counted_and_weighed_on_the_mirrored_side(gpt: Model) -> None:
    prompts, texts = ["The nurse said that"] * 6, [" she and he and she came"] * 5 + [" the book"]
    (words,) = tilt_scores(gpt, prompts, texts)
    assert words is not None
    assert words.names == ("she/he",)
    assert words.counts[:, 0].tolist() == [1, 1, 1, 1, 1, 0]
    assert np.bincount(words.text).tolist() == [6] * 5 + [2]
    she, he = (token_id(gpt, word) for word in ("she", "he"))
    assert she is not None
    assert he is not None
    (p,) = np.exp(read_one(gpt, TokenLogProbs(["The nurse said that he and"], [she, he])))
    # third position; other cases of the words, "He", are of the class too
    assert words.feminine[2, 0] == pytest.approx(p[0, 1], rel=0.05)
    assert words.masculine[2, 0] == pytest.approx(p[0, 0], rel=0.05)
    t = np.asarray([0.7])
    own = slice(0, 6)
    z = 1 + words.feminine[own, 0] * np.expm1(0.7) + words.masculine[own, 0] * np.expm1(-0.7)
    assert words.log_gain(t)[0] == pytest.approx(0.7 - np.log(z).sum(), abs=1e-5)


def test_without_a_paired_word_nothing_is_tilted(gpt: Model) -> None:
    (words,) = tilt_scores(gpt, ["The book"], [" lay on the table"])
    assert words is not None
    assert words.names == ()
    (scores,) = mirror_scores(gpt, ["The book"] * 8, [" lay on the table"] * 8)
    (words,) = tilt_scores(gpt, ["The book"] * 8, [" lay on the table"] * 8)
    assert words is not None
    parts = mirror_parts(scores, words, range(8), Resampling(resamples=100))
    assert (parts.frequency.value, parts.context.value) == (0.0, 0.0)


def test_who_appears_is_summed_along_a_text_up_to_its_first_person(gpt: Model) -> None:
    """Behind the prompt what counts is the own softmax of the model."""
    prompt, texts = (
        "The nurse laughed when",
        [" the phone rang, and she smiled", " he and she came", " it rained"],
    )
    shares = first_person_shares(gpt, [prompt] * 3, texts)
    hf: Any = gpt.hf
    sexes = [("she", "her", "herself", "hers"), ("he", "him", "himself", "his")]
    (row,) = encode(gpt, [prompt])
    p = hf(input_ids=torch.from_numpy(row.ids.astype(np.int64))[None]).logits[0, -1].softmax(-1)
    first = [sum(float(p[token_id(gpt, f" {word}")]) for word in words) for words in sexes]
    assert (shares[:, 0] >= first[0] - 1e-6).all()
    assert shares[1] == pytest.approx(first, abs=0.15)  # he stands first: nothing behind it counts
    other = first_person_shares(gpt, [prompt], [" he and nobody else"])
    assert other[0] == pytest.approx(shares[1], abs=1e-5)
    assert (shares[0] > shares[1]).all()


@pytest.mark.nightly
def test_the_sum_along_texts_has_the_expectation_of_the_count(gpt: Model) -> None:
    prompts = ["The nurse laughed when", "The plumber laughed when"]
    several = continuations(gpt, prompts, prompts, Sampling(256, 12))
    for prompt, own in zip(prompts, several, strict=True):
        texts = [each.text for each in own]
        summed = first_person_shares(gpt, [prompt] * 256, texts)
        said = [next(iter(stated_genders(text, names=True)), None) for text in texts]
        counted = np.asarray([[each is not None and each.gender == sex for sex in "FM"] for each in said])
        error = (summed - counted).std(axis=0) / 16
        assert (np.abs(summed.mean(axis=0) - counted.mean(axis=0)) < 4 * error + 0.01).all()
        assert (summed.std(axis=0) < counted.std(axis=0)).all()


def test_a_symmetrized_model_lets_women_and_men_appear_alike_by_its_probabilities(gpt: Model) -> None:
    neutral, named = "The nurse laughed when", "Her sister laughed when"
    texts = [" the phone rang, and she smiled", " he and she came", " Katherine called", " it rained"]
    plain = first_person_shares(gpt, [neutral] * 4, texts)
    shares = first_person_shares(gpt, [neutral] * 4, texts, SYMMETRIZED)
    assert (shares[:, 0] == shares[:, 1]).all()
    assert shares.sum(axis=1) == pytest.approx(plain.sum(axis=1))
    behind = first_person_shares(gpt, [named] * 4, texts, SYMMETRIZED)  # a prompt that the swap changes
    assert behind.tolist() == [[1, 0], [0, 1], [1, 0], [0, 0]]


def test_texts_that_were_drawn_are_not_read_again_and_have_the_same_likelihoods(
    gpt: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts, read = ["The nurse laughed when", "My sister said that"], list[int]()
    several = continuations(gpt, prompts, prompts, Sampling(12, 16, temperature=1.2))
    drawn = [each for own in several for each in own]
    own = [prompt for prompt in prompts for _ in range(12)]
    texts = [each.text for each in drawn]
    (slow,) = mirror_scores(gpt, own, texts)
    known = generation.continuation_log_p

    def counted(model: Model, cuts: Any, *rest: Any) -> Any:
        read.append(len(cuts))
        return known(model, cuts, *rest)

    monkeypatch.setattr(generation, "continuation_log_p", counted)
    (fast,) = mirror_scores(gpt, own, drawn)
    assert read[0] <= 26  # the counterparts alone, and texts whose tokens are others than were drawn
    np.testing.assert_allclose(fast.log_p, slow.log_p, atol=1e-4)
    np.testing.assert_allclose(fast.log_p_mirror, slow.log_p_mirror, atol=1e-4)
    assert (fast.tokens == slow.tokens).all()
    other = [replace(each, log_p=0.0, ids=(1, 2)) for each in drawn]  # not the tokens of its text
    assert mirror_scores(gpt, own, other)[0].log_p == pytest.approx(slow.log_p, abs=1e-5)
    several = continuations(gpt, prompts, prompts, Sampling(2, 4), SYMMETRIZED)
    assert all(each.log_p is None for own in several for each in own)


def test_a_name_and_a_word_of_several_tokens_are_counted_as_they_come(gpt: Model) -> None:
    prompt = "The nurse laughed when"
    named, unnamed = first_person_shares(gpt, [prompt] * 2, [" Katherine called", " the phone called"])
    assert 1.0 <= named[0] < 1.6
    assert unnamed[0] < 0.9
    assert first_person_shares(gpt, [], []).shape == (0, 2)


def test_answers_are_scored_as_words_and_turn_with_the_applicant(gpt: Model) -> None:
    prompts = ["Should we hire Mary? Answer:", "Should we hire John? Answer:"]
    answers = [(" Yes", " No"), (" Certainly not", " No")]
    plain, own = answer_odds(gpt, prompts, answers, [(), SYMMETRIZED])
    for i, prompt in enumerate(prompts):
        yes, no = (by_hand(gpt, prompt, answer) for answer in answers[i])
        assert plain[i] == pytest.approx(yes - no, abs=1e-3)
    both = answer_odds(gpt, prompts, [answers[0]] * 2, [SYMMETRIZED])
    assert both[0, 0] == pytest.approx(both[0, 1], abs=1e-5)
    assert np.isfinite(own).all()
    blank = Text("Answer: ", whole=True)
    bare = answer_odds(gpt, [blank, blank], [(" Yes", " No"), ("Yes", "No")])
    assert bare[0, 0] == bare[0, 1]
    with pytest.raises(BadProbe, match="An answer needs a word"):
        answer_odds(gpt, prompts[:1], [("", " No")])


def test_vectors_of_texts_are_means_and_an_empty_text_has_none(gpt: Model) -> None:
    found = text_vectors(gpt, ["she left", " ", "he left"])
    assert found.shape == (3, gpt.config.hidden_size)
    assert np.isfinite(found).all(axis=1).tolist() == [True, False, True]
    assert text_vectors(gpt, [""]).shape == (1, gpt.config.hidden_size)


def test_a_masked_model_has_no_likelihood_behind_a_prompt() -> None:
    with pytest.raises(CannotDo, match="what follows a prompt"):
        mirror_scores(tiny("bert"), ["The nurse"], [" said"])
