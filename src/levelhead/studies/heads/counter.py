"""The counter-stereotype experiment: "women are emotional" against "men are emotional", head by head.

Attention from the target word to the attribute word in a stereotype, and in its counter-stereotype
(docs/method/heads.md, Counter-stereotypes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Head
from levelhead.engine.collectors import AttentionRow
from levelhead.engine.readings import Attention
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.measures.attention import attention_to_attribute, counter_contrasts, counter_test
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.sentences import (
    StereotypeSentence,
    extract_counter_sentences,
    shipped_counter_sentences,
)
from levelhead.probes.words import WordTest, load_words
from levelhead.progress import steps
from levelhead.scoring.seat import fitting
from levelhead.studies.heads.records import (
    ArcPair,
    ArcSheet,
    ArcVersion,
    AttentionExample,
    CounterContrast,
    CounterHead,
    CounterTest,
    HeadGroup,
    Version,
)
from levelhead.studies.heads.scores import finite
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings

Doubles = NDArray[np.float64]
GROUPS: tuple[HeadGroup, ...] = ("biased", "regular")
VERSIONS: tuple[Version, ...] = ("original", "counter")
SIDES: tuple[Literal["A", "B"], ...] = ("A", "B")
SHIPPED = "shipped"  # a source of sentences
_AT_A_TIME = 64  # sentences whose attention is held at once


# ---- its sentences: shipped, or found in a user's text


@dataclass(frozen=True)
class CounterSentences:
    """The experiment's sentences that a model can be asked, their source, and why others cannot be asked."""

    source: str
    sentences: tuple[StereotypeSentence, ...]
    unscored: Mapping[str, int] = field(default_factory=dict)  # reason -> sentences
    reason: str = ""  # why there are none

    def clusterings(self) -> dict[str, list[str]]:
        """What sentences share, so that they are no independent evidence: a label of each sentence.

        The two words of an attribute pair are one cluster: sentences of both sides compare the same two. A
        corpus has no templates; there every sentence is its own.
        """
        return {
            "template": [s.template or s.text for s in self.sentences],
            "attribute pair": ["/".join(sorted([s.attribute, s.counterpart])) for s in self.sentences],
            "target": [s.target for s in self.sentences],
        }


def sentence_source(test: WordTest, contexts: str, wanted: str | None) -> str:
    """Where sentences come from: the wanted source, else the shipped ones, else the corpus of the contexts.

    The shipped sentences are the default of the shipped gender list only.
    """
    if wanted is not None:
        return wanted
    if test.fingerprint() == load_words("gender").fingerprint():
        return SHIPPED
    if contexts != FROM_TEMPLATES:
        return contexts
    raise BadProbe(
        f"No stereotype sentences ship for {test.name}; give a corpus that has some: --sentences PATH."
    )


def find_sentences(model: Model, test: WordTest, settings: HeadsSettings) -> CounterSentences:
    """The experiment's sentences, or the reason why there are none, with which other experiments go on.

    A source that the settings name must have sentences.
    """
    try:
        source = sentence_source(test, settings.contexts, settings.sentences)
        return counter_sentences(model, test, source, settings.n_sentences, settings.seed)
    except BadProbe as error:
        if settings.sentences is not None:
            raise
        return CounterSentences("none", (), reason=str(error).rstrip("."))


def counter_sentences(
    model: Model, test: WordTest, source: str, n: int = 500, seed: int = 0
) -> CounterSentences:
    """At most n sentences that the model can be asked; a causal model must see the attribute word first."""
    if source == SHIPPED:
        shipped = len(shipped_counter_sentences())
        if test.fingerprint() == load_words("gender").fingerprint():
            drawn = shipped_counter_sentences(min(n, shipped), seed)
        else:  # of another list about gender those whose two words it has
            sides = {"A": (set(test.A), set(test.X)), "B": (set(test.B), set(test.Y))}
            every = shipped_counter_sentences(shipped, seed)
            drawn = [s for s in every if s.attribute in sides[s.group][0] and s.target in sides[s.group][1]]
            drawn = drawn[:n]
        if not drawn:
            lacking = f"No shipped sentence has words of {test.name}"
            raise BadProbe(f"{lacking}; give a corpus that has some: --sentences PATH.")
    else:
        drawn = list(extract_counter_sentences(test, source, n, seed).sentences)
    fits = zip(
        drawn,
        fitting(model, [s.text for s in drawn]),
        fitting(model, [s.counter for s in drawn]),
        strict=True,
    )
    short = [sentence for sentence, first, second in fits if first and second]
    usable = [s for s in short if s.attribute_first or not model.family.causal]
    lost = {
        "longer than the model's positions": len(drawn) - len(short),
        "attribute word after the target word, unseen by a causal model": len(short) - len(usable),
    }
    return CounterSentences(source, tuple(usable), {reason: count for reason, count in lost.items() if count})


# ---- the experiment


@dataclass(frozen=True)
class CounterOutcome:
    """What the experiment shows.

    contrasts: the main number, biased less regular heads, and its two parts, tested by cluster. sides: the
    tests over the originals of either attribute group alone. Heads that attend more to feminine words,
    whatever stands in the sentence, show a fall on one side and a rise on the other.
    """

    tests: list[CounterTest]
    contrasts: list[CounterContrast] = field(default_factory=list)
    sides: list[CounterTest] = field(default_factory=list)
    heads: list[CounterHead] = field(default_factory=list)
    example: list[AttentionExample] = field(default_factory=list)


def counter_attention(model: Model, sentences: Sequence[StereotypeSentence]) -> tuple[Doubles, Doubles]:
    """Attention from target to attribute in originals and in counters: each [sentence, layer, head]"""
    values = np.full((2, len(sentences), model.layers, model.heads), np.nan)
    with steps("Counter-stereotypes", len(sentences)) as advance:
        for start in range(0, len(sentences), _AT_A_TIME):
            some = sentences[start : start + _AT_A_TIME]
            for version, texts in enumerate(_attention(model, some)):
                for i, text in enumerate(texts, start=start):
                    seen = _seen(model, text)
                    attribute = np.isin(np.arange(len(text.tokens)), text.attribute)
                    values[version, i] = attention_to_attribute(text.weights, seen, attribute)
            advance(len(some))
    return values[0], values[1]


def counter_experiment(
    model: Model, questions: CounterSentences, scores: Doubles, resampling: Resampling = DEFAULT
) -> CounterOutcome:
    """Test biased and regular heads, by their scores [layer, head], on the experiment's sentences."""
    if len(questions.sentences) < 2:
        count = f"{len(questions.sentences)} usable sentences from {questions.source}, at least 2 are needed"
        missing = Measurement.missing(
            "attention change", questions.reason or count, unscored=questions.unscored
        )
        return CounterOutcome([CounterTest(group, "", missing) for group in GROUPS])
    original, counter = counter_attention(model, questions.sentences)
    whole = counter_test(original, counter, scores, resampling)
    tests = []
    for group in GROUPS:
        measured = whole.groups[group]
        unscored = {**questions.unscored, **measured.unscored}
        settings = {**measured.settings, "sentences": questions.source}
        tests.append(CounterTest(group, "", replace(measured, unscored=unscored, settings=settings)))
    sides = []
    for side in SIDES:
        own = [i for i, sentence in enumerate(questions.sentences) if sentence.group == side]
        if own:
            part = counter_test(original[own], counter[own], scores, resampling)
            sides += [CounterTest(group, side, part.groups[group]) for group in GROUPS]
    heads = [
        CounterHead(
            head=head,
            difference=finite(whole.difference[head]),
            t=finite(whole.t[head]),
            p=finite(whole.p_value[head]),
            q=finite(whole.q_value[head]),
            n=int(whole.n[head]),
        )
        for head in starmap(Head, np.ndindex(scores.shape))
    ]
    example = _example(model, questions.sentences, original - counter, scores, resampling.seed)
    in_a = [sentence.group == "A" for sentence in questions.sentences]
    contrasts = []
    for contrast in counter_contrasts(original, counter, scores, in_a, questions.clusterings(), resampling):
        measured = contrast.measurement
        stated = replace(
            measured,
            unscored={**questions.unscored, **measured.unscored},
            settings={**measured.settings, "sentences": questions.source},
        )
        contrasts.append(CounterContrast(contrast.heads, contrast.part, stated))
    return CounterOutcome(tests, contrasts, sides, heads, example)


def _attention(
    model: Model, sentences: Sequence[StereotypeSentence]
) -> tuple[list[AttentionRow], list[AttentionRow]]:
    """Attention in the originals and in the counters."""
    answers = read_one(model, attention_reading(sentences), label="Attention")[0]
    return answers[: len(sentences)], answers[len(sentences) :]


def attention_reading(sentences: Sequence[StereotypeSentence]) -> Attention:
    """What is read of the originals, and then of the counters."""
    texts = [Text(s.text) for s in sentences] + [Text(s.counter) for s in sentences]
    targets = [s.target_span for s in sentences] + [s.counter_target_span for s in sentences]
    attributes = [s.attribute_span for s in sentences] + [s.counter_attribute_span for s in sentences]
    return Attention(texts, targets, attributes)


def _seen(model: Model, text: AttentionRow) -> NDArray[np.bool_]:
    """The words, no special token and no punctuation, that each token can attend to: [target token, token]"""
    seen = np.broadcast_to(text.counted, (len(text.target), len(text.counted)))
    if model.family.causal:
        seen = seen & (np.arange(len(text.counted)) <= text.target[:, None])
    return np.asarray(seen)


# ---- what is shown


def _example(
    model: Model, sentences: Sequence[StereotypeSentence], change: Doubles, scores: Doubles, seed: int
) -> list[AttentionExample]:
    """The running example: the sentence that changes most in the most biased head, and a regular head drawn.

    change [sentence, layer, head]. Without a biased head that has a scored sentence there is no example.
    """
    most_biased = Head(*divmod(int(scores.argmax()), scores.shape[1]))
    by_sentence = change[(slice(None), *most_biased)]
    if scores[most_biased] <= 0 or np.isnan(by_sentence).all():
        return []
    sentence = sentences[int(np.nanargmax(by_sentence))]
    shown: dict[HeadGroup, Head] = {"biased": most_biased}
    if len(regular := np.argwhere(scores <= 0).tolist()):
        shown["regular"] = Head(*regular[np.random.default_rng(seed).integers(len(regular))])
    versions = [texts[0] for texts in _attention(model, [sentence])]
    examples = []
    for group, head in shown.items():
        for version, text in zip(VERSIONS, versions, strict=True):
            # normalized attention from the target word to every word of the sentence
            weights, seen = text.weights[head][None, None], _seen(model, text)
            attribute = np.isin(np.arange(len(text.tokens)), text.attribute)
            columns = np.eye(len(text.tokens), dtype=bool)
            values = [float(attention_to_attribute(weights, seen, column)[0, 0]) for column in columns]
            example = AttentionExample(
                group=group,
                version=version,
                head=head,
                attention=finite(attention_to_attribute(weights, seen, attribute)[0, 0]),
                tokens=text.tokens,
                weights=tuple(finite(v) if seen[:, i].any() else None for i, v in enumerate(values)),
                target=tuple(text.target.tolist()),
                attribute=tuple(text.attribute.tolist()),
            )
            examples.append(example)
    return examples


def arc_sheet(model: Model, sentences: Sequence[StereotypeSentence]) -> ArcSheet:
    """Normalized attention from the target word to every token in every head, both versions of each sentence;
    four decimals, None where it is constant or not counted."""
    pairs = []
    for sentence, *versions in zip(sentences, *_attention(model, sentences), strict=True):
        arcs = []
        for text in versions:
            seen, columns = _seen(model, text), np.eye(len(text.tokens), dtype=bool)
            values = np.stack(
                [attention_to_attribute(text.weights, seen, column) for column in columns], axis=-1
            )
            values[..., ~seen.any(axis=0)] = np.nan
            attention = tuple(
                tuple(tuple(None if np.isnan(v) else round(float(v), 4) for v in head) for head in layer)
                for layer in values
            )
            target, attribute = tuple(text.target.tolist()), tuple(text.attribute.tolist())
            arcs.append(ArcVersion(text.tokens, target, attribute, attention))
        pairs.append(ArcPair(sentence.text, sentence.counter, arcs[0], arcs[1]))
    return ArcSheet(tuple(pairs))
