"""All benchmarks: the built-in ones, and those of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.scoring.benchmarks.bbq import BBQ
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.discrim_eval import DISCRIM_EVAL
from levelhead.scoring.benchmarks.protocol import BENCHMARKS, Benchmark
from levelhead.scoring.benchmarks.redditbias import REDDITBIAS
from levelhead.scoring.benchmarks.sentence_seat import SENTENCE_SEAT
from levelhead.scoring.benchmarks.stereoset import STEREOSET, STEREOSET_INTER
from levelhead.scoring.benchmarks.winobias import WINOBIAS
from levelhead.scoring.benchmarks.winogender import WINOGENDER
from levelhead.scoring.benchmarks.winoqueer import WINOQUEER
from levelhead.scoring.objective import OBJECTIVES

BUILT_IN: tuple[Benchmark, ...] = (
    CROWS_PAIRS,
    STEREOSET,
    STEREOSET_INTER,
    BBQ,
    WINOBIAS,
    WINOGENDER,
    REDDITBIAS,
    WINOQUEER,
    DISCRIM_EVAL,
    SENTENCE_SEAT,
)
for _each in BUILT_IN:
    BENCHMARKS.register(_each)
OBJECTIVES.taken |= BENCHMARKS.taken  # a benchmark is an objective by its name


def benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by its name."""
    return BENCHMARKS.known()


def benchmark_of(name: str) -> Benchmark:
    """The benchmark of this name."""
    known = benchmarks()
    if name not in known:
        raise BadOption(f"No benchmark is called {name!r}. There are: {', '.join(known)}.")
    return known[name]
