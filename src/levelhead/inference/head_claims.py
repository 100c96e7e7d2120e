"""What an audit says about heads: whether closing them helps on other words, whether the same ones are found
there, whether any stands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelhead.edits.head import Head
from levelhead.inference.claims import Claim, Doubt, floor_text, valued
from levelhead.inference.counter import contrast_parts
from levelhead.inference.heads_in_words import few_models, row_words, too_few_for_heads, untested_heads_text
from levelhead.measures.measurement import Measurement
from levelhead.probes.token_rows import ALL_WORDS
from levelhead.results.records.heads import CHANGE_ON_OTHER_WORDS, HEAD_AGREEMENT, LARGEST_HELD
from levelhead.results.runs import AuditRun, HeadsRun

Measured = Mapping[str, Mapping[str, Measurement]]  # variant -> measure -> measurement


def removal_claim(run: AuditRun, measured: Measured) -> Claim | None:
    """What closing the worst heads does on words that they were not chosen on, and at what cost."""
    change = _cross_fitted(run.heads, CHANGE_ON_OTHER_WORDS)
    way = next((way for way in run.mitigations if way.heads), None)
    if way is None or change is None or change.value is None or change.null is None:
        return None
    cost = _cost(measured.get(way.variant, {}).get("fluency change"))
    heads = f"Removing the {len(way.heads)} highest-scoring heads (here {_listed(way.heads)})"
    where = "|SEAT| on words that heads were not chosen on"
    sd = change.details.get("sd")
    spread = "" if sd is None else f" ± {sd:.2f} over splits"
    by = f"{change.value:+.2f}{spread}; {floor_text(change.null)}"
    return Claim(
        change.null.p_value,
        change.value < change.null.floor,
        f"{heads} lowers {where}: {by}{cost}.",
        f"{heads} is not shown to lower {where}: {by}{cost}.",
        doubt=Doubt(f"{heads}, whether it lowers {where}", f"{by}{cost}", change.null),
    )


def agreement_claim(heads: HeadsRun | None) -> Claim | None:
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


def clear_head_claim(heads: HeadsRun | None) -> Claim | None:
    """Whether any head is clear: the largest score that holds on other words, against that of twins."""
    largest = _cross_fitted(heads, LARGEST_HELD)
    if heads is None or largest is None or largest.value is None or largest.null is None:
        return None
    by = f"the largest score that holds on other words is {largest.value:.3f}; {floor_text(largest.null)}"
    if not (clear := heads.clear_heads):
        silent = f"No head stands out clearly: {by}."
        if few := too_few_for_heads(heads):
            silent = f"Whether a head stands out clearly: {few}: {by}."
        return Claim(largest.null.p_value, False, "", silent)
    many = f"{len(clear)} of {len(heads.scores)} heads stand out clearly ({_listed(clear)})"
    silent = f"{many} by themselves, but not once all claims of this page are counted: {by}."
    return Claim(largest.null.p_value, True, f"{many}: {by}.", silent)


def _cross_fitted(heads: HeadsRun | None, name: str) -> Measurement | None:
    return None if heads is None else next((each for each in heads.cross_fit if each.name == name), None)


def readable_text(heads: HeadsRun | None) -> str:
    """SEAT of the words for which null models show none, where those are not all words."""
    row = None if heads is None else heads.sound_row
    if row is None or row.name == ALL_WORDS or row.measurement.value is None or few_models(row):
        return ""
    return f"; over {row_words(row)}, where those show about none, {valued(row.measurement)}"


def head_findings(heads: HeadsRun | None) -> list[str]:
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
    return findings + contrast_parts(heads)


def _listed(heads: Sequence[Head]) -> str:
    names = [str(head) for head in heads]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _cost(change: Measurement | None) -> str:
    if change is None or change.value is None:
        return ""
    low, high = change.interval or (change.value, change.value)
    percent = f"{100 * (change.value - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"
    return f", at a change of {percent} in perplexity"
