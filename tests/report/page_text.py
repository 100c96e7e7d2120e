"""What a page says, without its tags: technical words in it are links."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path


def page_text(page: Path | str) -> str:
    """The words of a page, or of the file that holds it."""
    html = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    return unescape(re.sub("<[^>]+>", "", html))
