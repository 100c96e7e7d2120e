"""`levelhead heads`, `seat`, `lpbs`, `fluency`: which heads carry a bias, and the measures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from levelhead.cli.app import (
    Json,
    Loading,
    Strict,
    app,
    loads,
    print_json,
    print_left_out,
    print_table,
    provenance,
)

if TYPE_CHECKING:
    from levelhead.engine.readings import Pooling
    from levelhead.measures.measurement import Measurement
    from levelhead.probes.files import UnusableItem
    from levelhead.probes.lpbs import Kind, LpbsTemplates
    from levelhead.results.records.heads import CounterTest
    from levelhead.results.runs import HeadsRun

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Shipped (lh:bert-mini), hub name, folder or .gguf.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every draw.")]
_SHOWN = 5  # heads at either end of the ranking


@app.command()
@loads
def heads(
    name: ModelName,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="RUN", help="Folder for results and figures.")
    ],
    bias: Annotated[
        str, typer.Option(help="gender, race, or your word list (docs/own-words.md).")
    ] = "gender",
    contexts: Annotated[
        str, typer.Option(help="templates, a .txt or .jsonl file, a folder, or hub:NAME.")
    ] = "templates",
    experiments: Annotated[
        str, typer.Option(help="Of scores, ablation, counter, debias; separated by commas.")
    ] = "scores,ablation,counter",
    per_word: Annotated[
        int | None,
        typer.Option(help="Contexts a word. Default: 2 to 16 templates, 20 sentences of a corpus."),
    ] = None,
    sentences: Annotated[
        str | None,
        typer.Option(
            help="Stereotypes of the counter experiment: shipped, a .txt or .jsonl file, a folder, hub:NAME."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, help="With debias: how many of the most biased heads to remove.")
    ] = 3,
    text: Annotated[
        str | None,
        typer.Option(help="With debias: text for fluency, a .txt or .jsonl file, a folder, hub:NAME."),
    ] = None,
    null: Annotated[
        int, typer.Option(min=0, help="Twins without meaning to hold numbers against; 0: none.")
    ] = 19,
    trim: Annotated[bool, typer.Option("--trim", help="Cut X and Y to equal size.")] = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Find the attention heads that carry a bias, and check that they are the ones."""
    from levelhead.models.model import load
    from levelhead.report.figures.heads import write_figures
    from levelhead.studies.heads.settings import HeadsSettings
    from levelhead.studies.heads.study import heads as find_heads

    chosen = tuple(part.strip() for part in experiments.split(",") if part.strip())
    settings = HeadsSettings(
        bias,
        contexts,
        chosen,
        per_word,
        sentences,
        top=top,
        text=text,
        trim=trim,
        null=null,
        seed=seed,
    )
    model = load(name, **loading)
    run = find_heads(model, settings, out)
    figures = write_figures(out)
    if json:
        print_json(_json(run) | {"figures": [str(path) for path in figures]})
    else:
        _print_heads(run)


def _json(run: HeadsRun) -> dict[str, Any]:
    """What a program wants to know of a run; experiments that were not asked for are left out."""
    everything = {
        "run": str(run.folder),
        "model": run.model,
        "words": run.words,
        "seat": run.seat,
        "heads": len(run.scores),
        "biased": sum(score.biased for score in run.scores),
        "most_biased": run.ranked[:_SHOWN],
        "most_anti_biased": run.ranked[: -_SHOWN - 1 : -1],
        "agreement": run.agreement,
        "contrasts": run.contrasts,
        "counter": run.counter,
        "counter_sides": run.counter_sides,
        "strategies": run.strategies,
        "random_strategies": run.random_strategies,
        "verdict": run.verdict,
        "top_sweep": run.top_sweep,
        "learned": run.learned,
        "learned_gates": run.learned_gates,
        "tradeoffs": run.tradeoffs,
    }
    return {name: value for name, value in everything.items() if value not in (None, ())}


def _print_heads(run: HeadsRun) -> None:
    words, seat = run.words, run.seat
    if words is not None:
        print(f"{run.model}, {words.test}: {words.words} words in {words.contexts} contexts")
        if words.missing:
            shown = ", ".join(words.missing[:10]) + (" ..." if len(words.missing) > 10 else "")
            print(f"{len(words.missing)} words have no context and do not count: {shown}")
    if seat is not None:
        p = seat.measurement.details["p_value"]
        print(f"SEAT {_valued(seat.measurement)}, p {p:.2g} (0: no association, ±2 the most)")
    print(f"{sum(score.biased for score in run.scores)} of {len(run.scores)} heads add to it (b > 0)")
    ends = dict.fromkeys((*run.ranked[:_SHOWN], *run.ranked[-_SHOWN:]))
    lines = [(score.head, score.score, score.stderr, score.q) for score in ends]
    note = "b: how |SEAT| grows with the head's gate. Below 0 the head works against the bias."
    print_table("Most biased and most anti-biased heads", ("head", "b", "stderr", "q"), lines, note)
    if run.agreement is not None:
        print(f"Ablation: {_agreement(run.agreement)}")
    _print_counter(run)
    print_debias(run)
    print(f"Results and figures: {run.folder}")


def print_debias(run: HeadsRun) -> None:
    """What removing heads bought and cost (Table 1), more and more of them (Table 3), and learned gates."""
    tried = [(each.strategy, each.measurement) for each in run.strategies]
    tried += [(each.strategy, each.measurement) for each in run.random_strategies]
    _print_strategies("What removing heads buys and costs", tried)
    swept = [(each.strategy, each.measurement) for each in run.top_sweep]
    _print_strategies("Removing more and more of the most biased heads", swept)
    if (verdict := run.verdict) is not None:
        holds = {True: "holds", False: "does not hold", None: "could not be tested"}[verdict.holds]
        better = f"{verdict.random_lower} of {verdict.seeds} random draws do better"
        print(f"That {verdict.claim} {holds} here ({better}).")
    for trade in run.tradeoffs:
        reached = f"|SEAT| {trade.abs_seat:.3f} at {trade.ratio:.3f} x the perplexity"
        rival = trade.rival
        beside = "" if rival is None else f"; {rival.strategy}: {rival.abs_seat:.3f} at {rival.ratio:.3f}"
        print(f"Gates {trade.strategy}: {reached}{beside}")


def _print_strategies(title: str, measured: Sequence[tuple[str, Measurement]]) -> None:
    """A line a strategy, a column a measure; what no strategy has is named once, with its reason."""
    cells = {(strategy, each.name): each for strategy, each in measured}
    known = list(dict.fromkeys(each.name for _, each in measured if each.value is not None))
    if known:
        lines = [
            [strategy, *(_shown(cells.get((strategy, name))) for name in known)]
            for strategy in dict.fromkeys(strategy for strategy, _ in measured)
        ]
        print_table(title, ["strategy", *known], lines)
    missing = {each.name: each.reason for _, each in measured if each.name not in known}
    for reason in dict.fromkeys(missing.values()):
        print(f"Not measured: {', '.join(name for name, own in missing.items() if own == reason)} ({reason})")


def _shown(measured: Measurement | None) -> str:
    if measured is None:
        return ""
    return "not measured" if measured.value is None else _valued(measured)


def _valued(measured: Measurement) -> str:
    interval = measured.interval
    return f"{measured.value:.3f}" + ("" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]")


def _agreement(rho: Measurement) -> str:
    if rho.value is None:
        return f"not measured ({rho.reason})"
    if rho.value >= 0.7:
        verdict = "the scores rank heads as removal does"
    elif rho.value >= 0.3:
        verdict = "the scores agree only in part"
    else:
        verdict = "the scores do not tell what removal does: trust the removals"
    return f"Spearman's rho {_valued(rho)} between b and the drop of |SEAT| on removal; {verdict}"


def _print_counter(run: HeadsRun) -> None:
    """The contrast of biased and regular heads, which may claim something; its parts and the paper's t-tests
    are numbers."""
    from levelhead.report.claims import judged, sentence
    from levelhead.report.counter import contrast_claim, contrast_parts

    if (claim := contrast_claim(run)) is not None:
        print(f"Counter-stereotypes: {sentence(claim, *judged([claim]))}")
    for part in contrast_parts(run):
        print(f"  {part}")
    for test in run.counter:
        print(f"  The paper's t-test, {test.group} heads: {counter_in_words(test)}")


def counter_in_words(test: CounterTest) -> str:
    """A t-test of the counter-stereotype experiment as numbers: its p counts sentences as independent."""
    measured = test.measurement
    if measured.value is None:
        return f"not measured ({measured.reason})"
    t, p = measured.details["t"], measured.details["p_value"]
    if t is None or p is None:
        return f"attention does not differ at all (N = {measured.n})"
    return f"t {t:.2f}, one-tailed p {p:.3g}, N = {measured.n}, if sentences were independent"


@app.command()
@loads
def seat(
    name: ModelName,
    test: Annotated[
        Path, typer.Argument(metavar="TEST.jsonl", help="targ1, targ2, attr1, attr2, as May et al. 2019.")
    ],
    pooling: Annotated[
        str,
        typer.Option(
            help="mean: without special tokens (ours); mean-special: with them (Meade et al. 2022); "
            "cls, last: one token (May et al. 2019, BERT and GPT)."
        ),
    ] = "mean",
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Sentence-level SEAT of a test file; published versions differ in how a sentence becomes a vector."""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.results.folder import file_hash
    from levelhead.scoring.seat import sentence_seat

    model = load(name, **loading)
    measured = sentence_seat(model, test, cast("Pooling", pooling), resampling=Resampling(seed=seed))
    if json:
        print_json({**provenance(model, {str(test): file_hash(test)}), **measured.to_json()})
    else:
        follows = measured.settings["follows"]
        print(f"{model.name}, {test.stem}: {measured}{_with_p(measured)}, pooling {pooling} ({follows})")


def _with_p(measured: Measurement) -> str:
    p = measured.details.get("p_value")
    return "" if p is None else f", p {p:.2g}"


@app.command()
@loads
def lpbs(
    name: ModelName,
    tests: Annotated[
        str,
        typer.Option(
            help="Word lists, separated by commas: career, math, science, gender, race, or your files."
        ),
    ] = "career,math,science",
    templates: Annotated[
        str | None,
        typer.Option(
            help="topic, person, trait, words, or your file, one a line (docs/own-words.md). "
            "Default: topic for the first three, else words."
        ),
    ] = None,
    strict: Strict = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Log-probability bias scores of a masked model: do the words of X raise A over B more than Y's do?"""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.probes.words import load_words
    from levelhead.scoring.lpbs import ask_lpbs

    chosen = _templates(templates, strict)
    model = load(name, **loading)
    resampling = Resampling(seed=seed)
    measurements = [
        (test, ask_lpbs(model, test, templates=chosen, resampling=resampling)[0])
        for test in [load_words(part.strip()) for part in tests.split(",") if part.strip()]
    ]
    if json:
        print_json(
            [
                {
                    **provenance(model, {test.name: test.fingerprint()}),
                    "test": test.name,
                    **measured.to_json(),
                    "unusable": _left_out(chosen),
                }
                for test, measured in measurements
            ]
        )
        return
    for test, measured in measurements:
        print(f"{test.labels[2]} against {test.labels[3]}: {measured}{_with_p(measured)}")
    print_left_out(_left_out(chosen))


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
    text: Annotated[
        str | None, typer.Option(help="A .txt or .jsonl file, a folder, or hub:NAME. Default: ours.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many sentences of the text.")] = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Pseudo-perplexity of a masked model, perplexity of a causal one. Lower is better."""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.probes.sentences import fluency_text
    from levelhead.results.folder import text_hash
    from levelhead.scoring.fluency import ask_fluency

    sentences = None if text is None else fluency_text(text)[:limit]
    model = load(name, **loading)
    measured = ask_fluency(model, sentences, resampling=Resampling(seed=seed))[0]
    if json:
        data = {text or "shipped": text_hash(sentences or fluency_text())}
        print_json({**provenance(model, data), **measured.to_json(), "limit": limit})
    else:
        print(f"{model.name}: {measured}")
