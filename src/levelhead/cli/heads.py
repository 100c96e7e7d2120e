"""`levelhead heads`, `seat`, `lpbs`, `fluency`: which heads carry a bias, and the measures behind it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table, provenance

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
    trim: Annotated[bool, typer.Option("--trim", help="Cut X and Y to equal size.")] = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Find the attention heads that carry a bias, and check that they are the ones."""
    from levelhead.models.model import load
    from levelhead.report.figures.heads import write_figures
    from levelhead.studies.heads.study import HeadsSettings
    from levelhead.studies.heads.study import heads as find_heads

    chosen = tuple(part.strip() for part in experiments.split(",") if part.strip())
    settings = HeadsSettings(bias, contexts, chosen, per_word, sentences, top=top, trim=trim, seed=seed)
    model = load(name, **loading)
    run = find_heads(model, settings, out)
    told = _told(run)
    told["figures"] = [str(path) for path in write_figures(out)]
    print_json(told) if json else _print_heads(told)


def _told(run: Any) -> dict[str, Any]:
    """What a reader wants to know of a run."""
    from levelhead.report.headline import counter_sides

    ranked = sorted(run.results["scores"], key=lambda row: row["rank"])
    known: dict[str, Any] = {
        "run": str(run.folder),
        "model": run.settings["model"],
        "words": run.results["words"][0],
        "seat": run.results["seat"][0],
        "heads": len(ranked),
        "biased": sum(row["score"] > 0 for row in ranked),
        "most_biased": ranked[:_SHOWN],
        "most_anti_biased": ranked[: -_SHOWN - 1 : -1],
    }
    for key in ("ablation", "counter"):
        if key in run.results:
            known[key] = run.results[key]
    known["counter_sides"] = counter_sides(run).strip()
    debias = {key: rows for key, rows in run.results.items() if key.startswith("debias/")}
    return known | ({"debias": debias} if debias else {})


def _print_heads(told: dict[str, Any]) -> None:
    words, seat = told["words"], told["seat"]
    print(f"{told['model']}, {words['test']}: {words['words']} words in {words['contexts']} contexts")
    if words["missing"]:
        shown = ", ".join(words["missing"][:10]) + (" ..." if len(words["missing"]) > 10 else "")
        print(f"{len(words['missing'])} words have no context and do not count: {shown}")
    print(f"SEAT {_valued(seat)}, p {seat['details']['p_value']:.2g} (0: no association, ±2 the most)")
    print(f"{told['biased']} of {told['heads']} heads add to it (b > 0)")
    rows = [
        (f"{r['layer']}-{r['head']}", r["score"], r["stderr"], r["q"])
        for r in (*told["most_biased"], *reversed(told["most_anti_biased"]))
    ]
    note = "b: how |SEAT| grows with the head's gate. Below 0 the head works against the bias."
    print_table("Most biased and most anti-biased heads", ("head", "b", "stderr", "q"), rows, note)
    for row in told.get("ablation", []):
        print(f"Ablation: {_agreement(row)}")
    for row in told.get("counter", []):
        print(f"Counter-stereotypes, {row['group']} heads: {counter_in_words(row)}")
    if told["counter_sides"]:
        print(f"  {told['counter_sides']}")
    print_debias(told.get("debias", {}))
    print(f"Results and figures: {told['run']}")


def print_debias(debias: dict[str, Any]) -> None:
    """What removing heads bought and cost (Table 1), more and more of them (Table 3), the claim, and learned
    gates."""
    _print_strategies(
        "What removing heads buys and costs",
        [*debias.get("debias/table", []), *debias.get("debias/random", [])],
    )
    _print_strategies("Removing more and more of the most biased heads", debias.get("debias/sweep", []))
    for row in debias.get("debias/verdict", []):
        holds = {True: "holds", False: "does not hold", None: "could not be tested"}[row["holds"]]
        print(
            f"That {row['claim']} {holds} here ({row['random_lower']} of {row['seeds']} random draws do better)."
        )
    for row in debias.get("debias/tradeoff", []):
        rival = (
            f"; {row['rival']}: {row['rival_abs_seat']:.3f} at {row['rival_ratio']:.3f}"
            if "rival" in row
            else ""
        )
        print(
            f"Gates {row['strategy']}: |SEAT| {row['abs_seat']:.3f} at {row['ratio']:.3f} x the perplexity{rival}"
        )


def _print_strategies(title: str, rows: list[dict[str, Any]]) -> None:
    """A row a strategy, a column a measure; what no strategy has is said once, with its reason."""
    found = {(row["strategy"], row["measure"]): row for row in rows}
    known = list(dict.fromkeys(row["measure"] for row in rows if row["value"] is not None))
    if known:
        cells = [
            [name, *(_shown(found.get((name, measure))) for measure in known)]
            for name in dict.fromkeys(strategy for strategy, _ in found)
        ]
        print_table(title, ["strategy", *known], cells)
    why = {row["measure"]: row["reason"] for row in rows if row["measure"] not in known}
    for reason in dict.fromkeys(why.values()):
        print(f"Not measured: {', '.join(m for m, own in why.items() if own == reason)} ({reason})")


def _shown(row: dict[str, Any] | None) -> str:
    return "" if row is None else _valued(row) if row["value"] is not None else "not measured"


def _valued(row: dict[str, Any]) -> str:
    between = "" if row["interval"] is None else f" [{row['interval'][0]:.3f}, {row['interval'][1]:.3f}]"
    return f"{row['value']:.3f}{between}"


def _agreement(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return f"not measured ({row['reason']})"
    verdict = (
        "the scores rank heads as removal does" if row["value"] >= 0.7 else "the scores agree only in part"
    )
    if row["value"] < 0.3:
        verdict = "the scores do not tell what removal does: trust the removals"
    return f"Spearman's rho {_valued(row)} between b and the drop of |SEAT| on removal; {verdict}"


def counter_in_words(row: dict[str, Any]) -> str:
    """A t-test of the counter-stereotype experiment as a sentence that claims no more than it shows."""
    if row["value"] is None:
        return f"not measured ({row['reason']})"
    t, p = row["details"]["t"], row["details"]["p_value"]
    if t is None:
        return f"attention does not differ at all (N = {row['n']})"
    fewer = p < 0.05
    said = "attention falls when the stereotype is turned" if fewer else "no sign that attention falls"
    if row["group"] == "biased" and not fewer:
        said += "; the paper's claim does not hold here"
    if row["group"] == "regular" and fewer:
        said += ", although these heads have b <= 0"
    return f"{said} (t {t:.2f}, one-tailed p {p:.3g}, N = {row['n']})"


@app.command()
@loads
def seat(
    name: ModelName,
    test: Annotated[
        Path, typer.Argument(metavar="TEST.jsonl", help="targ1, targ2, attr1, attr2, as May et al. 2019.")
    ],
    pooling: Annotated[str, typer.Option(help="mean, cls or last token.")] = "mean",
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """The original sentence-level SEAT of a test file."""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.results.folder import file_hash
    from levelhead.scoring.seat import sentence_seat

    model = load(name, **loading)
    found = sentence_seat(model, test, pooling, resampling=Resampling(seed=seed))  # type: ignore[arg-type]
    if json:
        print_json({**provenance(model, {str(test): file_hash(test)}), **found.to_json()})
        return
    p = found.details.get("p_value")
    print(
        f"{model.name}, {test.stem}: {found}" + ("" if p is None else f", p {p:.2g}") + f", pooling {pooling}"
    )


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
        typer.Option(help="topic, person, trait or words. Default: topic for the first three, else words."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Log-probability bias scores of a masked model: do the words of X raise A over B more than those of
    Y?"""
    from levelhead.measures.statistics import Resampling
    from levelhead.models.model import load
    from levelhead.probes.words import load_words
    from levelhead.scoring.lpbs import ask_lpbs

    model = load(name, **loading)
    asked = [load_words(part.strip()) for part in tests.split(",") if part.strip()]
    options: Any = {"kind": templates, "resampling": Resampling(seed=seed)}
    found = [(test, ask_lpbs(model, test, **options)[0]) for test in asked]
    if json:
        about = [provenance(model, {test.name: test.fingerprint()}) for test, _ in found]
        print_json(
            [{**told, "test": t.name, **m.to_json()} for told, (t, m) in zip(about, found, strict=True)]
        )
        return
    for test, measured in found:
        p = measured.details.get("p_value")
        print(
            f"{test.labels[2]} against {test.labels[3]}: {measured}" + ("" if p is None else f", p {p:.2g}")
        )


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
    from levelhead.probes.corpus import corpus_sentences
    from levelhead.probes.sentences import fluency_sentences
    from levelhead.results.folder import text_hash
    from levelhead.scoring.fluency import ask_fluency

    sentences = None if text is None else list(islice(corpus_sentences(text), limit))
    model = load(name, **loading)
    found = ask_fluency(model, sentences, resampling=Resampling(seed=seed))[0]
    if json:
        data = {text or "shipped": text_hash(sentences or fluency_sentences())}
        print_json({**provenance(model, data), **found.to_json(), "limit": limit})
        return
    print(f"{model.name}: {found}")
