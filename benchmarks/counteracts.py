"""CounterActs' prompts against the fill-mask pipeline, and against a forward pass without the vocabulary
head.

The forward pass gets the very batches that the engine makes: same rows, same order, same padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import transformers

from benchmarks.claims import Claim, bert_base, in_turn
from levelhead.engine.batches import RowPool, batches, inputs
from levelhead.engine.memory import token_budget
from levelhead.engine.readings import Predictions
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text, encode
from levelhead.models.model import Model
from levelhead.probes.cloze import load_cloze
from levelhead.scoring.cloze import cloze_texts


def bench() -> list[Claim]:
    """The pipeline at its default batch size / levelhead, and levelhead / forward pass without the head."""
    model = bert_base()
    texts = cloze_texts(model, load_cloze())
    fill = transformers.FillMaskPipeline(
        model=model.hf, tokenizer=model.tokenizer, device=model.device, top_k=10
    )
    strings = [joined(model, text) for text in texts]
    ours, forward, pipeline = in_turn(
        lambda: read_one(model, Predictions(texts, 10)),
        forward_passes(model, texts),
        lambda: fill(strings),
        rounds=1,
    )
    note = f"all {len(texts):,} prompts"
    return [
        Claim("prompts: fill-mask pipeline against levelhead", pipeline / ours, 3.0, True, note),
        Claim("prompts: levelhead against a forward pass without head", ours / forward, 1.3, False, note),
    ]


def joined(model: Model, text: Text) -> str:
    """The pipeline takes one string: the same tokens, the separator written out."""
    return text.first if text.second is None else f"{text.first} {model.tokenizer.sep_token} {text.second}"


def forward_passes(model: Model, texts: Sequence[Text]) -> Callable[[], None]:
    """A plain forward pass of the model without its vocabulary head over the engine's batches, encoding
    included."""

    def run() -> None:
        pool = RowPool()
        for row in encode(model, texts):
            pool.add(row)
        with torch.inference_mode():
            for numbers in batches(pool.rows, token_budget(model, "answers")):
                model.base(**inputs(model, [pool.rows[number] for number in numbers]))

    return run
