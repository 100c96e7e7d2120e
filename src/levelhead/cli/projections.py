"""`levelhead nsp`, `levelhead nli`, `levelhead sweep`: next sentences, inferences, and 76 ways to project
bias away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table, provenance

if TYPE_CHECKING:
    from levelhead.measures.measurement import Measurement
    from levelhead.studies.projections.sweep import SweepResult
    from levelhead.studies.projections.tables import Outcome

Triples = Annotated[
    str | None, typer.Option(help="A file of triples or hub:stereoset. Default: 170 that we wrote.")
]
Labels = Annotated[
    str | None, typer.Option(help='What outputs 0, 1, 2 mean, e.g. "contradiction,entailment,neutral".')
]
Ability = Annotated[
    str | None, typer.Option(help="SNLI file, folder or hub:snli. Default: 330 pairs that we wrote.")
]
Limit = Annotated[
    tuple[int, int] | None,
    typer.Option(metavar="N M", help="Ask N occupations in M contexts only; default 164 33."),
]
Words = Annotated[tuple[str, str], typer.Option(metavar="F M", help="The gendered words of the hypotheses.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the intervals.")]


@app.command()
@loads
def nsp(
    model: Annotated[str, typer.Argument(help="A model with a next-sentence head, e.g. lh:bert-mini.")],
    triples: Triples = None,
    likelihood: Annotated[
        bool, typer.Option(help="For causal models: judge sentences by their mean log-likelihood (ours).")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Which sentence does the model expect next? Stereotype score, LMS, ICAT, Strength and Distance."""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.probes.triples import load_triples
    from levelhead.scoring.pairs import ask_likelihood_triples, ask_nsp

    asked = load_triples(triples)
    loaded = load(model, **loading)
    asking = ask_likelihood_triples if likelihood else ask_nsp
    found = asking(loaded, asked, resampling=Resampling(seed=seed))[0]
    told = {
        **provenance(loaded, {asked.name: asked.fingerprint}),
        "triples": asked.name,
        "problems": asked.problems,
    }
    if json:
        print_json({**told, **found})
        return
    _print_measures(f"{model} on {len(asked.pairs)} triples ({asked.name})", found)


@app.command()
@loads
def nli(
    model: Annotated[str, typer.Argument(help="A three-way NLI classifier, e.g. lh:nli-mini.")],
    labels: Labels = None,
    ability: Ability = None,
    limit: Limit = None,
    words: Words = ("woman", "man"),
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Does a classifier infer gender from occupation? Accuracy, parity, fairness, and plain ability."""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.probes.nli import ability_pairs, nli_probe
    from levelhead.scoring.pairs import ask_ability, ask_nli

    probe, able = nli_probe(*words, limit=limit), ability_pairs(ability)
    loaded = load(model, **loading)
    found = ask_nli(loaded, probe, labels=labels, resampling=Resampling(seed=seed))[0]
    found["ability"] = ask_ability(loaded, able, labels=labels)[0]
    hashes = {"occupation pairs": probe.fingerprint, able.name: able.fingerprint}
    told = {**provenance(loaded, hashes), "pairs": len(probe.pairs), "ability_set": able.name}
    if json:
        print_json({**told, **found})
        return
    _print_measures(f"{model} on {len(probe.pairs):,} occupation pairs; ability on {able.name}", found)


@app.command()
@loads
def sweep(
    model: Annotated[str, typer.Argument(help="A model with a next-sentence head, e.g. lh:bert-mini.")],
    nli: Annotated[str, typer.Option(help="An NLI classifier, e.g. lh:nli-mini.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="RUN", help="The run folder; resumed if there.")
    ],
    depth: Annotated[
        bool, typer.Option("--depth", help="Also search token projections from any layer on.")
    ] = False,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential", help="Fit each projection with the earlier ones on. Default: on the base."
        ),
    ] = False,
    pairs: Annotated[
        str,
        typer.Option(
            help="What the classifier's subspaces are fitted on: pairs, frames, single, or your own .tsv file."
        ),
    ] = "frames",
    triples: Triples = None,
    labels: Labels = None,
    ability: Ability = None,
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Project gender out of two models in 76 ways: what does each buy, what does it cost? Tables, recipes,
    verdicts."""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.probes.nli import ability_pairs, nli_probe
    from levelhead.probes.triples import load_triples
    from levelhead.results.folder import Run
    from levelhead.studies.projections.sweep import Sweep
    from levelhead.studies.projections.sweep import sweep as run_sweep

    plan = Sweep(
        triples=load_triples(triples),
        probe=nli_probe(limit=limit),
        ability=ability_pairs(ability),
        pairs=pairs,
        fit="sequential" if sequential else "base",
        labels=labels,
        depth=depth,
        resampling=Resampling(seed=seed),
    )
    first, second = load(model, **loading), load(nli, **loading)
    with Run.open(output, plan.settings(first, second), hashes=plan.hashes(first, second)) as run:
        result = run_sweep(first, second, plan, run)
    if json:
        print_json(_summary(result, output))
        return
    _print_sweep(result, second.layers, output)


def _print_measures(title: str, found: Mapping[str, Measurement]) -> None:
    rows = [
        (
            m.name,
            m.value,
            "-" if m.interval is None else f"{m.interval[0]:.3f} to {m.interval[1]:.3f}",
            m.n,
            m.neutral,
        )
        for m in found.values()
    ]
    print_table(title, ("measure", "value", "95 % interval", "n", "ideal"), rows, _unscored(found))


def _unscored(found: Mapping[str, Measurement]) -> str:
    reasons = {f"{reason}: {n}" for m in found.values() for reason, n in m.unscored.items()}
    return "Not scored: " + "; ".join(sorted(reasons)) if reasons else ""


def _summary(result: SweepResult, output: Path) -> dict[str, Any]:
    return {
        "run": str(output),
        "settings": [_told(o) for o in result.outcomes],
        "correlation": result.correlation,
        "observations": result.observations,
        "fairest_viable": _told(result.fairest),
        "depth": [_told(o) for o in result.deeper],
        "fairest_viable_overall": _told(result.fairest_overall),
    }


def _told(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    setting = outcome.setting
    return {"setting": setting.name, "code": setting.code, **outcome.values, "viable": outcome.viable}


def _print_sweep(result: SweepResult, layers: int, output: Path) -> None:
    from levelhead.studies.projections.tables import table5

    best = table5(result.outcomes, layers)
    columns = ("level", "strength", "distance", "fairness", "ability", "viable")
    print_table("Best of each level (Table 5)", columns, [[row[c] for c in columns] for row in best])
    rows = [
        (o["observation"], _holds(o), f"{o['agree']} of {o['cases']}", o["paper"])
        for o in result.observations
    ]
    print_table("The paper's observations on these models", ("observation", "holds", "here", "paper"), rows)
    rho = result.correlation
    p_value = rho.details.get("p_value")
    print(
        f"Strength and fairness, rank correlation: {rho}{'' if p_value is None else f', p = {p_value:.3g}'}"
    )
    for title, found in (("the paper's 74", result.fairest), ("all that was tried", result.fairest_overall)):
        told = "none" if found is None else f"{found.setting.name} (fairness {found['fairness']:.3f})"
        print(f"Fairest viable of {title}: {told}")
    print(f"Tables, recipes and all numbers: {output}")


def _holds(observation: Mapping[str, Any]) -> str:
    return {True: "true", False: "false", None: "no case"}[observation["holds"]]
