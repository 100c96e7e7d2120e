"""`python -m benchmarks.coin_lists`: how often does a page claim something of a list that means nothing?

The pairs of a shipped list, their members exchanged by a coin (families together), are such a list. All its
lists have the same words, so a model and its null models are asked once, and each list is arithmetic.

What a page can claim of such a list: the association (SEAT), what is filled in (LPBS, of a masked model), and
heads, attention and projections, whose p is never below the association's p of exchanged group words. So a
list gets a claim if the association holds at its share of the error, or LPBS at a quarter of what is left: a
page tests removal, agreement and clear heads beside it. `before`: the same with group words held fixed,
without heads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.calibrate import Share
from levelhead.inference.claims import MAIN_SHARE
from levelhead.measures.catalog import ALPHA
from levelhead.measures.exchange import Exchange, held_fixed
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.probes.contexts import Context, template_contexts
from levelhead.probes.words import ALL_WORDS, WordTest, load_words, pair_families
from levelhead.runs.presets import AuditSizes
from levelhead.scoring.lpbs import Cells, LpbsQuestion
from levelhead.studies.heads.null_models import RowsQuestion

FIRST_SEED = 31_000
OTHERS = 4  # claims of the page beside the association: LPBS, removal, agreement, clear heads
Doubles = NDArray[np.float64]


def coin_list(test: WordTest, seed: int) -> WordTest:
    """The list with the members of each family of pairs exchanged by a coin; it is about nothing."""
    families = pair_families(test.pairs)
    turned = np.random.default_rng(seed).integers(0, 2, max(families) + 1).astype(bool)
    both = [pair[::-1] if turned[family] else pair for pair, family in zip(test.pairs, families, strict=True)]
    pairs = tuple((a, b) for a, b in both)
    a, b = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return replace(test, name=f"coin {seed}", A=a, B=b, pairs=pairs, parts=(), axis="coin")


@dataclass(frozen=True)
class Outcome:
    """What a page would claim of a list, with group words exchanged, and with them held fixed."""

    model: str
    name: str
    association: bool
    lpbs: bool | None  # None: the model cannot be asked
    fixed_association: bool
    fixed_lpbs: bool | None
    p: tuple[float, float, float]  # of the association: the larger, of null models, of exchanged words


class Asked:
    """A model and its null models on the words of a list, in whatever way they are paired."""

    def __init__(self, model: Model, test: WordTest, sizes: AuditSizes) -> None:
        self.model, self.test, self.sizes = model, replace(test, parts=(), axis="coin"), sizes
        self.resampling = Resampling(sizes.resamples)
        rows = self._rows(self.test)
        self._place = {_key(context): i for i, context in enumerate(rows.table.contexts)}
        self._vectors = rows.vectors
        self._few_place = {_key(context): i for i, context in enumerate(rows.few.contexts)}
        self._null_models: list[Doubles] = []
        for number in range(sizes.null):
            with as_null_model(model, draw_null_model(model, null_model_seed(0, number))):
                self._null_models.append(rows.read_few())

    def _rows(self, test: WordTest) -> RowsQuestion:
        contexts = template_contexts(test, self.sizes.contexts or 16)
        return RowsQuestion(self.model, test, contexts, self.resampling)

    @cached_property
    def _cells(self) -> Cells | None:
        question = LpbsQuestion.of(self.model, self.test)
        return None if question.why_not(self.model) else question.cells(self.model, ((),))[0]

    def association(self, test: WordTest) -> Measurement:
        """SEAT of a list of the same words, held against all null models."""
        rows = self._rows(test)
        vectors = self._vectors[[self._place[_key(context)] for context in rows.table.contexts]]
        vars(rows)["vectors"] = vectors  # a cached property: the model was asked before
        few = [self._few_place[_key(context)] for context in rows.few.contexts]
        for null_model in self._null_models:
            rows.add(rows.seats(null_model[few]))
        return rows.answers(self.sizes.null).rows[ALL_WORDS]

    def lpbs(self, test: WordTest) -> Measurement | None:
        """LPBS of a list of the same words; None of a model that fills in nothing."""
        return None if self._cells is None else self._cells.lpbs(test, self.resampling)

    def outcome(self, test: WordTest) -> Outcome:
        """What a page would claim of a list."""
        seat, filled = self.association(test), self.lpbs(test)
        null, exchanged, fixed = seat.null, Exchange.of(seat), held_fixed(seat)
        if null is None or exchanged is None or fixed is None:
            raise ValueError(f"{test.name}: the association was not tested")
        beyond, level = seat.beyond(null.floor), MAIN_SHARE * ALPHA
        rest = (1 - MAIN_SHARE) * ALPHA / OTHERS
        return Outcome(
            self.model.name,
            test.name,
            beyond and null.p_value < level,
            None if filled is None else filled.beyond(0.0) and (filled.p_value or 1.0) < rest,
            beyond and fixed.p_value < level,
            None if filled is None else filled.beyond(0.0) and (filled.details["p_value"] or 1.0) < rest,
            (null.p_value, fixed.p_value, exchanged.p_value),
        )


def _key(context: Context) -> tuple[str, str, int]:
    """A context without its side, which a coin decides."""
    return context.word, context.text, context.start


def printed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How often each claim is made, model by model."""
    for model in dict.fromkeys(each.model for each in outcomes):
        own = [each for each in outcomes if each.model == model]
        counts = {
            "association": [each.association for each in own],
            "LPBS": [each.lpbs for each in own if each.lpbs is not None],
            "any claim": [each.association or bool(each.lpbs) for each in own],
            "before: association": [each.fixed_association for each in own],
            "before: LPBS": [each.fixed_lpbs for each in own if each.fixed_lpbs is not None],
            "before: either": [each.fixed_association or bool(each.fixed_lpbs) for each in own],
        }
        for name, made in counts.items():
            if made:
                yield f"{model:14} {Share(name, sum(map(bool, made)), len(made))}"


def main() -> None:
    """Print the table; --out keeps every list's claims, a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=100, help="for each model")
    parser.add_argument("--words", default="gender")
    parser.add_argument("--models", default="lh:bert-mini,lh:gpt-mini")
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--resamples", type=int, default=AuditSizes().resamples)
    parser.add_argument("--null", type=int, default=AuditSizes().null, help="null models of each model")
    parser.add_argument("--out", type=Path, default=Path("runs/coin-lists.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    test, sizes = load_words(given.words), AuditSizes(resamples=given.resamples, null=given.null)
    outcomes: list[Outcome] = []
    with given.out.open("w", encoding="utf-8") as lines:
        for name in given.models.split(","):
            asked = Asked(load(name, device="cpu"), test, sizes)
            for seed in range(given.seed, given.seed + given.lists):
                outcomes.append(asked.outcome(coin_list(test, seed)))
                lines.write(json.dumps(vars(outcomes[-1])) + "\n")
                lines.flush()
    print(*printed(outcomes), sep="\n")


if __name__ == "__main__":
    main()
