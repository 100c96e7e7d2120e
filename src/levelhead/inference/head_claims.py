"""What pages and the command line say about heads, in words that claim no more than the numbers show.

Whether closing heads helps on other words, whether the same ones are found there, whether any stands out; and
what the counter-stereotype experiment shows: one claim, and the two parts that it is made of, as numbers.
Its tests count templates, attribute words and targets as the items (docs/method/heads.md,
Counter-stereotypes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelhead.edits.sites import Head
from levelhead.inference.claims import (
    Claim,
    Doubt,
    floor_text,
    in_words,
    judged,
    p_text,
    too_few_text,
    valued,
)
from levelhead.inference.contents import doubt_text
from levelhead.measures.attention import ContrastPart
from levelhead.measures.catalog import NOT_COMPARED
from levelhead.measures.measurement import ENOUGH, Measurement, Null
from levelhead.measures.null import SPENT
from levelhead.probes.words import ALL_WORDS, MATCHED, ONE_TOKEN
from levelhead.runs.study import WORDS_HASH
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import (
    CHANGE_ON_OTHER_WORDS,
    HEAD_AGREEMENT,
    IN_COMMON,
    LARGEST_HELD,
    OF_HIGHEST,
)

Measured = Mapping[str, Mapping[str, Measurement]]  # variant -> measure -> measurement
CROSS_FITTED_TITLES = {  # measurement of cross-fitting -> what it is called
    HEAD_AGREEMENT: "Rank correlation of heads between two halves of the words",
    CHANGE_ON_OTHER_WORDS: "Change of |SEAT| on words that removed heads were not chosen on",
    LARGEST_HELD: "Largest score of a head that both halves confirm",
}
_REVERSED = "When a stereotype is reversed, attention to the group word"
DIGITS = 4  # of attention in tables, which lies between 0 and 1
_NAMED = 10  # words that a sentence names
_RANKS_ALIKE, _IN_PART = 0.7, 0.3  # rank correlations
_TO_READ = max(SPENT)  # null models from which on a floor is told from 0: those of the second look


# ---- claims of an audit


def agreement_claim(heads: Heads | None) -> Claim | None:
    """Whether the same heads carry the association on other words."""
    rho = _cross_fitted(heads, HEAD_AGREEMENT)
    if rho is None or rho.value is None or rho.null is None:
        return None
    by = f"rank correlation {rho.value:.2f}; {floor_text(rho.null)}"
    return Claim(
        rho.null.p_value,
        rho.value > rho.null.floor,
        f"Heads found on half of the words hold on the other half: {by}.",
        f"Heads found on half of the words do not clearly hold on the other half: {by}.",
        doubt=Doubt("Whether heads found on half of the words hold on the other half", by, rho.null),
    )


def clear_head_claim(heads: Heads | None) -> Claim | None:
    """Whether any head is clear: the largest score that holds on other words, against that of null models."""
    largest = _cross_fitted(heads, LARGEST_HELD)
    if heads is None or largest is None or largest.value is None or largest.null is None:
        return None
    (score,) = in_words(largest.value)
    by = f"the largest score that holds on other words is {score}; {floor_text(largest.null)}"
    if not (clear := heads.clear_heads):
        silent = f"No head stands out clearly: {by}."
        if few := _too_few_for_heads(heads):
            silent = f"Whether a head stands out clearly: {few}: {by}."
        return Claim(largest.null.p_value, False, "", silent)
    *first, last = map(str, clear)
    listed = f"{', '.join(first)} and {last}" if first else last
    many = f"{len(clear)} of {len(heads.scores)} heads stand out clearly ({listed})"
    silent = f"{many} by themselves, but not once all claims of this page are counted: {by}."
    return Claim(largest.null.p_value, True, f"{many}: {by}.", silent)


def contrast_claim(heads: Heads | None) -> Claim | None:
    """Whether attention falls more in biased heads than in regular ones; the largest p of all clusterings."""
    whole = _contrast(heads, "whole")
    if whole is None or whole.value is None or whole.null is None:
        return None
    more = "more" if whole.value > 0 else "less"
    value = f"{valued(whole)} (0 is none; N = {whole.n}, largest p of all clusterings"
    value += f" {p_text(whole.null.p_value)})"
    return Claim(
        whole.null.p_value,
        whole.beyond(0.0),
        f"{_REVERSED} falls {more} in biased heads than in regular ones: {value}.",
        f"{_REVERSED} is not shown to fall more in biased heads than in regular ones: {value}.",
    )


def _contrast(heads: Heads | None, part: ContrastPart) -> Measurement | None:
    """Biased less regular heads: the whole of it, or a part; None where it was not measured."""
    for each in () if heads is None else heads.contrasts:
        if (each.heads, each.part) == ("biased - regular", part):
            return None if each.measurement.value is None else each.measurement
    return None


def _cross_fitted(heads: Heads | None, name: str) -> Measurement | None:
    return None if heads is None else next((each for each in heads.cross_fit if each.name == name), None)


# ---- findings of an audit, which claim nothing


def readable_text(heads: Heads | None) -> str:
    """SEAT of the words for which null models show none, where those are not all words."""
    row = None if heads is None else heads.sound_row
    if row is None or row.name == ALL_WORDS or row.measurement.value is None:
        return ""
    if _few(row.measurement.null, _TO_READ):
        return ""
    words = f"all {row.words} words"
    if row.name == ONE_TOKEN:
        words = f"the {row.words} words that are one token"
    elif row.name == MATCHED:
        words = f"the {row.words} words matched by their number of tokens"
    return f"; over {words}, where those show about none, {valued(row.measurement)}"


def head_findings(heads: Heads | None) -> list[str]:
    """How many heads score above 0, why none was tested, and the parts of the contrast of attention."""
    if heads is None or not heads.scores:
        return []
    biased = [score for score in heads.scores if score.biased]
    findings = [f"{len(biased)} of {len(heads.scores)} heads have a score above 0 on these words."]
    if why := untested_heads_text(heads):
        findings.append(f"Whether a head stands out, and whether removing heads helps: {why}.")
    if heads.agreement is not None and heads.agreement.value is not None:
        rho = valued(heads.agreement)
        findings.append(
            f"Scores against removing heads one by one: Spearman's rho {rho} (1: the same order)."
        )
    stereotype, looking = _contrast(heads, "stereotype"), _contrast(heads, "group words")
    if stereotype is not None and looking is not None:
        group = "the first group's" if heads.words is None else heads.words.labels[0]
        findings.append(
            f"Of that contrast, {valued(stereotype)} is what the stereotype does; apart from it, "
            f"biased heads look {valued(looking)} more than regular ones at {group} words, whatever "
            "is said."
        )
    return findings


# ---- what a heads run shows


def bias_text(run: Heads | None) -> str:
    """The bias that a run is about and its word list: both groups, how many words, and their hash."""
    if run is None or run.words is None:
        return ""
    a, b, x, y = run.words.labels
    words, digest = run.words.words, run.data.hashes.get(WORDS_HASH, "")
    return f"{run.words.test}: {a} against {b}, {x} against {y}; {words} words, list {digest}"


def clear_heads_text(run: Heads) -> str:
    if run.doubts:
        return doubt_text(run)
    if why := untested_heads_text(run):
        return f"Whether a head is significant: {why}."
    if not run.clear_heads and (few := _too_few_for_heads(run)):
        return f"Whether a head is significant: {few}."
    if not run.clear_heads:
        return "No head is significant: no score differs significantly from those of null models."
    names = ", ".join(map(str, run.clear_heads))
    return f"Clear beyond what null models show ({len(run.clear_heads)}): {names}."


def untested_heads_text(run: Heads) -> str:
    """Why no head was tested; empty where they were."""
    if any(score.p is not None for score in run.scores):
        return ""
    if run.settings.null == 0:
        return NOT_COMPARED
    if run.settings.scored_nulls == 0:
        return "not tested by default (`levelhead heads`)"
    return "not tested; that needs null models and halves of the words"


def _too_few_for_heads(run: Heads) -> str:
    """Why it cannot be told whether a head is clear: fewer null models than silence needs; else empty.

    Where the test is by rank and one of fewer lies beyond all heads, more of them would change nothing, and
    so where the claim was futile.
    """
    largest = _cross_fitted(run, LARGEST_HELD)
    if largest is None or largest.null is None or largest.null.futile:
        return ""
    null = largest.null
    least = min((score.p for score in run.scores if score.p is not None), default=0.0)
    ranked = null.planned is None or null.planned >= ENOUGH
    beaten = ranked and least * (1 + null.draws) > 1.5  # (1 + null models beyond the highest head) > 1
    return "" if beaten else _few(null, null.enough)


def _few(null: Null | None, enough: int) -> str:
    """That so many null models are too few; empty where they are not."""
    if null is None or not null.of_models or null.draws >= enough:
        return ""
    return f"{too_few_text(null.draws)}; at least {enough} are needed"


def sources_text(run: Heads) -> str:
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


def removal_text(run: Heads, heads: Sequence[Head]) -> str:
    """What heads that are removed for their scores are, and how many of them are clear."""
    many = f"The {len(heads)} heads with the highest bias scores are removed"
    if why := untested_heads_text(run):
        return f"{many}; whether they are clear: {why}."
    clear = sum(head in run.clear_heads for head in heads)
    if not clear and (few := _too_few_for_heads(run)):
        return f"{many}; whether they are clear: {few}."
    verb = "is" if clear < 2 else "are"
    return f"{many}; {clear or 'none'} of them {verb} clear beyond null models."


def sound_row_text(run: Heads) -> str:
    """Which row of SEAT needs no floor to be read, and why."""
    row = run.sound_row
    if row is None:
        return ""
    if few := _few(row.measurement.null, _TO_READ):
        return f"Whether a row can be read as it is: {few}."
    return f"To be read as it is: {row.name} ({row.words}); {row.why}."


def study_sentences(run: Heads) -> list[str]:
    """What the tables of the study do not say: words that do not count, the claims, and the paper's own."""
    missing = () if run.words is None else run.words.missing
    lost = ", ".join(missing[:_NAMED]) + (" ..." if len(missing) > _NAMED else "")
    said = [f"{len(missing)} words have no context and do not count: {lost}."] if missing else []
    above = sum(score.biased for score in run.scores)
    said += [f"{above} of {len(run.scores)} heads have a score above 0 on these words."]
    if text := sources_text(run):
        said.append(text)
    if run.agreement is not None and (rho := run.agreement.value) is not None:
        ranks = "The scores do not tell what removal does: trust the removals."
        if rho >= _RANKS_ALIKE:
            ranks = "The scores rank heads as removal does."
        elif rho >= _IN_PART:
            ranks = "Scores and removals rank heads alike only in part."
        said.append(ranks)
    if run.doubts:
        return said
    if (claim := contrast_claim(run)) is not None:
        said.append(f"Counter-stereotypes: {claim.said(*judged([claim]))}")
    if (verdict := run.verdict) is not None:
        holds = {True: "holds", False: "does not hold", None: "could not be tested"}[verdict.holds]
        better = f"{verdict.random_lower} of {verdict.seeds} random draws do better"
        said.append(f"That {verdict.claim} {holds} here ({better}).")
    return said
