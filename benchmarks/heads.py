"""Head scores against their floor, removals against re-running everything, pseudo-perplexity against
minicons."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from importlib.util import find_spec

import torch
from torch import Tensor
from transformers import BertForMaskedLM

from benchmarks.claims import Claim, bert_base, in_turn
from levelhead.edits.gates import removed
from levelhead.engine.batches import RowPool, batches, inputs
from levelhead.engine.gradients import gate_gradients, neuron_gradients
from levelhead.engine.memory import token_budget
from levelhead.engine.readings import StaticVectors, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import load_words
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable, word_table

CONTEXTS = (
    5_000 if torch.cuda.is_available() else 1_000
)  # the ratio does not depend on it; 5,000 take 15 minutes here
REMOVALS = 400 if torch.cuda.is_available() else 40  # contexts of the ablation check: 144 removals of each


def bench() -> list[Claim]:
    """All three on one machine, one after the other."""
    return [*_scores(), *_ablation(), *_fluency()]


def _table(n: int) -> WordTable:
    test = load_words("gender")
    every = template_contexts(test)
    return word_table(test, [every[i * len(every) // n] for i in range(n)])  # n of them, evenly spread


def _scores() -> list[Claim]:
    model, table = bert_base(), _table(CONTEXTS)
    reading, objective = table.static(), word_objective(table).number
    ours, floor = in_turn(
        lambda: gate_gradients(model, reading, objective),
        lambda: two_forwards_one_backward(model, reading),
        rounds=1,
    )
    few = _table(CONTEXTS // 4)
    heads, neurons = in_turn(
        lambda: gate_gradients(model, few.static(), word_objective(few).number),
        lambda: neuron_gradients(model, few.static(), word_objective(few).number),
        rounds=1,
    )
    note = "contexts, BERT-base shape, the same batches"
    return [
        Claim(
            "head scores against two forwards + one backward",
            ours / floor,
            1.3,
            False,
            f"{len(table.contexts)} {note}",
        ),
        Claim(
            "neuron scores against head scores",
            neurons / heads,
            1.3,
            False,
            f"{len(few.contexts)} {note}",
        ),
    ]


def two_forwards_one_backward(model: Model, reading: StaticVectors) -> None:
    """The floor: what any gradient over these contexts costs, with weights frozen and the same kernels."""
    with at_rest(model.hf):
        for batch in _batches(model, reading):
            with torch.inference_mode():
                model.base(**batch)
            embedded = model.base.get_input_embeddings()(batch.pop("input_ids")).requires_grad_()  # type: ignore[operator]
            model.base(inputs_embeds=embedded, **batch).last_hidden_state.sum().backward()


def _batches(model: Model, reading: StaticVectors) -> Iterator[dict[str, Tensor]]:
    """What the engine would run, as plain inputs."""
    pool = RowPool(merge=False)
    reading.prepare(model, pool, 1)
    for numbers in batches(pool.rows, token_budget(model, "gradients")):
        yield inputs(model, [pool.rows[n] for n in numbers])


def _ablation() -> list[Claim]:
    model, table = bert_base(), _table(REMOVALS)
    heads = [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
    variants = [removed(model, [head]) for head in heads]
    reading = table.static()

    ready = list(_batches(model, reading))

    def every_head_anew() -> None:
        for variant in variants:
            with model.edited(*variant), torch.inference_mode():
                for batch in ready:
                    model.base(**batch)

    shared, anew = in_turn(lambda: read_one(model, reading, variants), every_head_anew, rounds=1)
    limit = "1.85 is the limit without narrowing the last layer"
    note = f"{len(heads)} heads, {len(table.contexts)} contexts; {limit}"
    return [Claim("removing every head against re-running everything", anew / shared, 1.6, True, note)]


def _fluency() -> list[Claim]:
    if find_spec("minicons") is None:
        return []  # it is a test dependency
    from minicons import scorer

    model = load("lh:bert-mini", device="cpu")
    sentences = list(fluency_sentences()[:200])
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.batch_encode_plus = (
        tokenizer.__call__
    )  # minicons 0.3.39 asks for it; transformers 5 has dropped it
    plain = BertForMaskedLM(model.hf.config).eval()
    plain.bert, plain.cls.predictions = model.hf.bert, model.hf.cls.predictions
    theirs = scorer.MaskedLMScorer(plain, "cpu", tokenizer=tokenizer)

    def minicons(batch: int) -> None:
        for start in range(0, len(sentences), batch):
            theirs.sequence_score(sentences[start : start + batch], PLL_metric="original")

    reading = TokenLikelihoods([Text(s) for s in sentences])
    ours, one_call, tens = in_turn(
        lambda: read_one(model, reading), lambda: minicons(len(sentences)), lambda: minicons(10), rounds=2
    )
    on = "200 sentences, lh:bert-mini, "
    return [
        Claim(
            "pseudo-perplexity against minicons",
            one_call / ours,
            3.0,
            True,
            on + "one call of sequence_score",
        ),
        Claim("pseudo-perplexity against minicons, small batches", tens / ours, None, True, on + "10 a call"),
    ]
