"""Null models of a heads run: one pass over each gives its SEAT and the slopes of its heads.

They come in rounds (measures/rounds.py). What a round has settled is not asked of the next: of the later ones
perhaps SEAT alone, the heads alone, or the scores of heads without any removal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.rounds import looks
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.progress import steps
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.heads import CrossFit
from levelhead.results.settings import HeadsRunSettings
from levelhead.scoring.seat import context_vectors
from levelhead.scoring.token_rows import RowsQuestion
from levelhead.studies.heads.crossfit import Splits, cross_fit, removal_closed, scores_closed
from levelhead.studies.heads.prepared import Prepared
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.work import Stage, stage

Doubles = NDArray[np.float64]
Open = Run[HeadsRunSettings]


def drawable_twins(model: Model, number: int) -> tuple[int, str]:
    """How many null twins there will be, and why there is none of a model that was to have some."""
    try:
        if number:
            draw_twin(model, 0)
    except CannotDo as error:
        return 0, str(error)
    return number, ""


@dataclass(eq=False)
class NullModels:
    """The null models of a run, and what is asked of them and of the model in the same way."""

    model: Model
    prepared: Prepared
    settings: HeadsSettings
    planned: int
    run: Open
    fits: list[CrossFit] = field(default_factory=list)  # of the model, then of each twin
    why_not: str = ""  # there are no fits

    @property
    def scored(self) -> int:
        """How many of the planned null models have their heads scored, at most."""
        most = self.settings.scored_twins
        return self.planned if most is None else min(most, self.planned)

    @cached_property
    def rows(self) -> RowsQuestion:
        """SEAT of all rows."""
        resampling = replace(self.settings.resampling, items=True)
        return RowsQuestion(self.model, self.prepared.test, self.prepared.table.contexts, resampling)

    def ask(self) -> None:
        """Ask the model, then null models, until all verdicts are settled or all planned ones are there."""
        with stage(Stage.WORDS):
            if not self.rows.measurable:
                return
            self.rows.begin()
        with stage(Stage.NULLS):
            self._fit("model", None, lambda: self.rows.vectors[self.prepared.table.first_places()])
            self._ask_twins()

    def _ask_twins(self) -> None:
        seats, fits, removals = True, bool(self.fits), True
        with steps("Null models", self.planned) as advance:
            for number in range(self.planned):
                if number in looks(self.planned):
                    seats = seats and not self.rows.settled(self.planned)
                fits = fits and number < self.scored
                if number in looks(self.scored):
                    removals = fits and removals and not removal_closed(self.fits, self.scored)
                    fits = fits and (removals or not scores_closed(self.fits, self.scored))
                if seats or fits:
                    self._ask_twin(number, seats, fits, removals)
                    fits = fits and bool(self.fits)
                advance(1)

    def stored(self) -> None:
        """Take what a run that has asked all of them keeps."""
        if any(each.value is None for each in self.run.stored(layout.CROSS_FIT)):
            return  # the words cannot be halved
        labels = ("model", *map(_label, range(self.planned)))
        self.fits = [fit for label in labels for fit in self.run.stored(layout.CROSS_FITS.of(label))]

    def _ask_twin(self, number: int, seats: bool, fits: bool, removals: bool) -> None:
        label, rows = _label(number), self.rows
        once = cache(rows.read_few if seats else self._read_first)
        with twinned(self.model, draw_twin(self.model, twin_seed(self.settings.seed, number))):
            if seats:
                rows.add(self.run.results(layout.TWIN_SEATS.of(label), lambda: rows.seats(once())))
            if fits:
                first = rows.few.first_places() if seats else slice(None)
                self._fit(label, number, lambda: once()[first], removals)

    def _read_first(self) -> Doubles:
        return np.asarray(context_vectors(self.model, self._splits.table, "Heads in null models"))

    @cached_property
    def _splits(self) -> Splits:
        table, test = self.prepared.table, self.prepared.test
        return Splits.of(table, test, self.settings.splits, self.settings.seed)

    def _fit(
        self, label: str, twin: int | None, vectors: Callable[[], Doubles], removals: bool = True
    ) -> None:
        """The fits of the model, or of a twin; without any of the model's there are none at all.

        removals: heads are removed too, not only scored.
        """
        if not self.settings.splits:
            return
        key, top = layout.CROSS_FITS.of(label), self.settings.top if removals else 0
        try:
            splits = self._splits
            self.fits += self.run.results(key, lambda: cross_fit(self.model, splits, vectors(), top, twin))
        except (BadProbe, CannotDo) as error:
            self.fits, self.why_not = [], str(error).rstrip(".")


def _label(number: int) -> str:
    return f"twin {number + 1}"
