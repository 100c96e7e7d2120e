"""One self-contained HTML file from a run folder: charts, scripts and styles inside, no network."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import altair as alt
import vl_convert as vlc
from altair.utils.schemapi import debug_mode

from levelhead import __version__
from levelhead.inference.contents import Contents, open_contents
from levelhead.pages.blocks import Page
from levelhead.pages.chapters import Chapter
from levelhead.pages.glossary import Terms
from levelhead.pages.pdf import write_pdfs
from levelhead.pages.presented import presented
from levelhead.pages.renderers import FORMS, NOTED, RENDERERS, WRITTEN
from levelhead.pages.shell import content_policy, environment, template_text
from levelhead.runs.study import REPORT
from levelhead.safe_files import write_output

_SHOWN = 8  # lines of findings; more of them are folded
_GLOBALS = "window.vegaEmbed = vegaEmbed;"
_MARK = '<meta name="generator" content="levelhead '  # by which a page of ours is known


def write_report(
    folder: str | Path,
    out: str | Path | None = None,
    force: bool = False,
    *,
    reload: bool = False,
    stopped: bool = False,
) -> Path:
    """Write RUN/report.html, or `out` in the form of its ending, from the run folder alone; it appears whole
    or not at all.

    force: replace a file at `out` that is no page of levelhead. reload: the page reloads itself, because a
    better one takes its place later. stopped: the audit that would have written that one was stopped.
    """
    contents = open_contents(folder)
    path = Path(out) if out else contents.folder / REPORT.name
    with debug_mode(False):  # altair would hold every part of every chart against its schema, again and again
        return write_as(path, presented(contents, reload=reload, stopped=stopped), force)


def write_as(path: Path, page: Page, force: bool = False) -> Path:
    """Write a page in the form that the file's ending names: Markdown, LaTeX, CSV, PDF, else HTML."""
    ending = path.suffix.lower()
    if ending in FORMS:
        form = FORMS[ending]
        return write_output(path, NOTED[form] + RENDERERS[form](page), WRITTEN, force)
    if ending == ".pdf":
        with TemporaryDirectory(prefix="levelhead-page-") as scratch:
            write_pdfs(write_page(Path(scratch) / f"{path.stem}.html", render(page)), force, path)
        return path
    return write_page(path, render(page), force)


def report_html(contents: Contents) -> str:
    with debug_mode(False):
        return render(presented(contents))


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
        shown=_SHOWN,
        version=__version__,
    )


@dataclass(frozen=True, eq=False)
class _Styled:
    """Declarations of single elements as rules of the page's style sheet: a class name for each.

    style="..." would need 'unsafe-inline'.
    """

    _names: dict[str, str] = field(default_factory=dict)

    def __call__(self, declarations: str) -> str:
        return self._names.setdefault(declarations, f"v{len(self._names)}")

    @property
    def rules(self) -> str:
        return "".join(f".{name}{{{declarations}}}\n" for declarations, name in self._names.items())


def write_page(path: Path, html: str, force: bool = False) -> Path:
    return write_output(path, html, _MARK, force)


@lru_cache(maxsize=1)
def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return vlc.javascript_bundle(_GLOBALS, vl_version=version).replace("</script", "<\\/script")
