"""Settings of a published benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadOption
from levelhead.options import Settings, limit, null_models, option, resamples, seed
from levelhead.runs.study import Stored


@dataclass(frozen=True)
class BenchmarkSettings(Settings):
    """Which items of which benchmark, by which rule."""

    benchmark: str = option("", "crows-pairs, bbq ...; --list tells all.", argument=True)
    data: str | Path = option(
        "", "The published file, or a folder that holds it.", metavar="PATH|hub:NAME", kind="file"
    )
    rule: str | None = option(None, "How answers are scored; --list tells all.")
    categories: tuple[str, ...] = option(
        (), "Of the benchmark's own categories; repeatable. Default: all.", each=True, old=("--category",)
    )
    limit: int | None = limit()
    null: int | None = null_models(None, "Null models, on all items. Default: up to 5 on some of them")
    chat: bool = option(False, "Ask through the chat template of the model's tokenizer.")
    samples: int | None = option(
        None, "Answers per question of a server that gives no likelihoods. Default: 8", least=1, most=1000
    )
    from_predictions: str | Path | None = option(
        None, "Score published predictions in place of a model.", metavar="FILE", kind="file"
    )
    resamples: int = resamples()
    seed: int = seed()

    def check(self) -> None:
        given: object = self.categories
        if isinstance(given, str):
            raise BadOption(f"categories must be a list, [{given!r}] (got {given!r})")
        if self.from_predictions is not None and (self.null or self.chat):
            raise BadOption("Published predictions have neither null models nor chats. Leave both out.")


@dataclass(frozen=True, kw_only=True)
class BenchmarkStored(Stored, BenchmarkSettings):
    """The settings as a run stores them."""

    data: str = ""
    from_predictions: str | None = None
    abilities: tuple[str, ...] = ()
