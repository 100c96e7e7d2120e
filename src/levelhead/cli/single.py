"""`levelhead seat`, `lpbs`, `fluency`: single measures of one model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

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
    provenance,
    refuse_idle,
)
from levelhead.cli.endings import output_file
from levelhead.cli.measured import Output, end_measured, write_items, write_measured
from levelhead.cli.options import Biases, FluencyText, Limit, LittleAsked, ModelName, PerWord, Seed
from levelhead.cli.preflight import listed

if TYPE_CHECKING:
    from levelhead.engine.readings import Pooling
    from levelhead.measures.measurement import Measurement
    from levelhead.probes.files import UnusableItem
    from levelhead.probes.lpbs import Kind, LpbsTemplates


@app.command()
@loads
def seat(
    name: ModelName,
    test: Annotated[
        str,
        typer.Argument(
            metavar="LIST|TEST.jsonl",
            help="A word list (gender, race, your file), or sentences as May et al. 2019 publish them.",
        ),
    ] = "gender",
    pooling: Annotated[
        str,
        typer.Option(
            help="Of sentences. mean: without special tokens (ours); mean-special: with them (Meade et al. "
            "2022); cls, last: one token (May et al. 2019, BERT and GPT)."
        ),
    ] = "mean",
    per_word: PerWord = None,
    quick: LittleAsked = False,
    csv: Annotated[
        Path | None, output_file("Write the association of every target word:", ".csv", names=("--csv",))
    ] = None,
    out: Output = None,
    force: Force = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """SEAT of a word list in our templates, or of the sentences of a test file."""
    from levelhead.api.measured import SeatSettings
    from levelhead.api.measured import seat as measure
    from levelhead.models.model import load
    from levelhead.results.layout import ASSOCIATIONS_TABLE
    from levelhead.results.presets import QUICK_CONTEXTS, asked_little

    sentences = Path(test).suffix == ".jsonl"
    refuse_idle(
        not sentences, "a word list", {"--per-word": per_word, "--quick": quick or None, "--csv": csv}
    )
    if sentences:
        settings = SeatSettings(sentences=test, pooling=cast("Pooling", pooling), seed=seed)
    else:
        contexts = asked_little(quick, per_word, QUICK_CONTEXTS)
        settings = SeatSettings(test, per_word=contexts, seed=seed, each_word=csv is not None)
    model = load(name, **loading)
    result = measure(model, settings)
    measured = result.measurement
    write_items(csv, ASSOCIATIONS_TABLE, result.words, force)
    write_measured(out, [measured], force)
    if json:
        print_json({**provenance(model, result.data), **measured.to_json()})
    else:
        follows = f", pooling {pooling} ({measured.settings['follows']})" if sentences else ""
        print(f"{model.name}, {Path(test).stem}: {measured}{_with_p(measured)}{follows}")
    end_measured([measured])


def _with_p(measured: Measurement) -> str:
    p = measured.p_value
    return "" if p is None else f", p {p:.2g}"


@app.command()
@loads
def lpbs(
    name: ModelName,
    bias: Biases = "career,math,science",
    templates: Annotated[
        str | None,
        typer.Option(
            help="topic, person, trait, words, or your file, one a line (docs/own-words.md). "
            "Default: topic for the first three, else words."
        ),
    ] = None,
    out: Output = None,
    force: Force = False,
    strict: Strict = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Log-probability bias scores of a masked model: do the words of X raise A over B more than Y's do?"""
    from levelhead.api.measured import LpbsSettings
    from levelhead.api.measured import lpbs as measure
    from levelhead.models.model import load
    from levelhead.probes.words import load_words

    chosen = _templates(templates, strict)
    tests = {test.name: test for test in map(load_words, listed(bias))}
    model = load(name, **loading)
    result = measure(model, LpbsSettings(tuple(tests.values()), chosen, seed=seed))
    write_measured(
        out, [replace(each, name=f"lpbs {test}") for test, each in result.measurements.items()], force
    )
    if json:
        left_out = {"unusable": _left_out(chosen)}
        print_json(
            [
                {**provenance(model, {test: result.data[test]}), "test": test} | measured.to_json() | left_out
                for test, measured in result.measurements.items()
            ]
        )
    else:
        for test, measured in result.measurements.items():
            x, y = tests[test].labels[2:]
            print(f"{x} against {y}: {measured}{_with_p(measured)}")
        print_left_out(_left_out(chosen))
    end_measured(list(result.measurements.values()))


def _templates(given: str | None, strict: bool) -> Kind | LpbsTemplates | None:
    """A kind of shipped templates by its name, else those of a file."""
    from levelhead.probes.lpbs import Kind, load_lpbs_templates

    if given is None or given in get_args(Kind):
        return cast("Kind | None", given)
    return load_lpbs_templates(given, strict=strict)


def _left_out(templates: Kind | LpbsTemplates | None) -> tuple[UnusableItem, ...]:
    return () if templates is None or isinstance(templates, str) else templates.unusable


@app.command()
@loads
def fluency(
    name: ModelName,
    text: FluencyText = None,
    limit: Limit = None,
    out: Output = None,
    force: Force = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Pseudo-perplexity of a masked model, perplexity of a causal one. Lower is better."""
    from levelhead.api.measured import FLUENCY_TEXT, FluencySettings
    from levelhead.api.measured import fluency as measure
    from levelhead.models.model import load

    refuse_idle(text is not None, "--text", {"--limit": limit})
    model = load(name, **loading)
    result = measure(model, FluencySettings(text, limit, seed=seed))
    measured = result.measurement
    write_measured(out, [measured], force)
    if json:
        data = {text or "shipped": result.data[FLUENCY_TEXT]}
        print_json({**provenance(model, data), **measured.to_json(), "limit": limit})
    else:
        print(f"{model.name}: {measured}")
    end_measured([measured])
