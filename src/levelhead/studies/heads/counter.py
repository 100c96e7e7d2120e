"""The counter-stereotype experiment: "women are emotional" against "men are emotional", head by head (SPEC
A6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.collectors import AttentionRow
from levelhead.engine.progress import steps
from levelhead.engine.readings import Attention
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.measures.attention import attention_to_attribute, counter_test
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
from levelhead.results.folder import Row
from levelhead.scoring.word_table import fitting

SHIPPED = "shipped"
_AT_A_TIME = 64  # sentences whose attention is held at once
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class CounterSentences:
    """Sentences of the experiment that a model can be asked, where they come from, and why others cannot
    be."""

    source: str
    sentences: tuple[StereotypeSentence, ...]
    unscored: Mapping[str, int] = field(default_factory=dict)  # reason -> sentences
    reason: str = ""  # why there are none

    def rows(self) -> list[Row]:
        """What is asked, sentence by sentence."""
        return [
            {
                "text": s.text,
                "counter": s.counter,
                "target": s.target,
                "attribute": s.attribute,
                "group": s.group,
            }
            for s in self.sentences
        ]


def sentence_source(test: WordTest, contexts: str, asked: str | None) -> str:
    """Where sentences come from: what was asked for, the shipped ones for the shipped gender list, or the
    corpus."""
    if asked is not None:
        return asked
    if test.fingerprint() == load_words("gender").fingerprint():
        return SHIPPED
    if contexts != "templates":
        return contexts
    raise BadProbe(
        f"No stereotype sentences ship for {test.name}; give a corpus that has some: --sentences PATH."
    )


def find_sentences(
    model: Model, test: WordTest, contexts: str, asked: str | None, n: int = 500, seed: int = 0
) -> CounterSentences:
    """The experiment's sentences. Where none were asked for and there are none, the reason: other experiments
    go on."""
    try:
        return counter_sentences(model, test, sentence_source(test, contexts, asked), n, seed)
    except BadProbe as error:
        if asked is not None:
            raise
        return CounterSentences("none", (), reason=str(error).rstrip("."))


def counter_sentences(
    model: Model, test: WordTest, source: str, n: int = 500, seed: int = 0
) -> CounterSentences:
    """At most n sentences that the model can be asked; in a causal model the attribute word must come
    first."""
    if source == SHIPPED:
        found: Sequence[StereotypeSentence] = _shipped(test, n, seed)
    else:
        found = extract_counter_sentences(test, source, n, seed).sentences
    fits = zip(
        found,
        fitting(model, [s.text for s in found]),
        fitting(model, [s.counter for s in found]),
        strict=True,
    )
    kept = [sentence for sentence, first, second in fits if first and second]
    seen = [s for s in kept if s.attribute_first or not model.family.causal]
    lost = {
        "longer than the model's positions": len(found) - len(kept),
        "attribute word after the target word, unseen by a causal model": len(kept) - len(seen),
    }
    return CounterSentences(source, tuple(seen), {reason: count for reason, count in lost.items() if count})


def _shipped(test: WordTest, n: int, seed: int) -> list[StereotypeSentence]:
    """Shipped sentences about gender; for another list than the shipped one, those whose two words it has."""
    if test.fingerprint() == load_words("gender").fingerprint():
        return shipped_counter_sentences(min(n, len(shipped_counter_sentences())), seed)
    sides = {"A": (set(test.A), set(test.X)), "B": (set(test.B), set(test.Y))}
    drawn = shipped_counter_sentences(len(shipped_counter_sentences()), seed)
    own = [s for s in drawn if s.attribute in sides[s.group][0] and s.target in sides[s.group][1]]
    if not own:
        raise BadProbe(
            f"No shipped sentence has words of {test.name}; give a corpus that has some: --sentences PATH."
        )
    return own[:n]


def counter_attention(model: Model, sentences: Sequence[StereotypeSentence]) -> tuple[Doubles, Doubles]:
    """Attention from target to attribute in the originals and in the counters: each [sentence, layer,
    head]."""
    shape = (2, len(sentences), model.layers, model.heads)
    found = np.full(shape, np.nan)
    with steps("Counter-stereotypes", len(sentences)) as advance:
        for start in range(0, len(sentences), _AT_A_TIME):
            some = sentences[start : start + _AT_A_TIME]
            for version, rows in enumerate(_attention(model, some)):
                for i, row in enumerate(rows):
                    seen = _seen(model, row)
                    found[version, start + i] = attention_to_attribute(row.weights, seen, _attribute(row))
            advance(len(some))
    return found[0], found[1]


def counter_experiment(
    model: Model, asked: CounterSentences, scores: Doubles, resampling: Resampling = DEFAULT
) -> dict[str, list[Row]]:
    """Rows for a run: "groups" (biased and regular heads as two measurements), "sides", "heads" and
    "example".

    "sides" are the same tests over the originals of either attribute group alone. Heads that look at feminine
    words more, whatever is said about them, show a fall on one side and a rise on the other.
    """
    if len(asked.sentences) < 2:
        reason = (
            asked.reason
            or f"{len(asked.sentences)} usable sentences from {asked.source}, at least 2 are needed"
        )
        missing = Measurement.missing("attention change", reason, unscored=asked.unscored).to_json()
        groups = [{"group": g, **missing} for g in ("biased", "regular")]
        return {"groups": groups, "sides": [], "heads": [], "example": []}
    original, counter = counter_attention(model, asked.sentences)
    test = counter_test(original, counter, scores, resampling)
    groups = []
    for group, measured in test.groups.items():
        unscored = {**asked.unscored, **measured.unscored}
        settings = {**measured.settings, "sentences": asked.source}
        told = replace(measured, unscored=unscored, settings=settings).to_json()
        groups.append({"study": "heads", "group": group, **told})
    sides: list[Row] = []
    for side in "AB":
        own = [i for i, sentence in enumerate(asked.sentences) if sentence.group == side]
        found = counter_test(original[own], counter[own], scores, resampling).groups if own else {}
        sides += [
            {"study": "heads", "group": group, "side": side, **m.to_json()} for group, m in found.items()
        ]
    heads = [
        {
            "layer": layer + 1,
            "head": head + 1,
            "difference": _number(test.difference[layer, head]),
            "t": _number(test.t[layer, head]),
            "p": _number(test.p_value[layer, head]),
            "q": _number(test.q_value[layer, head]),
            "n": int(test.n[layer, head]),
        }
        for layer, head in np.ndindex(scores.shape)
    ]
    example = _example(model, asked, original - counter, scores, resampling)
    return {"groups": groups, "sides": sides, "heads": heads, "example": example}


def _attention(
    model: Model, sentences: Sequence[StereotypeSentence]
) -> tuple[list[AttentionRow], list[AttentionRow]]:
    texts = [Text(s.text) for s in sentences] + [Text(s.counter) for s in sentences]
    targets = [s.target_span for s in sentences] + [s.counter_target_span for s in sentences]
    attributes = [s.attribute_span for s in sentences] + [s.counter_attribute_span for s in sentences]
    rows = read_one(model, Attention(texts, targets, attributes), label="Attention")[0]
    return rows[: len(sentences)], rows[len(sentences) :]


def _seen(model: Model, row: AttentionRow) -> NDArray[np.bool_]:
    """[target piece, token]: words (no special token, no punctuation) that the target's piece can attend
    to."""
    seen = np.broadcast_to(row.counted, (len(row.target), len(row.counted)))
    if model.family.causal:
        seen = seen & (np.arange(len(row.counted)) <= row.target[:, None])
    return np.asarray(seen)


def _attribute(row: AttentionRow) -> NDArray[np.bool_]:
    return np.isin(np.arange(len(row.tokens)), row.attribute)


def _example(
    model: Model, asked: CounterSentences, change: Doubles, scores: Doubles, resampling: Resampling
) -> list[Row]:
    """The running example: the sentence that changes most in the most biased head; a regular head drawn by
    the seed."""
    biased = np.unravel_index(int(scores.argmax()), scores.shape)
    by_sentence = change[:, biased[0], biased[1]]
    if scores[biased] <= 0 or np.isnan(by_sentence).all():
        return []
    sentence = asked.sentences[int(np.nanargmax(by_sentence))]
    shown = {"biased": (int(biased[0]), int(biased[1]))}
    if len(regular := np.argwhere(scores <= 0)):
        drawn = regular[np.random.default_rng(resampling.seed).integers(len(regular))]
        shown["regular"] = (int(drawn[0]), int(drawn[1]))
    versions = zip(("original", "counter"), _attention(model, [sentence]), strict=True)
    rows = {version: found[0] for version, found in versions}
    return [
        {"group": group, "version": version, **_arcs(model, row, head)}
        for group, head in shown.items()
        for version, row in rows.items()
    ]


def _arcs(model: Model, row: AttentionRow, head: tuple[int, int]) -> Row:
    """Normalized attention from the target word to every word of one sentence in one head; null: not
    counted."""
    seen = _seen(model, row)
    weights = [[row.weights[head][piece] for piece in range(len(row.target))]]
    columns = np.eye(len(row.tokens), dtype=bool)
    values = [float(attention_to_attribute(np.asarray([weights]), seen, column)[0, 0]) for column in columns]
    total = float(attention_to_attribute(np.asarray([weights]), seen, _attribute(row))[0, 0])
    shown: dict[str, Any] = {"layer": head[0] + 1, "head": head[1] + 1, "attention": _number(total)}
    shown["tokens"] = list(row.tokens)
    shown["weights"] = [_number(v) if seen[:, i].any() else None for i, v in enumerate(values)]
    return shown | {"target": row.target.tolist(), "attribute": row.attribute.tolist()}


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def arc_sheet(model: Model, sentences: Sequence[StereotypeSentence]) -> list[Row]:
    """Normalized attention from the target word in every head, both versions of each sentence: the report's
    arcs."""
    sheets = []
    for sentence, first, second in zip(sentences, *_attention(model, sentences), strict=True):
        sheet: Row = {"text": sentence.text, "counter": sentence.counter}
        for prefix, row in (("", first), ("counter_", second)):
            sheet[f"{prefix}tokens"] = list(row.tokens)
            sheet[f"{prefix}target"] = row.target.tolist()
            sheet[f"{prefix}attribute"] = row.attribute.tolist()
            sheet[f"{prefix}attention"] = _all_arcs(model, row)
        sheets.append(sheet)
    return sheets


def _all_arcs(model: Model, row: AttentionRow) -> list[list[list[float | None]]]:
    """[layer][head][token], rounded; null: not counted or a constant row."""
    seen = _seen(model, row)
    columns = np.eye(len(row.tokens), dtype=bool)
    values = np.stack([attention_to_attribute(row.weights, seen, column) for column in columns], axis=-1)
    values[..., ~seen.any(axis=0)] = np.nan
    return [
        [[None if np.isnan(v) else round(float(v), 4) for v in head] for head in layer] for layer in values
    ]
