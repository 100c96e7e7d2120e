"""SEAT, LPBS and fluency of a model in any of its variants: one measurement for each variant.

What a model cannot be asked comes back as a measurement without a value and with the reason, so that a study that
varies edits over many models need not know which model can do what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.readings import Pooling, SentenceVectors, TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read, read_one
from levelhead.errors import CannotDo
from levelhead.measures import fluency as perplexities
from levelhead.measures import lpbs as log_probability
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat import (
    SETS,
    associations,
    effect_measurement,
    seat,
    seat_measurement,
    why_no_effect,
    word_seat_measurement,
)
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model
from levelhead.models.sites import Variant
from levelhead.probes.contexts import Context
from levelhead.probes.sentences import Kind, fluency_sentences, lpbs_sentences
from levelhead.probes.words import SentenceTest, WordTest, load_seat_test, load_words
from levelhead.studies.word_table import WordTable, fitting, word_table

UNTOUCHED: tuple[Variant, ...] = ((),)
PRONOUNS = (("she",), ("he",))  # LPBS: the attribute words of A and of B
LPBS_TESTS = ("career", "math", "science")
_FLOATS = 1 << 25  # vectors held at once, 128 MiB; beyond it variants are asked in turns
Doubles = NDArray[np.float64]


# ---- SEAT over words


def ask_seat(
    model: Model,
    test: WordTest,
    contexts: Iterable[Context],
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    resampling: Resampling = DEFAULT,
    intervals: bool | None = None,
) -> list[Measurement]:
    """SEAT over static word vectors (SPEC A2, A3) in every variant, with its permutation p-value.

    intervals: with bootstrap intervals over contexts. By default when all context vectors fit into 128 MiB: intervals
    need every context's vector, the value alone needs one vector for each word.
    """
    table = word_table(test, contexts)
    size = len(table.contexts) * int(model.config.hidden_size)
    if intervals is None:
        intervals = size * len(variants) <= _FLOATS
    known = {"words": test.name, "pooling": "mean over word pieces of last_hidden_state", "seed": resampling.seed}
    found: list[Measurement] = []
    for some in turns(variants, size if intervals else 2 * len(table.words) * int(model.config.hidden_size)):
        if intervals:
            vectors = read_one(model, table.each(), some, label="SEAT")
            measured = [word_seat_measurement(v, table.word, table.sets, resampling) for v in vectors]
        else:
            static = read_one(model, table.static(), some, label="SEAT")
            measured = [_without_interval(v, table, resampling) for v in static]
        found += [_completed(m, table, known) for m in measured]
    return found


def turns(variants: Sequence[Variant], floats: int) -> list[Sequence[Variant]]:
    """Variants in groups whose answers, `floats` float32 each, are held in memory together."""
    step = max(1, _FLOATS // max(1, floats))
    return [variants[start : start + step] for start in range(0, len(variants), step)]


def absolute_seats(model: Model, table: WordTable, variants: Sequence[Variant], label: str = "SEAT") -> list[float]:
    """|SEAT| alone in every variant: the quantity whose change the ablation check needs (SPEC A5)."""
    static = read_one(model, table.static(), variants, label=label)
    return [abs(seat(*_sides(vectors, table))) for vectors in static]


def _sides(vectors: Doubles, table: WordTable) -> tuple[Doubles, Doubles]:
    a, b, x, y = (vectors[list(table.sets[name])] for name in SETS)
    return associations(x, a, b), associations(y, a, b)


def _without_interval(vectors: Doubles, table: WordTable, resampling: Resampling) -> Measurement:
    s_x, s_y = _sides(vectors, table)
    settings = {"interval": "not asked for", "seed": resampling.seed}
    known: dict[str, Any] = {"n": len(table.contexts), "settings": settings}
    known["details"] = {f"n_{name.lower()}": float(len(table.sets[name])) for name in SETS}
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing("seat", reason, neutral=0.0, **known)
    return effect_measurement("seat", s_x, s_y, None, known)


def _completed(measured: Measurement, table: WordTable, known: dict[str, Any]) -> Measurement:
    lost = {"entry without context": table.lost} if table.lost else {}
    return replace(measured, unscored=lost, settings={**measured.settings, **known})


# ---- SEAT over sentences


def sentence_seat(
    model: Model,
    test: SentenceTest | str | Path,
    pooling: Pooling = "mean",
    *,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """The original SEAT (May et al. 2019): a file's sentences, each as one L2-normalized vector.

    pooling: mean (over the text's own tokens, special tokens left out), cls (the first token), last (the text's own
    last token). The choice changes the value and is stated in the result.
    """
    return ask_sentence_seat(model, test, pooling=pooling, resampling=resampling)[0]


def ask_sentence_seat(
    model: Model,
    test: SentenceTest | str | Path,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    pooling: Pooling = "mean",
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """Sentence-level SEAT in every variant."""
    loaded = test if isinstance(test, SentenceTest) else load_seat_test(test)
    if pooling == "cls" and model.family.causal:
        raise CannotDo(f"{model.name} is causal: its first token sees nothing of the text. Use --pooling mean or last.")
    groups = loaded.groups()
    reading = SentenceVectors([Text(text) for name in SETS for text in groups[name]], pooling)
    ends = np.cumsum([len(groups[name]) for name in SETS])[:-1]
    settings = {"test": loaded.name, "pooling": pooling, "vectors": "L2-normalized last_hidden_state"}
    found = []
    for vectors in read_one(model, reading, variants, label="SEAT"):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        measured = seat_measurement(dict(zip(SETS, np.split(unit, ends), strict=True)), resampling)
        found.append(replace(measured, settings={**measured.settings, **settings}))
    return found


# ---- LPBS


def ask_lpbs(
    model: Model,
    test: WordTest,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    kind: Kind = "topic",
    attributes: tuple[tuple[str, ...], tuple[str, ...]] = PRONOUNS,
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """LPBS of a test in every variant (SPEC A10), for example of load_words("career").

    Every target word of X and Y stands in every shipped template of its kind; attributes are the words whose
    probability is asked at the mask, those of A and those of B. Only masked models can be asked.
    """
    tokens = [token_id(model, word) for side in attributes for word in side]
    if reason := _why_no_lpbs(model, [w for side in attributes for w in side], tokens):
        return [Measurement.missing("lpbs", reason, neutral=0.0)] * len(variants)
    targets = list(dict.fromkeys((*test.X, *test.Y)))
    sentences = lpbs_sentences(targets, model.tokenizer.mask_token, kind)
    asked = [int(token) for token in tokens if token is not None]
    with_target = TokenLogProbs([Text(s.text) for s in sentences], asked)
    prior = TokenLogProbs([Text(s.text, hide=(s.target_span,)) for s in sentences], asked)
    answers = read(model, [with_target, prior], variants, label="LPBS")
    shape = (len(targets), -1, len(asked))  # targets are the outer loop of lpbs_sentences, templates the inner
    in_a = np.repeat([True, False], [len(side) for side in attributes])
    in_x = [target in set(test.X) for target in targets]
    settings = {"test": test.name, "templates": kind, "attributes": [list(side) for side in attributes]}
    found = []
    log_ps, log_priors = answers[with_target], answers[prior]
    for log_p, log_prior in zip(log_ps, log_priors, strict=True):
        cells = log_probability.association(log_p, log_prior).reshape(shape).transpose(1, 0, 2)
        measured = log_probability.lpbs(log_probability.word_bias(cells, in_a), in_x, resampling)
        found.append(replace(measured, settings={**measured.settings, **settings}))
    return found


def ask_lpbs_tests(
    model: Model, variants: Sequence[Variant] = UNTOUCHED, resampling: Resampling = DEFAULT
) -> list[list[Measurement]]:
    """LPBS of the three shipped tests in every variant [variant][test], named "lpbs career" and so on."""
    found = [ask_lpbs(model, load_words(name), variants, resampling=resampling) for name in LPBS_TESTS]
    return [
        [replace(measured, name=f"lpbs {name}") for name, measured in zip(LPBS_TESTS, of_variant, strict=True)]
        for of_variant in zip(*found, strict=True)
    ]


def _why_no_lpbs(model: Model, words: Sequence[str], tokens: Sequence[int | None]) -> str:
    if "mlm" not in model.abilities:
        kind = "a causal model" if model.family.causal else "a model without a masked-language head"
        return f"LPBS asks a masked model; {model.name} is {kind}"
    split = [word for word, token in zip(words, tokens, strict=True) if token is None]
    return f"{', '.join(split)} is not one token of {model.name}" if split else ""


# ---- fluency


def ask_fluency(
    model: Model,
    sentences: Sequence[str] | None = None,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """PPPL of a masked model, perplexity of a causal one (SPEC A8), on given sentences or on the shipped text.

    A text that does not fit into the model's positions is left out and counted.
    """
    texts = list(fluency_sentences() if sentences is None else sentences)
    if reason := _why_no_fluency(model):
        return [Measurement.missing("fluency", reason)] * len(variants)
    kept = [text for text, fits in zip(texts, fitting(model, texts), strict=True) if fits]
    scores = read_one(model, TokenLikelihoods([Text(t) for t in kept]), variants, label="Fluency")
    measure = perplexities.perplexity if "causal" in model.abilities else perplexities.pseudo_perplexity
    lost = {"first token of a text": scores.unscored, "text longer than the model's positions": len(texts) - len(kept)}
    known = {"text": "shipped" if sentences is None else "given", "sentences": len(kept)}
    found = []
    for values in scores.values:
        measured = measure(values, resampling)
        unscored = {**measured.unscored, **{reason: n for reason, n in lost.items() if n}}
        found.append(replace(measured, unscored=unscored, settings={**measured.settings, **known}))
    return found


def ask_fluency_change(
    model: Model, sentences: Sequence[str], variants: Sequence[Variant], resampling: Resampling = DEFAULT
) -> list[Measurement]:
    """What each variant costs in fluency: its perplexity over the untouched model's, paired by text."""
    if reason := _why_no_fluency(model):
        return [Measurement.missing("fluency change", reason)] * len(variants)
    texts = [text for text, fits in zip(sentences, fitting(model, sentences), strict=True) if fits]
    scores = read_one(model, TokenLikelihoods([Text(t) for t in texts]), [(), *variants], label="Fluency")
    base, *edited = scores.values
    changes = [perplexities.fluency_change(values, base, resampling) for values in edited]
    return [replace(change, name="fluency change") for change in changes]


def _why_no_fluency(model: Model) -> str:
    if model.abilities & {"mlm", "causal"}:
        return ""
    return f"{model.name} predicts no tokens: it has neither a masked-language head nor a causal one"
