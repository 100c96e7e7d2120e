"""`python -m benchmarks.mirror lh:gpt-mini`: the mirror divergence of texts before and after a mitigation.

Each variant writes its own texts behind the shipped prompts and is then asked for their likelihoods and for
those of their counterfactuals. A symmetrized model must have 0 on every text that the swap turns around
exactly; the distilled one (of causal models that can be trained) is compared with the unmodified model by
clusters of prompts.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.result_pages import put
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine.sampling import Sampling, continuations
from levelhead.measures.measurement import Measurement
from levelhead.measures.mirror import MirrorScores, mirror_change, mirror_divergence
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.probes.generation import Prompt, load_prompts
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.generation import mirror_scores
from levelhead.studies.generate.texts import NEUTRAL
from levelhead.studies.mitigate.distillation import Distillation

SYMMETRIZED, DISTILLED, UNMODIFIED = "symmetrized", "distilled", "unmodified"
SWAPPED = ("gender", "names")  # sets whose prompts state a gender
HEAD = ("prompts", "model", "texts", "nats per text", "per token", "largest per token", "change")


@dataclass(frozen=True)
class Written:
    """What a variant wrote behind prompts, and how likely it finds both orientations of it."""

    prompts: Sequence[Prompt]
    scores: MirrorScores
    samples: int

    @property
    def clusters(self) -> list[str]:
        return [each.cluster for each in self.prompts for _ in range(self.samples)]

    @property
    def largest(self) -> float:
        """The largest difference of any exactly swapped text, in nats per token."""
        exact = self.scores.exact
        return float((abs(self.scores.gaps) / self.scores.tokens.clip(1))[exact].max(initial=0.0))


def written(model: Model, variant: Variant, prompts: Sequence[Prompt], sampling: Sampling) -> Written:
    """Texts of a variant with their likelihoods."""
    texts = [each.text for each in prompts]
    found = continuations(model, texts, [each.frame for each in prompts], sampling, variant)
    given = [text for text in texts for _ in range(sampling.samples)]
    (scores,) = mirror_scores(model, given, [each for own in found for each in own], [variant])
    return Written(prompts, scores, sampling.samples)


def distilled(model: Model) -> Variant:
    """The candidate that goes all of the way."""
    fit = Battery(words := load_words("gender"), tuple(template_contexts(words, 4)))
    return next(each.edits for each in Distillation().candidates(model, fit) if each.strength == 1.0)


def shown(value: Measurement, key: str = "") -> str:
    """A number with its interval."""
    number = value.details[key] if key else value.value
    ends = value.interval
    if key:
        ends = value.details[f"{key}, low"] or 0.0, value.details[f"{key}, high"] or 0.0
    return f"{number:.4g}" if ends is None else f"{number:.4g} [{ends[0]:.4g}, {ends[1]:.4g}]"


def lines(
    model: Model, limit: int | None, sampling: Sampling, mitigated: Sequence[str], kinds: Sequence[str]
) -> Iterator[list[str]]:
    """One row for each variant and kind of prompts, with the change by each mitigation."""
    variants: dict[str, Variant] = {UNMODIFIED: ()}
    for name in mitigated:
        variants[name] = distilled(model) if name == DISTILLED else (Symmetrized(GenderSwap()),)
    for kind in kinds:
        sets = NEUTRAL if kind == "neutral" else SWAPPED
        prompts = load_prompts(sets=sets, limit=limit).prompts
        base: Written | None = None
        for name, variant in variants.items():
            start = time.process_time()
            own = written(model, variant, prompts, sampling)
            base = base or own
            found = mirror_divergence(own.scores, own.clusters)
            values = [shown(found), shown(found, "per token"), f"{own.largest:.1e}"]
            line = [kind, name, str(found.n), *values, ""]
            if own is not base:
                change = mirror_change(base.scores, own.scores, base.clusters, own.clusters)
                low, high = change.interval or (math.nan, math.nan)
                line[-1] = f"{change.value:+.0%} [{low:+.0%}, {high:+.0%}]".replace("-", "−")
            print(f"{time.process_time() - start:.0f} s of CPU", file=sys.stderr)
            yield line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--mitigated", default=f"{SYMMETRIZED},{DISTILLED}")
    parser.add_argument("--kinds", default="neutral,gendered")
    parser.add_argument("--limit", type=int, help="clusters of each set")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", help="FILE#TABLE: a record of benchmarks/results, whose table is written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sampling = Sampling(given.samples, given.tokens, 1.0, given.seed)
    model = load(given.model, device=given.device)
    asked = given.mitigated.split(","), given.kinds.split(",")
    rows = [list(HEAD), ["---", "---", *["---:"] * 5]]
    print(*HEAD, sep=" | ")
    for line in lines(model, given.limit, sampling, *asked):
        print(*line, sep=" | ", flush=True)
        rows.append(line)
    if given.keep:
        file, _, table = given.keep.partition("#")
        put(Path(file), table, rows)


if __name__ == "__main__":
    main()
