"""What all pages are made of: templates that escape, and a policy that lets in no script and no style but
theirs."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from levelhead.runs.records import Record

TEMPLATES = Path(__file__).parent / "template"


def template_text(name: str, folder: Path = TEMPLATES) -> str:
    """A style sheet or a script that ships."""
    return (folder / name).read_text(encoding="utf-8")


def content_policy(style: str, scripts: Sequence[str], connect: str = "") -> str:
    """A page's content security policy: these scripts and this style sheet, by their hashes.

    connect: whom its scripts may ask; by default nobody.
    """

    def hashes(*texts: str) -> str:
        digests = (sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)

    asks = f"connect-src {connect}; " if connect else ""
    return (
        f"default-src 'none'; style-src {hashes(style)}; script-src {hashes(*scripts)}; img-src data: blob:; "
        f"{asks}base-uri 'none'; form-action 'none'"
    )


@cache
def environment(folder: Path = TEMPLATES) -> Environment:
    """The templates of a folder. Everything that comes from models and data is escaped by them."""
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    made.policies["json.dumps_function"] = partial(  # a record, or another dataclass, for the page's script
        json.dumps, default=lambda value: value.to_json() if isinstance(value, Record) else asdict(value)
    )
    return made
