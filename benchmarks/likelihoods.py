"""Are likelihoods of whole sentences those of minicons? An independent implementation as reference.

    pip install --target /tmp/minicons --no-deps minicons==0.3.39
    PYTHONPATH=/tmp/minicons python -m benchmarks.likelihoods MODEL... --data crows_pairs_anonymized.csv

For the sentences of some CrowS-Pairs the largest difference, in nats, between the sum of log p by levelhead
and by minicons: pseudo-log-likelihoods of masked models, log-likelihoods after the opening of causal ones.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import numpy as np

from levelhead.engine.readings import SpanLikelihoods
from levelhead.engine.run import read_one
from levelhead.models.model import Model, load
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Selection

WITHIN = 1e-4  # nats of a sentence


def named_logits(_: Any, args: Any, out: Any) -> Any:
    """A model with a next-sentence head calls them otherwise than minicons expects."""
    out.logits = getattr(out, "logits", None) if "logits" in out else out.prediction_logits
    return out


def reference(model: Model, sentences: list[str]) -> list[float]:
    """Sums of log p by minicons."""
    scorer: Any = importlib.import_module("minicons.scorer")
    model.tokenizer.batch_encode_plus = model.tokenizer.__call__  # transformers 5 lacks it
    handle = model.hf.register_forward_hook(named_logits)
    try:
        return _reference(scorer, model, sentences)
    finally:
        handle.remove()


def _reference(scorer: Any, model: Model, sentences: list[str]) -> list[float]:
    if "causal" in model.abilities:
        known = scorer.IncrementalLMScorer(model.hf, "cpu", tokenizer=model.tokenizer)
        opened = bool(model.opening.tokens) or bool(model.opening.own)
        scores = known.sequence_score(sentences, reduction=lambda x: x.sum().item(), bos_token=opened)
    else:
        known = scorer.MaskedLMScorer(model.hf, "cpu", tokenizer=model.tokenizer)
        scores = known.sequence_score(sentences, reduction=lambda x: x.sum().item(), PLL_metric="original")
    return [float(score) for score in scores]


def compare(name: str, data: str, pairs: int) -> bool:
    """Print the largest difference of one model, and whether it is small enough."""
    model = load(name, device="cpu", dtype="float32")
    items = CROWS_PAIRS.load(data, Selection(limit=pairs))
    sentences = [text for pair in items.items for text in (pair.more, pair.less)]
    (ours,) = read_one(model, SpanLikelihoods(sentences))
    theirs = np.asarray(reference(model, sentences))
    off = float(np.abs(ours - theirs).max())
    share = [float(np.mean(x[::2] > x[1::2])) for x in (ours, theirs)]
    print(f"{name}: {len(sentences)} sentences, largest difference {off:.2e} nats; shares {share}")
    return off <= WITHIN


def main() -> None:
    """Compare every model that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--pairs", type=int, default=20)
    given = parser.parse_args()
    agree = [compare(name, given.data, given.pairs) for name in given.models]
    raise SystemExit(0 if all(agree) else 1)


if __name__ == "__main__":
    main()
