"""What a mitigation that trains buys and costs on all shipped items, step by step, and how long it takes.

    python -m benchmarks.distill lh:gpt-mini --steps 2500 --rate 1e-4 --batch 32
    python -m benchmarks.distill lh:bert-mini --method 'counterfactual text' --steps 500 --lora

Nothing is selected or certified here: this is to choose defaults. One line per number of steps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.measures.stereoset import strength, triple_strength
from levelhead.models.model import Model, load
from levelhead.probes.agreement import agreement_items
from levelhead.probes.cloze import load_cloze
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import NaturalItems, natural_values
from levelhead.scoring.pairs import head_answers, likelihood_answers
from levelhead.studies.mitigate.protocol import Candidate, mitigations
from levelhead.studies.mitigate.run import BUILT_IN
from levelhead.studies.mitigate.training import Means, TrainedMitigation


def main() -> None:
    """Train, measure before and after, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model")
    parser.add_argument("--method", default="distilled")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--text", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    asked = parser.parse_args()
    model = load(asked.model, device=asked.device)
    words = load_words("gender")
    battery = Battery(words, tuple(template_contexts(words, 4)))
    items = NaturalItems(battery, load_cloze(per_background=1), agreement=agreement_items())
    start = time.monotonic()
    candidates = _candidates(model, items.battery, asked)
    seconds = time.monotonic() - start
    for line in measured(model, items, candidates):
        print(json.dumps({"model": asked.model, **line, "seconds": round(seconds, 1), "asked": vars(asked)}))


def _candidates(model: Model, fit: Battery, asked: Any) -> Sequence[Candidate]:
    """The candidates of a method, with another batch size and rate than its own."""
    assert BUILT_IN
    (method,) = mitigations([asked.method])
    if isinstance(method, TrainedMitigation):
        plan = replace(method.own_plan, batch_size=asked.batch, learning_rate=asked.rate)
        type(method).own_plan = plan
        method = method.with_means(Means(asked.text, asked.steps, asked.lora, asked.seed))
    return method.candidates(model, fit)


def measured(model: Model, items: NaturalItems, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Every bias and ability of the unmodified model and of each candidate, on all items."""
    variants: list[Variant] = [(), *(each.edits for each in candidates)]
    asked = natural_values(model, items, variants)
    kinds = [*asked.biases, *asked.costs]
    lines = []
    for number, name in enumerate(["unmodified", *(each.name for each in candidates)]):
        values = {kind.name: round(_mean(kind, number), 4) for kind in kinds}
        lines.append({"variant": name, **values, **_strength(model, items, variants[number])})
    return lines


def _mean(kind: ItemValues, variant: int) -> float:
    mean = float(np.average(kind.values[variant], weights=kind.weights))
    return float(np.exp(mean)) if kind.name == "perplexity" else mean


def _strength(model: Model, items: NaturalItems, variant: Variant) -> dict[str, float | None]:
    if not model.abilities & {"nsp", "causal"}:
        return {}
    triples = items.battery.triples
    ask = head_answers if "nsp" in model.abilities else likelihood_answers
    (answers,) = ask(model, triples, [variant])
    counterfactual = np.asarray([pair.swapped is not None for pair in triples.pairs])
    own, swapped = answers.p[: len(counterfactual)][counterfactual], answers.p[len(counterfactual) :]
    # swapping flips the labels: a stereotype of one gender is an anti-stereotype of the other
    s = triple_strength(own[:, 0], own[:, 1], swapped[:, 1], swapped[:, 0])
    value = strength(s).value
    return {"Strength": None if value is None else round(value, 4)}


if __name__ == "__main__":
    main()
