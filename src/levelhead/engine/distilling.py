"""Distillation of the symmetrized model into weights (SPEC G3, docs/method.md, Distillation).

    θ minimizes the mean over texts x of KL( f_s(· | x) ‖ f_θ(· | x) ) + the same at every turn of x,
    where the part of KL that says which group a word is of, given what it means, counts 1 + _BETWEEN times

f_s is the model itself, frozen, asked at every turn of the groups and mixed (edits/symmetry.py). Causal
models are taught at every token, masked ones at masked tokens, words of a group more often; classifiers by
their answer to pairs of sentences. The next-sentence head of a masked model is not trained: it is solved
for afterwards (mitigation/head_fitting.py). A text without a word for a group is its own turn: there the
student is held where the model was, but for the words of groups themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.name_beliefs import believing
from levelhead.engine.reweighing import Batch
from levelhead.engine.run import read_one
from levelhead.engine.token_classes import TokenClasses, token_classes
from levelhead.engine.trunk import Trunk
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, TokenRow, encode
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.probes.group_swap import GroupSwap

_MASKED = 0.15  # of the other tokens
_MASKED_GROUP = 0.5  # of words for a group
_BETWEEN = 6.0  # times more that the part of KL between groups counts
_TINY = 1e-30
Places = NDArray[np.int64]
_NOWHERE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A text at every turn of the groups, and which tokens of its turns stand for each other; one row if no
    token changes."""

    turns: tuple[Tokens, ...]
    words: Places  # [turn, token]: positions of tokens that stand for each other
    group: NDArray[np.bool_]  # [token]: whether it changes

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(turn.ids) for turn in self.turns)


@dataclass(frozen=True, eq=False)
class Aligned:
    """Texts that can be distilled, and how many have no token that could be taught."""

    texts: tuple[AlignedText, ...]
    left_out: int


def aligned(model: Model, swap: GroupSwap, texts: Sequence[Text], cut: int) -> Aligned:
    """Texts whose tokens stand for each other at every turn.

    A word may have other numbers of tokens at other turns: then what stands around it is taught, but not
    the word itself.
    """
    limit = min(cut, model.max_tokens or cut)
    swap = believing(model, swap, texts, lambda asked: [read_one(model, each) for each in asked])
    turned = [[turned_text(swap, text, turn) for text in texts] for turn in range(swap.groups)]
    rows = zip(*(encode(model, some, limit) for some in turned), strict=True)
    place = _places(token_classes(model, swap))
    found = [_aligned(text, row, swap, place) for text, row in zip(texts, rows, strict=True)]
    kept = tuple(each for each in found if each.words.size)
    return Aligned(kept, len(found) - len(kept))


def turned_text(swap: GroupSwap, text: Text, turn: int) -> Text:
    """A text, or a pair, after a turn of the groups."""
    second = None if text.second is None else swap(text.second, turn).text
    return replace(text, first=swap(text.first, turn).text, second=second)


def _places(classes: TokenClasses) -> dict[int, tuple[int, int]]:
    """The class and group of each token that has one."""
    return {
        token: (number, group)
        for number, groups in enumerate(classes.classes)
        for group, tokens in enumerate(groups)
        for token in tokens
    }


def _aligned(
    text: Text, rows: Sequence[TokenRow], swap: GroupSwap, place: dict[int, tuple[int, int]]
) -> AlignedText:
    own = rows[0]
    if all(np.array_equal(row.ids, own.ids) for row in rows):
        words = np.flatnonzero(own.part >= 0)[None]
        return AlignedText((Tokens(own.ids, own.types),), words, np.zeros(words.shape[1], np.bool_))
    found = [_counterparts(text, own, row, swap, turn) for turn, row in enumerate(rows)]
    everywhere = np.flatnonzero(np.all([each >= 0 for each in found], axis=0))
    kept, changes = [], []
    for position in everywhere:
        tokens = [int(row.ids[each[position]]) for row, each in zip(rows, found, strict=True)]
        changed = len(set(tokens)) > 1
        if not changed or _are_counterparts(tokens, place, swap.groups):
            kept.append(position)
            changes.append(changed)
    turns = tuple(Tokens(row.ids, row.types) for row in rows)
    return AlignedText(turns, np.stack(found)[:, kept], np.asarray(changes, np.bool_))


def _are_counterparts(tokens: Sequence[int], place: dict[int, tuple[int, int]], groups: int) -> bool:
    """Whether each token, of one turn each, stands for the first after its turn."""
    first = place.get(tokens[0])
    if first is None:
        return False
    return [place.get(token) for token in tokens] == [
        (first[0], (first[1] + turn) % groups) for turn in range(groups)
    ]


def _counterparts(text: Text, own: TokenRow, row: TokenRow, swap: GroupSwap, turn: int) -> Places:
    """Where the characters of each token of the text stand after a turn, as a token; −1 where they are none,
    or where the token is part of the text's frame."""
    sentences = [swap(each, turn) for each in (text.first, text.second or "")]
    at = {
        (int(part), int(start), int(end)): position
        for position, (part, (start, end)) in enumerate(zip(row.part, row.offsets, strict=True))
    }
    return np.asarray(
        [
            at.get((int(part), *sentences[part].place((int(start), int(end)))), -1) if part >= 0 else -1
            for part, (start, end) in zip(own.part, own.offsets, strict=True)
        ],
        np.int64,
    )


# ---- the mixture


@dataclass(frozen=True, eq=False)
class TokenMixture:
    """TokenClasses.mixed on tensors of probabilities, for all tokens of a vocabulary at once."""

    columns: Tensor  # tokens that have a class
    cell: Tensor  # of each of them: class x groups + group
    shift: Tensor  # [turn, cell]: the cell that stands for a cell after a turn

    @classmethod
    def of(cls, classes: TokenClasses, groups: int, device: torch.device) -> TokenMixture:
        """The mixture of a model's classes."""
        place = _places(classes)
        cell = [number * groups + group for number, group in place.values()]
        cells = torch.arange(len(classes.classes) * groups)
        base, group = cells // groups * groups, cells % groups
        shift = torch.stack([base + (group + turn) % groups for turn in range(groups)])
        columns = torch.tensor(list(place), dtype=torch.long)
        return cls(columns.to(device), torch.tensor(cell, dtype=torch.long).to(device), shift.to(device))

    def __call__(self, answers: Tensor, partners: Tensor) -> Tensor:
        """p_s(y | x) of the probabilities [answer, token]; partners [answer, turn]: the same after a turn."""
        mixed = answers.index_select(0, partners[:, 0])
        own = mixed[:, self.columns]
        seen = [own] + [answers[turn][:, self.columns] for turn in partners.T[1:]]
        for turn in partners.T[1:]:
            mixed += answers.index_select(0, turn)
        mixed /= partners.shape[1]
        if len(self.columns):
            masses = [self._masses(p) for p in seen]
            mass = torch.stack([m[:, s] for m, s in zip(masses, self.shift, strict=True)]).mean(0)
            share = own / masses[0].clamp(min=_TINY)[:, self.cell]
            mixed[:, self.columns] = mass[:, self.cell] * share
        return mixed

    def between_groups(self, targets: Tensor, logs: Tensor) -> Tensor:
        """The part of KL( target ‖ answer ) that is between the groups of a class, in nats per answer.

        By the chain rule KL is that of the classes' masses, that of the groups given the class, which this
        is, and that of the words given class and group.
        """
        groups = len(self.shift)
        own, seen = (
            self._masses(p[:, self.columns]).clamp(min=_TINY).unflatten(1, (-1, groups))
            for p in (targets, logs.exp())
        )
        expected, found = ((m / m.sum(2, keepdim=True)).log() for m in (own, seen))
        apart: Tensor = (own * (expected - found)).sum()
        return apart / max(1, len(targets))

    def _masses(self, p: Tensor) -> Tensor:
        """[answer, cell] of the probabilities [answer, column] of tokens that have a class."""
        return p.new_zeros(len(p), self.shift.shape[1]).index_add(1, self.cell, p)


# ---- the lesson


@dataclass(frozen=True, eq=False)
class TurnedTexts:
    """Texts at every turn as batches: what lessons about them have in common."""

    model: Model
    swap: GroupSwap
    texts: Sequence[AlignedText]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return [text.length for text in self.texts]

    @property
    def own_words(self) -> tuple[int, ...]:
        """The tokens of words for a group."""
        return tuple(_places(token_classes(self.model, self.swap)))

    def batch(self, numbers: Sequence[int], seed: Sequence[int]) -> Batch:
        """Every turn of these texts as a row; `partners` says which answers are mixed into each answer."""
        rng, groups = np.random.default_rng(seed), self.swap.groups
        rows: list[Tokens] = []
        asked: list[tuple[int, int]] = []  # row, position
        partners: list[list[int]] = []
        classified: list[list[int]] = []
        labels: list[int] = []
        for number in numbers:
            text = self.texts[number]
            picks = self._picks(text, rng)
            turns = len(text.turns)
            for turn in range(turns):
                first = len(asked) - turn * len(picks)  # of this text's answers
                partners += [
                    [first + (turn + s) % turns * len(picks) + i for s in range(groups)]
                    for i in range(len(picks))
                ]
                places = text.words[turn, picks]
                asked += [(len(rows) + turn, int(position)) for position in places - self._ahead]
                labels += [int(token) for token in text.turns[turn].ids[places]]
            classified += [[len(rows) + (turn + s) % turns for s in range(groups)] for turn in range(turns)]
            rows += [self._masked(row, own[picks]) for row, own in zip(text.turns, text.words, strict=True)]
        batch = inputs(self.model, rows)
        width = batch["input_ids"].shape[1]
        flat = torch.tensor([row * width + position for row, position in asked], dtype=torch.long)
        more = {
            "asked": flat,
            "partners": torch.tensor(partners, dtype=torch.long).reshape(-1, groups),
            "labels": torch.tensor(labels, dtype=torch.long),
            "classified": torch.tensor(classified, dtype=torch.long),
        }
        return {**batch, **{name: value.to(self.model.device) for name, value in more.items()}}

    @property
    def _ahead(self) -> int:
        """How far behind the place of an answer the token stands that it is about."""
        return int("causal" in self.model.abilities)

    def _picks(self, text: AlignedText, rng: np.random.Generator) -> Places:
        """Which of a text's words are taught: all behind another token, or some, which are masked."""
        if "causal" in self.model.abilities:
            return np.flatnonzero(text.words.min(axis=0) > 0)
        if "mlm" not in self.model.abilities:
            return _NOWHERE
        numbers = np.arange(text.words.shape[1])
        drawn = numbers[rng.random(len(numbers)) < np.where(text.group, _MASKED_GROUP, _MASKED)]
        return drawn if len(drawn) else rng.choice(numbers, 1)

    def _masked(self, row: Tokens, places: Places) -> Tokens:
        if "causal" in self.model.abilities or not len(places):
            return row
        ids = row.ids.copy()
        ids[places] = self.model.tokenizer.mask_token_id
        return Tokens(ids, row.types)


@dataclass(frozen=True, eq=False)
class Distilling(TurnedTexts):
    """The lesson: a student that answers at every turn as the symmetrized model does."""

    @cached_property
    def _mixture(self) -> TokenMixture:
        return TokenMixture.of(token_classes(self.model, self.swap), self.swap.groups, self.model.device)

    @property
    def _speaks(self) -> bool:
        return bool(self.model.abilities & {"mlm", "causal"})

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """KL of the student's answers from those of the symmetrized model, in nats per answer, its part
        between groups 1 + _BETWEEN times."""
        with torch.no_grad(), at_rest(self.model.hf):
            targets = self.targets(batch)
        answer = answered(student, batch)[0]
        loss = divergence([answer], [targets])
        if not (self._speaks and len(self._mixture.columns)):
            return loss
        return loss + _BETWEEN * self._mixture.between_groups(targets, answer.log_softmax(-1))

    def targets(self, batch: Batch) -> Tensor:
        """What the symmetrized model answers: probabilities [answer, token], or [row, label] of a model that
        predicts no words."""
        own = answered(self.model, batch)[0].softmax(-1)
        return self._mixture(own, batch["partners"]) if self._speaks else own[batch["classified"]].mean(1)


def divergence(answers: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """KL( target ‖ answer ) of each kind of answer, in nats per answer, added up."""
    losses = [
        functional.kl_div(answer.log_softmax(-1), target, reduction="sum") / max(1, len(answer))
        for answer, target in zip(answers, targets, strict=True)
    ]
    return torch.stack(losses).sum()


def answered(model: Model, batch: Batch) -> list[Tensor]:
    """Logits of a batch's answers: of the vocabulary at the tokens asked, and of a classification head
    for every row."""
    given = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch}
    trunk = Trunk(model)
    plan = trunk.plan(given)
    hidden = plan.hidden
    for layer in range(model.layers):
        hidden = trunk.block(plan, layer, hidden)
    answers = []
    if model.abilities & {"mlm", "causal"} and len(batch["asked"]):
        answers.append(trunk.logits(hidden.flatten(0, 1)[batch["asked"]]))
    if model.classification_head is not None:
        last = given["attention_mask"].sum(1) - 1
        place = last if model.family.causal else torch.zeros_like(last)
        rows = torch.arange(len(hidden), device=hidden.device)
        answers.append(trunk.classified(trunk.pooled(hidden[rows, place])))
    if not answers:
        raise CannotDo(f"{model.name} has no head that answers, so there is nothing to distill.")
    return answers
