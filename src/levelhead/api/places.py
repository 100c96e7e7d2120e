"""Open pages of `lh.explore`, to which results of the same model link."""

from __future__ import annotations

from html import escape

from levelhead.exploring.state import PageState

_OPEN: dict[str, str] = {}  # fingerprint of the model -> address of the latest page about it


def page_opened(weights: str, address: str) -> None:
    """A page about these weights is served at an address."""
    _OPEN[weights] = address


def page_closed(address: str) -> None:
    """It is served no more."""
    for weights in [weights for weights, open_at in _OPEN.items() if open_at == address]:
        del _OPEN[weights]


def links(weights: str | None, state: PageState | None = None) -> str:
    """A link as HTML; empty where no page is open. state: what the page shows then."""
    if weights is None or weights not in _OPEN:
        return ""
    fragment = "" if state is None else f"#{state.to_fragment()}"
    return f'<p><a href="{escape(_OPEN[weights] + fragment, quote=True)}">try it on a sentence</a></p>'
