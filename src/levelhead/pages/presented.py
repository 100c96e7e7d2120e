"""What a run shows, as one value: answers, findings, and chapters of blocks.

Renderers make of it a page, a terminal's text, Markdown, LaTeX or CSV.
"""

from __future__ import annotations

from dataclasses import replace

from levelhead.inference.contents import Contents, consistent
from levelhead.inference.doubts import openings_text
from levelhead.inference.heads_in_words import bias_text
from levelhead.pages.blocks import Page, Section
from levelhead.pages.chapters import BASIS
from levelhead.pages.found import found
from levelhead.pages.glossary import glossary_section
from levelhead.pages.names import names_of
from levelhead.pages.sections.index import sections
from levelhead.pages.sections.opening import opening
from levelhead.pages.what_now import FIRST_LOOK, what_now
from levelhead.results import layout
from levelhead.results.settings import AuditRunSettings, HeadsRunSettings, RunSettings

_RELOAD = 20  # seconds
_REPLACED = (  # it may be stopped without a chance to say so here
    "The page of the whole audit takes the place of this one, which reloads itself. If the audit was "
    "stopped, run the same command again to resume it."
)
_STOPPED = "The whole audit was stopped: run the same command again to resume it."
_STOPS = "Audit without --quick for the whole."


def presented(contents: Contents, *, reload: bool = False, stopped: bool = False) -> Page:
    """All that a run shows. reload: what is shown is not the end, and a page of it reloads itself.

    stopped: the audit of which this is a first look was stopped.
    """
    with consistent(contents):
        first, box = opening(contents), what_now(contents)
        written = [*sections(contents), glossary_section()]
        return Page(
            title=contents.model,
            study=contents.study,
            headline=first.text,
            findings=first.findings,
            facts=_facts(contents),
            sections=[_chapter(contents, each, box is not None) for each in written],
            what_now=box,
            names=names_of(contents),
            notice=_notice(contents, _REPLACED if reload else _STOPPED if stopped else _STOPS),
            reload=_RELOAD if reload else None,
            folded=True,
        )


def _chapter(contents: Contents, section: Section, answered: bool) -> Section:
    """A chapter with what it found. answered: whether the page has answers, which may rest on it."""
    return replace(section, found=found(contents, section.id), basis=answered and section.id in BASIS)


def _notice(contents: Contents, rest: str) -> str:
    """That a page is a first look, where it is one."""
    if contents.audit is None or not contents.audit.settings.quick:
        return ""
    return f"First look: {FIRST_LOOK} {rest}"


def _facts(contents: Contents) -> list[tuple[str, str]]:
    """What stands under the model's name; a fact that this study does not have is left out."""
    settings = contents.run.settings
    audit = None if contents.audit is None else contents.audit.settings
    facts = {
        "Study": contents.study,
        "Bias": bias_text(contents.heads),
        "Size": _size(settings),
        "Answers": "" if audit is None else ", ".join(audit.abilities),
        "Extent": "" if audit is None else _extent(audit),
        "Texts open with": openings_text(contents.run),
        "Seed": str(settings.seed),
        "Weights": contents.run.data.hashes.get(layout.WEIGHTS_HASH, "")[:12],
    }
    return [(name, value) for name, value in facts.items() if value]


def _extent(audit: AuditRunSettings) -> str:
    return "full" if audit.full else "first look" if audit.quick else "as usual"


def _size(settings: RunSettings) -> str:
    if isinstance(settings, AuditRunSettings | HeadsRunSettings):
        return f"{settings.layers} layers × {settings.heads} heads"
    return ""
