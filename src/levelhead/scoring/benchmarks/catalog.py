"""All benchmarks: the built-in ones, and those of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.scoring.benchmarks.bbq import BBQ
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.discrim_eval import DISCRIM_EVAL
from levelhead.scoring.benchmarks.protocol import Benchmark, registered_benchmarks
from levelhead.scoring.benchmarks.redditbias import REDDITBIAS
from levelhead.scoring.benchmarks.sentence_seat import SENTENCE_SEAT
from levelhead.scoring.benchmarks.stereoset import STEREOSET, STEREOSET_INTER
from levelhead.scoring.benchmarks.winobias import WINOBIAS
from levelhead.scoring.benchmarks.winogender import WINOGENDER
from levelhead.scoring.benchmarks.winoqueer import WINOQUEER

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


def benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by its name; a built-in one keeps its name."""
    built_in = {each.info.name: each for each in BUILT_IN}
    return {**built_in, **{n: own for n, own in registered_benchmarks().items() if n not in built_in}}


def benchmark_of(name: str) -> Benchmark:
    """The benchmark of this name."""
    known = benchmarks()
    if name not in known:
        raise BadOption(f"No benchmark is called {name!r}. There are: {', '.join(known)}.")
    return known[name]
