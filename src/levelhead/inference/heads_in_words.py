"""What a heads run shows, in words that claim no more: the same on the page and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.edits.head import Head
from levelhead.inference.claims import judged, sentence, too_few_text
from levelhead.inference.counter import contrast_claim
from levelhead.inference.doubts import doubt_text
from levelhead.measures.catalog import NOT_COMPARED
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.rounds import SPENT, by_rank
from levelhead.probes.token_rows import MATCHED, ONE_TOKEN
from levelhead.results.layout import WORDS_HASH
from levelhead.results.records.heads import (
    CHANGE_ON_OTHER_WORDS,
    HEAD_AGREEMENT,
    IN_COMMON,
    LARGEST_HELD,
    OF_HIGHEST,
    SeatRow,
)
from levelhead.results.runs import HeadsRun

_NAMED = 10  # words that a sentence names
_RANKS_ALIKE, _IN_PART = 0.7, 0.3  # rank correlations
_TO_READ = max(SPENT)  # null models from which on a floor is told from 0: those of the second look
CROSS_FITTED_TITLES = {  # measurement of cross-fitting -> what it is called
    HEAD_AGREEMENT: "Rank correlation of heads between two halves of the words",
    CHANGE_ON_OTHER_WORDS: "Change of |SEAT| on words that removed heads were not chosen on",
    LARGEST_HELD: "Largest score of a head that both halves confirm",
}


def bias_text(run: HeadsRun | None) -> str:
    """The bias that a run is about and its word list: both groups, how many words, and their hash."""
    if run is None or run.words is None:
        return ""
    a, b, x, y = run.words.labels
    words, digest = run.words.words, run.data.hashes.get(WORDS_HASH, "")
    return f"{run.words.test}: {a} against {b}, {x} against {y}; {words} words, list {digest}"


def clear_heads_text(run: HeadsRun) -> str:
    """Which heads are clear."""
    if run.doubts:
        return doubt_text(run)
    if why := untested_heads_text(run):
        return f"Whether a head is clear: {why}."
    if not run.clear_heads and (few := too_few_for_heads(run)):
        return f"Whether a head is clear: {few}."
    if not run.clear_heads:
        return "No head is clear: no score can be told from those of a null model."
    names = ", ".join(map(str, run.clear_heads))
    return f"Clear beyond what null models show ({len(run.clear_heads)}): {names}."


def untested_heads_text(run: HeadsRun) -> str:
    """Why no head was tested; empty where they were."""
    if any(score.p is not None for score in run.scores):
        return ""
    if run.settings.null == 0:
        return NOT_COMPARED
    if run.settings.scored_twins == 0:
        return "not tested by default (`levelhead heads`)"
    return "not tested; that needs null models and halves of the words"


def too_few_for_heads(run: HeadsRun) -> str:
    """Why it cannot be told whether a head is clear: fewer null models than silence needs; else empty.

    Where the test is by rank and one of fewer lies beyond all heads, more of them would change nothing, and
    so where the claim was futile.
    """
    largest = next((each for each in run.cross_fit if each.name == LARGEST_HELD), None)
    if largest is None or largest.null is None or largest.null.futile:
        return ""
    null = largest.null
    least = min((score.p for score in run.scores if score.p is not None), default=0.0)
    ranked = null.planned is None or by_rank(null.planned)
    beaten = ranked and least * (1 + null.draws) > 1.5  # (1 + null models beyond the highest head) > 1
    return "" if beaten else _few(null, null.enough)


def few_models(row: SeatRow) -> str:
    """Why a floor of a row cannot be told from 0: too few null models; empty where they are not."""
    return _few(row.measurement.null, _TO_READ)


def _few(null: Null | None, enough: int) -> str:
    if null is None or not null.of_models or null.draws >= enough:
        return ""
    return f"{too_few_text(null.draws)}; at least {enough} are needed"


def sources_text(run: HeadsRun) -> str:
    """How far scores in a corpus agree with those of the same words in our templates; "" without a corpus."""
    if run.sources is None:
        return ""
    if run.sources.value is None:
        return f"Contexts from templates instead of the corpus: not measured ({run.sources.reason})."
    common, highest = (int(run.sources.details[name] or 0) for name in (IN_COMMON, OF_HIGHEST))
    return (
        "Contexts from templates instead of the corpus: rank correlation of all heads "
        f"{run.sources.value:.2f}, {common} of the {highest} highest in common."
    )


def removal_text(run: HeadsRun, heads: Sequence[Head]) -> str:
    """What heads that are removed for their scores are, and how many of them are clear."""
    many = f"The {len(heads)} heads with the highest bias scores are removed"
    if why := untested_heads_text(run):
        return f"{many}; whether they are clear: {why}."
    clear = sum(head in run.clear_heads for head in heads)
    if not clear and (few := too_few_for_heads(run)):
        return f"{many}; whether they are clear: {few}."
    verb = "is" if clear < 2 else "are"
    return f"{many}; {clear or 'none'} of them {verb} clear beyond null models."


def sound_row_text(run: HeadsRun) -> str:
    """Which row of SEAT needs no floor to be read, and why."""
    row = run.sound_row
    if row is None:
        return ""
    if few := few_models(row):
        return f"Whether a row can be read as it is: {few}."
    return f"To be read as it is: {row.name} ({row.words}); {row.why}."


def row_words(row: SeatRow) -> str:
    """The words of a row, counted: "the 143 words that are one token"."""
    named = {
        ONE_TOKEN: f"the {row.words} words that are one token",
        MATCHED: f"the {row.words} words matched by their number of tokens",
    }
    return named.get(row.name, f"all {row.words} words")


def study_sentences(run: HeadsRun) -> list[str]:
    """What the tables of the study do not say: words that do not count, the claims, and the paper's own."""
    missing = () if run.words is None else run.words.missing
    lost = ", ".join(missing[:_NAMED]) + (" ..." if len(missing) > _NAMED else "")
    said = [f"{len(missing)} words have no context and do not count: {lost}."] if missing else []
    above = sum(score.biased for score in run.scores)
    said += [f"{above} of {len(run.scores)} heads have a score above 0 on these words."]
    said += [text for text in (sources_text(run), _removals_text(run.agreement)) if text]
    if run.doubts:
        return said
    if (claim := contrast_claim(run)) is not None:
        said.append(f"Counter-stereotypes: {sentence(claim, *judged([claim]))}")
    if (verdict := run.verdict) is not None:
        holds = {True: "holds", False: "does not hold", None: "could not be tested"}[verdict.holds]
        better = f"{verdict.random_lower} of {verdict.seeds} random draws do better"
        said.append(f"That {verdict.claim} {holds} here ({better}).")
    return said


def _removals_text(rho: Measurement | None) -> str:
    """Whether scores rank heads as their removal does."""
    if rho is None or rho.value is None:
        return ""
    if rho.value >= _RANKS_ALIKE:
        return "The scores rank heads as removal does."
    if rho.value >= _IN_PART:
        return "Scores and removals rank heads alike only in part."
    return "The scores do not tell what removal does: trust the removals."
