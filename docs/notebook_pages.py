"""A hook of the documentation site: notebooks become pages, with the outputs that are stored in them."""

from __future__ import annotations

import json
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_RICH = ("image/svg+xml", "text/html")  # shown as they are; everything else as text


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, which stays a file beside it."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = _page(json.loads(file.content_string), file.name)
        files.append(File.generated(config, file.src_uri.removesuffix("ipynb") + "md", content=page))
    return files


def _page(book: dict[str, Any], name: str) -> str:
    """A notebook as Markdown, with a link to itself."""
    title, *parts = [_cell(cell) for cell in book["cells"]]
    return "\n\n".join([title, f"[Download this notebook]({name}.ipynb)", *parts]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    outputs = [_output(output) for output in cell["outputs"]]
    return "\n\n".join([f"```python\n{source}\n```", *outputs])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    for kind in _RICH:
        if kind in data:
            lines = "".join(data[kind]).splitlines()
            return f"<div>{' '.join(line.strip() for line in lines)}</div>"  # a blank line would end the HTML
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"
