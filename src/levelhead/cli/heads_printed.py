"""How `levelhead heads` prints a run."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.cli.app import print_table
from levelhead.cli.terminal import print_link
from levelhead.measures.measurement import Measurement
from levelhead.pages.claims import floor_text, judged, sentence
from levelhead.pages.counter import contrast_claim, contrast_parts
from levelhead.pages.heads_in_words import CROSS_FITTED_TITLES, clear_heads_text, sound_row_text, sources_text
from levelhead.results.records.heads import CounterTest
from levelhead.results.runs import HeadsRun

_SHOWN = 5  # heads at either end of the ranking


def print_heads(run: HeadsRun) -> None:
    """A run of the heads study for a person: what it rests on first."""
    words, seat = run.words, run.seat
    if words is not None:
        print(f"{run.model}, {words.test}: {words.words} words in {words.contexts} contexts")
        if words.missing:
            shown = ", ".join(words.missing[:10]) + (" ..." if len(words.missing) > 10 else "")
            print(f"{len(words.missing)} words have no context and do not count: {shown}")
    _print_cross_fit(run)
    if seat is not None:
        print(f"SEAT of all words {_valued(seat.measurement)} (0: no association, ±2 the most)")
    _print_seat_rows(run)
    print(f"{sum(score.biased for score in run.scores)} of {len(run.scores)} heads have b > 0 on these words")
    ends = dict.fromkeys((*run.ranked[:_SHOWN], *run.ranked[-_SHOWN:]))
    lines = [
        (
            score.head,
            score.score,
            score.stderr,
            score.held,
            score.p,
            "clear" if score.head in run.clear_heads else "",
        )
        for score in ends
    ]
    note = (
        "b: how |SEAT| grows with the head's gate; below 0 the head works against the bias. stderr: over "
        "contexts of these words. held: what two halves of the words both say. p: against null twins, "
        "corrected for all heads."
    )
    columns = ("head", "b", "stderr", "held", "p", "")
    print_table("Most biased and most anti-biased heads", columns, lines, note)
    print(clear_heads_text(run))
    if run.sources is not None:
        print(sources_text(run))
    if run.agreement is not None:
        print(f"Ablation: {_agreement(run.agreement)}")
    _print_counter(run)
    print_debias(run)
    print(f"Results and figures: {run.folder}")
    print_link(run.folder, run.LAYOUT)


def _print_cross_fit(run: HeadsRun) -> None:
    """Whether heads found on half of the words hold on the other half."""
    for each in run.cross_fit:
        against = "" if each.null is None else f" ({floor_text(each.null)})"
        value = f"not measured ({each.reason})" if each.value is None else f"{each.value:.3f}{against}"
        print(f"{CROSS_FITTED_TITLES[each.name]}: {value}")


def _print_seat_rows(run: HeadsRun) -> None:
    lines = []
    for row in run.seat_rows:
        null = row.measurement.null
        of_null = (None,) * 4 if null is None else (null.floor, null.spread, null.least, null.p_value)
        lines.append((row.name, row.words, _shown(row.measurement), *of_null))
    if lines:
        columns = ("words", "count", "SEAT", "null mean", "null SD", "beyond", "p")
        print_table("Association by words", columns, lines, sound_row_text(run))


def print_debias(run: HeadsRun) -> None:
    """What removing heads bought and cost (Table 1), more and more of them (Table 3), and learned gates."""
    judged = next((each.measurement.settings.get("judged on") for each in run.strategies), None)
    if judged is not None:
        print(f"seat below: |SEAT| on {judged}")
    tried = [(each.strategy, each.measurement) for each in run.strategies]
    tried += [(each.strategy, each.measurement) for each in run.random_strategies]
    _print_strategies("What removing heads buys and costs", tried)
    swept = [(each.strategy, each.measurement) for each in run.top_sweep]
    _print_strategies("Removing more and more of the most biased heads", swept)
    if (verdict := run.verdict) is not None and not run.doubts:
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
    if not run.doubts and (claim := contrast_claim(run)) is not None:
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
