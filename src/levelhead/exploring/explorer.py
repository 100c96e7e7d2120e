"""One model, perhaps a second one and a run, and all that a page asks about them. No server in here."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from levelhead.edits.gates import HeadGates, NeuronGates
from levelhead.edits.sites import Neuron, Variant, inside
from levelhead.engine.gradients import gate_gradients, neuron_gradients
from levelhead.engine.readings import Attention as AttentionReading
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe
from levelhead.exploring import answers, benchmarks, changes
from levelhead.exploring.background import Background, Progress
from levelhead.exploring.benchmarks import BenchmarkShown, Compared, Comparison, Scores
from levelhead.exploring.changes import Fits, Preset, PresetShown, Taken, changes_nothing, presets
from levelhead.exploring.sentences import (
    BLANK,
    Counterfactual,
    Pair,
    Question,
    Stated,
    askable_pairs,
    counterfactual_of,
    group_words,
    question,
    stated,
)
from levelhead.exploring.state import PageState
from levelhead.mitigation.mitigate import composed
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, none_ships
from levelhead.probes.words import WordTest, shipped_words
from levelhead.runs.folder import text_hash
from levelhead.runs.records import Record
from levelhead.runs.study import AnyRun
from levelhead.studies.atlas.neuron_gradient import why_no_neurons
from levelhead.studies.audit import Audit
from levelhead.studies.heads import Heads

T = TypeVar("T")
HEADS, BENCHMARK = "heads", "benchmark"  # kinds of jobs; the second has one for each tab
CHANGED = "changed"  # the name of the side with the change
NEURONS = 8  # that move the odds most
_KEPT = 64  # comparisons and bands
_DIGITS = 4  # of attention
_START = f"The nurse said that {BLANK} was tired."
_START_CAUSAL = "The nurse picked up the phone because"


# ---- what a page is told: before anything is asked, about one state, about what runs in the background


@dataclass(frozen=True)
class Facts(Record):
    """What a page says about the model before anything is asked."""

    model: str
    second: str
    layers: int
    heads: int
    bias: str
    pairs: tuple[Pair, ...]
    presets: tuple[PresetShown, ...]
    run: str
    benchmarks: tuple[BenchmarkShown, ...]
    no_neurons: str  # why neurons cannot be switched; empty where they can
    no_steering: str  # likewise
    fills_blanks: bool  # at a blank; else it says the next word
    writes: bool  # whether it continues texts
    symmetrizes: str  # why it cannot; empty where it can
    start: str  # the sentence of an empty page
    names: bool  # whether first names can be exchanged


@dataclass(frozen=True)
class Answer(Record):
    """What a page shows at once: both texts on every side, and what can be taken along."""

    state: PageState
    fragment: str
    sides: tuple[str, ...]
    changed: bool  # whether the second side is the changed model
    pair: Pair
    counterfactual: Counterfactual
    texts: tuple[answers.TextAnswer, answers.TextAnswer]
    stated: tuple[Stated | None, Stated | None]  # where a text states a group, its odds are agreement
    taken: Taken
    key: str  # of the change on the chosen benchmark, which its comparison carries too


@dataclass(frozen=True)
class Jobs(Record):
    """What is computed in the background: how far it is, and what it gave."""

    heads: Progress | None
    scores: Scores | None
    fitting: Progress | None
    benchmark: Progress | None
    compared: Compared | None


@dataclass(frozen=True)
class Bands(Record):
    """Null bands of the sentence, of the counterfactual, and of the first less the second; None where a text
    states a group: null models, in which no word has a meaning, agree with nothing."""

    bands: tuple[answers.Band | None, answers.Band | None, answers.Band | None]


@dataclass(frozen=True)
class Beside(Record):
    """Other texts beside the sentence and its counterfactual; None where a text states a group, or names no
    occupation."""

    references: tuple[answers.References | None, answers.References | None]


@dataclass(frozen=True)
class Saved(Record):
    """All that a static page holds."""

    facts: Facts
    answer: Answer
    bands: Bands
    beside: Beside
    why: answers.Why
    neurons: answers.NeuronsWhy
    attention: answers.Attention
    jobs: Jobs
    continuations: answers.Continuations | None  # None: the model writes no texts


class Explorer:
    """Answers to what a page asks. Safe for threads: networks have their locks (models/concurrency.py)."""

    def __init__(
        self, model: Model, test: WordTest, run: AnyRun | None = None, second: Model | None = None
    ) -> None:
        if not model.abilities & {"mlm", "causal"}:
            raise BadOption(
                f"{model.name} fills no blanks and continues no text; explore needs a masked or causal model."
            )
        self.model, self.test, self.run, self.second = model, test, run, second
        self.background = Background()
        self.pairs: tuple[Pair, ...] = askable_pairs(model, test)  # of one token each
        self._fits = Fits(model, self.background)
        self._kept: OrderedDict[object, Any] = OrderedDict()
        self._lock = Lock()
        # The name by which a recipe can name the word list; empty where it has none.
        self._list = test.name if test.pairs and test.name in shipped_words() else ""
        if not self.pairs:
            raise BadOption(
                f"No pair of {test.name} has words of one subword token each for {model.name}. "
                "Give another --bias."
            )
        self._presets: tuple[Preset, ...] = presets(run, model)

    # ---- what is known before anything is asked

    @cached_property
    def facts(self) -> Facts:
        """What the page says first."""
        fills = "mlm" in self.model.abilities
        shown = [
            PresetShown(
                each.name,
                each.certified,
                each.verdict,
                each.why_not,
                bool(r.gates or r.neurons or r.projections or r.steering),
                tuple(map(str, r.gates)),
                tuple(r.gates.values()),
            )
            for each in self._presets
            for r in (each.recipe,)
        ]
        return Facts(
            self.model.name,
            "" if self.second is None else self.second.name,
            self.model.layers,
            self.model.heads,
            self.test.name,
            self.pairs,
            tuple(shown),
            "" if self.run is None else str(self.run.folder),
            benchmarks.benchmarks(self.model, self.test),
            why_no_neurons(self.model),
            "" if about_gender(self.test) else none_ships("stereotyped sentences", self.test),
            fills,
            "causal" in self.model.abilities,
            "" if self._list else f"{self.test.name} is no shipped list with pairs",
            _START if fills else _START_CAUSAL,
            about_gender(self.test),
        )

    # ---- what is asked about one sentence

    def answer(self, state: PageState) -> Answer:
        """Both texts, before and after the change, and the second model beside them: one read a network."""
        recipe, pair = self.recipe(state), self._pair(state)
        sides = [self._changed(recipe), *([] if self.second is None else [answers.Side(self.second, [()])])]
        variants = sides[0].variants
        sentence, of_counterfactual = answers.ask(sides, self._texts(state), pair)
        names = [self.model.name, *[CHANGED] * (len(variants) - 1), *[s.model.name for s in sides[1:]]]
        return Answer(
            state,
            state.to_fragment(),
            tuple(names),
            len(variants) > 1,
            pair,
            counterfactual_of(state.sentence, self.test, state.names),
            (sentence, of_counterfactual),
            self._stated(state),
            changes.taken(self.model, recipe, question(self.model, state.sentence, pair), pair),
            self._comparison(state, recipe, variants[-1]).key,
        )

    def bands(self, state: PageState) -> Bands:
        """What null models show for the same texts; the change does not matter."""
        texts, pair, known = self._texts(state), self._pair(state), self._stated(state)
        if all(known):
            return Bands((None, None, None))
        found: tuple[answers.Band, ...] = self._once(
            ("bands", texts, pair), lambda: answers.bands(self.model, texts, pair)
        )
        sentence, other, difference = found
        return Bands(
            (
                None if known[0] else sentence,
                None if known[1] else other,
                None if any(known) or texts[0] == texts[1] else difference,
            )
        )

    def beside(self, state: PageState) -> Beside:
        """What the model says, before and after the change, about the same texts with other occupations."""
        recipe, pair, known = self.recipe(state), self._pair(state), self._stated(state)
        side, (sentence, other), change = self._changed(recipe), self._texts(state), recipe_text(recipe)

        def of(text: str, says: Stated | None) -> answers.References | None:
            if says:
                return None
            return self._once(("beside", text, pair, change), lambda: answers.references(side, text, pair))

        return Beside((of(sentence, known[0]), of(other, known[1])))

    def why(self, state: PageState) -> answers.Why:
        """Which heads move the odds of one of the texts, with the change on."""
        model, recipe = self.model, self.recipe(state)
        variant = self._variant(recipe)
        # gates of heads are differentiated where they are; all else that is changed is on
        at = np.ones((model.layers, model.heads))
        for head, value in recipe.gates.items():
            at[head] = value
        about = self._question(state)
        reading = TokenLogProbs([about.text], about.tokens)
        with model.edited(*(edit for edit in inside(variant) if not isinstance(edit, HeadGates))):
            found = gate_gradients(model, reading, lambda y: y[0, 0] - y[0, 1], label="Why", at=at)
        return answers.Why(found.objective, tuple(tuple(map(float, row)) for row in found.scores))

    def neurons(self, state: PageState) -> answers.NeuronsWhy:
        """Which neurons move the odds of one of the texts most, and those that are switched."""
        if self.facts.no_neurons:
            return answers.NeuronsWhy(())
        model, recipe = self.model, self.recipe(state)
        variant = self._variant(recipe)
        at = np.ones((model.layers, model.neurons))
        for place, value in recipe.neurons.items():
            at[place] = value
        about = self._question(state)
        reading = TokenLogProbs([about.text], about.tokens)
        with model.edited(*(edit for edit in inside(variant) if not isinstance(edit, NeuronGates))):
            found = neuron_gradients(model, reading, lambda y: y[0, 0] - y[0, 1], label="Why", at=at)
        scores = found.scores
        largest = np.argsort(-np.abs(scores), axis=None, kind="stable")[:NEURONS]
        most = [Neuron(*divmod(int(number), model.neurons)) for number in largest]
        shown = dict.fromkeys((*most, *sorted(state.neurons)))
        return answers.NeuronsWhy(
            tuple(answers.NeuronScore(neuron, float(scores[neuron])) for neuron in shown)
        )

    def attention(self, state: PageState) -> answers.Attention:
        """What each head attends to from a word of one of the texts; by default from the blank."""
        variant, about = self._variant(self.recipe(state)), self._question(state)
        mask, character = self.model.tokenizer.mask_token, state.word
        # runs of letters and figures, and the mask token as one word
        pattern = rf"{re.escape(mask)}|[\w’']+" if mask else r"[\w’']+"
        words = tuple(found.span() for found in re.finditer(pattern, about.text))
        here = (span for span in words if character is not None and span[0] <= character < span[1])
        span = next(here, about.blank)
        reading = AttentionReading([about.text], [span], [span])
        (row,) = read_one(self.model, reading, [inside(variant)], label="Attention")[0]
        weights = row.weights.astype(np.float64).mean(axis=2).round(_DIGITS)
        return answers.Attention(
            tuple(token or "·" for token in row.tokens),
            tuple(map(int, row.target)),
            tuple(tuple(tuple(map(float, head)) for head in layer) for layer in weights),
            words,
            span,
            about.text,
        )

    def continuations(
        self, state: PageState, check: Callable[[], None] = lambda: None
    ) -> answers.Continuations:
        """What the model, before and after the change, writes behind both sentences.

        This takes as long as many questions: between its portions others are answered, and `check`, which is
        called at every token, may end it by raising.
        """
        self.model.require("causal", "continuations")
        recipe, texts = self.recipe(state), self._texts(state)
        prompts = [question(self.model, text, self._pair(state)).text for text in texts]
        words = partial(group_words, test=self.test, names=state.names)

        def writes(side: str, change: Recipe, variant: Variant) -> answers.Writes:
            found = []
            for prompt in prompts:
                self.background.give_way()
                check()
                sample = partial(answers.sampled, self.model, prompt, variant, state.seed, check)
                found.append(self._once(("texts", prompt, recipe_text(change), state.seed), sample))
            return answers.written(side, prompts, found, words)

        sides = [writes(self.model.name, Recipe(), ())]
        if not changes_nothing(recipe):
            sides.append(writes(CHANGED, recipe, self._variant(recipe)))
        given = tuple(answers.pieces(prompt, words(prompt)) for prompt in prompts)
        return answers.Continuations(state.to_fragment(), state.seed, given, tuple(sides))

    def _question(self, state: PageState) -> Question:
        """About the sentence or its counterfactual, whichever is chosen."""
        return question(self.model, self._texts(state)[state.of_counterfactual], self._pair(state))

    def _pair(self, state: PageState) -> Pair:
        if state.pair is not None and state.pair not in self.pairs:
            raise BadProbe(f"No pair {' : '.join(state.pair)[:80]} is listed here; choose a listed one.")
        return state.pair or self.pairs[0]

    def recipe(self, state: PageState) -> Recipe:
        if state.symmetrized and not self._list:
            raise BadOption(f"{self.test.name} cannot be symmetrized by name: {self.facts.symmetrizes}.")
        if state.steering and self.facts.no_steering:
            raise BadOption(f"Nothing to steer by: {self.facts.no_steering}.")
        return changes.recipe_of(state, self._presets, self._list)

    def _variant(self, recipe: Recipe) -> Variant:
        """A recipe's edits. BeingFitted where some must be fitted first, which is then begun."""
        if changes_nothing(recipe):
            return ()
        return composed(self.model, recipe, self._fits.of(recipe))

    def _changed(self, recipe: Recipe) -> answers.Side:
        return answers.Side(self.model, [(), *([] if changes_nothing(recipe) else [self._variant(recipe)])])

    def _texts(self, state: PageState) -> tuple[str, str]:
        own = state.counterfactual
        if own is None:
            own = counterfactual_of(state.sentence, self.test, state.names).text
        return state.sentence, own

    def _stated(self, state: PageState) -> tuple[Stated | None, Stated | None]:
        pair = self._pair(state)
        read = (question(self.model, text, pair).text for text in self._texts(state))
        sentence, other = (stated(text, self.test, pair, state.names) for text in read)
        return sentence, other

    def _once(self, key: object, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                kept: T = self._kept[key]
                return kept
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made

    # ---- what takes longer

    def score_heads(self) -> None:
        """Begin to score all heads, unless the run has scores."""
        if self.scores is None:
            work = partial(benchmarks.scored_heads, self.model, self.test)
            self.background.start(HEADS, "", "Scores of all heads", work)

    @cached_property
    def scores(self) -> Scores | None:
        """The scores of the run, where it is about this model and bias."""
        run = self.run
        heads = run if isinstance(run, Heads) else run.heads if isinstance(run, Audit) else None
        if heads is None or not heads.scores or heads.weights != self.model.fingerprint:
            return None
        rows = [[0.0] * self.model.heads for _ in range(self.model.layers)]
        for score in heads.scores:
            rows[score.head.layer][score.head.head] = score.score
        found = tuple(map(tuple, rows))
        return Scores(heads.scores[0].objective, found, f"|SEAT| of the run {heads.folder.name}")

    def measure(self, state: PageState, tab: str = "") -> Jobs:
        """Begin the benchmark for the change of a state; a state that changes nothing has none. A tab has one
        at a time: a new one ends the one before."""
        recipe = self.recipe(state)
        if changes_nothing(recipe):
            raise BadOption("Nothing is changed: switch a head off, or choose a mitigation.")
        wanted = self._comparison(state, recipe, self._variant(recipe))
        compared = partial(benchmarks.compared, self.model, self.test, wanted)
        self.background.start(
            f"{BENCHMARK} {tab}",
            wanted.key,
            wanted.benchmark.title,
            lambda advance: self._once(wanted.key, lambda: compared(advance)),
        )
        return self.jobs(tab)

    def _comparison(self, state: PageState, recipe: Recipe, edits: Variant) -> Comparison:
        known = self.facts.benchmarks
        chosen = next((each for each in known if each.name == (state.benchmark or known[0].name)), None)
        if chosen is None:
            names = ", ".join(each.name for each in known)
            raise BadOption(f"No benchmark {state.benchmark[:40]!r} is listed here. Known: {names}.")
        return Comparison(text_hash([chosen.name, recipe_text(recipe)]), chosen, edits)

    def jobs(self, tab: str = "") -> Jobs:
        found, scores = self.background, self.scores
        return Jobs(
            found.progress(HEADS),
            found.result(HEADS) if scores is None else scores,
            found.progress(changes.FITTING),
            found.progress(f"{BENCHMARK} {tab}"),
            found.result(f"{BENCHMARK} {tab}"),
        )


def saved(explorer: Explorer, state: PageState, tab: str = "") -> Saved:
    """Everything about one state, computed for a page without a server."""
    return Saved(
        explorer.facts,
        explorer.answer(state),
        explorer.bands(state),
        explorer.beside(state),
        explorer.why(state),
        explorer.neurons(state),
        explorer.attention(state),
        explorer.jobs(tab),
        explorer.continuations(state) if explorer.facts.writes else None,
    )
