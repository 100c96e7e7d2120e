"""What components are scored by, for the shipped items: the biases of natural.py, differentiable, and |SEAT|.

Each is the absolute value of a mean over items, so that a gate which lowers it lowers the bias whichever way
the model leans (docs/method/heads.md, Objectives).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from levelhead.engine.readings import Pooled, StaticVectors
from levelhead.errors import CannotDo
from levelhead.measures.seat import seat
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, none_ships
from levelhead.probes.cloze import ClozeSet
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import log_odds_question, prompt_table
from levelhead.scoring.natural import COSINE, LOG_ODDS, PREFERENCE, halves_of
from levelhead.scoring.objective import Objective
from levelhead.scoring.seat import WordTable, association_sides, word_table

SEAT = "|SEAT|"
_FEW = 24  # triples
_TINY = 1e-12  # the length of a vector without any


def objectives(model: Model, items: Battery) -> dict[str, Objective]:
    """Every objective that a model has for these items, behavior before vectors."""
    found: dict[str, Objective] = {} if items.target is None else {items.target.name: items.target}
    for name in (PREFERENCE, LOG_ODDS, COSINE, SEAT):
        with suppress(CannotDo):
            found[name] = shipped_objective(name, model, items)
    return found


def shipped_objective(name: str, model: Model, items: Battery) -> Objective:
    """One of them by its name; CannotDo with the reason where the model, or the bias, has none."""
    if name in (PREFERENCE, LOG_ODDS) and not about_gender(items.test):
        raise CannotDo(none_ships(f"items of {name}", items.test))
    if name == PREFERENCE:
        # |mean preference for the stereotype| of a next-sentence head, over triples that have a null model
        model.require("nsp", "a preference that has gradients")
        pairs = [pair for pair in items.triples.pairs if pair.swapped]
        both = [each for pair in pairs for each in (pair.original, pair.swapped) if each is not None]
        texts = [Text(each.context, sentence) for each in both for sentence in (each.stereotype, each.anti)]

        def number(logits: Tensor) -> Tensor:
            x = (logits[:, 0] - logits[:, 1]).reshape(-1, 2)
            return (x[:, 0] - x[:, 1]).mean().abs()

        return Objective(PREFERENCE, "nats", Pooled(texts), number)
    if name == LOG_ODDS:
        if items.prompts is None or not model.abilities & {"mlm", "causal"}:
            raise CannotDo(f"{model.name} predicts no tokens, so it has no log-odds")
        return log_odds_objective(model, items.prompts)
    table = word_table(items.test, items.contexts)
    return cosine_objective(table) if name == COSINE else seat_objective(table)


def behavior(model: Model, items: Battery) -> Objective | None:
    """What a model does, as an objective: a benchmark where one is the target, else the preference of a
    next-sentence head, else the log-odds of prompts; None where it has neither."""
    if items.target is not None:
        return items.target
    found = objectives(model, items)
    return found.get(PREFERENCE) or found.get(LOG_ODDS)


def behavior_of_few(model: Model, items: Battery) -> Objective:
    """The same of at most 24 triples, for what reads many times; CannotDo says why there is none."""
    found = behavior(model, replace(items, triples=items.triples.at_most(_FEW)))
    if found is None:
        raise CannotDo(f"{model.name} has neither log-odds nor a next-sentence head")
    return found


def log_odds_objective(model: Model, prompts: ClozeSet) -> Objective:
    """|mean log-odds toward each occupation's own group|, both groups one half: nats."""
    reading, codes = log_odds_question(model, prompts)
    own = prompt_table(prompts).own
    sides = [torch.from_numpy(codes == code) for code in (1, -1)]
    if not all(bool(side.any(dim=1).all()) for side in sides):
        raise CannotDo(
            f"{model.name} has no single token for the words of one group: its log-odds have no gradient."
        )
    weights = halves_of(own > 0)
    signed = torch.from_numpy(own * weights / weights.sum())

    def number(log_probs: Tensor) -> Tensor:
        first, second = (torch.where(side, log_probs, -torch.inf).logsumexp(-1) for side in sides)
        return (signed * (first - second)).sum().abs()

    return Objective(LOG_ODDS, "nats", reading, number)


def cosine_objective(table: WordTable) -> Objective:
    """|SEAT's numerator|, mean s(x) − mean s(y): a difference of cosines."""

    def number(vectors: Tensor) -> Tensor:
        x, y = _associations(vectors, table.sets)
        return (x.mean() - y.mean()).abs()

    return Objective(COSINE, "cosine", table.static(), number)


def seat_objective(table: WordTable, reading: StaticVectors | None = None) -> Objective:
    """|SEAT|, the objective of the paper's equation 4; it has parts, of some of the words, of one reading."""
    static = table.static() if reading is None else reading

    def number(vectors: Tensor) -> Tensor:
        x, y = _associations(vectors, table.sets)
        return torch.abs((x.mean() - y.mean()) / torch.cat([x, y]).std())

    return Objective(
        *(SEAT, "effect size", static, number),
        lambda words: seat_objective(replace(table, sets=table.sets_of(words)), static),
        lambda vectors: seat(*association_sides(vectors, table)),
    )


word_objective: Callable[[WordTable], Objective] = seat_objective  # what studies score words by: the paper's


def _associations(vectors: Tensor, sets: Mapping[str, Sequence[int]]) -> tuple[Tensor, Tensor]:
    """s of the words of X and of Y: a word's mean cosine with A less that with B."""
    a, b, x, y = (len(sets[name]) for name in "ABXY")
    own = vectors[[word for name in "ABXY" for word in sets[name]]]
    lengths = own.norm(dim=-1).clamp_min(_TINY)
    unit = own[: a + b] / lengths[: a + b, None]
    s = own[a + b :] @ (unit[:a].mean(0) - unit[a:].mean(0)) / lengths[a + b :]
    return s[:x], s[x : x + y]
