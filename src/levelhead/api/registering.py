"""One way to make levelhead know a method of a user's own."""

from __future__ import annotations

from levelhead.errors import BadOption
from levelhead.scoring.benchmarks.protocol import Benchmark, register_benchmark
from levelhead.scoring.objective import OBJECTIVES, OwnObjective
from levelhead.scoring.scorers import catalog as scorers
from levelhead.scoring.scorers.protocol import Scorer, register_scorer
from levelhead.studies.atlas import catalog, questions
from levelhead.studies.atlas.protocol import Localizer, register_localizer
from levelhead.studies.mitigate import run
from levelhead.studies.mitigate.protocol import Mitigation, register_mitigation

SHIPPED = (
    catalog,
    questions,
    run,
    scorers,
)  # importing them names what ships, which no plug-in can be called


def register(method: Benchmark | Localizer | Mitigation | OwnObjective | Scorer) -> None:
    """Let every command know a benchmark, a localizer, a mitigation, an objective or a scorer of one's own
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
        OBJECTIVES.register(method)
    elif isinstance(method, Scorer):
        register_scorer(method)
    else:
        raise BadOption(
            f"{type(method).__name__} is no benchmark (info, load, why_not, ask, natural, objective), "
            "localizer (name, component, why_not, scores), mitigation (name, why_not, candidates), "
            "objective (name, why_not, objective) or scorer (name, unit, scores)."
        )
