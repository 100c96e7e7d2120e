"""Gates learned for one bound on fluency, as a recipe that can be exported (docs/debias-heads.md).

The same data as in the debias experiment of the heads study: contexts of the word list, and the sentences of
even number of the text. Those of odd number were not learned on, and say what the gates really cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelhead.edits.sites import Head, Variant
from levelhead.engine.effort import speed_of, tokens_of
from levelhead.errors import CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.options import Settings, bias, option, seed
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import Words, WordTest, words_name
from levelhead.progress import BACK, Plan, announce, tokens_in
from levelhead.scoring.fluency import ask_fluency_and_change
from levelhead.scoring.objective import Objective
from levelhead.scoring.seat import ask_seat
from levelhead.studies.heads.bench import split_text
from levelhead.studies.heads.learned_gates import learn_gates, sampled_objective
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings, LearnSettings

_TIGHTER = LearnSettings().bounds  # visited on the way to a looser bound, as the debias experiment does
_DIGITS = 6  # of a gate in a recipe, and so in the exported weights


@dataclass(frozen=True)
class LearnedGatesSettings(Settings):
    """What gates are learned for, and on what."""

    bound: float = option(1.05, "The factor by which perplexity may grow.", least=1)
    bias: Words = bias()
    text: str | None = option(
        None, "Text for fluency: a .txt or .jsonl file, a folder, or hub:NAME. Default: ours.", kind="corpus"
    )
    sentences: int | None = option(60, "Of it, to learn on, and as many to judge on. None: all.", least=2)
    per_word: int | None = option(
        None, "Contexts per word. Default: as many as the heads study scores on.", least=1
    )
    steps: int = option(3, "For each bound on the way.", least=1)
    words: int = option(
        250, "At most, of each of A, B, X, Y; of fewer words as many contexts, about.", least=2
    )
    blanks: int = option(120, "Tokens that stand for fluency.", least=1)
    seed: int = seed()

    def search(self, test: WordTest) -> LearnSettings:
        """How gates are searched for: by way of the tighter bounds, as in the debias experiment.

        Words of a short list are learned in several contexts each, else noise would be learned by heart.
        """
        tighter = tuple(bound for bound in _TIGHTER if bound < self.bound)
        contexts = max(1, self.words // max(map(len, test.groups().values())))
        bounds = (*tighter, self.bound)
        return LearnSettings(bounds, self.steps, self.words, contexts, self.blanks, seed=self.seed)

    @property
    def heads(self) -> HeadsSettings:
        """The words and contexts, as the heads study takes them."""
        return HeadsSettings(self.bias, score_contexts=self.per_word, seed=self.seed)


@dataclass(frozen=True)
class LearnedRecipe:
    """Learned gates as a recipe, what they reach where they were learned, and what they cost elsewhere."""

    recipe: Recipe
    edits: Variant
    seat_before: float
    seat: float  # both in the contexts that were learned on
    seats: tuple[Measurement, Measurement]  # before and after, in all contexts of these words
    ratio: float  # of perplexities, on the blanks that were learned on
    fluency_change: Measurement  # on sentences that were not learned on

    @property
    def reached(self) -> dict[str, float | None]:
        """The numbers alone."""
        return {
            "seat_before": self.seat_before,
            "seat": self.seat,
            "seat_before_in_all_contexts": self.seats[0].value,
            "seat_in_all_contexts": self.seats[1].value,
            "ratio": self.ratio,
            "ratio_on_other_sentences": self.fluency_change.value,
        }

    @property
    def in_words(self) -> str:
        """What the gates reach and cost, in one sentence."""
        change = self.fluency_change
        cost = _shown(change)
        if change.interval is not None:
            cost += f" [{change.interval[0]:.3f}, {change.interval[1]:.3f}]"
        before, after = map(_shown, self.seats)
        return (
            f"{len(self.recipe.gates)} gates, learned: SEAT {self.seat_before:.3f} -> {self.seat:.3f} in the "
            f"contexts learned on, {before} -> {after} in all {self.seats[0].n} of these words; perplexity "
            f"times {self.ratio:.3f} where it was learned, times {cost} on other sentences."
        )


def _shown(measurement: Measurement) -> str:
    return "not measured" if measurement.value is None else f"{measurement.value:.3f}"


def _times(model: Model, objective: Objective, search: LearnSettings) -> Plan:
    """What the search takes, at most: for each step two gradients, and two sets of gates that are tried."""
    once = tokens_of(model, objective.reading) + search.blanks * tokens_in(fluency_sentences()[:1])
    steps = search.steps * len(search.bounds)
    return speed_of(model).plan(
        (1 + steps * (1 + BACK + 2)) * once, shorter="--learned with a smaller factor"
    )


def learned_recipe(model: Model, settings: LearnedGatesSettings) -> LearnedRecipe:
    """Learn gates that lower |SEAT| while perplexity grows by no more than the bound."""
    prepared = prepare(model, settings.heads)
    learning, judging = split_text(model, settings.text, settings.sentences)
    search = settings.search(prepared.test)
    objective = sampled_objective(prepared.test, prepared.scored.contexts, search)
    announce(lambda: _times(model, objective, search))
    *_, learned = learn_gates(model, objective, learning, search)
    values = np.round(learned.values, _DIGITS)
    changed = [Head(int(layer), int(head)) for layer, head in np.argwhere(values != 1)]
    recipe = Recipe(
        gates={head: float(values[head]) for head in changed},
        title=f"gates learned on {words_name(settings.bias)}, perplexity at most {settings.bound:g} times",
        model=model.name,
        fingerprint=model.fingerprint,
    )
    if not recipe.gates:
        raise CannotDo(
            f"{model.name}: no gates lower |SEAT| of {prepared.test.name} while perplexity grows by at most "
            f"{settings.bound:g}. Allow a larger factor."
        )
    edits = edits_of(model, recipe)
    ((_, change),) = ask_fluency_and_change(model, judging, [edits])
    before, after = ask_seat(model, prepared.test, prepared.scored.contexts, [(), edits], intervals=False)
    return LearnedRecipe(recipe, edits, learned.start, learned.bias, (before, after), learned.ratio, change)
