"""Options and arguments that several commands share, each with one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelhead.cli.app import LAST_SEED

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Shipped (lh:bert-mini), hub name, folder or .gguf.")
]
NextSentenceModel = Annotated[
    str, typer.Argument(help="A model with a next-sentence head, e.g. lh:bert-mini.")
]
Bias = Annotated[str, typer.Option(help="gender, race, or your word list (docs/own-words.md).")]
RunFolder = Annotated[Path, typer.Option("-o", "--output", metavar="RUN", help="Folder for the results.")]
HeadGates = Annotated[str, typer.Option(help="Heads to remove or to scale, LAYER-HEAD[=GATE]: 3-5,7-2=0.5")]
Seed = Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Seed of every draw.")]
FirstSeed = Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The first seed.")]
