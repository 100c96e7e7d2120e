"""`levelhead nsp`, `levelhead nli`, `levelhead sweep`: next sentences, inferences, and 76 ways to project
bias away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import (
    Force,
    Json,
    Loading,
    Strict,
    app,
    loads,
    print_json,
    print_left_out,
    print_table,
    provenance,
    refuse_idle,
)
from levelhead.cli.endings import output_file
from levelhead.cli.grouped import Options
from levelhead.cli.measured import Output, write_items, write_measured
from levelhead.cli.options import Labels, Limit, LittleAsked, NextSentenceModel, RunFolder, Seed
from levelhead.cli.terminal import print_link
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.measures.measurement import Measurement
    from levelhead.probes.nli import NliProbe
    from levelhead.studies.projections.plan import Sweep

Triples = Annotated[
    str | None, typer.Option(help="A file of triples or hub:stereoset. Default: 170 that we wrote.")
]
Ability = Annotated[
    str | None, typer.Option(help="SNLI file, folder or hub:snli. Default: 330 pairs that we wrote.")
]
Occupations = Annotated[
    tuple[int, int] | None,
    typer.Option(metavar="N M", help="Ask N occupations in M contexts only; default 164 33."),
]
Words = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="F M", help="The gendered words of the hypotheses. Default: woman man."),
]
Probe = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Occupations, contexts and sentences of yours (docs/own-prompts.md)."),
]


_FLOOR = (
    "By chance: mean ± SD over random signs, context by context. Strength is a mean of the largest, so noise "
    "alone lies above 0: read what is beyond its floor."
)


@app.command()
@loads
def nsp(
    model: NextSentenceModel,
    triples: Triples = None,
    likelihood: Annotated[
        bool, typer.Option(help="For causal models: judge sentences by their mean log-likelihood (ours).")
    ] = False,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="With --likelihood: the context is a user's turn in the chat template."),
    ] = False,
    top: Annotated[
        float, typer.Option(help="Strength and Distance are means over this share of the pairs, the largest.")
    ] = 0.1,
    csv: Annotated[
        Path | None, output_file("Write the probabilities of every triple:", ".csv", names=("--csv",))
    ] = None,
    limit: Limit = None,
    quick: LittleAsked = False,
    out: Output = None,
    force: Force = False,
    strict: Strict = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Which sentence does the model expect next? Stereotype score, LMS, ICAT, Strength and Distance."""
    from levelhead.api.measured import NspSettings
    from levelhead.api.measured import nsp as measure
    from levelhead.models.model import load
    from levelhead.probes.triples import load_triples
    from levelhead.results.layout import TRIPLES_TABLE
    from levelhead.results.presets import QUICK_TRIPLES, asked_little

    refuse_idle(likelihood, "--likelihood", {"--chat": chat or None})
    probe = load_triples(triples, strict=strict).at_most(asked_little(quick, limit, QUICK_TRIPLES))
    loaded = load(model, **loading)
    result = measure(loaded, NspSettings(probe, likelihood, top, seed=seed, chat=chat))
    write_items(csv, TRIPLES_TABLE, result.triples, force)
    write_measured(out, list(result.measurements.values()), force)
    if json:
        data = {"triples": probe.name, "problems": probe.problems, "unusable": probe.unusable}
        print_json({**provenance(loaded, result.data), **data, **result.measurements})
        return
    form = ", through its chat template" if chat else ""
    _print_measures(f"{model} on {len(probe.pairs)} triples ({probe.name}){form}", result.measurements)
    print_left_out(probe.unusable)
    for reason, count in probe.problems.items():
        print(f"Without a twin, or odd: {reason} ({count})")
    if csv is not None:
        print(f"Every triple: {csv}")


@app.command()
@loads
def nli(
    model: Annotated[str, typer.Argument(help="A three-way NLI classifier, e.g. lh:nli-mini.")],
    labels: Labels = None,
    ability: Ability = None,
    limit: Occupations = None,
    words: Words = None,
    probe: Probe = None,
    out: Output = None,
    force: Force = False,
    strict: Strict = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Does a classifier infer gender from occupation? Accuracy, parity, fairness, and plain ability."""
    from levelhead.api.measured import NliSettings
    from levelhead.api.measured import nli as measure
    from levelhead.models.model import load
    from levelhead.probes.nli import ability_pairs

    inferences, able = _inferences(probe, words, limit), ability_pairs(ability, strict=strict)
    loaded = load(model, **loading)
    result = measure(loaded, NliSettings(inferences, able, labels=labels, seed=seed))
    write_measured(out, list(result.measurements.values()), force)
    if json:
        data = {"pairs": len(inferences.pairs), "probe": inferences.name, "ability_set": able.name}
        print_json(
            {**provenance(loaded, result.data), **data, "unusable": able.unusable, **result.measurements}
        )
        return
    asked = f"{len(inferences.pairs):,} occupation pairs ({inferences.name})"
    _print_measures(f"{model} on {asked}; ability on {able.name}", result.measurements)
    print_left_out(able.unusable)


def _inferences(file: Path | None, words: tuple[str, str] | None, limit: tuple[int, int] | None) -> NliProbe:
    """The pairs about occupations: ours, or those of a user's file."""
    from levelhead.probes.nli import load_nli_probe, nli_probe

    if file is None:
        return nli_probe(limit=limit) if words is None else nli_probe(*words, limit=limit)
    if words is not None:
        raise BadOption(
            f"--words came with --probe {file}. Write the words into the file: feminine, masculine."
        )
    return load_nli_probe(file, limit)


@dataclass(frozen=True)
class SweepOptions(Options):
    """What projections are fitted on, and what both models are asked."""

    depth: Annotated[
        bool, typer.Option("--depth", help="Also search token projections from any layer on.")
    ] = False
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential", help="Fit each projection with the earlier ones on. Default: on the base."
        ),
    ] = False
    pairs: Annotated[
        str,
        typer.Option(
            help="What the classifier's subspaces are fitted on: pairs, frames, single, or a .tsv file."
        ),
    ] = "frames"
    triples: Triples = None
    labels: Labels = None
    ability: Ability = None
    limit: Occupations = None
    probe: Probe = None
    strict: Strict = False
    seed: Seed = 0

    def plan(self) -> Sweep:
        """The sweep, with the items of its files."""
        from levelhead.measures.statistics import Resampling
        from levelhead.probes.nli import ability_pairs
        from levelhead.probes.triples import load_triples
        from levelhead.studies.projections.plan import Sweep

        return Sweep(
            triples=load_triples(self.triples, strict=self.strict),
            probe=_inferences(self.probe, None, self.limit),
            ability=ability_pairs(self.ability, strict=self.strict),
            pairs=self.pairs,
            strict=self.strict,
            fit="sequential" if self.sequential else "base",
            labels=self.labels,
            depth=self.depth,
            resampling=Resampling(seed=self.seed),
        )


@app.command()
@loads
def sweep(
    model: NextSentenceModel,
    nli: Annotated[str, typer.Option(help="An NLI classifier, e.g. lh:nli-mini.")],
    out: RunFolder,
    asked: SweepOptions,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Project gender out of two models in 76 ways: what does each buy, what does it cost?"""
    from levelhead.cli.printed import print_run
    from levelhead.models.model import load
    from levelhead.results.layout import SWEEP
    from levelhead.studies.projections.sweep import sweep as run_sweep

    plan = asked.plan()
    first, second = load(model, **loading), load(nli, **loading)
    with plan.open(out, first, second) as run:
        result = run_sweep(first, second, plan, run)
    if json:
        print_json(result.summary(out).to_json())
        return
    print_run(out)
    print(f"Tables, recipes and all numbers: {out}")
    print_link(out, SWEEP)
    print_left_out((*plan.triples.unusable, *plan.ability.unusable, *plan.unusable_pairs))


def _print_measures(title: str, measurements: Mapping[str, Measurement]) -> None:
    lines = [
        (
            m.name,
            m.value,
            "-" if m.interval is None else f"{m.interval[0]:.3f} to {m.interval[1]:.3f}",
            m.n,
            m.neutral,
            "-" if m.null is None else f"{m.null.floor:.3f} ± {m.null.spread:.3f}",
        )
        for m in measurements.values()
    ]
    note = _unscored(measurements)
    columns = ("measure", "value", "95 % interval", "n", "ideal", "by chance")
    shown = len(columns)
    if all(m.null is None for m in measurements.values()):
        shown -= 1  # nothing has a floor
    else:
        note = " ".join(filter(None, (_FLOOR, note)))
    print_table(title, columns[:shown], [line[:shown] for line in lines], note)


def _unscored(measurements: Mapping[str, Measurement]) -> str:
    reasons = {f"{reason}: {n}" for m in measurements.values() for reason, n in m.unscored.items()}
    return "Not scored: " + "; ".join(sorted(reasons)) if reasons else ""
