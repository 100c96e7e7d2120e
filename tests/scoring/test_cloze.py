"""Asking: probabilities equal plain references, every family answers, and only words count as words."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.errors import BadOption, CannotDo
from levelhead.models.encoding import word_shape
from levelhead.models.model import Model, load
from levelhead.probes.cloze import ClozeSet, load_cloze, make_verbalizer
from levelhead.scoring.cloze import ask_cloze, change_nulls, cloze_texts, prompt_form, token_forms
from tests.tiny import given, tiny, tokenizer_for, wordpiece

hf: Any = transformers  # it is untyped
NO_TOKENS = [("antidisestablishment", "female", "here"), ("floccinaucinihilipil", "male", "here")]
FAMILIES = ("albert", "roberta", "distilbert", "electra", "modernbert", "gpt2", "llama", "qwen2")


def some_prompts(count: int, seed: int = 1) -> ClozeSet:
    """Whole occupations are kept: changes need their base prompts."""
    whole = load_cloze(per_background=1, seed=seed)
    kept = {prompt.occupation for prompt in whole.prompts[::10][: -(-count // 10)]}
    return replace(whole, prompts=tuple(prompt for prompt in whole.prompts if prompt.occupation in kept))


def one_of_three() -> ClozeSet:
    """The prompts of one occupation of three, of both groups."""
    whole = load_cloze(per_background=1)
    kept = {occupation.name for occupation in whole.occupations[::3]}
    return replace(whole, prompts=tuple(prompt for prompt in whole.prompts if prompt.occupation in kept))


@cache
def shipped(name: str) -> Model:
    return load(name, device="cpu")


SOME = pytest.mark.parametrize("asked", [20, pytest.param(100, marks=pytest.mark.nightly)])


@pytest.mark.slow
@SOME
def test_probabilities_of_a_masked_model_equal_the_fill_mask_pipeline(asked: int) -> None:
    """The pipeline runs in float64: in float32 its own rounding is 1.6e-5 here, ours 1.9e-6."""
    model, prompts = shipped("lh:bert-mini"), some_prompts(asked)
    assert len(prompts.prompts) == asked
    answers = ask_cloze(model, prompts, ks=(10,))[0]
    fill = hf.BertForMaskedLM(model.hf.config).eval()
    fill.load_state_dict(model.hf.state_dict(), strict=False)
    pipe = hf.FillMaskPipeline(model=fill.double(), tokenizer=model.tokenizer, device="cpu", top_k=10)
    # two lines are two sentences: the pipeline has no other way to learn that
    pipe.preprocess = lambda text, **_: model.tokenizer(*text.split("\n"), return_tensors="pt")
    for row, text in enumerate(cloze_texts(model, prompts)):
        filled = pipe(text.first if text.second is None else f"{text.first}\n{text.second}")
        scores = [item["score"] for item in filled]
        np.testing.assert_allclose(answers.topk.probs[row], scores, rtol=0, atol=1e-5)
        first = filled[0]["token_str"].removeprefix("##").strip()
        assert answers.topk.words[row, 0].removeprefix("##") == first


@pytest.mark.slow
@SOME
def test_probabilities_of_a_causal_model_equal_a_plain_next_token_softmax(asked: int) -> None:
    model, prompts = shipped("lh:gpt-mini"), some_prompts(asked)
    answers = ask_cloze(model, prompts, ks=(10,))[0]
    plain = copy.deepcopy(model.hf).double()
    for row, text in enumerate(cloze_texts(model, prompts)):
        assert text.first.endswith("The target is")
        with torch.no_grad():
            top = plain(**given(model, text.first)).logits[0, -1].softmax(-1).topk(10)
        np.testing.assert_allclose(answers.topk.probs[row], top.values.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_log_odds_equal_those_of_a_plain_softmax_over_the_verbalizers_tokens(name: str) -> None:
    model, prompts = shipped(name), some_prompts(20)
    answers = ask_cloze(model, prompts, ks=(3,))[0]
    matched = prompts.verbalizer.match(token_forms(model))
    core = {word for pair in prompts.core if set(pair) <= set(matched.keys) for word in pair}
    plain = hf.BertForMaskedLM(model.hf.config) if name == "lh:bert-mini" else copy.deepcopy(model.hf)
    plain.load_state_dict(model.hf.state_dict(), strict=False)
    plain = plain.double().eval()
    for row, text in enumerate(cloze_texts(model, prompts)):
        inputs = given(model, text.first, text.second)
        blank = inputs["input_ids"][0] == model.tokenizer.mask_token_id
        at = int(blank.nonzero()) if model.tokenizer.mask_token else -1
        with torch.no_grad():
            p = plain(**inputs).logits[0, at].softmax(-1).numpy()
        for words, counted in (("", set(matched.keys)), ("core", core)):
            sides = [
                sum(
                    p[i]
                    for i, (key, own) in enumerate(zip(matched.keys, matched.codes, strict=True))
                    if own == code and key in counted
                )
                for code in (1, -1)
            ]
            assert answers.log_odds[words][row] == pytest.approx(np.log(sides[0] / sides[1]), abs=1e-4)


@pytest.mark.nightly
def test_knowledge_moves_the_log_odds_of_a_model_whose_top_ten_have_no_gendered_word() -> None:
    model, prompts = shipped("lh:gpt-mini"), load_cloze(per_background=1)
    answers = ask_cloze(model, prompts)[0]
    (nulls,) = change_nulls(model, one_of_three(), [answers.changes()], 5)
    scores = answers.scores(per_occupation=False, nulls=nulls)
    silent = [
        each.value
        for each in scores.measurements
        if each.name == "share without group words"
        and not each.settings["group"]
        and (each.settings["k"], each.settings["kind"]) == (10, "base")
    ]
    assert silent == [1.0]
    by_kind = {
        verdict.kind: verdict for verdict in scores.verdicts if verdict.change.name == "log_odds change"
    }
    similar, counter = by_kind["target syntactic similar"], by_kind["target counter syntactic"]
    assert (similar.word, counter.word) == ("strengthens", "overturns")
    assert (similar.change.details["t, occupation"] or 0) > 25
    assert by_kind["unrelated"].word == "no change"
    assert similar.change.null is not None
    assert (similar.change.null.draws, similar.change.null.p_value < 0.01) == (5, True)


def test_a_vocabulary_without_words_of_the_groups_says_that_nothing_was_measured() -> None:
    prompts = replace(some_prompts(10), verbalizer=make_verbalizer(("female", "male"), NO_TOKENS), core=())
    answers = ask_cloze(tiny("bert", "mlm"), prompts, ks=(3,))[0]
    reasons = {m.reason for m in answers.scores().measurements if m.name.startswith("log_odds")}
    (reason,) = reasons
    assert "single token" in reason


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_answers_all_kinds_and_the_numbers_are_probabilities(family: str) -> None:
    model, prompts = long_enough(family), some_prompts(20)
    answers = ask_cloze(model, prompts, ks=(3, 5))[0]
    assert answers.topk.probs.shape == (20, 5)
    assert ((answers.topk.probs > 0) & (answers.topk.probs <= 1)).all()
    assert {m.settings["kind"] for m in answers.scores(per_occupation=False).measurements} == set(
        prompts.kinds
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_asked_under_an_edit_and_the_untouched_answer_stays(family: str) -> None:
    model, prompts = long_enough(family), some_prompts(10)
    alone = ask_cloze(model, prompts, ks=(3,))[0]
    base, edited = ask_cloze(model, prompts, [(), removed(model, [Head(0, 0), Head(1, 1)])], ks=(3,))
    np.testing.assert_array_equal(base.topk.probs, alone.topk.probs)
    assert not np.allclose(base.topk.probs, edited.topk.probs)


def long_enough(family: str) -> Model:
    """Tiny tokenizers split our words into many tokens: a model with room for them."""
    model = tiny(family)
    longest = max(
        len(model.tokenizer(t.first, t.second).input_ids) for t in cloze_texts(model, some_prompts(20))
    )
    if model.max_tokens is None or longest <= model.max_tokens:
        return model
    return tiny(family, tokenizer=big_tokenizer(family))


@cache
def big_tokenizer(family: str) -> Any:
    """The family's tokenizer in kind, trained on the prompts themselves so that they are short."""
    kind = tokenizer_for(family).backend_tokenizer
    trained = tokenizer_for(family).train_new_from_iterator(
        [f"{p.knowledge} {p.base} {p.ask}" for p in load_cloze(per_background=1).prompts], 1200
    )
    assert type(trained.backend_tokenizer.model) is type(kind.model)
    return trained


# ---- the form


def test_a_masked_model_reads_a_pair_with_its_own_mask_and_a_causal_one_a_text() -> None:
    prompts = some_prompts(10)
    pair = cloze_texts(tiny("roberta"), prompts)[1]
    assert prompt_form(tiny("roberta")) == "sentence pair"
    assert "<mask>" in str(pair.second)
    assert "<mask>" not in pair.first
    causal = cloze_texts(tiny("llama"), prompts)[1]
    assert prompt_form(tiny("llama")) == "continuation"
    assert causal.second is None


def test_a_tokenizer_without_a_separator_gets_both_sentences_in_one_text() -> None:
    model = tiny("bert", tokenizer=without_separator())
    assert prompt_form(model) == "one text"
    base, with_knowledge = cloze_texts(model, some_prompts(10))[:2]
    assert base.second is None
    assert with_knowledge.second is None
    assert with_knowledge.first.endswith(base.first)
    assert len(with_knowledge.first) > len(base.first)


@cache
def without_separator() -> Any:
    bare = Tokenizer.from_str(wordpiece().backend_tokenizer.to_str())
    bare.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=bare, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    )


# ---- words


def test_only_tokens_that_begin_a_word_match_in_wordpiece() -> None:
    shape = word_shape(shipped("lh:bert-mini"))
    assert (shape.before, shape.continuing) == ("", "##")
    forms = {form.surface: form.begins_word for form in token_forms(shipped("lh:bert-mini"))}
    assert forms["woman"]
    assert not forms["##ing"]
    assert not forms["[MASK]"]


def test_in_byte_level_bpe_only_tokens_with_a_leading_space_are_words() -> None:
    model = shipped("lh:gpt-mini")
    vocabulary = model.tokenizer.get_vocab()
    forms = token_forms(model)
    assert word_shape(model).before == "Ġ"
    assert forms[vocabulary["Ġhe"]].begins_word
    assert not forms[vocabulary["he"]].begins_word
    assert forms[vocabulary["Ġhe"]].surface == " he"


def test_in_sentencepiece_the_mark_is_found_from_the_tokenizer() -> None:
    assert word_shape(tiny("albert")).before == "▁"


def test_words_beyond_ascii_are_read_through_the_byte_level_alphabet() -> None:
    words = make_verbalizer(
        ("weiblich", "männlich"), [("schöne", "weiblich", "test"), ("schöner", "männlich", "test")]
    )
    model = tiny("gpt2", tokenizer=german())
    forms = token_forms(model)
    matched = words.match(forms)
    codes = {forms[i].surface.strip(): code for i, code in enumerate(matched.codes) if code}
    assert codes == {"schöne": 1}
    assert matched.absent == ("schöner",)


@cache
def german() -> Any:
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    written = "".join(byte.pre_tokenize_str(" schöne")[0][0])
    vocabulary = {"<|endoftext|>": 0} | {letter: i + 1 for i, letter in enumerate(sorted(letters))}
    merges, left = [("Ġ", "a")], written[0]
    for letter in written[1:]:
        merges.append((left, letter))
        left += letter
    vocabulary |= {"".join(pair): len(vocabulary) + i for i, pair in enumerate(merges)}
    tok = Tokenizer(models.BPE(vocabulary, merges))
    tok.pre_tokenizer, tok.decoder = byte, decoders.ByteLevel()
    return hf.PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<|endoftext|>")


def test_blank_tokens_are_no_words_and_no_forms_of_one_another() -> None:
    model = shipped("lh:gpt-mini")
    vocabulary, forms = model.tokenizer.get_vocab(), token_forms(shipped("lh:gpt-mini"))
    matched = load_cloze(per_background=1).verbalizer.match(forms)
    blanks = [vocabulary["Ġ"], vocabulary["Ċ"]]
    assert not any(forms[number].begins_word for number in blanks)
    assert len({matched.keys[number] for number in blanks}) == 2


def test_a_vocabulary_padded_beyond_the_tokenizer_has_tokens_that_are_no_words() -> None:
    model = tiny("bert")
    model.config.vocab_size += 8
    forms = token_forms(model)
    assert len(forms) == model.config.vocab_size
    assert not any(form.begins_word for form in forms[-8:])


# ---- strange models


def constant(model: Model, words: Sequence[str]) -> Model:
    """The model with a head that says these words, in this order, whatever it is asked."""
    decoder = model.hf.get_output_embeddings()
    decoder.weight.data = torch.zeros_like(decoder.weight)  # untied: the input embeddings stay
    decoder.bias = torch.nn.Parameter(torch.zeros(decoder.weight.shape[0]), requires_grad=False)
    for rank, word in enumerate(words):
        decoder.bias.data[model.tokenizer.convert_tokens_to_ids(word)] = 9.0 - rank
    return model


@pytest.mark.nightly
def test_a_model_that_always_answers_the_same_changes_by_exactly_0() -> None:
    model = constant(load("lh:bert-mini", device="cpu"), ["she", "he", "nurse"])
    answers = ask_cloze(model, one_of_three(), ks=(3,))[0]
    assert set(answers.topk.words[:, 0]) == {"she"}
    for verdict in answers.scores(per_occupation=False).verdicts:
        assert verdict.change.value == pytest.approx(0, abs=1e-7)
        assert verdict.word == "no change"


@pytest.mark.nightly
def test_a_model_with_no_gendered_word_in_the_top_k_is_not_measured_rather_than_unbiased() -> None:
    model = constant(load("lh:bert-mini", device="cpu"), ["table", "house", "book"])
    scores = ask_cloze(model, one_of_three(), ks=(3,))[0].scores(per_occupation=False)
    by_name = {
        m.name: m for m in scores.measurements if m.settings["kind"] == "base" and not m.settings["group"]
    }
    assert by_name["margin"].value is None
    assert by_name["share without group words"].value == 1
    words = {(verdict.change.name, verdict.word) for verdict in scores.verdicts}
    assert ("margin change", "not measured") in words
    assert len(words) == 3  # log-odds, of all words and of the core, have one word too
    assert {word for name, word in words if name.startswith("log_odds")} == {"no change"}


def test_a_model_whose_tokenizer_lacks_a_mask_token_is_one_clear_line() -> None:
    bare = hf.PreTrainedTokenizerFast(
        tokenizer_object=wordpiece().backend_tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        sep_token="[SEP]",
    )
    with pytest.raises(CannotDo, match="no mask token"):
        ask_cloze(tiny("bert", tokenizer=bare), some_prompts(10))


def test_a_model_that_can_neither_fill_nor_continue_is_refused() -> None:
    with pytest.raises(CannotDo, match="fill-in-the-blank"):
        ask_cloze(tiny("bert", "nli"), some_prompts(10))


def test_k_beyond_the_vocabulary_is_one_clear_line() -> None:
    with pytest.raises(BadOption, match="size of the vocabulary"):
        ask_cloze(shipped("lh:bert-mini"), some_prompts(10), ks=(3, 20_000))


@pytest.mark.parametrize("ks", [(), (0,), (3, -1)])
def test_k_below_1_is_one_clear_line(ks: tuple[int, ...]) -> None:
    with pytest.raises(BadOption, match="whole numbers from 1"):
        ask_cloze(shipped("lh:bert-mini"), some_prompts(10), ks=ks)


@pytest.mark.smollm2
@pytest.mark.nightly
def test_smollm2_answers_and_knows_how_words_begin(smollm2: Model) -> None:
    model = smollm2
    answers = ask_cloze(model, some_prompts(10), ks=(10,))[0]
    ids = model.tokenizer(cloze_texts(model, some_prompts(10))[0].first, return_tensors="pt").input_ids
    with torch.no_grad():
        top = model.hf(input_ids=ids).logits[0, -1].double().softmax(-1).topk(10)
    np.testing.assert_allclose(answers.topk.probs[0], top.values.numpy(), rtol=0, atol=1e-5)
    assert answers.form == "continuation"
    assert word_shape(model).before == "Ġ"
    assert "she" not in answers.absent
