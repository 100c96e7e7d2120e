"""What a run shows, or several side by side, as one value: answers, findings, and chapters of blocks.

Renderers make of it a page, a terminal's text, Markdown, LaTeX or CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from levelhead.inference.comparing import Comparison
from levelhead.inference.contents import Contents, consistent, doubt_text, measurements, openings_text
from levelhead.inference.head_claims import bias_text
from levelhead.inference.headline import asks_null_models, spoken_measures
from levelhead.inference.verdicts import info_of, verdict_of
from levelhead.pages.blocks import Block, Page, Section, Shown
from levelhead.pages.chapters import BASIS, Chapter
from levelhead.pages.glossary import glossary, glossary_section
from levelhead.pages.names import names_of
from levelhead.pages.sections.closing import ALWAYS, about_section, again_section, limits, not_shown
from levelhead.pages.sections.measured import biases, changes_section, measured_section
from levelhead.pages.tables import NOTHING, Cell, Part, Table, measured, probability, reported, shown, words
from levelhead.pages.what_now import FIRST_LOOK, what_now
from levelhead.runs.study import WEIGHTS_HASH, studies
from levelhead.studies.audit.settings import AuditStored
from levelhead.studies.heads.settings import HeadsStored

_RELOAD = 20  # seconds
_REPLACED = (  # it may be stopped without a chance to say so here
    "The page of the whole audit takes the place of this one, which reloads itself. If the audit was "
    "stopped, run the same command again to resume it."
)
_STOPPED = "The whole audit was stopped: run the same command again to resume it."
_STOPS = "Audit without --quick for the whole."
_NAMED = 3  # measures that a sentence names
MEASURED_BEFORE, CHANGES_BEFORE = 50, 70  # of studies with this order


def presented(contents: Contents, *, reload: bool = False, stopped: bool = False) -> Page:
    """All that a run shows. reload: what is shown is not the end, and a page of it reloads itself.

    stopped: the audit of which this is a first look was stopped.
    """
    with consistent(contents):
        first, box = summary(contents), what_now(contents)
        notice = ""
        if contents.audit is not None and contents.audit.settings.quick:
            notice = f"First look: {FIRST_LOOK} {_REPLACED if reload else _STOPPED if stopped else _STOPS}"
        written = [
            # the answers of an audit, where it has any, rest on some of the chapters
            replace(
                each, found=each.found or found(contents, each.id), basis=box is not None and each.id in BASIS
            )
            for each in (*sections(contents), glossary_section())
        ]
        settings, size, answers, extent = contents.run.settings, "", "", ""
        if isinstance(settings, AuditStored | HeadsStored):
            size = f"{settings.layers} layers × {settings.heads} heads"
        if contents.audit is not None:
            audit = contents.audit.settings
            answers = ", ".join(audit.abilities)
            extent = "full" if audit.full else "first look" if audit.quick else "as usual"
        facts = {  # which stand under the model's name; one that this study does not have is left out
            "Study": contents.study,
            "Bias": bias_text(contents.heads),
            "Size": size,
            "Answers": answers,
            "Extent": extent,
            "Texts open with": openings_text(contents.run),
            "Seed": str(settings.seed),
            "Weights": contents.run.data.hashes.get(WEIGHTS_HASH, "")[:12],
        }
        return Page(
            title=contents.model,
            study=contents.study,
            headline=first.text,
            findings=first.findings,
            facts=[(name, value) for name, value in facts.items() if value],
            sections=written,
            what_now=box,
            names=names_of(contents),
            notice=notice,
            reload=_RELOAD if reload else None,
            folded=True,
        )


def sections(contents: Contents) -> list[Section]:
    """Every chapter that the run has results for: those of studies in their order, between them what was
    measured and changed in all."""
    written: list[Section | None] = []
    between = {MEASURED_BEFORE: measured_section, CHANGES_BEFORE: changes_section}
    for study in studies().values():
        reached = [place for place in between if study.order >= place]
        written += [between.pop(place)(contents) for place in reached]
        own = getattr(study.part("chapter"), "chapters", None)
        said = getattr(study.part("chapter"), "found", None)
        chapters: list[Section] = [] if own is None else list(own(contents))
        written += [
            replace(each, found=said(contents)) if said is not None and each.id == study.name else each
            for each in chapters
        ]
    written += [each(contents) for each in between.values()]
    written += [about_section(contents), not_shown(limits(contents)), again_section(contents)]
    return [section for section in written if section is not None]


# ---- what is said first


@dataclass(frozen=True)
class Summary:
    """One or two sentences, and the findings one by one."""

    text: str
    findings: Sequence[Cell]


def summary(contents: Contents) -> Summary:
    """The audit's own headline, or a sentence for each measure of bias of a single study."""
    if contents.audit is not None and (headline := contents.audit.headline) is not None:
        return Summary(headline.text, [words(finding) for finding in headline.findings])
    findings = []
    for each in biases(contents):
        info, meaning = info_of(contents, each.name), verdict_of(contents, each)
        whose = f" of {each.model}" if each.model != contents.model else ""
        end = Part(f" — {meaning}." if meaning else ".")
        findings.append(Cell((Part(f"{info.title}{whose}: "), *reported(each, info.digits).parts, end)))
    first = Summary(f"What was measured on {contents.model}", findings)
    own = getattr(contents.run.part("chapter"), "headline", None)
    if contents.audit is not None:
        text = f"The audit of {contents.model} is not finished: run the same command again, it goes on."
        first = Summary(text, findings)
    elif own is not None and (said := own(contents, findings)) is not None:
        first = Summary(*said)
    doubt = doubt_text(contents.run)
    return Summary(f"{first.text}. {doubt}", first.findings) if doubt else first


# ---- what a reader sees of a chapter before it is unfolded


def found(contents: Contents, chapter: str) -> str:
    """What a chapter found, in one sentence; empty where its question says enough."""
    match chapter:
        case Chapter.MEASURED:
            known = [each for each in measurements(contents) if each.measurement.value is not None]
            known = [each for each in known if info_of(contents, each.name).side == "bias"]
            if contents.audit is None:
                return f"{len(known)} {'measure' if len(known) == 1 else 'measures'} of bias with a value."
            spoken = spoken_measures(contents.audit)
            named = [info_of(contents, each.name).title for each in known if each.name in spoken]
            if not named and not asks_null_models(contents.audit):
                return f"{len(known)} measures of bias, not compared with null models."
            if not named:
                return f"None of {len(known)} measures of bias differs significantly from null models."
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            first = ", ".join(named[:_NAMED])
            return f"A bias shows in {len(named)} of {len(known)} measures: {first}{more}."
        case Chapter.CHANGES:
            chosen = () if contents.audit is None else tuple(contents.audit.recommended)
            said = names_of(contents).short(" and ".join(chosen))
            return f"Recommended: {said}." if chosen else "No mitigation is certified."
        case Chapter.LIMITS:
            return f"{len(limits(contents))} things that may not be concluded from this page."
        case Chapter.GLOSSARY:
            terms = sum(len(group.terms) for group in glossary())
            return f"{terms} terms, also explained where they stand."
        case Chapter.AGAIN:
            return f"One command, seed {contents.run.settings.seed}, and the versions that it ran with."
    return ""


def comparison_page(comparison: Comparison) -> Page:
    body = []
    for compared in comparison.measures.values():
        first, digits = compared.values[0], compared.digits
        # values have no address, which would not say of which run
        cells = [words(compared.title, compared.reading), measured(first, digits=digits)]
        for other, difference in zip(compared.values[1:], compared.differences, strict=True):
            cells.append(measured(other, digits=digits))
            if difference is None:
                known = first is not None and other is not None and None not in (first.value, other.value)
                cells.append(words(None, "evaluated on other data: not comparable" if known else ""))
                continue
            text = shown(difference.value, digits)
            if difference.interval is not None:
                low, high = (shown(end, digits) for end in difference.interval)
                text += f" [{low}, {high}]"
            cells.append(Cell((Part(text),), repr(difference.value), True, difference.how))
        body.append(cells)
    columns = ["Measure", comparison.runs[0]]
    columns += [part for label in comparison.runs[1:] for part in (label, "Difference")]
    blocks: list[Block] = [Shown(Table("comparison", "Every measure", columns, body))]

    if any(comparison.heads):
        body = []
        for label, each in zip(comparison.runs[1:], comparison.heads, strict=True):
            if each is None:
                continue
            rho = each.rank_correlation
            bounds = "" if rho.interval is None else f" [{shown(rho.interval[0])}, {shown(rho.interval[1])}]"
            correlation = NOTHING if rho.value is None else f"{shown(rho.value)}{bounds}"
            counts = [words(each.heads), words(each.became_biased), words(each.left_biased)]
            body.append([words(label), words(correlation), *counts, probability(each.p)])
        note = (
            "Became biased: score above 0 here, not in the first run. p: exact test that both ways are "
            "equally frequent."
        )
        columns = ["Against the first run", "Rank correlation", "Heads", "Became biased", "Left biased", "p"]
        blocks.append(Shown(Table("head-agreement", "Are the same heads biased?", columns, body, note)))
    lead = (
        f"Differences are from {comparison.runs[0]}, with 95 % intervals. A paired difference compares item "
        "by item and is the surer one; an unpaired one is made of the two intervals and is, on the same "
        "probes, as a rule too wide."
    )
    sections = [
        Section(Chapter.COMPARED, "Side by side", "Which differences are significant?", lead, blocks),
        not_shown(ALWAYS),
        glossary_section(),
    ]
    differences = [own for compared in comparison.measures.values() for own in compared.differences]
    intervals = [own.interval for own in differences if own is not None and own.interval is not None]
    sure = sum(not low <= 0 <= high for low, high in intervals)
    headline = f"{sure} of {len(intervals)} differences have an interval that excludes 0."
    return Page(" against ".join(comparison.runs), "comparison", headline, (), (), sections)
