"""What the runs of all studies have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from levelhead.results import layout
from levelhead.results.folder import RunData, read_run
from levelhead.results.keys import Layout, TextFile
from levelhead.results.settings import RunSettings

S = TypeVar("S", bound=RunSettings)


@dataclass(frozen=True)
class StudyRun(Generic[S]):
    """The run of one study: its data, and where they lie."""

    LAYOUT: ClassVar[Layout[Any]]  # of the study
    data: RunData[S]

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """The run of this study in a folder."""
        return cls(read_run(folder, [cls.LAYOUT]))

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self.data.folder

    @property
    def settings(self) -> S:
        """What was asked."""
        return self.data.settings

    @property
    def model(self) -> str:
        """The model, or the models, that were asked."""
        raise NotImplementedError

    @property
    def weights(self) -> str | None:
        """The hash of the model's weights; None for a run about several models."""
        return self.data.hashes.get(layout.WEIGHTS_HASH)

    @property
    def openings(self) -> dict[str, str]:
        """What every text began with, for each model that was asked."""
        return self._said(layout.OPENING_FACT)

    @property
    def doubts(self) -> dict[str, str]:
        """Why no verdict may rest on the numbers of a model, for each model of which that is so."""
        return self._said(layout.DOUBT_FACT)

    def _said(self, fact: str) -> dict[str, str]:
        of = f"{fact} of "
        own = {self.model: self.data.hashes[fact]} if fact in self.data.hashes else {}
        return own | {
            name.removeprefix(of): value for name, value in self.data.hashes.items() if name.startswith(of)
        }

    @property
    def recipe_texts(self) -> dict[Path, str]:
        """The recipe files of the folder with their texts, in the order of their names."""
        paths = sorted((self.folder / layout.RECIPES).glob("*.toml"))
        return {path: TextFile(f"{layout.RECIPES}/{path.name}").read(self.folder) or "" for path in paths}

    def address(self, record: object) -> str | None:
        """Where a record stands in the run's results.jsonl, `key#index`; None for any other record."""
        return self.data.address(record)
