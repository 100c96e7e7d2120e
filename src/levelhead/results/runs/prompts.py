"""A run of CounterActs: what knowledge before a question does."""

from __future__ import annotations

from functools import cached_property

from levelhead.measures.cloze.log_odds import CHANGE as LOG_ODDS_CHANGE
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.cloze.log_odds import NO_TOP_K
from levelhead.results import layout
from levelhead.results.records.cloze import ClozeCell, ClozeForm, OccupationLine
from levelhead.results.records.common import BASE
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import PromptsRunSettings


class PromptsRun(StudyRun[PromptsRunSettings]):
    """What knowledge before a question does."""

    LAYOUT = layout.PROMPTS

    @property
    def model(self) -> str:
        """The models that were asked."""
        return ", ".join(self.settings.models)

    @property
    def cells(self) -> tuple[ClozeCell, ...]:
        """Every measure of every kind of knowledge, all models and variants."""
        return tuple(cell for part in self.data.family(layout.CLOZE_CELLS).values() for cell in part)

    @property
    def forms(self) -> tuple[ClozeForm, ...]:
        """How each model was asked in each variant."""
        return tuple(form for part in self.data.family(layout.CLOZE_FORMS).values() for form in part)

    def cells_of(self, model: str, variant: str = BASE) -> tuple[ClozeCell, ...]:
        """Every measure of every kind of knowledge, for one model in one variant."""
        return self.data.records(layout.CLOZE_CELLS.of(prompts_label(model, variant)))

    def occupations(self, model: str, variant: str = BASE) -> list[OccupationLine]:
        """Every measure of every occupation, for one model in one variant; the file is read once."""
        label = prompts_label(model, variant)
        if label not in self._occupations:
            self._occupations[label] = layout.OCCUPATIONS.of(label).read(self.folder)
        return self._occupations[label]

    @cached_property
    def _occupations(self) -> dict[str, list[OccupationLine]]:
        return {}

    def margin(self, variant: str = BASE) -> ClozeCell | None:
        """The first model's margin without knowledge over all occupations, at the k that stands for all."""
        return self._bare("margin", self.settings.shown_k, variant)

    def log_odds(self, variant: str = BASE) -> ClozeCell | None:
        """The first model's stereotype log-odds without knowledge."""
        return self._bare(LOG_ODDS, NO_TOP_K, variant)

    def knowledge(self, variant: str = BASE) -> tuple[ClozeCell, ...]:
        """What each kind of knowledge does to the first model's log-odds."""
        cells = self.cells_of(self.settings.models[0], variant)
        return tuple(cell for cell in cells if (cell.name, cell.group) == (LOG_ODDS_CHANGE, ""))

    def _bare(self, name: str, k: int, variant: str) -> ClozeCell | None:
        """One measure of the first model without knowledge over all occupations."""
        wanted = (name, k, BASE, "")
        for cell in self.cells_of(self.settings.models[0], variant):
            if (cell.name, cell.k, cell.kind, cell.group) == wanted:
                return cell
        return None


def prompts_label(model: str, variant: str) -> str:
    """The label of a model's results in one variant."""
    return f"{model} | {variant}"
