"""Single measures as measure(model, settings=None, folder=None) -> its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from levelhead.api.measure_result import MeasureResult, SingleResult, measure_result
from levelhead.api.studies import AnyModel, Folder, loaded, settings_of
from levelhead.engine.readings import Pooling
from levelhead.errors import BadOption
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.measures.stereoset import TOP_SHARE
from levelhead.probes.lpbs import Kind, LpbsTemplates
from levelhead.probes.nli import AbilitySet, NliProbe, ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_text
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import SentenceTest, Words, load_seat_test, load_words
from levelhead.results.folder import text_hash
from levelhead.results.records.common import WordAssociation
from levelhead.results.records.projections import TripleLine
from levelhead.scoring.fluency import ask_fluency
from levelhead.scoring.lpbs import LPBS_TESTS, ask_lpbs
from levelhead.scoring.next_sentences import next_sentence_answers
from levelhead.scoring.pairs import ask_ability, ask_nli, triple_measures
from levelhead.scoring.seat import ask_seat, sentence_seat, word_associations
from levelhead.scoring.triple_table import triple_lines
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

# ---- SEAT
FLUENCY_TEXT = "text"  # under which a result holds the hash of what it was asked about


@dataclass(frozen=True)
class SeatSettings:
    """Which words, or which sentences, and in how many contexts.

    bias: a word list by its name or path, or in memory
    sentences: a sentence test in place of words: a SEAT .jsonl file
    pooling: how a sentence of such a test becomes a vector
    per_word: contexts per word; None: all 16 templates
    resamples: bootstrap samples of every interval
    seed: of every draw
    each_word: also give each target word's association
    """

    bias: Words = "gender"
    sentences: SentenceTest | str | Path | None = None
    pooling: Pooling = "mean"
    per_word: int | None = None
    resamples: int = 2_000
    seed: int = 0
    each_word: bool = False

    def __post_init__(self) -> None:
        if self.sentences is not None and (self.each_word or self.per_word is not None):
            raise BadOption("per_word and each_word are about words; sentences came. Leave them out.")


@dataclass(frozen=True, repr=False)
class SeatResult(SingleResult):
    """SEAT: 0 is no association, 2 the most. words: each target word's association, where it was asked."""

    words: tuple[WordAssociation, ...] = ()


def seat(model: AnyModel, settings: SeatSettings | Words | None = None, folder: Folder = None) -> SeatResult:
    """Do the words of X lie nearer to A, and those of Y nearer to B? (docs/method.md, SEAT)

    `heads` and `audit` hold the value against null models; this is the value alone.
    """
    settings, model = settings_of(SeatSettings, settings), loaded(model)
    resampling = Resampling(settings.resamples, settings.seed)
    if settings.sentences is not None:
        given = settings.sentences
        test = given if isinstance(given, SentenceTest) else load_seat_test(given)
        measured = sentence_seat(model, test, settings.pooling, resampling=resampling)
        return measure_result(
            SeatResult, model, {test.name: test.fingerprint()}, {measured.name: measured}, folder
        )
    words = prepare(model, HeadsSettings(settings.bias, per_word=settings.per_word, seed=settings.seed))
    (measured,) = ask_seat(model, words.test, words.table.contexts, resampling=resampling)
    data = {words.test.name: words.test.fingerprint()}
    each = tuple(word_associations(model, words.table)) if settings.each_word else ()
    return measure_result(SeatResult, model, data, {measured.name: measured}, folder, words=each)


# ---- LPBS


@dataclass(frozen=True)
class LpbsSettings:
    """Which word lists, in which templates.

    biases: word lists by their names or paths, or in memory
    templates: topic, person, trait, words, or loaded ones; None: those that suit a list
    resamples: bootstrap samples of every interval
    seed: of every draw
    """

    biases: Sequence[Words] = LPBS_TESTS
    templates: Kind | LpbsTemplates | None = None
    resamples: int = 2_000
    seed: int = 0


class LpbsResult(MeasureResult):
    """One score a word list: `result["career"].value`."""


def lpbs(model: AnyModel, settings: LpbsSettings | None = None, folder: Folder = None) -> LpbsResult:
    """Do the words of X raise A over B more than those of Y do, in a masked model? (docs/method.md, LPBS)"""
    settings, model = settings_of(LpbsSettings, settings), loaded(model)
    if isinstance(settings.biases, str | Path) or not settings.biases:
        raise BadOption(f"biases is {settings.biases!r}; give a list of word lists, such as ['career'].")
    tests = [load_words(bias) for bias in settings.biases]
    resampling = Resampling(settings.resamples, settings.seed)
    measured = {
        test.name: ask_lpbs(model, test, templates=settings.templates, resampling=resampling)[0]
        for test in tests
    }
    return measure_result(
        LpbsResult, model, {test.name: test.fingerprint() for test in tests}, measured, folder
    )


# ---- next sentences


@dataclass(frozen=True)
class NspSettings:
    """Which triples, and how they are counted.

    triples: a file, hub:stereoset, or loaded ones; None: ours
    likelihood: for causal models: by mean log-likelihood
    top: Strength and Distance are means over this share of the pairs
    resamples: bootstrap samples of every interval
    seed: of every draw
    chat: by likelihood, through the chat template of the model's tokenizer; else plain text
    limit: at most so many triples, evenly spread; None: all
    """

    triples: TripleSet | str | Path | None = None
    likelihood: bool = False
    top: float = TOP_SHARE
    resamples: int = 2_000
    seed: int = 0
    chat: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.chat and not self.likelihood:
            raise BadOption("chat=True would change nothing without likelihood=True. Add that.")


@dataclass(frozen=True, repr=False)
class NspResult(MeasureResult):
    """Which sentence a model expects next. triples: the probabilities of every triple."""

    triples: tuple[TripleLine, ...] = ()

    @property
    def ss(self) -> Measurement:
        """How often the stereotype is preferred; 0.5 is even."""
        return self["ss"]

    @property
    def preference(self) -> Measurement:
        """The signed preference for stereotypes, in logits; 0 is none."""
        return self["preference"]

    @property
    def strength(self) -> Measurement:
        """The strength of stereotypes in the most biased tenth."""
        return self["strength"]

    @property
    def distance(self) -> Measurement:
        """How far gender alone moves unrelated sentences."""
        return self["distance"]

    @property
    def lms(self) -> Measurement:
        """How often a related sentence is preferred to an unrelated one."""
        return self["lms"]

    @property
    def icat(self) -> Measurement:
        """SS and LMS in one number."""
        return self["icat"]


def nsp(model: AnyModel, settings: NspSettings | None = None, folder: Folder = None) -> NspResult:
    """Which sentence does the model expect next: the stereotype, its opposite, or an unrelated one?"""
    settings, model = settings_of(NspSettings, settings), loaded(model)
    given = settings.triples
    triples = given if isinstance(given, TripleSet) else load_triples(given)
    triples = triples.at_most(settings.limit)
    answers = next_sentence_answers(model, triples, settings.likelihood, settings.chat)
    resampling = Resampling(settings.resamples, settings.seed)
    measured = triple_measures(triples, answers, resampling, settings.top)
    data, lines = {triples.name: triples.fingerprint}, tuple(triple_lines(triples, answers))
    return measure_result(NspResult, model, data, measured, folder, triples=lines)


# ---- inferences


@dataclass(frozen=True)
class NliSettings:
    """Which pairs about occupations, and which ordinary ones.

    probe: the pairs about occupations; None: ours
    ability: an SNLI file, a folder, hub:snli; None: ours
    limit: of our probe: occupations, contexts; None: all
    labels: of the classifier's outputs, where its config does not say
    resamples: bootstrap samples of every interval
    seed: of every draw
    """

    probe: NliProbe | None = None
    ability: AbilitySet | str | Path | None = None
    limit: tuple[int, int] | None = None
    labels: str | None = None
    resamples: int = 2_000
    seed: int = 0


class NliResult(MeasureResult):
    """Whether a classifier infers gender from occupation."""

    @property
    def accuracy(self) -> Measurement:
        """How often it rightly answers neutral."""
        return self["accuracy"]

    @property
    def parity(self) -> Measurement:
        """How often it answers alike for both genders."""
        return self["parity"]

    @property
    def fairness(self) -> Measurement:
        """Parity and accuracy in one number; 1 is fair."""
        return self["fairness"]

    @property
    def ability(self) -> Measurement:
        """Accuracy on ordinary pairs."""
        return self["ability"]


def nli(model: AnyModel, settings: NliSettings | None = None, folder: Folder = None) -> NliResult:
    """Does a classifier infer gender from occupation, and is it able? (docs/method.md, NLI fairness)"""
    settings, model = settings_of(NliSettings, settings), loaded(model)
    probe = settings.probe or nli_probe(limit=settings.limit)
    given = settings.ability
    able = given if isinstance(given, AbilitySet) else ability_pairs(given)
    resampling = Resampling(settings.resamples, settings.seed)
    (measured,) = ask_nli(model, probe, labels=settings.labels, resampling=resampling)
    (ability,) = ask_ability(model, able, labels=settings.labels)
    data = {probe.name: probe.fingerprint, able.name: able.fingerprint}
    return measure_result(NliResult, model, data, {**measured, ability.name: ability}, folder)


# ---- fluency


@dataclass(frozen=True)
class FluencySettings:
    """Which text.

    text: a file, a folder, hub:NAME, or sentences; None: ours
    limit: at most so many sentences
    resamples: bootstrap samples of every interval
    seed: of every draw
    """

    text: str | Path | Sequence[str] | None = None
    limit: int | None = None
    resamples: int = 2_000
    seed: int = 0


class FluencyResult(SingleResult):
    """Pseudo-perplexity of a masked model, perplexity of a causal one; lower is better."""


def fluency(model: AnyModel, settings: FluencySettings | None = None, folder: Folder = None) -> FluencyResult:
    """How well does the model predict plain text? (docs/method.md, Fluency)"""
    settings, model = settings_of(FluencySettings, settings), loaded(model)
    given = settings.text
    sentences = fluency_text(given) if given is None or isinstance(given, str | Path) else tuple(given)
    sentences = sentences[: settings.limit]
    (measured,) = ask_fluency(model, sentences, resampling=Resampling(settings.resamples, settings.seed))
    return measure_result(
        FluencyResult, model, {FLUENCY_TEXT: text_hash(sentences)}, {measured.name: measured}, folder
    )
