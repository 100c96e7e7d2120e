"""`levelhead cache`: GGUF files that were converted once, and how to be rid of them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from levelhead.cli.app import Json, checked, print_json, print_table


@checked
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all that no process is using.")] = False,
    json: Json = False,
) -> None:
    """Show the models that were converted from .gguf files, or sent by a cluster's driver, or remove them."""
    from levelhead.models.cache import cache_folder, entries, most_bytes
    from levelhead.models.cache import clear as clear_entries

    removed = clear_entries() if clear else []
    kept, most = entries(), most_bytes()
    if json:
        facts = {"folder": cache_folder(), "most_bytes": most, "removed": len(removed)}
        print_json({**facts, "entries": [asdict(entry) for entry in kept]})
        return
    if clear:
        print(f"Removed: {len(removed)}, {_size(sum(entry.size for entry in removed))}.")
    lines = []
    for entry in kept:
        used = datetime.fromtimestamp(entry.used, UTC).strftime("%Y-%m-%d")
        lines.append((entry.source, entry.dtype, _size(entry.size), used))
    if lines:
        print_table("Converted or sent once", ("file", "dtype", "size", "last used"), lines)
    total = _size(sum(entry.size for entry in kept))
    print(f"{len(kept)} kept in {cache_folder()}: {total} of at most {_size(most)}.")


def _size(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:.1f} MiB"
