"""One way to make levelhead know a method of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.scoring.benchmarks.protocol import Benchmark, register_benchmark
from levelhead.studies.localizing.protocol import Localizer, register_localizer
from levelhead.studies.mitigating.protocol import Mitigation, register_mitigation


def register(method: Benchmark | Localizer | Mitigation) -> None:
    """Let every command know a benchmark, a localizer or a mitigation of one's own (docs/own-methods.md).

    A measure, which is a function, is registered by `register_measure`.
    """
    if isinstance(method, Benchmark):
        register_benchmark(method)
    elif isinstance(method, Localizer):
        register_localizer(method)
    elif isinstance(method, Mitigation):
        register_mitigation(method)
    else:
        raise BadOption(
            f"{type(method).__name__} is no benchmark (info, load, why_not, ask, natural, objective), "
            "localizer (name, component, why_not, scores) or mitigation (name, why_not, candidates)."
        )
