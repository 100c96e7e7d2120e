"""Pretrain lh:bert-mini or lh:gpt-mini from scratch, within a budget of seconds.

python -m training.pretrain bert DATA TOKENIZERS OUT --seconds 800
python -m training.pretrain gpt  DATA TOKENIZERS OUT --seconds 400

DATA holds *.xz text (documents separated by blank lines), TOKENIZERS what training.train_tokenizers wrote.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

from training.data import (
    CLS,
    LONG,
    MASK,
    PAD,
    SEP,
    SHORT,
    Ids,
    Pairs,
    build_bert_data,
    build_gpt_data,
    make_shards,
)
from training.optimize import Budget, autocast, train

BATCH = {LONG: 1536, SHORT: 3072}
MASKED = {LONG: 20, SHORT: 8}  # at most this many masked positions a row
GPT_LENGTH, GPT_BATCH = 256, 512


@dataclass(frozen=True)
class Batch:
    """Pairs on a device."""

    ids: Tensor  # [row, position]
    second: Tensor  # [row]
    label: Tensor  # [row]

    @classmethod
    def of(cls, pairs: Pairs, device: str) -> Batch:
        """Move pairs to a device; uint16 becomes int32, which torch can index."""
        return cls(
            torch.tensor(pairs.ids.astype("int32"), device=device),
            torch.tensor(pairs.second, device=device),
            torch.tensor(pairs.label, device=device),
        )

    def rows(self, which: Tensor | slice) -> Batch:
        """Some rows, as int64."""
        return Batch(self.ids[which].long(), self.second[which].long(), self.label[which].long())


@dataclass(frozen=True)
class Masked:
    """Rows with some tokens hidden, and what they were."""

    inputs: Tensor  # [row, position]
    positions: Tensor  # [row, k]
    targets: Tensor  # [row, k]
    weight: Tensor  # [row, k], 1 where a position counts


def mask_tokens(ids: Tensor, k: int, vocabulary: int, generator: torch.Generator) -> Masked:
    """Hide 15 % of each row's real tokens (at least 1, at most k): 80 % [MASK], 10 % another token, 10 %
    kept."""
    draw = torch.rand(ids.shape, device=ids.device, generator=generator)
    draw = draw.masked_fill((ids == PAD) | (ids == CLS) | (ids == SEP), -1)
    score, positions = draw.topk(k, dim=1)
    wanted = ((draw >= 0).sum(1, keepdim=True).float() * 0.15).clamp(min=1)
    counts = (torch.arange(k, device=ids.device)[None] < wanted) & (score >= 0)
    targets = ids.gather(1, positions)
    fate = torch.rand(positions.shape, device=ids.device, generator=generator)
    other = torch.randint(MASK + 1, vocabulary, targets.shape, device=ids.device, generator=generator)
    hidden = torch.where(fate < 0.8, torch.full_like(targets, MASK), torch.where(fate < 0.9, other, targets))
    hidden = torch.where(counts, hidden, targets)
    return Masked(ids.scatter(1, positions, hidden), positions, targets, counts.float())


def segment_types(ids: Tensor, second: Tensor) -> Tensor:
    """Token types: 1 from where the second text begins to its end, 0 elsewhere."""
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    return ((positions >= second[:, None]) & (ids != PAD)).long()


def bert_losses(
    model: Any, batch: Batch, k: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Masked-language loss (the vocabulary head runs on masked rows only), next-sentence loss and
    accuracy."""
    masked = mask_tokens(batch.ids, k, model.config.vocab_size, generator)
    types = segment_types(batch.ids, batch.second)
    out = model.bert(input_ids=masked.inputs, attention_mask=(batch.ids != PAD).long(), token_type_ids=types)
    width = out.last_hidden_state.size(-1)
    chosen = out.last_hidden_state.gather(1, masked.positions[..., None].expand(-1, -1, width))
    logits = model.cls.predictions(chosen).float().flatten(0, 1)
    per_token = F.cross_entropy(logits, masked.targets.flatten(), reduction="none") * masked.weight.flatten()
    next_logits = model.cls.seq_relationship(out.pooler_output).float()
    accuracy = (next_logits.argmax(-1) == batch.label).float().mean()
    return per_token.sum() / masked.weight.sum(), F.cross_entropy(next_logits, batch.label), accuracy


def train_bert(
    data: dict[int, Pairs], vocabulary: int, seconds: float, device: str
) -> tuple[Any, dict[str, Any]]:
    """Train on both lengths in turn; the first rows of each are held out."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=256,
        num_hidden_layers=8,
        num_attention_heads=8,
        intermediate_size=1024,
        max_position_embeddings=LONG,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
    )
    kind: Any = BertForPreTraining
    model = kind(config).to(device)
    generator = torch.Generator(device=device).manual_seed(1)
    batches = {length: Batch.of(pairs, device) for length, pairs in data.items()}
    held = {n: 4096 if len(b.ids) > 20_000 else max(64, len(b.ids) // 20) for n, b in batches.items()}

    def loss_of(step: int) -> Tensor:
        length = LONG if step % 2 == 0 else SHORT
        rows, first = len(batches[length].ids), held[length]
        size = BATCH[length] if device == "cuda" else 8
        which = torch.randint(first, rows, (size,), device=device, generator=generator)
        mlm, nsp, _ = bert_losses(model, batches[length].rows(which), MASKED[length], generator)
        return mlm + nsp

    figures: dict[str, Any] = {"steps": train(model, loss_of, Budget(seconds, peak=1.2e-3))}
    with torch.no_grad(), autocast(device):
        for length, batch in batches.items():
            parts = [batch.rows(slice(i, min(i + 512, held[length]))) for i in range(0, held[length], 512)]
            losses = [bert_losses(model, part, MASKED[length], generator) for part in parts]
            figures[str(length)] = [float(torch.stack(column).mean()) for column in zip(*losses, strict=True)]
    return model, figures


def train_gpt(stream: Ids, vocabulary: int, seconds: float, device: str) -> tuple[Any, dict[str, Any]]:
    """Train on random windows of the stream; its end is held out."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=GPT_LENGTH,
        n_embd=256,
        n_layer=8,
        n_head=8,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    kind: Any = GPT2LMHeadModel
    model = kind(config).to(device)
    generator = torch.Generator(device=device).manual_seed(2)
    tokens = torch.tensor(stream.astype("int32"), device=device)
    end = len(tokens) - min(2_000_000, len(tokens) // 20)
    window = torch.arange(GPT_LENGTH + 1, device=device)

    def loss_at(starts: Tensor) -> Tensor:
        rows = tokens[starts[:, None] + window[None]].long()
        hidden = model.transformer(input_ids=rows[:, :-1]).last_hidden_state
        return F.cross_entropy(model.lm_head(hidden).float().flatten(0, 1), rows[:, 1:].flatten())

    def loss_of(step: int) -> Tensor:
        size = GPT_BATCH if device == "cuda" else 4
        return loss_at(torch.randint(0, end - GPT_LENGTH - 1, (size,), device=device, generator=generator))

    steps = train(model, loss_of, Budget(seconds, peak=1.5e-3, weight_decay=0.1))
    with torch.no_grad(), autocast(device):
        starts = torch.arange(end, len(tokens) - GPT_LENGTH - 1, GPT_LENGTH, device=device)
        loss = float(torch.stack([loss_at(part) for part in starts.split(256)]).mean())
    return model, {"steps": steps, "loss": loss, "perplexity": math.exp(loss)}


def save(model: Any, tokenizer: Path, out: Path, figures: dict[str, Any]) -> None:
    """Write a float32 checkpoint with its tokenizer and its held-out figures."""
    model.cpu().save_pretrained(out)
    for path in tokenizer.glob("tokenizer*.json"):
        shutil.copy(path, out)
    (out / "training.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(figures)


def main() -> None:
    """Build the data and train one model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=("bert", "gpt"))
    for name in ("data", "tokenizers", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="how often each document is cut into pairs")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    shards = make_shards(asked.data, asked.tokenizers, asked.rounds, asked.processes)
    tokenizer = asked.tokenizers / asked.model
    vocabulary = len(json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"])
    if asked.model == "bert":
        pairs = build_bert_data(shards, asked.processes)
        model, figures = train_bert(pairs, vocabulary, asked.seconds, asked.device)
    else:
        stream = build_gpt_data(shards, asked.processes)
        model, figures = train_gpt(stream, vocabulary, asked.seconds, asked.device)
    save(model, tokenizer, asked.out, figures)


if __name__ == "__main__":
    main()
