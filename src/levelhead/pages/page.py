"""One self-contained HTML file from a run folder: charts, scripts and styles inside, no network."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import altair as alt
import vl_convert as vlc

from levelhead import __version__
from levelhead.files import write_output
from levelhead.pages.blocks import Page, Section
from levelhead.pages.chapters import BASIS, Chapter
from levelhead.pages.contents import Contents, consistent, open_contents
from levelhead.pages.doubts import openings_text
from levelhead.pages.found import found
from levelhead.pages.glossary import Terms, glossary_section
from levelhead.pages.heads_in_words import bias_text
from levelhead.pages.names import names_of
from levelhead.pages.sections.index import sections
from levelhead.pages.sections.opening import opening
from levelhead.pages.shell import content_policy, environment, template_text
from levelhead.pages.what_now import FIRST_LOOK, what_now
from levelhead.results import layout
from levelhead.results.settings import AuditRunSettings, HeadsRunSettings, RunSettings

_GLOBALS = "window.vegaEmbed = vegaEmbed;"
_RELOAD = 20  # seconds
_GOES_ON = "The audit goes on; this page reloads itself."
_STOPS = "Audit without --quick for the whole."
_MARK = '<meta name="generator" content="levelhead '  # by which a page of ours is known


def write_report(
    folder: str | Path, out: str | Path | None = None, force: bool = False, *, reload: bool = False
) -> Path:
    """Write RUN/report.html, or `out`, from the run folder alone; it appears whole or not at all.

    force: replace a file at `out` that is no page of levelhead. reload: the page reloads itself, because a
    better one takes its place later.
    """
    contents = open_contents(folder)
    path = Path(out) if out else contents.folder / layout.REPORT.name
    return write_page(path, report_html(contents, reload=reload), force)


def report_html(contents: Contents, *, reload: bool = False) -> str:
    """The report of one run as one page. reload: it reloads itself."""
    with consistent(contents):
        first, box = opening(contents), what_now(contents)
        written = [*sections(contents), glossary_section()]
        chapters = [_chapter(contents, each, box is not None) for each in written]
        page = Page(
            title=contents.model,
            study=contents.study,
            headline=first.text,
            findings=first.findings,
            facts=_facts(contents),
            sections=chapters,
            what_now=box,
            names=names_of(contents),
            notice=_notice(contents, reload),
            reload=_RELOAD if reload else None,
            folded=True,
        )
    return render(page)


def _chapter(contents: Contents, section: Section, answered: bool) -> Section:
    """A chapter with what it found. answered: whether the page has answers, which may rest on it."""
    return replace(section, found=found(contents, section.id), basis=answered and section.id in BASIS)


def render(page: Page) -> str:
    """A page as HTML. Everything that comes from models and data is escaped by the templates."""
    css, theme, js = (template_text(name) for name in ("page.css", "theme.js", "page.js"))
    vega = [vega_bundle()] if page.draws else []
    template = environment().get_template("page.html")
    return template.render(
        page=page,
        css=css,
        scripts=[theme, *vega, js],
        styled=_Styled(),
        policy=content_policy,
        terms=Terms(),
        chapter=Chapter,
        version=__version__,
    )


class _Styled:
    """Declarations of single elements as rules of the page's style sheet: a class name for each.

    style="..." would need 'unsafe-inline'.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, declarations: str) -> str:
        return self._names.setdefault(declarations, f"v{len(self._names)}")

    @property
    def rules(self) -> str:
        return "".join(f".{name}{{{declarations}}}\n" for declarations, name in self._names.items())


def write_page(path: Path, html: str, force: bool = False) -> Path:
    """Write a page; it appears whole or not at all."""
    return write_output(path, html, _MARK, force)


@lru_cache(maxsize=1)
def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return vlc.javascript_bundle(_GLOBALS, vl_version=version).replace("</script", "<\\/script")


def _notice(contents: Contents, reload: bool) -> str:
    """That a page is a first look, where it is one."""
    if contents.audit is None or not contents.audit.settings.quick:
        return ""
    return f"First look: {FIRST_LOOK} {_GOES_ON if reload else _STOPS}"


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
