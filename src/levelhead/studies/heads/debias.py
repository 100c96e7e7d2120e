"""Targeted debiasing: what removing, amplifying or learning gates buys and what it costs (SPEC A7; Tables 1
and 3).

Rows go into a run of the heads study, under these keys:

    debias/table     base, top-k, bottom-k, all, amplify-bottom-k: SEAT, LPBS, fluency and its paired change
    debias/random    random-k and random-all, mean and standard deviation over seeds
    debias/verdict   whether top-k lowers |SEAT| more than random heads do
    debias/sweep     top-k for rising k, up to every head with b > 0
    debias/learned   gates in [0, 2] that minimize |SEAT| under bounds on fluency loss (studies/heads/learned_gates.py)
    debias/tradeoff  learned gates against the best top-k that costs no more

Sentences of even number serve for learning, those of odd number for every fluency in these tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import mean_sd
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.words import WordTest
from levelhead.results.folder import Row, Run
from levelhead.scoring.seat import ask_seat
from levelhead.studies.heads.learned_gates import LearnedGates, LearnSettings, learn_gates, sample_contexts
from levelhead.studies.heads.strategies import (
    Bench,
    DebiasSettings,
    Doubles,
    Measured,
    Strategy,
    drawn,
    strategies,
    sweep,
    top,
)

__all__ = ["DebiasSettings", "debias", "tradeoff", "verdict"]


def debias(
    model: Model,
    test: WordTest,
    contexts: Sequence[Context],
    scores: Doubles,
    run: Run,
    settings: DebiasSettings,
) -> None:
    """Try every strategy and write its rows into the run; what a killed run has already is not computed
    again."""
    if scores.shape != (model.layers, model.heads) or not np.isfinite(scores).all():
        raise BadProbe(
            f"Scores {scores.shape} came; {model.name} needs finite ones [{model.layers}, {model.heads}]."
        )
    bench = Bench(model, test, contexts, settings)
    table = run.result("debias/table", lambda: bench.rows(strategies(model, scores, settings)))
    chance = run.result("debias/random", lambda: _random(bench, scores))
    run.result("debias/verdict", lambda: verdict(table, chance, settings.k))
    swept = run.result(
        "debias/sweep", lambda: bench.rows([top(model, scores, k) for k in sweep(scores, settings)])
    )
    learn = settings.learn
    if learn is not None:
        learned = run.result("debias/learned", lambda: _learned(bench, scores, learn))
        run.result("debias/tradeoff", lambda: tradeoff(learned, swept))


# ---- random heads


def _random(bench: Bench, scores: Doubles) -> list[Row]:
    """random-k and random-all: mean and standard deviation over seeds of every measure."""
    settings, model = bench.settings, bench.model
    seeds = [settings.seed + i for i in range(settings.seeds)]
    biased = int((scores > 0).sum())
    rows: list[Row] = []
    plans = (
        (f"random-{settings.k}", settings.k, seeds),
        ("random-all", biased, seeds[: settings.costly_seeds]),
    )
    for name, count, some in plans:
        tried = [strategy.variant for strategy in drawn(model, name, count, some)]
        few = tried[: settings.costly_seeds]
        found: list[Measured] = [{"seat": seat} for seat in bench.seats(tried, intervals=False)]
        for part in (bench.lpbs(few), bench.fluency(few)):
            for measured, more in zip(found, part, strict=False):
                measured |= more
        rows += _over_seeds(name, count, found)
    return rows


def _over_seeds(name: str, count: int, found: Sequence[Measured]) -> list[Row]:
    rows: list[Row] = []
    about = {"study": "heads", "strategy": name, "masked": count, "heads": []}
    for measure in found[0]:
        values = [m[measure].value for m in found if measure in m]
        known = [value for value in values if value is not None]
        whole = (
            Measurement.missing(measure, found[0][measure].reason) if not known else mean_sd(measure, known)
        )
        row = {**about, "measure": measure, **whole.to_json(), "values": values}
        if measure == "seat" and known:
            row["mean_abs"] = float(np.abs(known).mean())
        rows.append(row)
    return rows


def verdict(table: Sequence[Row], chance: Sequence[Row], k: int) -> Row:
    """The claim of the paper, true or not: top-k lowers |SEAT| more than random heads do."""
    seats = {row["strategy"]: row for row in (*table, *chance) if row["measure"] == "seat"}
    base, reached = (
        None if (value := seats[name]["value"]) is None else abs(value) for name in ("base", f"top-{k}")
    )
    drawn = seats[f"random-{k}"]
    told: Row = {
        "study": "heads",
        "claim": f"removing the top {k} lowers |SEAT| more than {k} random heads do",
    }
    told |= {"base": base, "top": reached, "random_mean": drawn.get("mean_abs"), "seeds": drawn["n"]}
    if base is None or reached is None or "mean_abs" not in drawn:
        return {**told, "holds": None, "random_lower": None}
    lower = sum(abs(value) < reached for value in drawn["values"] if value is not None)
    return {**told, "holds": reached < min(base, drawn["mean_abs"]), "random_lower": lower}


# ---- learned gates


def _learned(bench: Bench, scores: Doubles, settings: LearnSettings) -> list[Row]:
    """Learned gates for every bound, with base and top-k beside them; also SEAT on the contexts not learned
    on."""
    if not bench.model.abilities & {"mlm", "causal"}:
        reason = f"{bench.model.name} predicts no tokens, so fluency cannot be bounded"
        return [{"study": "heads", "strategy": "learned", **Measurement.missing("seat", reason).to_json()}]
    model = bench.model
    found = learn_gates(model, bench.test, bench.contexts, bench.learning, settings)
    chosen = [Strategy("base", ()), top(model, scores, bench.settings.k)]
    chosen += [Strategy(f"learned, at most {point.bound:g}", point.variant(model)) for point in found]
    rows = bench.rows(chosen)
    rows += _unseen(bench, chosen, settings)
    told = {f"learned, at most {point.bound:g}": _of_point(point) for point in found}
    return [{**row, **told.get(row["strategy"], {})} for row in rows]


def _unseen(bench: Bench, chosen: Sequence[Strategy], settings: LearnSettings) -> list[Row]:
    used = {
        (c.word, c.text) for c in sample_contexts(bench.test, bench.contexts, settings.words, settings.seed)
    }
    unseen = [context for context in bench.contexts if (context.word, context.text) not in used]
    if {context.group for context in unseen} != set("ABXY"):
        return []
    variants = [strategy.variant for strategy in chosen]
    seats = ask_seat(bench.model, bench.test, unseen, variants, resampling=bench.resampling, intervals=False)
    return [
        {**strategy.row(), "measure": "seat", "contexts": "not learned on", **seat.to_json()}
        for strategy, seat in zip(chosen, seats, strict=True)
    ]


def _of_point(point: LearnedGates) -> Row:
    return {
        "bound": point.bound,
        "gates": np.round(point.values, 6).tolist(),
        "steps": point.steps,
        "learned_on": {"seat": point.seat, "ratio": point.ratio, "seat_at_start": point.start},
    }


def tradeoff(learned: Sequence[Mapping[str, Any]], swept: Sequence[Mapping[str, Any]]) -> list[Row]:
    """For each bound: |SEAT| of the learned gates against the best top-k whose fluency loss is no larger.

    Both are measured on all contexts and on sentences that were not learned on. k = 0, the untouched model,
    counts.
    """
    reached, others = _by_strategy(learned), _by_strategy(swept)
    rows: list[Row] = []
    for name, (seat, ratio) in reached.items():
        if not name.startswith("learned"):
            continue
        rivals = [(abs(s), r, other) for other, (s, r) in others.items() if r <= max(ratio, 1.0)]
        told: Row = {"study": "heads", "strategy": name, "abs_seat": abs(seat), "ratio": ratio}
        if rivals:
            best = min(rivals)
            told |= {
                "rival": best[2],
                "rival_abs_seat": best[0],
                "rival_ratio": best[1],
                "beats": abs(seat) < best[0],
            }
        rows.append(told)
    return rows


def _by_strategy(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """(SEAT, perplexity ratio) of every strategy that has both."""
    whole = [row for row in rows if "contexts" not in row and row.get("value") is not None]
    seats = {row["strategy"]: row["value"] for row in whole if row.get("measure") == "seat"}
    ratios = {row["strategy"]: row["value"] for row in whole if row.get("measure") == "fluency change"}
    return {name: (seat, ratios[name]) for name, seat in seats.items() if name in ratios}
