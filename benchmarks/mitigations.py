"""What mitigations promise: a symmetrized model takes two passes, and a distilled one is certified, with half
of its biases gone, within 15 minutes on two cores.

    python -m benchmarks.run mitigations

Distilled models are those of seed 0, judged by what part B shows most clearly: the fill-in gap of
lh:bert-mini, the preference of lh:gpt-mini (docs/mitigate.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.claims import Claim, seconds
from levelhead.edits.output import Symmetrized
from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.measures.certified import PERPLEXITY
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.triples import load_triples
from levelhead.scoring.natural import LOG_ODDS, PREFERENCE
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.run import mitigate
from levelhead.studies.mitigate.settings import MitigateSettings

PASSES = 2.1  # of the model, for an answer of the symmetrized one
MINUTES = 15.0
LEFT = 0.5  # of a bias
MARGIN = 2.0  # percent of perplexity, points of any other ability
MODELS = ("lh:gpt-mini", "lh:bert-mini")


def bench() -> list[Claim]:
    """The promises of both shipped language models."""
    return [claim for name in MODELS for claim in (_passes(load(name)), *_distilled(load(name)))]


def _passes(model: Model) -> Claim:
    """Next sentences about one gender each, so that a swapped text is none of the others."""
    triples = [pair.original for pair in load_triples().pairs]
    ask: Callable[..., object]
    if "nsp" in model.abilities:
        pairs = Pooled([Text(each.context, each.stereotype) for each in triples])
        ask = partial(read_one, model, pairs)
    else:
        texts = TokenLikelihoods([Text(f"{each.context} {each.stereotype}") for each in triples])
        ask = partial(read_one, model, texts)
    variants = ((), (Symmetrized(GenderSwap()),))
    plain, twice = (min(_cpu_seconds(partial(ask, [each])) for _ in range(4)) for each in variants)
    note = f"{model.name}, CPU seconds"
    return Claim("symmetrized against plain answers", twice / plain, PASSES, False, note)


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Of all threads: what else the machine does counts less than by the clock."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _distilled(model: Model) -> Iterator[Claim]:
    """How long a run takes, and what its certified model keeps."""
    settings = MitigateSettings(methods=("distilled",), spillover=False, seed=0)
    with TemporaryDirectory() as place:
        folder = Path(place) / "run"
        took = seconds(lambda: mitigate(model, settings, folder))
        yield Claim("distilled, minutes", took / 60, MINUTES, False, f"{model.name}; promised for two cores")
        yield from promises(Mitigate.open(folder))


def promises(run: Mitigate) -> Iterator[Claim]:
    """That something is certified, and what is left and lost with the one of the largest gain."""
    yield Claim("distilled, certified candidates", len(run.certified), 1, True, run.model)
    best = max(run.certified, key=lambda each: each.certificate.gain, default=None)
    if best is None:
        return
    note = f"{run.model}, {best.name}"
    for bias in run.moved:
        if bias.candidate == best.name and bias.bias in (PREFERENCE, LOG_ODDS):
            yield Claim(f"distilled, {bias.bias} left", abs(bias.after / bias.before), LEFT, False, note)
    for cost, grown in best.certificate.costs.items():
        lost = 100 * (math.expm1(grown) if cost == PERPLEXITY else grown)
        yield Claim(f"distilled, {cost} lost, % or points", lost, MARGIN, False, note)
