"""Benchmarks whose items are choices: every item has candidate texts, and a model gives each a likelihood.

What such a benchmark says is which texts are scored (`candidates`), how a rule makes numbers of their
likelihoods (`reduced`), and which scores those have (`scores`). Asking, intervals, artificial answerers,
natural units and the objective are told once, here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Variant
from levelhead.engine.readings import SpanLikelihoods, scored_positions
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.catalog import GAP_INFO
from levelhead.measures.choices import ANTI, RULE, STEREOTYPE, ChoiceLogs, Score, artificial_answerers, beside
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import FloatArray, Resampling
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.encoding import Span, Text, TokenRow, encode
from levelhead.models.model import Model
from levelhead.probes.benchmark_files import Reader, Row, Source
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, Item, Items, Selection, chosen_items
from levelhead.scoring.items import ItemValues
from levelhead.scoring.objective import Objective, mean_objective

# ---- what is read

TOO_LONG = "too long for the model, or without a token"
_RENDERED = 1000  # chats that are rendered in one process
FORM = "answers"  # the setting by which a score says that a model was sampled in place of being read
NOTHING_SCORED = "a candidate has no token that is scored"


@dataclass(frozen=True)
class Part:
    """A text of a candidate, and which of its tokens are scored: those that touch a span, those at these
    positions, or all."""

    text: Text
    span: Span | None = None
    positions: tuple[int, ...] | None = None
    instead: tuple[int, ...] | None = None  # tokens that are read there in place of the text's own


Candidates = Sequence[Sequence[Part]]  # [choice][part]


@dataclass(frozen=True, eq=False)
class ChoiceTable:
    """Everything that is read for some items: texts side by side, and whose they are."""

    items: tuple[Any, ...]  # those that can be scored
    reading: SpanLikelihoods
    owner: NDArray[np.int64]  # [text] item · choices + choice
    tokens: FloatArray  # [text] scored tokens
    unscored: Mapping[str, int]

    def weights(self, contrast: FloatArray, per_token: bool) -> FloatArray:
        """By how much each text counts in the contrast of its item: [text]."""
        weights = contrast.ravel()[self.owner]
        if not per_token:
            return weights
        behind = np.bincount(self.owner, weights=self.tokens, minlength=contrast.size)
        return np.asarray(weights / np.maximum(behind[self.owner], 1.0))


def row_of(model: Model, text: Text) -> TokenRow | None:
    """The tokens of a text; None where it does not fit into the model."""
    try:
        return next(encode(model, [text]))
    except BadProbe:
        return None


def continuations(
    model: Model, items: Items, turns: Callable[[Any], tuple[str, Sequence[str]]], between: str
) -> Callable[[Any], Candidates]:
    """Candidates that continue a text; turns: of an item what a model is told, and what it may say.

    Through the chat template of the model's tokenizer where the items are chats, else after `between`.
    """
    chats: dict[tuple[str, str], Text] = {}
    if items.chat:
        require_chat(model)
        pairs = [(told, said) for told, several in map(turns, items.items) for said in several]
        for start in range(0, len(pairs), _RENDERED):
            some = pairs[start : start + _RENDERED]
            chats.update(zip(some, chat_texts(model, some), strict=True))

    def of(item: Any) -> Candidates:
        told, several = turns(item)
        texts = [chats[told, said] if chats else Text(f"{told}{between}{said}") for said in several]
        return [
            [Part(text, (len(text.first) - len(said), len(text.first)))]
            for text, said in zip(texts, several, strict=True)
        ]

    return of


# ---- how it is scored


@dataclass(frozen=True, eq=False)
class Answered:
    """What a model gives every candidate in every variant, by a rule."""

    items: tuple[Any, ...]
    x: list[FloatArray]  # [variant] of [item, choice]
    unscored: Mapping[str, int]
    nats: Sequence[FloatArray] = ()  # [variant] of [item]: the bias of each; nan where it has none
    details: Mapping[str, float] = field(default_factory=dict)  # of every score
    form: str = ""  # in which answers were given, where that is not the items' own


class ChoiceBenchmark(ABC):
    """A benchmark of choices; one object of a subclass is the benchmark."""

    info: BenchmarkInfo
    choices: int = 2
    answerers: bool = True  # artificial ones stand beside every score
    summed: tuple[str, ...] = ()  # rules that score the sum over tokens; the others score its mean
    rounded: tuple[str, ...] = ()  # rules that round that to three digits, as published
    natural_per_token: bool = False  # the natural contrast is of means per token, not of sums
    roles_of_choices: tuple[int, ...] = (STEREOTYPE, ANTI)  # where they are those of every item

    def load(self, data: str | Path, selection: Selection) -> Items:
        reader = Reader(self.info.source_of(data))
        return chosen_items(self.info, reader, reader.read(self.rows(reader.source), self.item), selection)

    def rows(self, source: Source) -> Iterable[Row]:
        """The rows of the user's files; a benchmark has this and `item`, or a `load` of its own."""
        raise NotImplementedError

    def item(self, row: Row) -> Item:
        """The item of a row; what cannot be used is an error of the row's, and is counted."""
        raise NotImplementedError

    @abstractmethod
    def candidates(self, model: Model, items: Items, rule: str) -> Callable[[Any], Candidates | str]:
        """What is read for an item, by choice; or why it cannot be scored."""

    def reduced(self, logs: ChoiceLogs, rule: str) -> FloatArray:
        """What a rule makes of likelihoods: [item, choice]."""
        x = logs.total() if rule in self.summed else logs.per_token()
        return np.asarray(np.round(x, 3)) if rule in self.rounded else x

    @abstractmethod
    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        """The scores of some items, from x [item, choice]."""

    def spoken(self, item: Any, rule: str) -> tuple[str, Sequence[str]] | None:
        """What a model is told, and the words by which it may answer; None where likelihoods alone answer."""
        return None

    def of_answers(self, items: Sequence[Any], counts: NDArray[np.int64]) -> tuple[Sequence[Any], FloatArray]:
        """Items and x [item, choice] of answers in words, counts [item, choice]: each answer is an item."""
        named = [
            (item, c)
            for item, own in zip(items, counts, strict=True)
            for c in np.repeat(range(len(own)), own)
        ]
        return [item for item, _ in named], np.eye(self.choices)[[c for _, c in named]]

    def roles(self, items: Sequence[Any]) -> NDArray[np.int64]:
        """What each candidate stands for: [item, choice] (measures/choices.py)."""
        return np.tile(np.asarray(self.roles_of_choices, np.int64), (len(items), 1))

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
        table = self.table(model, items, rule)
        answers = read_one(model, table.reading, variants, label=self.info.title)
        return self.judged(table, answers, rule)

    def judged(self, table: ChoiceTable, answers: NDArray[np.float64], rule: str) -> Answered:
        """What log p of every text in every variant, [variant, text], say by a rule."""
        shape = (len(table.items), self.choices)
        logs = (ChoiceLogs(answer, table.owner, table.tokens, shape) for answer in answers)
        x = [self.reduced(each, rule) for each in logs]
        contrast = self.contrast(table.items)
        weights, of_item = table.weights(contrast, self.natural_per_token), table.owner // self.choices
        none = np.where(np.abs(contrast).sum(axis=1) > 0, 0.0, np.nan)
        sums = (np.bincount(of_item, weights=weights * a, minlength=len(none)) for a in answers)
        nats = [np.asarray(each + none, np.float64) for each in sums]
        return Answered(table.items, x, table.unscored, nats)

    def table(self, model: Model, items: Items, rule: str) -> ChoiceTable:
        """The texts of all items that can be scored; a table without items is an error with its reasons."""
        if reason := self.why_not(model, rule):
            raise CannotDo(f"{reason}.")
        candidates, kept = self.candidates(model, items, rule), list[Any]()
        parts: list[tuple[Part, tuple[int, ...], int]] = []  # a part, its scored positions, its candidate
        unscored = Counter(items.unscored)
        for item in items.items:
            given, placed = candidates(item), list[tuple[Part, tuple[int, ...], int]]()
            why = given if isinstance(given, str) else ""
            for choice, several in enumerate([] if isinstance(given, str) else given):
                for part in several:
                    row = None if why else row_of(model, part.text)
                    if row is None:
                        why = why or TOO_LONG
                        continue
                    touched = None if part.span is None else [int(p) for p in row.tokens_of(part.span)]
                    positions = part.positions if touched is None else touched
                    scored = tuple(int(p) for p in scored_positions(model, row, positions))
                    why = "" if scored else NOTHING_SCORED
                    placed.append((part, scored, len(kept) * self.choices + choice))
            if why:
                unscored[why] += 1
                continue
            parts += placed
            kept.append(item)
        if not kept:
            counts = ", ".join(f"{reason}: {n}" for reason, n in unscored.items())
            raise BadProbe(f"{items.name}: none of its {len(items.items)} items can be scored ({counts}).")
        instead = [part.instead for part, _, _ in parts]
        reading = SpanLikelihoods(
            [part.text for part, _, _ in parts],
            [positions for _, positions, _ in parts],
            [owner // self.choices for _, _, owner in parts],
            instead if any(tokens is not None for tokens in instead) else None,
        )
        owner = np.asarray([owner for _, _, owner in parts], np.int64)
        tokens = np.asarray([len(positions) for _, positions, _ in parts], np.float64)
        return ChoiceTable(tuple(kept), reading, owner, tokens, dict(unscored))

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
        every, x = answered.items, answered.x[variant]
        nats = answered.nats[variant] if len(answered.nats) else np.full(len(every), np.nan)
        in_nats = {GAP_INFO.name, *(each.name for each in self.info.scores if each.nats)}
        settings = {"benchmark": self.info.name, RULE: rule}
        found = []
        for label, numbers in [("", list(range(len(every)))), *self.groups(every).items()]:
            items = [every[i] for i in numbers]
            scored = partial(self.scores, items, rule)
            known = artificial_answerers(self.roles(items), self.gold(items), resampling.seed)
            others = beside(known, scored) if self.answerers else {}
            scores = scored(x[numbers])
            # the mean bias in nats, where none of the scores is in nats already
            counted = np.flatnonzero(np.isfinite(nats[numbers]))
            if counted.size and not any(score.name.split(",")[0] in in_nats for score in scores):
                clusters = [items[int(i)].cluster for i in counted]
                scores = [*scores, Score(GAP_INFO.name, nats[numbers][counted], clusters, 0.0, scaled=True)]
            for score in scores:
                one = score.measured(resampling)
                near = {} if score.scaled else others.get(score.name, {})
                one = replace(
                    one,
                    name=f"{self.info.name} {score.name}{f', {label}' if label else ''}",
                    details={**one.details, **near, **answered.details},
                    settings={**one.settings, **settings, **({FORM: answered.form} if answered.form else {})},
                )
                found.append(one if label else replace(one, unscored=dict(answered.unscored)))
        return found

    def predicted(self, items: Items, file: Path) -> Answered:
        """Answers that a published file of predictions holds, in place of a model's."""
        raise CannotDo(f"No published predictions of {self.info.title} are known. Give a model.")

    def natural(self, model: Model, items: Items, variants: Sequence[Variant]) -> ItemValues:
        answered = self.answered(model, items, self.info.rules[0].name, variants)
        values = np.stack(answered.nats)
        counted = np.isfinite(values).all(axis=0)
        clusters = np.asarray([item.cluster for item in answered.items])[counted]
        return ItemValues(self.info.name, "nats", values[:, counted], clusters)

    def objective(self, model: Model, items: Items) -> Objective | None:
        if self.why_not(model):
            return None
        # the default rule's table, by how much each text counts, and which items do
        table = self.table(model, items, self.info.rules[0].name)
        contrast, n = self.contrast(table.items), len(table.items)
        counted = np.abs(contrast).sum(axis=1) > 0
        of_text = torch.from_numpy(table.weights(contrast, self.natural_per_token))
        of_item, kept = torch.from_numpy(table.owner // self.choices), torch.from_numpy(counted)

        def gaps(sums: Tensor) -> Tensor:
            return sums.new_zeros(n).index_add(0, of_item, of_text.to(sums) * sums)[kept]

        clusters = np.asarray([item.cluster for item in table.items])[counted]
        return mean_objective(self.info.name, "nats", table.reading, gaps, clusters)
