"""What opens a text: one decision for each model, the same for every reading, proved on plain English."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.openings import plain_loop
from tokenizers import processors

from levelhead.api.measured import SingleResult, measure_result
from levelhead.edits.sites import Site
from levelhead.engine import readings
from levelhead.engine.batches import RowPool
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe, BadRun, UnknownModel
from levelhead.measures.catalog import DOUBTED, verdict
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.mitigation.export import write_model
from levelhead.models import model as model_module
from levelhead.models import opening
from levelhead.models.encoding import Text, encode, find_word
from levelhead.models.model import Model, load
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.models.opening import Declared, Opening, folder_declares, gguf_declares, write_opening
from levelhead.probes.sentences import fluency_sentences
from levelhead.runs.study import DOUBT_FACT, OPENING_FACT
from levelhead.scoring.fluency import ask_fluency
from levelhead.studies.counteracts.run import counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from tests.tiny import bpe, tiny, wordpiece
from tests.word_lists import OCCUPATIONS

BOS = 1
SENTENCE = "The nurse said that she was tired."


def trained(before: Sequence[int]) -> Model:
    """A tiny GPT-2 that has learned plain English by heart, behind these tokens; it does not say which."""
    hf = copy.deepcopy(tiny("gpt2").hf).train().requires_grad_(True)
    tokenizer = bpe()
    rows = [[*before, *ids] for ids in tokenizer(list(opening.PLAIN))["input_ids"]]
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    optimizer = torch.optim.Adam(hf.parameters(), lr=5e-3)
    for _ in range(50):
        optimizer.zero_grad()
        hf(input_ids=ids, labels=ids.masked_fill(ids == 0, -100)).loss.backward()
        optimizer.step()
    return load(hf.eval().requires_grad_(False), tokenizer)


@pytest.fixture(scope="module")
def with_bos() -> Model:
    return trained([BOS])


@pytest.fixture(scope="module")
def without_bos() -> Model:
    return trained([])


# ---- the decision


@pytest.mark.slow
def test_a_model_that_was_trained_with_bos_is_asked_with_it_and_one_that_was_not_without(
    with_bos: Model, without_bos: Model
) -> None:
    assert with_bos.opening.tokens == (BOS,)
    assert with_bos.opening.written == "<|endoftext|>"
    assert not without_bos.opening.tokens
    assert without_bos.opening.written == "none"
    assert not with_bos.opening.doubt
    assert not without_bos.opening.doubt
    assert "texts open with <|endoftext|>" in repr(with_bos)


def test_shipped_models_pass_and_random_weights_do_not(gpt: Model) -> None:
    assert gpt.opening.written == "<|endoftext|>"
    assert not gpt.opening.doubt
    for family in ("llama", "gpt2", "gemma3_text"):
        assert tiny(family).opening.doubt


def test_shuffled_sentences_have_the_words_of_the_plain_ones() -> None:
    for plain, shuffled in zip(opening.PLAIN, opening.SHUFFLED, strict=True):
        assert sorted(plain[:-1].split()) == sorted(shuffled[:-1].split())
        assert plain != shuffled


@pytest.mark.parametrize("value", [True, False, None])
def test_a_gguf_file_says_in_its_header_whether_bos_is_added(tmp_path: Path, value: bool | None) -> None:
    said = {} if value is None else {"tokenizer.ggml.add_bos_token": value}
    assert gguf_declares(said).adds_bos is value


def test_what_the_checkpoint_states_is_used_where_no_proof_says_otherwise() -> None:
    model = tiny("gpt2")
    stated = opening.find_opening(model, model.tokenizer, Declared(adds_bos=True), predicts=True)
    assert (stated.tokens, stated.source) == ((BOS,), "add_bos_token of the GGUF file")
    left = opening.find_opening(model, model.tokenizer, Declared(adds_bos=False), predicts=True)
    assert not left.tokens


def test_a_gguf_file_that_adds_no_bos_is_believed_where_its_tokenizer_puts_one_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer: Any = copy.deepcopy(bpe())
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", BOS)]
    )
    model = tiny("gpt2", tokenizer=tokenizer)
    assert model.opening.source == "tokenizer"
    denied = opening.find_opening(model, tokenizer, Declared(adds_bos=False), predicts=True)
    assert (denied.tokens, denied.written) == ((), "none")
    assert denied.source == "add_bos_token of the GGUF file"
    monkeypatch.setattr(model, "opening", denied)
    (row,) = encode(model, [SENTENCE])
    assert row.ids.tolist() == bpe()(SENTENCE)["input_ids"]


def test_a_gguf_file_that_adds_no_bos_is_believed_where_one_token_seems_to_be_both_ends(gpt: Model) -> None:
    """transformers 5.17 gives SmolLM2's tokenizer its BOS as EOS, 5.22 does not: both must ask alike."""
    assert gpt.opening.source == opening._BOTH_ENDS
    denied = opening.find_opening(gpt, gpt.tokenizer, Declared(adds_bos=False), predicts=True)
    assert (denied.written, denied.source) == ("none", "add_bos_token of the GGUF file")


def test_a_folder_made_of_a_gguf_file_that_adds_no_bos_is_asked_without_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokenizer alone would say that one token is both ends of a document."""
    model = tiny("llama")
    assert model.opening.source == opening._BOTH_ENDS
    denied = opening.find_opening(model, model.tokenizer, Declared(adds_bos=False), predicts=True)
    monkeypatch.setattr(model, "opening", denied)
    write_model(model, (), tmp_path / "once")
    once = load(tmp_path / "once")
    write_model(once, (), tmp_path / "twice")
    assert [each.opening.written for each in (model, once, load(tmp_path / "twice"))] == ["none"] * 3


@pytest.mark.slow
def test_a_statement_that_fails_the_proof_gives_way_to_what_passes(with_bos: Model) -> None:
    wrong = opening.find_opening(with_bos, with_bos.tokenizer, Declared(adds_bos=False), predicts=True)
    assert wrong.tokens == (BOS,)
    assert wrong.source == "the likelier one in plain English"


def test_a_null_model_inherits_the_opening_and_is_not_asked_for_a_proof(
    gpt: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "find_opening", None)
    assert null_model_copy(gpt, draw_null_model(gpt, 0)).opening is gpt.opening


# ---- rows


def test_every_reading_puts_the_same_opening_before_a_text(gpt: Model) -> None:
    texts, span = [SENTENCE], find_word(SENTENCE, "nurse")
    of_all = (
        readings.WordVectors(texts, [span]),
        readings.StaticVectors(texts, [span], [0]),
        readings.SentenceVectors(texts),
        readings.Pooled(texts, vectors=True),
        readings.Predictions(texts, 3),
        readings.TokenLogProbs(texts, [5]),
        readings.TokenLikelihoods(texts),
        readings.States(texts, Site(0, "block")),
        readings.Attention(texts, [span], [find_word(SENTENCE, "she")]),
    )
    own = gpt.tokenizer(SENTENCE)["input_ids"]
    for reading in of_all:
        pool = RowPool()
        reading.prepare(gpt, pool, 1)
        (row,) = pool.rows
        assert row.ids[0] == gpt.tokenizer.bos_token_id, reading
        assert row.ids[1:].tolist() == own[: len(row.ids) - 1], reading


def test_a_doubled_bos_becomes_one_and_a_text_that_begins_with_it_gets_no_other() -> None:
    tokenizer: Any = copy.deepcopy(bpe())
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> <|endoftext|> $A", special_tokens=[("<|endoftext|>", BOS)]
    )
    model = tiny("gpt2", tokenizer=tokenizer)
    plain, written = encode(model, [SENTENCE, f"<|endoftext|>{SENTENCE}"])
    assert plain.ids.tolist() == [BOS, *bpe()(SENTENCE)["input_ids"]]
    assert plain.part.tolist() == [-1, *[0] * (len(plain.ids) - 1)]
    assert written.ids.tolist() == plain.ids.tolist()


def test_a_chat_whose_template_forgets_bos_gets_it_and_one_that_brings_special_tokens_does_not(
    gpt: Model,
) -> None:
    bare, brought = encode(gpt, [Text("user: hello", whole=True), Text("<|endoftext|>user", whole=True)])
    own = gpt.tokenizer.bos_token_id
    assert bare.ids.tolist().count(own) == brought.ids.tolist().count(own) == 1
    assert bare.ids[0] == brought.ids[0] == own


def test_the_opening_counts_where_positions_end_and_where_texts_are_cut(gpt: Model) -> None:
    (row,) = encode(gpt, [SENTENCE], cut=4)
    assert len(row.ids) == 4
    assert row.ids[0] == gpt.tokenizer.bos_token_id
    full = "the" + " left" * (int(gpt.max_tokens or 0) - 1)
    assert len(gpt.tokenizer(full)["input_ids"]) == gpt.max_tokens
    with pytest.raises(BadProbe, match="A text of 257 tokens does not fit"):
        list(encode(gpt, [full]))


# ---- prefixes


def test_words_before_a_text_are_those_of_the_folder_and_spans_stay_right(tmp_path: Path) -> None:
    plain = tiny("bert", "base")
    plain.hf.save_pretrained(tmp_path / "e5")
    wordpiece().save_pretrained(tmp_path / "e5")
    said = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": None}
    (tmp_path / "e5" / "config_sentence_transformers.json").write_text(json.dumps(said))
    model = load(tmp_path / "e5", device="cpu")
    assert model.opening.written == '"query: "'
    span = find_word(SENTENCE, "nurse")
    ours = read_one(model, readings.WordVectors([SENTENCE], [span]))[0]
    by_hand = read_one(plain, readings.WordVectors([f"query: {SENTENCE}"], [(span[0] + 7, span[1] + 7)]))[0]
    np.testing.assert_allclose(ours, by_hand, atol=1e-5)
    once, twice = encode(model, [SENTENCE, f"query: {SENTENCE}"])
    assert once.ids.tolist() == twice.ids.tolist()
    assert set(once.part[:3]) == {-1}


@pytest.mark.parametrize(
    ("prompts", "default", "prefix"),
    [
        ({"query": "query: ", "passage": "passage: "}, None, "query: "),
        ({"query": "Represent: "}, None, ""),
        ({"query": "q: ", "document": ""}, None, ""),
        ({"query": "q: ", "document": "d: "}, "document", "d: "),
        ({}, None, ""),
    ],
)
def test_a_folder_whose_documents_get_no_prefix_is_asked_without(
    tmp_path: Path, prompts: dict[str, str], default: str | None, prefix: str
) -> None:
    said = {"prompts": prompts, "default_prompt_name": default}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(said))
    assert folder_declares(tmp_path).prefix == prefix


def test_prompts_that_are_none_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": [1]}')
    with pytest.raises(UnknownModel, match=r"^[^\n]*names no prompts as sentence-transformers does"):
        folder_declares(tmp_path)


def test_a_saved_folder_says_what_opens_its_texts(tmp_path: Path) -> None:
    bpe().save_pretrained(tmp_path)
    write_opening(Opening("x", "likelier", (BOS,), prefix="query: "), bpe(), tmp_path)
    assert folder_declares(tmp_path).prefix == "query: "
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["add_bos_token"] is True


# ---- a model that fails


def test_a_model_that_does_not_read_english_gets_one_line_and_no_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny_model = tiny("llama")
    model = load(tiny_model.hf, tiny_model.tokenizer)
    assert capsys.readouterr().err.count("does not read plain English") == 1
    strong = Measurement("seat", 1.5, (1.2, 1.8), 40, neutral=0.0, details={"p_value": 0.001})
    assert verdict(strong) not in ("", DOUBTED)
    result = measure_result(SingleResult, model, {"gender": "hash"}, {"seat": strong}, None)
    assert verdict(result.measurement) == DOUBTED
    assert result.data[DOUBT_FACT] == model.opening.doubt
    assert "does not read plain English" in result.caption


def test_a_run_says_how_texts_were_opened_and_goes_on_only_with_the_same(tmp_path: Path) -> None:
    assert (OPENING_FACT, DOUBT_FACT) == (opening.OPENING, opening.DOUBT)
    prompts = tmp_path / "set.toml"
    prompts.write_text(OCCUPATIONS)
    settings = CounteractsSettings(str(prompts), ks=(3,), draws=100, null=0)
    model = tiny("llama")
    run = counteracts([model], settings, tmp_path / "run")
    assert run.openings == {"tiny-llama": "<|endoftext|>"}
    assert list(run.doubts) == ["tiny-llama"]
    model.opening = replace(model.opening, tokens=(), written="none")
    with pytest.raises(BadRun, match=r'opening of tiny-llama "<\|endoftext\|>" there, "none" here'):
        counteracts([model], settings, tmp_path / "run")


# ---- real weights


@pytest.mark.smollm2
@pytest.mark.nightly
@pytest.mark.slow
def test_fluency_of_smollm2_is_that_of_a_plain_loop(smollm2: Model) -> None:
    sentences = list(fluency_sentences())[:12]
    assert smollm2.opening.written == "none"
    assert not smollm2.opening.doubt
    ours = ask_fluency(smollm2, sentences, resampling=Resampling(100))[0].value
    assert ours == pytest.approx(plain_loop(smollm2.hf, smollm2.tokenizer, sentences, []), rel=0.02)
