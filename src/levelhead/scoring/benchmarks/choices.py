"""Benchmarks whose items are choices: every item has candidate texts, and a model gives each a likelihood.

What such a benchmark says is which texts are asked (`candidates`), how a rule makes numbers of their
likelihoods (`reduced`), and which scores those have (`scores`). Asking, intervals, artificial answerers,
natural units and the objective are told once, here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Variant
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.choices import RULE, ChoiceLogs, Score, artificial_answerers, beside
from levelhead.measures.measurement import Measurement
from levelhead.measures.score_infos import GAP_INFO
from levelhead.measures.statistics import FloatArray, Resampling
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.candidates import Candidates, ChoiceTable, choice_table
from levelhead.scoring.benchmarks.protocol import Asked, BenchmarkInfo, Items
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.objective import Objective, mean_objective


@dataclass(frozen=True, eq=False)
class Answered:
    """What a model gives every candidate in every variant, by a rule."""

    items: tuple[Any, ...]
    x: list[FloatArray]  # [variant] of [item, choice]
    unscored: Mapping[str, int]
    nats: Sequence[FloatArray] = ()  # [variant] of [item]: the bias of each; nan where it has none


class ChoiceBenchmark(ABC):
    """A benchmark of choices; one object of a subclass is the benchmark."""

    info: BenchmarkInfo
    choices: int = 2
    answerers: bool = True  # artificial ones stand beside every score
    natural_per_token: bool = False  # the natural contrast is of means per token, not of sums

    @abstractmethod
    def load(self, data: str | Path, asked: Asked) -> Items:
        """The items of the user's files."""

    @abstractmethod
    def candidates(self, model: Model, items: Items, rule: str) -> Callable[[Any], Candidates | str]:
        """Of an item what is asked, by choice; or why it cannot be asked."""

    @abstractmethod
    def reduced(self, logs: ChoiceLogs, rule: str) -> FloatArray:
        """What a rule makes of likelihoods: [item, choice]."""

    @abstractmethod
    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        """The scores of some items, from x [item, choice]."""

    @abstractmethod
    def roles(self, items: Sequence[Any]) -> NDArray[np.int64]:
        """What each candidate stands for: [item, choice] (measures/choices.py)."""

    def gold(self, items: Sequence[Any]) -> NDArray[np.int64] | None:
        """The right choice of every item, where there is one."""
        return None

    def contrast(self, items: Sequence[Any]) -> FloatArray:
        """How the bias of an item in nats is made of its candidates' log-likelihoods: [item, choice]."""
        roles = self.roles(items)
        return np.where(np.abs(roles) == 1, roles, 0).astype(np.float64)

    def groups(self, items: Sequence[Any]) -> dict[str, list[int]]:
        """Parts of the items that are also scored alone: the categories, where there are several."""
        names = list(dict.fromkeys(item.category for item in items))
        if len(names) < 2:
            return {}
        return {name: [i for i, item in enumerate(items) if item.category == name] for name in names}

    def why_not(self, model: Model, rule: str | None = None) -> str:
        needs = self.info.rule(rule).needs
        if model.abilities & set(needs):
            return ""
        asks = f"{self.info.name} by the rule {self.info.rule(rule).name}"
        return f"{asks} asks a model that can do {' or '.join(needs)}; {model.name} cannot"

    def answered(self, model: Model, items: Items, rule: str, variants: Sequence[Variant]) -> Answered:
        """What the model gives every candidate in every variant."""
        table = self.table(model, items, rule)
        answers = read_one(model, table.reading, variants, label=self.info.title)
        x = [self.reduced(table.logs(answer), rule) for answer in answers]
        return Answered(table.items, x, table.unscored, self._nats(table, answers))

    def table(self, model: Model, items: Items, rule: str) -> ChoiceTable:
        """What is asked; a table without items is an error with its reasons."""
        if reason := self.why_not(model, rule):
            raise CannotDo(f"{reason}.")
        table = choice_table(model, items, self.candidates(model, items, rule), self.choices)
        if not table.items:
            counts = ", ".join(f"{reason}: {n}" for reason, n in table.unscored.items())
            raise BadProbe(f"{items.name}: none of its {len(items.items)} items can be scored ({counts}).")
        return table

    def ask(
        self,
        model: Model,
        items: Items,
        variants: Sequence[Variant],
        rule: str | None,
        resampling: Resampling,
    ) -> list[list[Measurement]]:
        name = self.info.rule(rule).name
        answered = self.answered(model, items, name, variants)
        return [self.measured(answered, variant, name, resampling) for variant in range(len(variants))]

    def measured(
        self, answered: Answered, variant: int, rule: str, resampling: Resampling
    ) -> list[Measurement]:
        """Every score of one variant: of all items first, then of their groups."""
        items, x = answered.items, answered.x[variant]
        nats = answered.nats[variant] if len(answered.nats) else np.full(len(items), np.nan)
        found = self._group("", items, rule, (x, nats), resampling)
        found = [replace(each, unscored=dict(answered.unscored)) for each in found]
        for label, numbers in self.groups(items).items():
            some = [items[i] for i in numbers]
            found += self._group(f", {label}", some, rule, (x[numbers], nats[numbers]), resampling)
        return found

    def _group(
        self,
        label: str,
        items: Sequence[Any],
        rule: str,
        answers: tuple[FloatArray, FloatArray],
        resampling: Resampling,
    ) -> list[Measurement]:
        x, nats = answers
        scored = partial(self.scores, items, rule)
        known = artificial_answerers(self.roles(items), self.gold(items), resampling.seed)
        others = beside(known, scored) if self.answerers else {}
        settings = {"benchmark": self.info.name, RULE: rule}
        found = []
        scores = scored(x)
        for score in [*scores, *self._gap(scores, items, nats)]:
            one = score.measured(resampling)
            near = {} if score.scaled else others.get(score.name, {})
            found.append(
                replace(
                    one,
                    name=f"{self.info.name} {score.name}{label}",
                    details={**one.details, **near},
                    settings={**one.settings, **settings},
                )
            )
        return found

    def _gap(self, scores: Sequence[Score], items: Sequence[Any], nats: FloatArray) -> list[Score]:
        """The mean bias in nats, where none of the scores is in nats already."""
        in_nats = {GAP_INFO.name, *(each.name for each in self.info.scores if each.nats)}
        counted = np.flatnonzero(np.isfinite(nats))
        if any(score.name.split(",")[0] in in_nats for score in scores) or not counted.size:
            return []
        clusters = [items[int(i)].cluster for i in counted]
        return [Score(GAP_INFO.name, nats[counted], clusters, 0.0, scaled=True)]

    def predicted(self, items: Items, file: Path) -> Answered:
        """Answers that a published file of predictions holds, in place of a model's."""
        raise CannotDo(f"No published predictions of {self.info.title} are known. Give a model.")

    def natural(self, model: Model, items: Items, variants: Sequence[Variant]) -> ItemValues:
        table = self.table(model, items, self.info.rules[0].name)
        answers = read_one(model, table.reading, variants, label=self.info.title)
        values = np.stack(self._nats(table, answers))
        counted = np.isfinite(values).all(axis=0)
        clusters = np.asarray([item.cluster for item in table.items])[counted]
        return ItemValues(self.info.name, "nats", values[:, counted], clusters)

    def _nats(self, table: ChoiceTable, answers: Iterable[FloatArray]) -> list[FloatArray]:
        """The bias of every item in nats, in every variant; nan where an item has none."""
        contrast = self.contrast(table.items)
        weights, of_item = table.weights(contrast, self.natural_per_token), table.owner // self.choices
        none = np.where(np.abs(contrast).sum(axis=1) > 0, 0.0, np.nan)
        sums = (np.bincount(of_item, weights=weights * a, minlength=len(none)) for a in answers)
        return [np.asarray(each + none, np.float64) for each in sums]

    def objective(self, model: Model, items: Items) -> Objective | None:
        if self.why_not(model):
            return None
        table, weights, counted = self._contrasted(model, items)
        of_text, of_item = (torch.from_numpy(each) for each in (weights, table.owner // self.choices))
        kept, n = torch.from_numpy(counted), len(table.items)

        def gaps(sums: Tensor) -> Tensor:
            return sums.new_zeros(n).index_add(0, of_item, of_text.to(sums) * sums)[kept]

        clusters = np.asarray([item.cluster for item in table.items])[counted]
        return mean_objective(self.info.name, "nats", table.reading, gaps, clusters)

    def _contrasted(self, model: Model, items: Items) -> tuple[ChoiceTable, FloatArray, NDArray[np.bool_]]:
        """The default rule's table, by how much each text counts, and which items do."""
        table = self.table(model, items, self.info.rules[0].name)
        contrast = self.contrast(table.items)
        weights = table.weights(contrast, self.natural_per_token)
        return table, weights, np.abs(contrast).sum(axis=1) > 0
