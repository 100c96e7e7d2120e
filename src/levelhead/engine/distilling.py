"""Lessons on texts at every orientation of the groups: distillation of the symmetrized model, and CDA.

Distillation puts the symmetrized model into weights (docs/method/mitigations.md, Distillation):

    θ minimizes the mean over texts x of KL( f_s(· | x) ‖ f_θ(· | x) ) + the same at every orientation of x,
    where the part of KL that says which group a word is of, given what it means, counts 1 + _BETWEEN times

f_s is the model itself, frozen, run at every orientation of the groups and mixed (edits/output.py). Causal
models are taught at every token, masked ones at masked tokens, words of a group more often; classifiers by
their answer to pairs of sentences. The next-sentence head of a masked model is not trained: it is solved
for afterwards (mitigation/fitting.py). A text without a word for a group is its own orientation: there the
student is held where the model was, but for the words of groups themselves.

CDA is continued pretraining on text and its counterfactual (Zhao et al. 2018, Webster et al. 2020):

    L = − mean over x and every orientation of x of log p(token | the rest of x)

Half of its texts have no word for a group: a replay against forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.run import read_one
from levelhead.engine.symmetry import TokenClasses, believing, oriented_text, token_classes
from levelhead.engine.training import Batch
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


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A text at every orientation of the groups, and which tokens of its orientations stand for each other;
    one row if no token changes."""

    orientations: tuple[Tokens, ...]
    words: Places  # [orientation, token]: positions of tokens that stand for each other
    group: NDArray[np.bool_]  # [token]: whether it changes


@dataclass(frozen=True, eq=False)
class Aligned:
    """Texts that can be distilled, and how many have no token that could be taught."""

    texts: tuple[AlignedText, ...]
    left_out: int


def aligned(model: Model, swap: GroupSwap, texts: Sequence[Text], cut: int) -> Aligned:
    """Texts whose tokens stand for each other at every orientation.

    A word may have other numbers of tokens at other orientations: then what stands around it is taught, but
    not the word itself.
    """
    limit = min(cut, model.max_tokens or cut)
    swap = believing(model, swap, texts, lambda readings: [read_one(model, each) for each in readings])
    oriented = [
        [oriented_text(swap, text, orientation) for text in texts] for orientation in range(swap.groups)
    ]
    rows = zip(*(encode(model, some, limit) for some in oriented), strict=True)
    place = _places(token_classes(model, swap))
    found = [_aligned(text, row, swap, place) for text, row in zip(texts, rows, strict=True)]
    kept = tuple(each for each in found if each.words.size)
    return Aligned(kept, len(found) - len(kept))


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
    found = []  # [orientation][token]: where its characters stand; −1: nowhere, or in the frame
    for orientation, row in enumerate(rows):
        sentences = [swap(each, orientation) for each in (text.first, text.second or "")]
        at = {
            (int(part), int(start), int(end)): position
            for position, (part, (start, end)) in enumerate(zip(row.part, row.offsets, strict=True))
        }
        there = [
            at.get((int(part), *sentences[part].place((int(start), int(end)))), -1) if part >= 0 else -1
            for part, (start, end) in zip(own.part, own.offsets, strict=True)
        ]
        found.append(np.asarray(there, np.int64))
    kept, changes = [], []
    for position in np.flatnonzero(np.all([each >= 0 for each in found], axis=0)):
        tokens = [int(row.ids[each[position]]) for row, each in zip(rows, found, strict=True)]
        changed = len(set(tokens)) > 1
        if changed:  # each token, of one orientation each, must stand for the first after its orientation
            first = place.get(tokens[0])
            if first is None or [place.get(token) for token in tokens] != [
                (first[0], (first[1] + orientation) % swap.groups) for orientation in range(swap.groups)
            ]:
                continue
        kept.append(position)
        changes.append(changed)
    orientations = tuple(Tokens(row.ids, row.types) for row in rows)
    return AlignedText(orientations, np.stack(found)[:, kept], np.asarray(changes, np.bool_))


# ---- the mixture


@dataclass(frozen=True, eq=False)
class TokenMixture:
    """TokenClasses.mixed on tensors of probabilities, for all tokens of a vocabulary at once."""

    columns: Tensor  # tokens that have a class
    cell: Tensor  # of each of them: class x groups + group
    shift: Tensor  # [orientation, cell]: the cell that stands for a cell after an orientation

    @classmethod
    def of(cls, classes: TokenClasses, groups: int, device: torch.device) -> TokenMixture:
        place = _places(classes)
        cell = [number * groups + group for number, group in place.values()]
        cells = torch.arange(len(classes.classes) * groups)
        base, group = cells // groups * groups, cells % groups
        shift = torch.stack([base + (group + orientation) % groups for orientation in range(groups)])
        columns = torch.tensor(list(place), dtype=torch.long)
        return cls(columns.to(device), torch.tensor(cell, dtype=torch.long).to(device), shift.to(device))

    def __call__(self, answers: Tensor, partners: Tensor) -> Tensor:
        """p_s(y | x) of the probabilities [answer, token]; partners [answer, orientation]: the same after an
        orientation."""
        mixed = answers.index_select(0, partners[:, 0])
        own = mixed[:, self.columns]
        seen = [own] + [answers[orientation][:, self.columns] for orientation in partners.T[1:]]
        for orientation in partners.T[1:]:
            mixed += answers.index_select(0, orientation)
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
            self._masses(p).clamp(min=_TINY).unflatten(1, (-1, groups))
            for p in (targets[:, self.columns], logs[:, self.columns].exp())
        )
        expected, found = ((m / m.sum(2, keepdim=True)).log() for m in (own, seen))
        apart: Tensor = (own * (expected - found)).sum()
        return apart / max(1, len(targets))

    def _masses(self, p: Tensor) -> Tensor:
        """[answer, cell] of the probabilities [answer, column] of tokens that have a class."""
        return p.new_zeros(len(p), self.shift.shape[1]).index_add(1, self.cell, p)


# ---- the lessons


@dataclass(frozen=True, eq=False)
class OrientedTexts:
    """Texts at every orientation as batches: what lessons about them have in common."""

    model: Model
    swap: GroupSwap
    texts: Sequence[AlignedText]

    @property
    def lengths(self) -> list[int]:
        return [max(len(row.ids) for row in text.orientations) for text in self.texts]

    @property
    def own_words(self) -> tuple[int, ...]:
        return tuple(_places(token_classes(self.model, self.swap)))

    def batch(self, numbers: Sequence[int], seed: Sequence[int]) -> Batch:
        """Every orientation of these texts as a row; `partners` says which answers are mixed into each
        answer."""
        rng, groups = np.random.default_rng(seed), self.swap.groups
        causal = "causal" in self.model.abilities
        rows: list[Tokens] = []
        predicted: list[tuple[int, int]] = []  # row, position
        partners: list[list[int]] = []
        classified: list[list[int]] = []
        labels: list[int] = []
        for number in numbers:
            text = self.texts[number]
            if causal:  # all words behind another token are taught
                picks = np.flatnonzero(text.words.min(axis=0) > 0)
            elif "mlm" in self.model.abilities:  # or some, which are masked
                every = np.arange(text.words.shape[1])
                picks = every[rng.random(len(every)) < np.where(text.group, _MASKED_GROUP, _MASKED)]
                picks = picks if len(picks) else rng.choice(every, 1)
            else:
                picks = np.empty(0, np.int64)
            orientations = len(text.orientations)
            for orientation in range(orientations):
                first = len(predicted) - orientation * len(picks)  # of this text's answers
                partners += [
                    [first + (orientation + s) % orientations * len(picks) + i for s in range(groups)]
                    for i in range(len(picks))
                ]
                places = text.words[orientation, picks]
                # the answer about a token stands at its mask, or at the token before it
                predicted += [(len(rows) + orientation, int(position)) for position in places - int(causal)]
                labels += [int(token) for token in text.orientations[orientation].ids[places]]
            classified += [
                [len(rows) + (orientation + s) % orientations for s in range(groups)]
                for orientation in range(orientations)
            ]
            for row, own in zip(text.orientations, text.words[:, picks], strict=True):
                ids = row.ids.copy()
                if not causal and len(own):
                    ids[own] = self.model.tokenizer.mask_token_id
                rows.append(Tokens(ids, row.types))
        batch = inputs(self.model, rows)
        width = batch["input_ids"].shape[1]
        flat = [row * width + position for row, position in predicted]
        more = {
            "positions": torch.tensor(flat, dtype=torch.long),
            "partners": torch.tensor(partners, dtype=torch.long).reshape(-1, groups),
            "labels": torch.tensor(labels, dtype=torch.long),
            "classified": torch.tensor(classified, dtype=torch.long),
        }
        return {**batch, **{name: value.to(self.model.device) for name, value in more.items()}}


@dataclass(frozen=True, eq=False)
class Counterfactual(OrientedTexts):
    """CDA's lesson: the tokens of every text at every orientation, masked ones or the next ones."""

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """Nats per token that is predicted."""
        return functional.cross_entropy(answered(student, batch)[0], batch["labels"])


@dataclass(frozen=True, eq=False)
class Distilling(OrientedTexts):
    """Distillation's lesson: a student that answers at every orientation as the symmetrized model does."""

    @cached_property
    def _mixture(self) -> TokenMixture:
        return TokenMixture.of(token_classes(self.model, self.swap), self.swap.groups, self.model.device)

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """KL of the student's answers from those of the symmetrized model, in nats per answer, its part
        between groups 1 + _BETWEEN times."""
        with torch.no_grad(), at_rest(self.model.hf):
            targets = self.targets(batch)
        answer = answered(student, batch)[0]
        loss = divergence([answer], [targets])
        if not (self.model.abilities & {"mlm", "causal"} and len(self._mixture.columns)):
            return loss
        return loss + _BETWEEN * self._mixture.between_groups(targets, answer.log_softmax(-1))

    def targets(self, batch: Batch) -> Tensor:
        """What the symmetrized model answers: probabilities [answer, token], or [row, label] of a model that
        predicts no words."""
        own = answered(self.model, batch)[0].softmax(-1)
        if self.model.abilities & {"mlm", "causal"}:
            return self._mixture(own, batch["partners"])
        return own[batch["classified"]].mean(1)


def divergence(answers: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """KL( target ‖ answer ) of each kind of answer, in nats per answer, added up."""
    losses = [
        functional.kl_div(answer.log_softmax(-1), target, reduction="sum") / max(1, len(answer))
        for answer, target in zip(answers, targets, strict=True)
    ]
    return torch.stack(losses).sum()


def answered(model: Model, batch: Batch) -> list[Tensor]:
    """Logits of a batch's answers: of the vocabulary at the positions given, and of a classification head
    for every row."""
    given = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch}
    trunk = Trunk(model)
    plan = trunk.plan(given)
    hidden = plan.hidden
    for layer in range(model.layers):
        hidden = trunk.block(plan, layer, hidden)
    answers = []
    if model.abilities & {"mlm", "causal"} and len(batch["positions"]):
        answers.append(trunk.logits(hidden.flatten(0, 1)[batch["positions"]]))
    if model.classification_head is not None:
        last = given["attention_mask"].sum(1) - 1
        place = last if model.family.causal else torch.zeros_like(last)
        rows = torch.arange(len(hidden), device=hidden.device)
        answers.append(trunk.classified(trunk.pooled(hidden[rows, place])))
    if not answers:
        raise CannotDo(f"{model.name} has no head that answers, so there is nothing to distill.")
    return answers
