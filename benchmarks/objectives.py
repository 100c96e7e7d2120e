"""Likelihoods and head gradients of CrowS-Pairs against plain forward passes of the same rows.

    python -m benchmarks.run objectives
    python -m benchmarks.objectives crows_pairs_anonymized.csv     # all pairs of a file, by the clock

The rows are those of the rule: of both sentences of a pair, each token that they share masked alone. A plain
pass is the model's own, with the vocabulary at every token, as the published script runs it.
"""

from __future__ import annotations

import sys
import time

import torch

from benchmarks.claims import Claim, in_turn
from levelhead.engine.batches import RowPool, batches, inputs
from levelhead.engine.memory import token_budget
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model, load
from levelhead.probes.pairs import gender_sentence_pairs
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Items, Selection
from levelhead.scoring.benchmarks.sentence_pairs import SentencePair

PAIRS = 40


def bench() -> list[Claim]:
    """Pairs that ship, written as CrowS-Pairs: its own never do."""
    model = load("lh:bert-mini", device="cpu")
    objective = CROWS_PAIRS.objective(model, _shipped())
    assert objective is not None
    pool = RowPool(merge=False)
    objective.reading.prepare(model, pool, 1)
    ours, plain, base = in_turn(
        lambda: objective.gradients(model),
        lambda: _forward(model, pool, whole=True),
        lambda: _forward(model, pool, whole=False),
        rounds=2,
    )
    note = f"{PAIRS} pairs, {len(pool.rows)} rows, lh:bert-mini"
    return [
        Claim("likelihoods and head gradients of pairs against plain passes", ours / plain, 1.3, False, note),
        Claim("the same against passes without the vocabulary", ours / base, None, False, note),
    ]


def _shipped() -> Items:
    pairs = [
        SentencePair(str(i), "gender", str(i), pair.feminine[0], pair.masculine[0], "stereo")
        for i, pair in enumerate(gender_sentence_pairs()[:PAIRS])
    ]
    return Items("shipped sentence pairs", tuple(pairs))


def _forward(model: Model, pool: RowPool, whole: bool) -> None:
    with at_rest(model.hf), torch.inference_mode():
        for numbers in batches(pool.rows, token_budget(model, "answers")):
            batch = inputs(model, [pool.rows[n] for n in numbers])
            (model.hf if whole else model.base)(**batch)


def main(file: str) -> None:
    """All pairs of a published file."""
    model = load("lh:bert-mini", device="cpu")
    items = CROWS_PAIRS.load(file, Selection())
    start, used = time.perf_counter(), time.process_time()
    objective = CROWS_PAIRS.objective(model, items)
    assert objective is not None
    found = objective.gradients(model)
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    print(f"{found.n} pairs, gap {found.objective:.4f} nats: {wall:.0f} s, {cpu:.0f} s of the processor")


if __name__ == "__main__":
    main(*sys.argv[1:])
