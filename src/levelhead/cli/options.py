"""Options and arguments that several commands share, each with one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import RUN
from levelhead.cli.endings import output_folder
from levelhead.results.asked import LAST_SEED
from levelhead.results.presets import check_null

_RUN_FOLDER = "Folder for the results; a run that was begun there goes on."
_CORPUS = "a .txt or .jsonl file, a folder, or hub:NAME"


def null_models(about: str, none: bool = True) -> Any:
    """An option for a number of null models, refused as it is typed. none: whether 0 is allowed."""

    def checked(value: int | None) -> int | None:
        if value is not None:
            check_null(value, none)
        return value

    allowed = "0 (none), or at least 2" if none else "at least 2"
    return typer.Option(metavar="K", help=f"{about}: {allowed}.", callback=checked)


# models and words
ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Shipped (lh:bert-mini), hub name, folder or .gguf.")
]
NextSentenceModel = Annotated[
    str, typer.Argument(help="A model with a next-sentence head, e.g. lh:bert-mini.")
]
Labels = Annotated[
    str | None, typer.Option(help='What outputs 0, 1, 2 mean, e.g. "contradiction,entailment,neutral".')
]
Bias = Annotated[str, typer.Option(help="gender, race, or your word list (docs/own-words.md).")]
Biases = Annotated[
    str,
    typer.Option(help="Word lists, with commas: gender, race, career ..., or yours (docs/own-words.md)."),
]
FluencyText = Annotated[str | None, typer.Option(help=f"Text for fluency: {_CORPUS}. Default: ours.")]
Stereotypes = Annotated[str | None, typer.Option(help=f"Sentences with stereotypes: shipped, {_CORPUS}.")]
OwnMeasures = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Python with a measure of yours (docs/own-measure.md); repeatable."),
]

Benchmarks = Annotated[
    list[str] | None,
    typer.Option(
        "--benchmark",
        metavar="NAME=FILE",
        help="Also ask a published benchmark; repeatable.",
    ),
]

AboutFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML with purpose, groups, provenance ... (docs/report.md)."),
]

# changes of a model
HeadGates = Annotated[str, typer.Option(help="Heads to remove or to scale, LAYER-HEAD[=GATE]: 3-5,7-2=0.5")]
RecipeFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A recipe (TOML), as sweeps and audits write.")
]

# how much is asked
PerWord = Annotated[
    int | None,
    typer.Option(min=1, help="Contexts per word. Default: all 16 templates, 20 sentences of a corpus."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many items, evenly spread.")]
LittleAsked = Annotated[bool, typer.Option("--quick", help="Ask little: a first look, with wider intervals.")]

# runs
RunFolder = Annotated[Path, output_folder(_RUN_FOLDER, RUN)]
RunFolderOrNone = Annotated[Path | None, output_folder(_RUN_FOLDER, RUN)]
NullTwins = Annotated[int, null_models("Null models to hold numbers against")]
Seed = Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Seed of every draw.")]
FirstSeed = Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The first seed.")]
