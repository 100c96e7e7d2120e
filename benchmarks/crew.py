"""Two workers of one thread each against one, and one against none: BERT-base's shape, on the CPU."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch

from benchmarks.claims import Claim, bert_base, in_turn
from benchmarks.engine import mixed_sentences
from levelhead.engine.ray_workers import dismiss
from levelhead.engine.readings import SentenceVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load

SENTENCES, TOKENS, ROUNDS = 400, 256, 2
_THREADS = "OMP_NUM_THREADS"


def bench() -> list[Claim]:
    """Sentence vectors of 400 sentences of mixed length, in batches of 256 tokens."""
    threads, before = torch.get_num_threads(), os.environ.get(_THREADS)
    torch.set_num_threads(1)
    os.environ[_THREADS] = "1"
    try:
        with tempfile.TemporaryDirectory(prefix="levelhead-bench-") as folder:
            return _claims(Path(folder))
    finally:
        torch.set_num_threads(threads)
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def _claims(folder: Path) -> list[Claim]:
    model = bert_base()
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    texts = [Text(sentence) for sentence in mixed_sentences(SENTENCES)]
    none = _seconds(load(folder, device="cpu", batch_tokens=TOKENS), texts)
    placed = {workers: load(folder, device="cpu", batch_tokens=TOKENS, workers=workers) for workers in (2, 1)}
    two, one = (_seconds(model, texts) for model in placed.values())
    dismiss()
    note = f"{SENTENCES} sentences in batches of {TOKENS} tokens; {os.cpu_count()} cores"
    return [
        Claim("two workers of one thread against one", one / two, 1.7, True, note),
        Claim("one worker against no Ray, time", one / none, None, False, note),
    ]


def _seconds(model: Model, texts: list[Text]) -> float:
    """The best time, when everybody has loaded the model and met a batch."""
    read_one(model, SentenceVectors(texts[:40]))
    return in_turn(lambda: read_one(model, SentenceVectors(texts)), rounds=ROUNDS)[0]
