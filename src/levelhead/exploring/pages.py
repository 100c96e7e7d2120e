"""The page of `levelhead explore`: live, asked of a server; or static, one file that holds its answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from levelhead import __version__
from levelhead.exploring.explorer import Explorer, saved
from levelhead.exploring.records import Facts, Saved
from levelhead.exploring.state import PageState
from levelhead.pages.shell import content_policy, environment, template_text
from levelhead.results.codec import Record

_TEMPLATES = Path(__file__).parent / "template"
_SCRIPTS = ("explore-drawing.js", "explore.js")


@dataclass(frozen=True)
class Given(Record):
    """What stands in the page itself. saved: all answers of a static page."""

    facts: Facts
    saved: Saved | None = None


@dataclass(frozen=True)
class Page:
    """A page with the policy that is sent beside it."""

    html: str
    policy: str


def live_page(explorer: Explorer) -> Page:
    """The page that asks its own server, and nobody else."""
    return _page(Given(explorer.facts), "'self'")


def static_page(explorer: Explorer, state: PageState, tab: str = "") -> Page:
    """The page of one state with all of its answers, which asks nobody."""
    return _page(Given(explorer.facts, saved(explorer, state, tab)), "")


def _page(given: Given, connect: str) -> Page:
    css = template_text("page.css") + template_text("explore.css", _TEMPLATES)
    scripts = [template_text("theme.js"), "\n".join(template_text(name, _TEMPLATES) for name in _SCRIPTS)]
    policy = content_policy(css, scripts, connect)
    template = environment(_TEMPLATES).get_template("explore.html")
    html = template.render(given=given, css=css, scripts=scripts, policy=policy, version=__version__)
    return Page(html, policy)
