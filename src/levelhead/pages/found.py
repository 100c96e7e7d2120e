"""What each chapter found, in one sentence: what a reader sees before a chapter is unfolded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from levelhead.inference.claims import valued
from levelhead.inference.contents import Contents, measurements
from levelhead.inference.headline import asks_null_models, spoken_measures
from levelhead.inference.heads_in_words import untested_heads_text
from levelhead.inference.infos import info_of
from levelhead.inference.mitigating import sentence
from levelhead.pages.chapters import Chapter
from levelhead.pages.glossary import glossary
from levelhead.pages.limits import limits
from levelhead.pages.tables import shown as written

_NAMED = 3  # measures that a sentence names


def found(contents: Contents, chapter: str) -> str:
    """The sentence of a chapter, by its id; empty where its question says enough."""
    said = _SENTENCES.get(chapter)
    return "" if said is None else said(contents)


def _measured(contents: Contents) -> str:
    known = [
        each
        for each in measurements(contents)
        if each.measurement.value is not None and info_of(contents, each.name).side == "bias"
    ]
    if contents.audit is None:
        return f"{len(known)} {'measure' if len(known) == 1 else 'measures'} of bias with a value."
    spoken = spoken_measures(contents.audit)
    shown = [info_of(contents, each.name).title for each in known if each.name in spoken]
    if not shown:
        if not asks_null_models(contents.audit):
            return f"{len(known)} measures of bias, not compared with null models."
        return f"None of {len(known)} measures of bias can be told from a null model."
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return f"A bias shows in {len(shown)} of {len(known)} measures: {', '.join(shown[:_NAMED])}{more}."


def _heads(contents: Contents) -> str:
    run = contents.heads
    if run is None or not run.scores:
        return ""
    clear, first = run.clear_heads, run.ranked[0]
    stand = f"{len(clear)} of {len(run.scores)} heads stand out clearly"
    named = f" ({', '.join(map(str, clear[:_NAMED]))})" if clear else ""
    if why := untested_heads_text(run):
        stand = f"Whether a head stands out: {why}"
    return f"{stand}{named}; the highest score is {written(first.score)}, of head {first.head}."


def _knowledge(contents: Contents) -> str:
    run = contents.prompts
    cell = None if run is None else run.log_odds()
    if cell is None or cell.measurement.value is None:
        return ""
    return f"Without knowledge the log-odds toward the stereotype are {valued(cell.measurement)}."


def _changes(contents: Contents) -> str:
    audit = contents.audit
    ways = () if audit is None else tuple(each.variant for each in audit.mitigations)
    return f"{len(ways)} changes were verified on items that none of them was chosen on." if ways else ""


def _sweep(contents: Contents) -> str:
    if contents.sweep is not None:
        return f"{len({each.variant for each in contents.sweep.measured})} settings were measured."
    tried = () if contents.audit is None else contents.audit.candidates
    chosen = [each.variant for each in tried if each.chosen]
    best = (
        f"the one with the largest gain that keeps its ability is {chosen[0]}"
        if chosen
        else "none was chosen"
    )
    return f"{len(tried)} settings were tried; {best}." if tried else ""


def _limits(contents: Contents) -> str:
    return f"{len(limits(contents))} things that may not be concluded from this page."


def _mitigate(contents: Contents) -> str:
    return "" if contents.mitigations is None else sentence(contents.mitigations)


def _reproduce(contents: Contents) -> str:
    return f"One command, seed {contents.run.settings.seed}, and the versions that it ran with."


_SENTENCES: Mapping[str, Callable[[Contents], str]] = {
    Chapter.MEASURED: _measured,
    Chapter.HEADS: _heads,
    Chapter.KNOWLEDGE: _knowledge,
    Chapter.CHANGES: _changes,
    Chapter.SWEEP: _sweep,
    Chapter.MITIGATE: _mitigate,
    Chapter.LIMITS: _limits,
    Chapter.GLOSSARY: lambda _: (
        f"{sum(len(group.terms) for group in glossary())} terms, also explained where they stand."
    ),
    Chapter.REPRODUCE: _reproduce,
}
