"""The engine against a plain padded-batch loop and against one sentence at a time."""

from __future__ import annotations

import random

import torch

from benchmarks.claims import Claim, bert_base, in_turn, peak_memory
from levelhead.engine.readings import WordVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model
from levelhead.probes.sentences import fluency_sentences

SENTENCES, ALONE, BATCH = 2_000, 100, 32


def mixed_sentences(n: int) -> list[str]:
    """Sentences of 5 to 60 words: ours, alone or joined, shuffled."""
    rng = random.Random(0)
    ours = fluency_sentences()
    return [" ".join(rng.choices(ours, k=rng.choice([1, 1, 1, 2, 3]))) for _ in range(n)]


def plain_loop(model: Model, sentences: list[str], size: int) -> None:
    """What one writes first: batches in the given order, padded to the longest."""
    with torch.inference_mode():
        for start in range(0, len(sentences), size):
            batch = model.tokenizer(sentences[start : start + size], return_tensors="pt", padding=True).to(
                model.device
            )
            model.base(**batch).last_hidden_state.cpu()


def bench() -> list[Claim]:
    """Word vectors of 2,000 sentences of mixed length on BERT-base's shape."""
    model = bert_base()
    sentences = mixed_sentences(SENTENCES)
    reading = WordVectors(
        [Text(s) for s in sentences], [find_word(s, s.split()[0].strip('",')) for s in sentences]
    )
    alone = sentences[:ALONE]
    few = WordVectors([Text(s) for s in alone], [find_word(s, s.split()[0].strip('",')) for s in alone])
    engine, plain = in_turn(
        lambda: read_one(model, reading), lambda: plain_loop(model, sentences, BATCH), rounds=1
    )
    peak = peak_memory()
    engine_few, one = in_turn(lambda: read_one(model, few), lambda: plain_loop(model, alone, 1), rounds=2)
    note = f"{SENTENCES} sentences, batches of {BATCH}"
    return [
        Claim("engine against a plain padded-batch loop", plain / engine, None, True, note),
        Claim("engine against batch size 1", one / engine_few, None, True, f"{ALONE} of the sentences"),
        Claim("peak memory of the process, MB", peak, None, False, "engine and plain loop, model included"),
    ]
