"""The chapter of the heads study: where the bias sits, and whether the scores tell the truth."""

from __future__ import annotations

from dataclasses import replace

from levelhead.report.blocks import Block, Drawn, HeadCell, HeadMap, Section, Shown
from levelhead.report.charts import heads as charts
from levelhead.report.contents import Contents, arcs
from levelhead.report.glossary import measure_of
from levelhead.report.tables import Table, digits_of, measured, number, probability, shown, words
from levelhead.results.folder import Row


def heads_section(contents: Contents) -> Section | None:
    """Where the bias sits: the map, its arcs, the distribution, and whether the scores tell the truth."""
    scores = contents.rows("scores", "heads")
    if not scores:
        return None
    blocks: list[Block] = [head_map(scores, arcs(contents)), Drawn([charts.distribution(scores)])]
    removals = contents.matching("ablation/", "heads")
    agreement = contents.rows("ablation", "heads")
    if removals:
        blocks.append(Drawn([charts.ablation(scores, removals)]))
    blocks += [Shown(_agreement_table(row)) for row in agreement]
    groups = contents.rows("counter", "heads")
    if known := [row for row in groups if row["value"] is not None]:
        blocks.append(Drawn([charts.counter(known)]))
    if groups:
        labels = contents.rows("words", "heads")[0]["labels"]
        blocks.append(Shown(_counter_table(groups, contents.rows("counter/sides", "heads"), labels)))
    blocks.append(Shown(_scores_table(scores, removals)))
    blocks += _debias_blocks({key: contents.rows(f"debias/{key}", "heads") for key in charts.TRIED})
    if won := contents.rows("debias/tradeoff", "heads"):
        blocks.append(Shown(_learned_table(won)))
    lead = (
        "Every square is an attention head. Its score is how fast the association grows when the head is turned up: "
        "red heads add to it, blue ones work against it. Choose a head to see where it looks from the target word, "
        "in a stereotype and in the same sentence turned around."
    )
    return Section("heads", "Where it sits", lead, blocks)


def head_map(scores: list[Row], sentences: list[Row]) -> HeadMap:
    """Rows of the map from the last layer to the first."""
    largest = max(abs(row["score"]) for row in scores)
    cells: dict[int, list[HeadCell]] = {}
    for row in scores:
        told = f"Layer {row['layer']}, head {row['head']}: score {shown(row['score'], 4)}"
        told += "" if row["stderr"] is None else f", standard error {shown(row['stderr'], 4)}"
        told += "" if row["q"] is None else f", q {probability(row, 'q').text}"
        share = round(row["score"] / largest, 3) if largest else 0.0
        cells.setdefault(row["layer"], []).append(HeadCell(row["layer"], row["head"], told, share))
    return HeadMap([cells[layer] for layer in sorted(cells, reverse=True)], shown(largest, 3), sentences)


def _agreement_table(row: Row) -> Table:
    note = (
        "1: the scores rank heads exactly as removing each of them does. 0: they say nothing about removal."
    )
    name = words("Spearman’s rho of score and drop of |SEAT|")
    body = [[name, measured(row), number(row, "n"), probability(row, "details.p_value")]]
    return Table("agreement", "Do the scores tell the truth?", ("Measure", "Value", "Heads", "p"), body, note)


def _counter_table(groups: list[Row], sides: list[Row], labels: list[str]) -> Table:
    """Both groups of heads, on all sentences and on the originals of either side alone."""
    side = {"A": f", {labels[0]} originals", "B": f", {labels[1]} originals"}
    body = [
        [
            words(f"{row['group']} heads{side.get(row.get('side', ''), '')}"),
            number(row, "details.mean_original", 4),
            number(row, "details.mean_counter", 4),
            measured(row, 4),
            number(row, "details.t", 2),
            probability(row, "details.p_value"),
            number(row, "n"),
        ]
        for row in (*groups, *sides)
    ]
    lost = {reason: n for row in groups for reason, n in row["unscored"].items()}
    note = (
        "Attention from the target word to the attribute word, in stereotypes and in the same sentences turned around. "
        "p: one-tailed, that attention falls. Lost sentences: "
        + ("; ".join(f"{n:,} {reason}" for reason, n in lost.items()) or "none")
        + "."
    )
    columns = ("Heads", "Original", "Counter", "Change", "t", "p", "Sentences")
    return Table("counter-stereotypes", "Counter-stereotypes", columns, body, note)


def _scores_table(scores: list[Row], removals: list[Row]) -> Table:
    change = {(row["layer"], row["head"]): row for row in removals}
    body = []
    for row in sorted(scores, key=lambda each: each["rank"]):
        cells = [words(f"{row['layer']}-{row['head']}"), number(row, "rank"), number(row, "score", 4)]
        cells += [number(row, "stderr", 4), probability(row, "q")]
        if removals:
            removed = change.get((row["layer"], row["head"]))
            cells.append(words(None) if removed is None else number(removed, "change", 4))
        body.append(cells)
    columns = [
        "Head",
        "Rank",
        "Score",
        "Standard error",
        "q",
        *(["Change of |SEAT| when removed"] if removals else []),
    ]
    note = "q: false discovery rate at which the head would count as different from 0 (Benjamini-Hochberg)."
    return Table("heads", f"All {len(scores)} heads, most biased first", columns, body, note, folded=True)


def _debias_blocks(tried: dict[str, list[Row]]) -> list[Block]:
    """What gating heads buys and costs: the trade as a chart, Table 1 and Table 3 of the paper."""
    trade = charts.tradeoff(tried)
    blocks: list[Block] = [] if trade is None else [Drawn([trade])]
    if rows := [*tried["table"], *tried["random"]]:
        note = "Random strategies: mean over seeds, with the interval of that mean."
        blocks.append(
            Shown(_strategies_table("strategies", "What removing heads buys and costs", rows, note))
        )
    if rows := tried["sweep"]:
        note = "The last row removes every head with a score above 0."
        table = _strategies_table("more-heads", "Removing more and more of the most biased heads", rows, note)
        blocks.append(Shown(replace(table, folded=True)))
    return blocks


def _strategies_table(name: str, caption: str, rows: list[Row], note: str) -> Table:
    """One row a strategy, one column a measure."""
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["strategy"], {})[row["measure"]] = row
    body = [
        [words(strategy), *(measured(own.get(measure), digits_of(measure)) for measure in measures)]
        for strategy, own in found.items()
    ]
    columns = ("Strategy", *(measure_of(m).title if m in ("seat", "fluency") else m for m in measures))
    return Table(name, caption, columns, body, note)


def _learned_table(rows: list[Row]) -> Table:
    """Learned gates beside the best top-k that costs no more."""
    body = [
        [
            words(row["strategy"]),
            number(row, "abs_seat"),
            number(row, "ratio"),
            words(row.get("rival")),
            number(row, "rival_abs_seat"),
            number(row, "rival_ratio"),
        ]
        for row in rows
    ]
    columns = (
        "Gates",
        "|SEAT|",
        "Perplexity ratio",
        "Best top-k that costs no more",
        "Its |SEAT|",
        "Its ratio",
    )
    note = "Gates in [0, 2] that minimize |SEAT| while perplexity grows at most by the factor given."
    return Table("learned-gates", "Learned gates against removal", columns, body, note)
