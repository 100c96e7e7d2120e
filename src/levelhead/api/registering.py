"""One way to make levelhead know a method of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.scoring.benchmarks.protocol import Benchmark, register_benchmark
from levelhead.scoring.objective import OwnObjective, register_objective
from levelhead.studies.localizing import catalog, settings
from levelhead.studies.localizing.protocol import Localizer, register_localizer
from levelhead.studies.mitigating import study
from levelhead.studies.mitigating.protocol import Mitigation, register_mitigation

SHIPPED = (catalog, settings, study)  # importing them names what ships, which no plug-in can be called


def register(method: Benchmark | Localizer | Mitigation | OwnObjective) -> None:
    """Let every command know a benchmark, a localizer, a mitigation or an objective of one's own
    (docs/own-methods.md).

    A measure, which is a function, is registered by `register_measure`.
    """
    if isinstance(method, Benchmark):
        register_benchmark(method)
    elif isinstance(method, Localizer):
        register_localizer(method)
    elif isinstance(method, Mitigation):
        register_mitigation(method)
    elif isinstance(method, OwnObjective):
        register_objective(method)
    else:
        raise BadOption(
            f"{type(method).__name__} is no benchmark (info, load, why_not, ask, natural, objective), "
            "localizer (name, component, why_not, scores), mitigation (name, why_not, candidates) or "
            "objective (name, why_not, objective)."
        )
