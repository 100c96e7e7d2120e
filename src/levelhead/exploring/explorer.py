"""One model, perhaps a second one and a run, and all that a page asks about them. No server in here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

from levelhead.edits.sites import Variant
from levelhead.errors import BadOption, BadProbe
from levelhead.exploring.answers import Band, References, Side, ask, bands, references
from levelhead.exploring.background import Advance, Background
from levelhead.exploring.benchmarks import benchmarks
from levelhead.exploring.fits import FITTING, Fits
from levelhead.exploring.measured import Compared, Comparison, Scores, compared, scored_heads
from levelhead.exploring.presets import Preset, changes_nothing, presets, recipe_of, shown
from levelhead.exploring.records import Answer, Bands, Beside, Facts, Jobs, Saved
from levelhead.exploring.sentences import BLANK, Pair, Stated, askable_pairs, question, stated, twin_of
from levelhead.exploring.state import PageState
from levelhead.exploring.taken import taken
from levelhead.exploring.why import Changed, Look, NeuronsWhy, Why, look, neurons_why, why
from levelhead.mitigation.mitigate import composed
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, none_ships
from levelhead.probes.words import WordTest, shipped_words
from levelhead.results.folder import text_hash
from levelhead.results.runs import AnyRun, AuditRun, HeadsRun
from levelhead.studies.localizing.neuron_gradient import why_no_neurons

T = TypeVar("T")
HEADS, BENCHMARK = "heads", "benchmark"  # kinds of jobs; the second has one for each tab
_KEPT = 64  # comparisons and bands
_START = f"The nurse said that {BLANK} was tired."
_START_CAUSAL = "The nurse picked up the phone because"


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
        self._fits = Fits(model, self.background)
        self._kept: OrderedDict[object, Any] = OrderedDict()
        self._lock = Lock()
        if not self.pairs:
            raise BadOption(
                f"No pair of {test.name} has words of one subword token each for {model.name}. "
                "Give another --bias."
            )

    # ---- what is known before anything is asked

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs whose odds can be asked."""
        return askable_pairs(self.model, self.test)

    @cached_property
    def presets(self) -> tuple[Preset, ...]:
        """The recipes of the run."""
        return presets(self.run, self.model)

    @cached_property
    def facts(self) -> Facts:
        """What the page says first."""
        fills = "mlm" in self.model.abilities
        return Facts(
            self.model.name,
            "" if self.second is None else self.second.name,
            self.model.layers,
            self.model.heads,
            self.test.name,
            self.pairs,
            tuple(map(shown, self.presets)),
            "" if self.run is None else str(self.run.folder),
            benchmarks(self.model, self.test),
            why_no_neurons(self.model),
            "" if about_gender(self.test) else none_ships("stereotyped sentences", self.test),
            fills,
            "" if self._list else f"{self.test.name} is no shipped list with pairs",
            _START if fills else _START_CAUSAL,
            about_gender(self.test),
        )

    @property
    def _list(self) -> str:
        """The name by which a recipe can name the word list; empty where it has none."""
        return self.test.name if self.test.pairs and self.test.name in shipped_words() else ""

    # ---- what is asked about one sentence

    def answer(self, state: PageState) -> Answer:
        """Both texts, before and after the change, and the second model beside them: one read a network."""
        recipe, pair = self.recipe(state), self.pair(state)
        sides = self._sides(recipe)
        variants = sides[0].variants
        sentence, of_twin = ask(sides, self._texts(state), pair)
        names = [self.model.name, *["changed"] * (len(variants) - 1), *[s.model.name for s in sides[1:]]]
        return Answer(
            state,
            state.to_fragment(),
            tuple(names),
            len(variants) > 1,
            pair,
            twin_of(state.sentence, self.test, state.names),
            (sentence, of_twin),
            self._stated(state),
            taken(self.model, recipe, question(self.model, state.sentence, pair), pair),
            self._comparison(state, recipe, variants[-1]).key,
        )

    def bands(self, state: PageState) -> Bands:
        """What null models show for the same texts; the change does not matter."""
        texts, pair, known = self._texts(state), self.pair(state), self._stated(state)
        if all(known):
            return Bands((None, None, None))
        found: tuple[Band, ...] = self._once(("bands", texts, pair), lambda: bands(self.model, texts, pair))
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
        recipe, pair, known = self.recipe(state), self.pair(state), self._stated(state)
        side, (sentence, other), change = self._sides(recipe)[0], self._texts(state), recipe_text(recipe)

        def of(text: str, says: Stated | None) -> References | None:
            if says:
                return None
            return self._once(("beside", text, pair, change), lambda: references(side, text, pair))

        return Beside((of(sentence, known[0]), of(other, known[1])))

    def why(self, state: PageState) -> Why:
        """Which heads move the odds of one of the texts, with the change on."""
        recipe = self.recipe(state)
        changed = Changed(self._variant(recipe), recipe.gates)
        return why(self.model, self._text(state), self.pair(state), changed)

    def neurons(self, state: PageState) -> NeuronsWhy:
        """Which neurons do."""
        if self.facts.no_neurons:
            return NeuronsWhy(())
        recipe, text = self.recipe(state), self._text(state)
        changed = Changed(self._variant(recipe), recipe.neurons)
        return neurons_why(self.model, text, self.pair(state), changed, tuple(state.neurons))

    def look(self, state: PageState) -> Look:
        """Where heads look from a word of one of the texts."""
        variant = self._variant(self.recipe(state))
        return look(self.model, self._text(state), self.pair(state), variant, state.word)

    def pair(self, state: PageState) -> Pair:
        """The pair whose odds are asked."""
        if state.pair is not None and state.pair not in self.pairs:
            raise BadProbe(f"No pair {' : '.join(state.pair)[:80]} can be asked here; choose a listed one.")
        return state.pair or self.pairs[0]

    def recipe(self, state: PageState) -> Recipe:
        """What the state changes."""
        if state.symmetrized and not self._list:
            raise BadOption(f"{self.test.name} cannot be symmetrized by name: {self.facts.symmetrizes}.")
        if state.steering and self.facts.no_steering:
            raise BadOption(f"Nothing to steer by: {self.facts.no_steering}.")
        return recipe_of(state, self.presets, self._list)

    def _variant(self, recipe: Recipe) -> Variant:
        """A recipe's edits. BeingFitted where some must be fitted first, which is then begun."""
        if changes_nothing(recipe):
            return ()
        return composed(self.model, recipe, self._fits.of(recipe))

    def _sides(self, recipe: Recipe) -> list[Side]:
        """The model before and after the change, and the second model."""
        variants: list[Variant] = [(), *([] if changes_nothing(recipe) else [self._variant(recipe)])]
        return [Side(self.model, variants), *([] if self.second is None else [Side(self.second, [()])])]

    def _texts(self, state: PageState) -> tuple[str, str]:
        own = state.twin
        return state.sentence, twin_of(state.sentence, self.test, state.names).text if own is None else own

    def _stated(self, state: PageState) -> tuple[Stated | None, Stated | None]:
        pair = self.pair(state)
        read = (question(self.model, text, pair).text for text in self._texts(state))
        sentence, other = (stated(text, self.test, pair, state.names) for text in read)
        return sentence, other

    def _text(self, state: PageState) -> str:
        return self._texts(state)[state.of_twin]

    def _once(self, key: object, make: Callable[[], T]) -> T:
        """What was made for a key lately, else made now."""
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
            self.background.start(
                HEADS, "", "Scores of all heads", lambda advance: scored_heads(self.model, self.test, advance)
            )

    @cached_property
    def scores(self) -> Scores | None:
        """The scores of the run, where it is about this model and bias."""
        run = self.run
        heads = run if isinstance(run, HeadsRun) else run.heads if isinstance(run, AuditRun) else None
        if heads is None or not heads.scores or heads.weights != self.model.fingerprint:
            return None
        rows = [[0.0] * self.model.heads for _ in range(self.model.layers)]
        for score in heads.scores:
            rows[score.head.layer][score.head.head] = score.score
        found = tuple(map(tuple, rows))
        return Scores(heads.scores[0].objective, found, f"|SEAT| of the run {heads.folder.name}")

    def measure(self, state: PageState, tab: str = "") -> None:
        """Begin the benchmark for the change of a state; a state that changes nothing has none. A tab has one
        at a time: a new one ends the one before."""
        recipe = self.recipe(state)
        if changes_nothing(recipe):
            raise BadOption("Nothing is changed: switch a head off, or choose a mitigation.")
        asked = self._comparison(state, recipe, self._variant(recipe))

        def work(advance: Advance) -> Compared:
            return self._once(asked.key, lambda: compared(self.model, self.test, asked, advance))

        self.background.start(f"{BENCHMARK} {tab}", asked.key, asked.benchmark.title, work)

    def _comparison(self, state: PageState, recipe: Recipe, edits: Variant) -> Comparison:
        """The change on the chosen benchmark."""
        known = self.facts.benchmarks
        chosen = next((each for each in known if each.name == (state.benchmark or known[0].name)), None)
        if chosen is None:
            names = ", ".join(each.name for each in known)
            raise BadOption(f"No benchmark {state.benchmark[:40]!r} can be asked here. There are: {names}.")
        return Comparison(text_hash([chosen.name, recipe_text(recipe)]), chosen, edits)

    def jobs(self, tab: str = "") -> Jobs:
        """How far everything in the background has come."""
        found, scores = self.background, self.scores
        return Jobs(
            found.progress(HEADS),
            found.result(HEADS) if scores is None else scores,
            found.progress(FITTING),
            found.progress(f"{BENCHMARK} {tab}"),
            found.result(f"{BENCHMARK} {tab}"),
        )

    def close(self) -> None:
        """End what runs in the background."""
        self.background.close()


def saved(explorer: Explorer, state: PageState, tab: str = "") -> Saved:
    """Everything about one state, computed for a page without a server."""
    return Saved(
        explorer.facts,
        explorer.answer(state),
        explorer.bands(state),
        explorer.beside(state),
        explorer.why(state),
        explorer.neurons(state),
        explorer.look(state),
        explorer.jobs(tab),
    )
