"""Single measures as measure(model, settings=None, folder=None) -> its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from levelhead.api.measured_settings import (
    FluencySettings,
    LpbsSettings,
    NliSettings,
    NspSettings,
    SeatSettings,
)
from levelhead.api.shown import Line, SavedRecord, measured_cells
from levelhead.api.studies import AnyModel, Folder, loaded, settings_of
from levelhead.engine.effort import plan_of
from levelhead.engine.readings import Pooled, Pooling, SentenceVectors
from levelhead.measures.catalog import DOUBT, Catalog
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.links import Document, Link, document_link
from levelhead.probes.lpbs import LpbsTemplates
from levelhead.probes.sentences import fluency_text
from levelhead.probes.words import SentenceTest, Words, load_seat_test, load_words
from levelhead.progress import plan_ends
from levelhead.runs.common import TripleLine, WordAssociation
from levelhead.runs.folder import text_hash, versions
from levelhead.runs.study import DOUBT_FACT, OPENING_FACT, Kept
from levelhead.scoring.fluency import ask_fluency, fluency_reading, why_no_fluency
from levelhead.scoring.lpbs import LpbsQuestion, ask_lpbs
from levelhead.scoring.pairs import (
    ask_ability,
    ask_nli,
    head_answers,
    likelihood_answers,
    next_sentence_reading,
    triple_lines,
    triple_measures,
    triple_rows,
)
from levelhead.scoring.seat import ask_seat, ask_sentence_seat, word_associations
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import HeadsSettings

FLUENCY_TEXT = "text"  # under which a result holds the hash of its sentences


@dataclass(frozen=True, repr=False)
class MeasureResult(SavedRecord):
    """Measurements of one model, and what stands behind them: its weights, the data, versions."""

    model: str
    weights: str  # the model's fingerprint
    data: Mapping[str, str]  # name -> hash
    versions: Mapping[str, str]
    measurements: Mapping[str, Measurement]

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]

    @property
    def caption(self) -> str:
        """The model, the doubt about it where there is one, and the data."""
        data = [name for name in self.data if name not in (OPENING_FACT, DOUBT_FACT)]
        doubt = f" ({self.data[DOUBT_FACT]})" if DOUBT_FACT in self.data else ""
        return f"{self.model}{doubt}: {', '.join(data)}"

    def lines(self) -> Sequence[Line]:
        """One line a measurement."""
        return [{"item": name, **measured_cells(each)} for name, each in self.measurements.items()]

    def chart(self) -> Chart:
        """Every measurement with its interval."""
        return intervals([Labeled(name, each) for name, each in self.measurements.items()], self.model)

    @property
    def link(self) -> Link:
        """The equation of its first measure."""
        first = next((each.name for each in self.measurements.values()), "")
        return document_link(Document.METHOD, Catalog().info(first).docs)


class Named(Kept[MeasureResult, Measurement]):
    """A measurement of a result as an attribute of its name."""

    def __init__(self, about: str) -> None:
        self.__doc__ = about

    def found(self, result: MeasureResult) -> Measurement:
        """The measurement."""
        return result[self.name]


class SingleResult(MeasureResult):
    """One measurement of a model."""

    @property
    def caption(self) -> str:
        """The model, the data and the number."""
        return f"{super().caption}: {self.measurement}"

    @property
    def measurement(self) -> Measurement:
        """The number with all that belongs to it."""
        return next(iter(self.measurements.values()))

    @property
    def value(self) -> float | None:
        """The number; None where it was not measured, and `measurement.reason` says why."""
        return self.measurement.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its 95 % interval."""
        return self.measurement.interval

    @property
    def n(self) -> int:
        """How many items it rests on."""
        return self.measurement.n


M = TypeVar("M", bound=MeasureResult)


def measure_result(
    kind: type[M],
    model: Model,
    data: Mapping[str, str],
    measurements: Mapping[str, Measurement],
    folder: Folder,
    **items: Any,
) -> M:
    """A result; items: what it has beside its measurements. With a folder it is written there."""
    data = {**data, **model.facts()}
    if doubt := model.opening.doubt:
        measurements = {
            name: replace(each, settings={**each.settings, DOUBT: doubt})
            for name, each in measurements.items()
        }
    result = kind(model.name, model.fingerprint, data, versions(), measurements, **items)
    if folder is not None:
        result.save(folder)
    return result


# ---- SEAT


@dataclass(frozen=True, repr=False)
class SeatResult(SingleResult):
    """SEAT: 0 is no association, 2 the most. words: each target word's association, with `each_word`."""

    words: tuple[WordAssociation, ...] = ()


def seat(model: AnyModel, settings: SeatSettings | Words | None = None, folder: Folder = None) -> SeatResult:
    """Do the words of X lie nearer to A, and those of Y nearer to B? (docs/method/words.md, SEAT)

    `heads` and `audit` hold the value against null models; this is the value alone.
    """
    settings, model = settings_of(SeatSettings, settings), loaded(model)
    resampling = Resampling(settings.resamples, settings.seed)
    if (given := settings.test) is not None:
        test = given if isinstance(given, SentenceTest) else load_seat_test(given)
        pooling = cast("Pooling", settings.pooling)
        texts = [Text(text) for listed in test.groups().values() for text in listed]
        plan_ends(lambda: plan_of(model, [SentenceVectors(texts, pooling)]))
        (measured,) = ask_sentence_seat(model, test, pooling=pooling, resampling=resampling)
        return measure_result(
            SeatResult, model, {test.name: test.fingerprint()}, {measured.name: measured}, folder
        )
    words = prepare(model, HeadsSettings(settings.bias, per_word=settings.contexts, seed=settings.seed))
    plan_ends(lambda: plan_of(model, [words.table.each()]))
    (measured,) = ask_seat(model, words.test, words.table.contexts, resampling=resampling)
    data = {words.test.name: words.test.fingerprint()}
    each = tuple(word_associations(model, words.table)) if settings.each_word else ()
    return measure_result(SeatResult, model, data, {measured.name: measured}, folder, words=each)


# ---- LPBS


class LpbsResult(MeasureResult):
    """One score a word list: `result["career"].value`."""


def lpbs(model: AnyModel, settings: LpbsSettings | None = None, folder: Folder = None) -> LpbsResult:
    """Do the words of X raise A over B more than those of Y do, in a masked model? (docs/method/words.md,
    LPBS)"""
    settings, model = settings_of(LpbsSettings, settings), loaded(model)
    tests = [load_words(bias) for bias in settings.biases]
    templates, resampling = settings.load(), Resampling(settings.resamples, settings.seed)
    given = templates.templates if isinstance(templates, LpbsTemplates) else templates
    queries = [LpbsQuestion.of(model, test, given) for test in tests]
    plan_ends(lambda: plan_of(model, [r for q in queries if not q.why_not(model) for r in q.readings(model)]))
    measured = {
        test.name: ask_lpbs(model, test, templates=templates, resampling=resampling)[0] for test in tests
    }
    return measure_result(
        LpbsResult, model, {test.name: test.fingerprint() for test in tests}, measured, folder
    )


# ---- next sentences


@dataclass(frozen=True, repr=False)
class NspResult(MeasureResult):
    """Which sentence a model expects next. triples: the probabilities of every triple."""

    triples: tuple[TripleLine, ...] = ()

    ss = Named("How often the stereotype is preferred; 0.5 is even.")
    preference = Named("The signed preference for stereotypes, in logits; 0 is none.")
    strength = Named("The strength of stereotypes in the most biased tenth.")
    distance = Named("How far gender alone moves unrelated sentences.")
    lms = Named("How often a related sentence is preferred to an unrelated one.")
    icat = Named("SS and LMS in one number.")


def nsp(model: AnyModel, settings: NspSettings | None = None, folder: Folder = None) -> NspResult:
    """Which sentence does the model expect next: the stereotype, its opposite, or an unrelated one?"""
    settings, model = settings_of(NspSettings, settings), loaded(model)
    triples = settings.load()
    plan_ends(lambda: plan_of(model, [next_sentence_reading(model, triple_rows(triples))]))
    if settings.likelihood:
        (answers,) = likelihood_answers(model, triples, chat=settings.chat)
    else:
        (answers,) = head_answers(model, triples)
    resampling = Resampling(settings.resamples, settings.seed)
    measured = triple_measures(triples, answers, resampling, settings.top)
    data, lines = {triples.name: triples.fingerprint}, tuple(triple_lines(triples, answers))
    return measure_result(NspResult, model, data, measured, folder, triples=lines)


# ---- inferences


class NliResult(MeasureResult):
    """Whether a classifier infers gender from occupation."""

    accuracy = Named("How often it rightly answers neutral.")
    parity = Named("How often it answers alike for both genders.")
    fairness = Named("Parity and accuracy in one number; 1 is fair.")
    ability = Named("Accuracy on ordinary pairs.")


def nli(model: AnyModel, settings: NliSettings | None = None, folder: Folder = None) -> NliResult:
    """Does a classifier infer gender from occupation, and is it able? (docs/method/sentences.md, NLI
    fairness)"""
    settings, model = settings_of(NliSettings, settings), loaded(model)
    probe, able = settings.load(), settings.load_ability()
    resampling = Resampling(settings.resamples, settings.seed)
    pairs = [Pooled([Text(each.premise, each.hypothesis) for each in s.pairs]) for s in (probe, able)]
    plan_ends(lambda: plan_of(model, pairs))
    (measured,) = ask_nli(model, probe, labels=settings.labels, resampling=resampling)
    (ability,) = ask_ability(model, able, labels=settings.labels)
    data = {probe.name: probe.fingerprint, able.name: able.fingerprint}
    return measure_result(NliResult, model, data, {**measured, ability.name: ability}, folder)


# ---- fluency


class FluencyResult(SingleResult):
    """Pseudo-perplexity of a masked model, perplexity of a causal one; lower is better."""


def fluency(model: AnyModel, settings: FluencySettings | None = None, folder: Folder = None) -> FluencyResult:
    """How well does the model predict plain text? (docs/method/sentences.md, Fluency)"""
    settings, model = settings_of(FluencySettings, settings), loaded(model)
    given = settings.text
    sentences = fluency_text(given) if given is None or isinstance(given, str | Path) else tuple(given)
    sentences = sentences[: settings.limit]
    able = not why_no_fluency(model)
    plan_ends(lambda: plan_of(model, [fluency_reading(model, sentences)] if able else []))
    (measured,) = ask_fluency(model, sentences, resampling=Resampling(settings.resamples, settings.seed))
    return measure_result(
        FluencyResult, model, {FLUENCY_TEXT: text_hash(sentences)}, {measured.name: measured}, folder
    )
