"""Fine-tune lh:nli-mini from lh:bert-mini, within a budget of seconds or eight rounds, whichever ends first.

python -m training.finetune BERT PAIRS OUT --seconds 90

BERT is a checkpoint of training.pretrain. PAIRS holds train*.tsv and test.tsv: premise, hypothesis, label,
with tabs.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from transformers import BertForPreTraining, BertForSequenceClassification

from training.data import PAD
from training.optimize import Budget, train
from training.pretrain import Batch, save, segment_types

LABELS = ("entailment", "neutral", "contradiction")
LENGTH, BATCH, ROUNDS = 96, 256, 8

Example = tuple[str, str, int]  # premise, hypothesis, label


def read_pairs(path: Path) -> list[Example]:
    """Examples of a file; lines without one of the three labels (SNLI's undecided ones) are left out."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")]
    return [(row[0], row[1], LABELS.index(row[2])) for row in rows if len(row) == 3 and row[2] in LABELS]


def without_premises(examples: list[Example], held_out: list[Example]) -> list[Example]:
    """Examples whose premise does not occur in the held-out set."""
    premises = {premise for premise, _, _ in held_out}
    return [example for example in examples if example[0] not in premises]


def encode_pairs(examples: list[Example], tokenizer: Tokenizer, device: str) -> Batch:
    """Rows `[CLS] premise [SEP] hypothesis [SEP]`, cut and padded to LENGTH."""
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(pad_id=PAD, length=LENGTH)
    encoded = tokenizer.encode_batch([(premise, hypothesis) for premise, hypothesis, _ in examples])
    return Batch(
        torch.tensor([row.ids for row in encoded], dtype=torch.int32, device=device),
        torch.tensor([row.type_ids.index(1) for row in encoded], device=device),
        torch.tensor([label for _, _, label in examples], device=device),
    )


def train_nli(bert: Any, pairs: Batch, seconds: float) -> tuple[Any, int]:
    """The classifier and the number of steps it took."""
    torch.manual_seed(0)
    device = str(pairs.ids.device)
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = type(bert.config)(**(bert.config.to_dict() | names | dropout))
    kind: Any = BertForSequenceClassification
    model = kind(config).to(device)
    model.bert.load_state_dict(bert.bert.state_dict())
    generator = torch.Generator(device=device).manual_seed(3)
    size = BATCH if pairs.ids.is_cuda else 16

    def loss_of(step: int) -> Tensor:
        which = torch.randint(0, len(pairs.ids), (size,), device=device, generator=generator)
        batch = pairs.rows(which)
        return F.cross_entropy(classify(model, batch), batch.label)

    steps = max(1, ROUNDS * len(pairs.ids) // size)
    return model, train(model, loss_of, Budget(seconds, peak=1.5e-4, warmup=0.06, steps=steps))


def classify(model: Any, batch: Batch) -> Tensor:
    """Logits of the three labels."""
    types = segment_types(batch.ids, batch.second)
    logits: Tensor = model(
        input_ids=batch.ids, attention_mask=(batch.ids != PAD).long(), token_type_ids=types
    ).logits
    return logits.float()


@torch.no_grad()
def accuracy(model: Any, pairs: Batch) -> float:
    """Share of right answers."""
    parts = [pairs.rows(slice(i, i + 512)) for i in range(0, len(pairs.ids), 512)]
    right = sum(int((classify(model, part).argmax(-1) == part.label).sum()) for part in parts)
    return right / len(pairs.ids)


def main() -> None:
    """Train, test, save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("bert", "pairs", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    test = read_pairs(asked.pairs / "test.tsv")
    examples = [example for path in sorted(asked.pairs.glob("train*.tsv")) for example in read_pairs(path)]
    examples = without_premises(examples, test)
    random.Random(0).shuffle(examples)
    tokenizer = Tokenizer.from_file(str(asked.bert / "tokenizer.json"))
    bert = BertForPreTraining.from_pretrained(asked.bert)
    model, steps = train_nli(bert, encode_pairs(examples, tokenizer, asked.device), asked.seconds)
    score = accuracy(model, encode_pairs(test, tokenizer, asked.device))
    save(
        model,
        asked.bert,
        asked.out,
        {"steps": steps, "train_pairs": len(examples), "snli_test_accuracy": score},
    )


if __name__ == "__main__":
    main()
