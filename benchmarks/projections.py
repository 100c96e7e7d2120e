"""76 models for the price of one: the sweep against 76 hooked forward passes and against one plain pass."""

from __future__ import annotations

import torch

from benchmarks.claims import Claim, bert_base, in_turn, seconds
from levelhead.engine.batches import RowPool, batches, inputs
from levelhead.engine.memory import token_budget
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.pairs import nli_pair_inputs
from levelhead.studies.projections.grid import paper_settings, variants_of

PAIRS, HOOKED = 500, 4


def plain_pass(model: Model, reading: Pooled) -> None:
    """One forward pass of the unmodified model over the engine's own batches."""
    pool = RowPool()
    reading.prepare(model, pool, 1)
    with torch.inference_mode():
        for numbers in batches(pool.rows, token_budget(model, "answers")):
            model.hf(**inputs(model, [pool.rows[n] for n in numbers])).logits.cpu()


def bench() -> list[Claim]:
    """500 sentence pairs on BERT-base's shape with random weights."""
    model = bert_base("BertForSequenceClassification")
    asked = [*ability_pairs().pairs, *nli_probe().pairs[:: 10_824 // 200]][:PAIRS]
    reading = Pooled([Text(pair.premise, pair.hypothesis) for pair in asked])
    variants = variants_of(model, paper_settings(), nli_pair_inputs())
    some = variants[-HOOKED:]

    def hooked() -> None:
        for variant in some:
            with model.edited(*variant):
                plain_pass(model, reading)

    shared, plain = in_turn(lambda: read_one(model, reading, variants), lambda: plain_pass(model, reading))
    each = seconds(hooked) / HOOKED
    note = f"{len(variants)} settings, {len(asked)} pairs"
    return [
        Claim(
            "76 settings against one plain forward pass",
            shared / plain,
            1.6,
            False,
            f"{note}; the floor is about 1.2",
        ),
        Claim(
            "76 settings against 76 passes under hooks",
            76 * each / shared,
            40,
            True,
            f"{note}; {HOOKED} timed, x 19",
        ),
    ]
