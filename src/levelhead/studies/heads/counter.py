"""The counter-stereotype experiment: "women are emotional" against "men are emotional", head by head.

Attention from the target word to the attribute word in a stereotype, and in the same sentence turned around
(docs/method.md, Counter-stereotypes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.head import Head
from levelhead.engine.inner_collectors import AttentionRow
from levelhead.engine.readings import Attention
from levelhead.engine.run import read_one
from levelhead.measures.attention import attention_to_attribute, counter_contrasts, counter_test
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.sentences import (
    StereotypeSentence,
)
from levelhead.progress import steps
from levelhead.results.records.heads import (
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
from levelhead.studies.heads.counter_sentences import VERSIONS, CounterSentences
from levelhead.studies.heads.scores import finite

GROUPS: tuple[HeadGroup, ...] = ("biased", "regular")
SIDES: tuple[Literal["A", "B"], ...] = ("A", "B")
_AT_A_TIME = 64  # sentences whose attention is held at once
Doubles = NDArray[np.float64]


# ---- the experiment


@dataclass(frozen=True)
class CounterOutcome:
    """What the experiment shows.

    contrasts: the main number, biased less regular heads, and its two parts, tested by cluster. sides: the
    tests over the originals of either attribute group alone. Heads that look at feminine words more,
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
                    values[version, i] = attention_to_attribute(text.weights, seen, _attribute(text))
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
    contrasts = _contrasts(questions, original, counter, scores, resampling)
    return CounterOutcome(tests, contrasts, sides, heads, example)


def _contrasts(
    questions: CounterSentences, original: Doubles, counter: Doubles, scores: Doubles, resampling: Resampling
) -> list[CounterContrast]:
    """Biased heads against regular ones, with the sentences' source and with what could not be asked."""
    in_a = [sentence.group == "A" for sentence in questions.sentences]
    contrasts = counter_contrasts(original, counter, scores, in_a, questions.clusterings(), resampling)
    return [
        CounterContrast(
            contrast.heads,
            contrast.part,
            replace(
                contrast.measurement,
                unscored={**questions.unscored, **contrast.measurement.unscored},
                settings={**contrast.measurement.settings, "sentences": questions.source},
            ),
        )
        for contrast in contrasts
    ]


def _attention(
    model: Model, sentences: Sequence[StereotypeSentence]
) -> tuple[list[AttentionRow], list[AttentionRow]]:
    """Attention in the originals and in the counters."""
    texts = [Text(s.text) for s in sentences] + [Text(s.counter) for s in sentences]
    targets = [s.target_span for s in sentences] + [s.counter_target_span for s in sentences]
    attributes = [s.attribute_span for s in sentences] + [s.counter_attribute_span for s in sentences]
    answers = read_one(model, Attention(texts, targets, attributes), label="Attention")[0]
    return answers[: len(sentences)], answers[len(sentences) :]


def _seen(model: Model, text: AttentionRow) -> NDArray[np.bool_]:
    """The words, no special token and no punctuation, that each token can attend to: [target token, token]"""
    seen = np.broadcast_to(text.counted, (len(text.target), len(text.counted)))
    if model.family.causal:
        seen = seen & (np.arange(len(text.counted)) <= text.target[:, None])
    return np.asarray(seen)


def _attribute(text: AttentionRow) -> NDArray[np.bool_]:
    return np.isin(np.arange(len(text.tokens)), text.attribute)


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
    return [
        _example_of(model, text, group, version, head)
        for group, head in shown.items()
        for version, text in zip(VERSIONS, versions, strict=True)
    ]


def _example_of(
    model: Model, text: AttentionRow, group: HeadGroup, version: Version, head: Head
) -> AttentionExample:
    """Normalized attention from the target word to every word of one sentence in one head."""
    weights, seen = text.weights[head][None, None], _seen(model, text)
    columns = np.eye(len(text.tokens), dtype=bool)
    values = [float(attention_to_attribute(weights, seen, column)[0, 0]) for column in columns]
    return AttentionExample(
        group=group,
        version=version,
        head=head,
        attention=finite(attention_to_attribute(weights, seen, _attribute(text))[0, 0]),
        tokens=text.tokens,
        weights=tuple(finite(v) if seen[:, i].any() else None for i, v in enumerate(values)),
        target=tuple(text.target.tolist()),
        attribute=tuple(text.attribute.tolist()),
    )


def arc_sheet(model: Model, sentences: Sequence[StereotypeSentence]) -> ArcSheet:
    """Normalized attention from the target word in every head, both versions of each sentence."""
    pairs = zip(sentences, *_attention(model, sentences), strict=True)
    return ArcSheet(
        tuple(
            ArcPair(sentence.text, sentence.counter, _arcs(model, original), _arcs(model, counter))
            for sentence, original, counter in pairs
        )
    )


def _arcs(model: Model, text: AttentionRow) -> ArcVersion:
    """Attention of every head to every token, four decimals; None where it is constant or not counted."""
    seen = _seen(model, text)
    columns = np.eye(len(text.tokens), dtype=bool)
    values = np.stack([attention_to_attribute(text.weights, seen, column) for column in columns], axis=-1)
    values[..., ~seen.any(axis=0)] = np.nan
    attention = tuple(
        tuple(tuple(None if np.isnan(v) else round(float(v), 4) for v in head) for head in layer)
        for layer in values
    )
    return ArcVersion(text.tokens, tuple(text.target.tolist()), tuple(text.attribute.tolist()), attention)
