"""The recipe of the shipped models still builds data, masks, trains and shrinks as it did."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForPreTraining

from levelhead.models.catalog import EMBEDDED
from levelhead.models.sources import restore_int8

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # training/ is not in the installed package

from training import data, finetune, optimize, pretrain, quantize, train_tokenizers, words

SENTENCES = [
    "The nurse was tired.",
    "She went home early.",
    '"Good night," said the engineer.',
    "He stayed at work.",
]


def random_documents(n: int = 60) -> list[data.Document]:
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 40, rng.integers(2, 20)) for _ in range(n)]
    return [[rng.integers(5, 900, size).astype(np.uint16) for size in document] for document in sizes]


def tiny_bert(**more: int) -> Any:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    kind: Any = BertForPreTraining  # transformers gives its constructor no types
    return kind(BertConfig.from_dict({"vocab_size": 20, **shape, **more}))


# --- text


def test_sentences_end_at_full_stops_before_capitals_only() -> None:
    assert data.split_sentences(" ".join(SENTENCES)) == SENTENCES
    assert data.split_sentences("It cost 3.50 pounds. e.g. this") == ["It cost 3.50 pounds. e.g. this"]


def test_documents_are_split_at_blank_lines_and_long_ones_cut_without_loss(tmp_path: Path) -> None:
    long = "\n".join("The tailor and the baker met in the street again." for _ in range(1000))
    short = "A document that is just long enough to be kept."
    with lzma.open(tmp_path / "a.xz", "wt", encoding="utf-8") as file:
        file.write(f"{long}\n\n{short}\n\ntoo short\n")
    pieces = data.read_documents(tmp_path)
    assert short in pieces
    assert "too short" not in pieces
    assert "\n".join(data.cut_document(long)) == long
    assert len(pieces) == 1 + len(data.cut_document(long)) == 4
    assert pieces == data.read_documents(tmp_path)


def test_forced_words_stay_whole_in_both_tokenizers() -> None:
    def lines() -> list[str]:
        return [*SENTENCES, *([" ".join(words.forced_words()), " " + " ".join(words.forced_words())] * 20)]

    wordpiece, bpe = (
        train_tokenizers.train_wordpiece(lines(), 3000),
        train_tokenizers.train_bpe(lines(), 3000),
    )
    assert train_tokenizers.split_words(wordpiece, "") == []
    assert train_tokenizers.split_words(bpe, " ") == []
    pair = wordpiece.encode("The nurse", "the engineer")
    assert pair.tokens == ["[CLS]", "the", "nurse", "[SEP]", "the", "engineer", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1]
    assert [wordpiece.token_to_id(t) for t in train_tokenizers.BERT_SPECIALS] == [0, 1, 2, 3, 4]


# --- pairs


@pytest.mark.parametrize("length", [data.LONG, data.SHORT])
def test_pairs_have_berts_shape_and_half_of_them_follow(length: int) -> None:
    pairs = data.build_pairs(random_documents(), 0, length)
    assert len(pairs.ids) > 150
    for row, second in zip(pairs.ids, pairs.second, strict=True):
        real = row[row != data.PAD]
        assert real[0] == data.CLS
        assert real[-1] == data.SEP == row[second - 1]
        assert (real == data.SEP).sum() == 2
        assert not (row[len(real) :] != data.PAD).any()
    assert 0.4 < pairs.label.mean() < 0.6


def test_a_pair_that_follows_is_found_in_its_document_and_the_other_is_not() -> None:
    first = [np.arange(100 * d + 10, 100 * d + 16, dtype=np.uint16) for d in range(1, 9)]
    second = [np.arange(100 * d + 10, 100 * d + 16, dtype=np.uint16) for d in range(11, 19)]
    pairs = data.build_pairs([first, second], 3, data.SHORT)
    assert set(pairs.label) == {0, 1}
    for row, begins, label in zip(pairs.ids, pairs.second, pairs.label, strict=True):
        a, b = row[1] // 1000, row[begins] // 1000  # tokens below 1000 are the first document's
        assert (a == b) == (label == 0)
        if label == 0:
            assert (
                row[begins] == row[begins - 2] + 95
            )  # the last token of a sentence, and the next one's first


def test_pairs_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    documents = random_documents(20)
    one, same, other = (data.build_pairs(documents, seed, data.SHORT) for seed in (0, 0, 1))
    assert np.array_equal(one.ids, same.ids)
    assert one.ids.shape != other.ids.shape or not np.array_equal(one.ids, other.ids)
    order = one.shuffled()
    assert sorted(map(bytes, order.ids)) == sorted(map(bytes, one.ids))


# --- masking and training


def test_masking_hides_fifteen_percent_and_only_real_tokens() -> None:
    pairs = data.build_pairs(random_documents(200), 0, data.LONG)
    ids = torch.tensor(pairs.ids.astype(np.int64))
    masked = pretrain.mask_tokens(ids, 20, 900, torch.Generator().manual_seed(0))
    special = (ids == data.PAD) | (ids == data.CLS) | (ids == data.SEP)
    assert torch.equal(masked.inputs[special], ids[special])
    assert torch.equal(masked.targets, ids.gather(1, masked.positions))
    real = (~special).sum(1)
    expected = torch.minimum((real * 0.15).ceil().clamp(min=1), torch.tensor(20.0))
    assert (masked.weight.sum(1) - expected).abs().max() <= 1
    counted = masked.weight.bool()
    shown = masked.inputs.gather(1, masked.positions)
    assert (shown[counted] == data.MASK).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (shown[counted] == masked.targets[counted]).float().mean() == pytest.approx(0.1, abs=0.02)
    assert torch.equal(shown[~counted], masked.targets[~counted])


def test_a_short_row_masks_at_least_one_token_and_never_a_special_one() -> None:
    ids = torch.tensor([[data.CLS, 7, data.SEP, 8, data.SEP, data.PAD, data.PAD, data.PAD, data.PAD]])
    masked = pretrain.mask_tokens(ids, 8, 10, torch.Generator().manual_seed(0))
    assert masked.weight.sum() == 1
    assert masked.targets[masked.weight.bool()].item() in (7, 8)


def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero() -> None:
    rates = [optimize.learning_rate(done, 1.0, 0.04) for done in (0, 0.02, 0.04, 0.52, 1.0)]
    assert rates == pytest.approx([0, 0.5, 1, 0.5, 0])


def test_a_few_steps_lower_the_loss_of_a_tiny_bert() -> None:
    torch.manual_seed(0)
    model = tiny_bert(max_position_embeddings=48)
    documents = [[np.array([5, 6, 7, 8], np.uint16)] * 6 for _ in range(8)]  # one sentence, easily learned
    batch = pretrain.Batch.of(data.build_pairs(documents, 0, data.SHORT), "cpu").rows(slice(None))
    generator = torch.Generator().manual_seed(0)
    before = pretrain.bert_losses(model, batch, 8, generator)[0].item()
    budget = optimize.Budget(seconds=60, peak=1e-2, steps=40)
    steps = optimize.train(model, lambda step: pretrain.bert_losses(model, batch, 8, generator)[0], budget)
    assert steps == 40
    assert not model.training
    assert pretrain.bert_losses(model, batch, 8, generator)[0].item() < before - 0.5


def test_test_premises_never_occur_in_training(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(
        "A man sleeps.\tA man rests.\tentailment\n"
        "A dog.\tA cat.\t-\n"
        "A boy runs.\tA boy sits.\tcontradiction\n"
    )
    examples = finetune.read_pairs(path)
    assert examples == [("A man sleeps.", "A man rests.", 0), ("A boy runs.", "A boy sits.", 2)]
    assert finetune.without_premises(examples, [("A boy runs.", "Nobody moves.", 2)]) == examples[:1]


# --- int8


def test_quantize_and_restore_are_within_half_a_step_of_each_row() -> None:
    torch.manual_seed(0)
    weight = torch.randn(70, 60) * torch.logspace(-4, 2, 70)[:, None]
    weight[3] = 0
    stored = quantize.quantize({"w": weight, "small": weight[:2], "bias": weight[0]})
    assert stored["w"].dtype == torch.int8
    assert {name: value.dtype for name, value in stored.items() if name in ("small", "bias")} == {
        "small": torch.float16,
        "bias": torch.float16,
    }
    restored = restore_int8(stored)
    assert set(restored) == {"w", "small", "bias"}
    assert all(value.dtype == torch.float32 for value in restored.values())
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((restored["w"] - weight).abs() <= step * 0.5001).all()
    assert not restored["w"][3].any()


@pytest.mark.parametrize("name", ["bert-mini", "gpt-mini", "nli-mini"])
def test_the_shipped_files_are_what_quantize_makes(name: str) -> None:
    stored = load_file(EMBEDDED / name / "weights-int8.safetensors")
    again = quantize.quantize(restore_int8(stored))
    assert set(again) == set(stored)
    for key, value in stored.items():
        assert again[key].dtype == value.dtype
        if value.dtype == torch.float32:
            torch.testing.assert_close(again[key], value, rtol=1e-6, atol=0)
        else:
            assert torch.equal(again[key], value)


def test_tied_weights_are_stored_once() -> None:
    names = set(quantize.untied(tiny_bert()))
    assert "bert.embeddings.word_embeddings.weight" in names
    assert "cls.predictions.decoder.weight" not in names
