"""One self-contained HTML file from a run folder: charts, scripts and styles inside, no network."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert as vlc
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from levelhead import __version__
from levelhead.files import write_whole
from levelhead.report.contents import Contents, open_contents
from levelhead.report.sections.overview import headline, sections

REPORT = "report.html"
_GLOBALS = "window.vegaEmbed = vegaEmbed;"
_TEMPLATES = Path(__file__).parent / "template"


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write RUN/report.html, or `out`, from the run folder alone; it appears whole or not at all."""
    contents = open_contents(folder)
    return write_page(Path(out) if out else contents.folder / REPORT, report_html(contents))


def report_html(contents: Contents) -> str:
    """The report of one run as one page."""
    text, findings = headline(contents)
    page = {
        "title": contents.model,
        "study": contents.study,
        "headline": text,
        "findings": findings,
        "facts": _facts(contents),
        "sections": sections(contents),
    }
    return render(page)


def render(page: dict[str, Any]) -> str:
    """A page of sections. Everything that comes from models and data is escaped by the templates."""
    drawn = any(
        block.kind in ("charts", "frontier") for section in page["sections"] for block in section.blocks
    )
    css, js = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    own = {"css": css, "js": js, "vega": vega_bundle() if drawn else "", "version": __version__}
    return _environment().get_template("page.html").render(**page, **own)


def write_page(path: Path, html: str) -> Path:
    """Write a page; it appears whole or not at all."""
    return write_whole(path, lambda work: work.write_text(html, encoding="utf-8"))


@lru_cache(maxsize=1)
def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return vlc.javascript_bundle(_GLOBALS, vl_version=version).replace("</script", "<\\/script")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _facts(contents: Contents) -> list[tuple[str, str]]:
    """What stands under the model's name."""
    settings = contents.settings
    facts = {
        "Study": contents.study,
        "Size": f"{settings['layers']} layers × {settings['heads']} heads" if "layers" in settings else "",
        "Answers": ", ".join(settings.get("abilities", [])),
        "Extent": ("full" if settings.get("full") else "quick") if contents.study == "audit" else "",
        "Seed": str(settings.get("seed", "")),
        "Weights": str(contents.main.hashes.get("weights", ""))[:12],
    }
    return [(name, value) for name, value in facts.items() if value]
