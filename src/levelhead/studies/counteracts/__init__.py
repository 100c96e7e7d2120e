"""CounterActs: does a counterexample change what a model predicts?"""

from __future__ import annotations

from functools import cached_property

from levelhead.runs.common import BASE
from levelhead.runs.files import CsvFile, JsonLines
from levelhead.runs.folder import RESULTS
from levelhead.runs.study import FIGURES, Parts, Study
from levelhead.studies.counteracts.records import ClozeCell, ClozeForm, OccupationLine, PromptAnswers
from levelhead.studies.counteracts.settings import CounteractsSettings, CounteractsStored

OCCUPATIONS = CsvFile("occupations/{}.csv", OccupationLine)
ANSWERS = JsonLines("answers/{}.jsonl", PromptAnswers)
PROMPTS_HASH = "prompts and words"


class Counteracts(Study[CounteractsStored]):
    """What knowledge before a question does: `cells`, `knowledge()`, `log_odds()`, `occupations(model)`."""

    name = "counteracts"
    title = "Counterexamples"
    question = "Does a sentence of knowledge before the question change what the model predicts?"
    about = (
        "Ask who works as a nurse, bare and after a sentence of knowledge: does a counterexample change it?"
    )
    settings_type = CounteractsSettings
    stored = CounteractsStored
    takes = "models"
    order = 60
    document = "counteracts.md"
    unserved = ""
    rows = ("cells",)
    old_name = "prompts"
    lists = True

    cells = Parts(ClozeCell, "Every measure of every kind of knowledge; labels: model | variant.")
    forms = Parts(ClozeForm, "How each model was evaluated in each variant.")

    def cells_of(self, model: str, variant: str = BASE) -> tuple[ClozeCell, ...]:
        """Every measure of every kind of knowledge, for one model in one variant."""
        return self.data.records(Counteracts.cells.of(cells_label(model, variant)))

    def occupations(self, model: str, variant: str = BASE) -> list[OccupationLine]:
        """Every measure of every occupation, for one model in one variant; the file is read once."""
        name = cells_label(model, variant)
        if name not in self._occupations:
            self._occupations[name] = OCCUPATIONS.of(name).read(self.folder)
        return self._occupations[name]

    @cached_property
    def _occupations(self) -> dict[str, list[OccupationLine]]:
        return {}

    def margin(self, variant: str = BASE) -> ClozeCell | None:
        """The first model's margin without knowledge over all occupations, at the k that stands for all."""
        return self._bare("margin", self.settings.shown_k, variant)

    def log_odds(self, variant: str = BASE) -> ClozeCell | None:
        """The first model's stereotype log-odds without knowledge."""
        from levelhead.measures.log_odds import NAME, NO_TOP_K  # which need numpy

        return self._bare(NAME, NO_TOP_K, variant)

    def knowledge(self, variant: str = BASE) -> tuple[ClozeCell, ...]:
        """What each kind of knowledge does to the first model's log-odds."""
        from levelhead.measures.log_odds import CHANGE

        cells = self.cells_of(self.settings.models[0], variant)
        return tuple(cell for cell in cells if (cell.name, cell.group) == (CHANGE, ""))

    def _bare(self, name: str, k: int, variant: str) -> ClozeCell | None:
        """One measure of the first model without knowledge over all occupations."""
        wanted = (name, k, BASE, "")
        for cell in self.cells_of(self.settings.models[0], variant):
            if (cell.name, cell.k, cell.kind, cell.group) == wanted:
                return cell
        return None

    @property
    def finished(self) -> bool:
        labels = [
            cells_label(model, variant)
            for model in self.settings.models
            for variant in self.settings.variants
        ]
        return all(Counteracts.cells.of(each).name in self.data.results for each in labels)

    def notes(self) -> list[str]:
        """Where the numbers and charts are."""
        return [f"All numbers: {self.folder / RESULTS}. Charts: {self.folder / FIGURES}."]

    def stated(self) -> dict[str, object]:
        """What `--json` prints: how each model was evaluated, with its measures."""
        models = [{**each.to_json(), "cells": self.cells_of(each.model, each.variant)} for each in self.forms]
        return {"run": str(self.folder), "models": models}


def cells_label(model: str, variant: str) -> str:
    """The label of a model's results in one variant."""
    return f"{model} | {variant}"
