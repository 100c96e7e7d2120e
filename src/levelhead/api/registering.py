"""One way to make levelhead know a method of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.scoring.benchmarks.protocol import Benchmark, register_benchmark
from levelhead.studies.mitigating.protocol import Mitigation, register_mitigation


def register(method: Benchmark | Mitigation) -> None:
    """Let every command and page know a benchmark or a mitigation of one's own (docs/own-methods.md).

    A measure, which is a function, is registered by `register_measure`.
    """
    if isinstance(method, Benchmark):
        register_benchmark(method)
    elif isinstance(method, Mitigation):
        register_mitigation(method)
    else:
        raise BadOption(
            f"{type(method).__name__} is neither a benchmark (info, load, why_not, ask, natural, objective) "
            "nor a mitigation (name, why_not, candidates)."
        )
