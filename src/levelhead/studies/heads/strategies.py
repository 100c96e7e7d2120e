"""Ways to debias by gates, and one bench on which all of them are measured alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import gates, removed
from levelhead.edits.head import Head
from levelhead.edits.sites import Variant
from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import WordTest
from levelhead.results.folder import Row
from levelhead.scoring.fluency import ask_fluency_and_change
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests, has_pronouns
from levelhead.scoring.seat import ask_seat
from levelhead.scoring.word_table import fitting
from levelhead.studies.heads.learned_gates import LearnSettings

_SWEEP = (0, 1, 2, 3, 5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)
_LONGEST = 12  # steps of a default sweep
Doubles = NDArray[np.float64]
Measured = dict[str, Measurement]


@dataclass(frozen=True)
class DebiasSettings:
    """What is tried, and how carefully it is measured."""

    k: int = 3
    ks: tuple[int, ...] | None = None  # of the sweep; by default up to every head with b > 0
    seeds: int = 20  # random triples whose SEAT is measured
    costly_seeds: int = 5  # of them: random-all, and the LPBS and fluency of both
    amplify: float = 2.0  # the gate of amplify-bottom-k
    sentences: int | None = 60  # for fluency; None: all that ship
    learn: LearnSettings | None = field(default_factory=LearnSettings)  # None: nothing is learned
    resamples: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        least = min(self.k, *(self.ks or ()), 0)
        if (
            least < 0
            or min(self.seeds, self.costly_seeds) < 1
            or (self.sentences is not None and self.sentences < 2)
        ):
            raise BadProbe(
                f"k={self.k}, ks={self.ks}, seeds={self.seeds}, costly_seeds={self.costly_seeds}, "
                f"sentences={self.sentences} came; k needs 0 or more, seeds 1, sentences 2."
            )
        if not math.isfinite(self.amplify) or self.amplify < 0:
            raise BadProbe(f"amplify={self.amplify} came; it is a gate: 1 changes nothing, 2 doubles a head.")


@dataclass(frozen=True)
class Strategy:
    """One way to debias: a name, the edits, and the heads that they concern."""

    name: str
    variant: Variant
    heads: tuple[Head, ...] = ()

    def row(self) -> Row:
        """What it is, for a result; heads count from 1."""
        named = [f"{layer + 1}-{head + 1}" for layer, head in self.heads]
        return {"study": "heads", "strategy": self.name, "masked": len(self.heads), "heads": named}


# ---- strategies


def ranked(scores: Doubles) -> list[Head]:
    """Heads from the most biased to the most anti-biased; ties by layer, then head."""
    order = np.argsort(-scores.ravel(), kind="stable")
    return [(int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order]


def top(model: Model, scores: Doubles, k: int) -> Strategy:
    """Remove the k heads with the largest bias score."""
    heads = tuple(ranked(scores)[:k])
    return Strategy(f"top-{k}", removed(model, list(heads)), heads)


def strategies(model: Model, scores: Doubles, settings: DebiasSettings) -> list[Strategy]:
    """Those of Table 1 that need no draw, and the one that the paper only wishes for."""
    k, order = settings.k, ranked(scores)
    bottom = tuple(order[::-1][:k])
    biased = tuple(order[: int((scores > 0).sum())])
    return [
        Strategy("base", ()),
        top(model, scores, k),
        Strategy(f"bottom-{k}", removed(model, list(bottom)), bottom),
        Strategy("all", removed(model, list(biased)), biased),
        Strategy(f"amplify-bottom-{k}", gates(model, dict.fromkeys(bottom, settings.amplify)), bottom),
    ]


def sweep(scores: Doubles, settings: DebiasSettings) -> list[int]:
    """Numbers of masked heads; the last is every head with b > 0 (Table 3's layout)."""
    biased = int((scores > 0).sum())
    if settings.ks is not None:
        return sorted({min(k, scores.size) for k in settings.ks})
    return sorted({*[k for k in _SWEEP if k < biased][:_LONGEST], biased})


def drawn(model: Model, name: str, count: int, seeds: Sequence[int]) -> list[Strategy]:
    """Remove so many heads drawn at random, once for each seed."""
    places = [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
    found = []
    for seed in seeds:
        chosen = np.random.default_rng([seed, count]).permutation(len(places))[:count]
        heads = tuple(places[i] for i in sorted(chosen))
        found.append(Strategy(name, removed(model, list(heads)), heads))
    return found


# ---- measures


class Bench:
    """Asks a model the same questions in every strategy."""

    def __init__(
        self, model: Model, test: WordTest, contexts: Sequence[Context], settings: DebiasSettings
    ) -> None:
        self.model, self.test, self.contexts, self.settings = model, test, contexts, settings
        texts = fluency_sentences()
        fits = fitting(model, texts[::2])
        self.learning = [text for text, fit in zip(texts[::2], fits, strict=True) if fit]
        self.judging = texts[1::2][: settings.sentences]
        self.resampling = Resampling(settings.resamples, settings.seed)

    def rows(self, chosen: Sequence[Strategy]) -> list[Row]:
        """A row for each strategy and measure."""
        measured = self.measure([strategy.variant for strategy in chosen])
        return [
            {**strategy.row(), "measure": measure, **found.to_json()}
            for strategy, all_found in zip(chosen, measured, strict=True)
            for measure, found in all_found.items()
        ]

    def measure(self, variants: Sequence[Variant]) -> list[Measured]:
        """SEAT, the three LPBS tests, fluency and its change in every variant."""
        found: list[Measured] = [{"seat": seat} for seat in self.seats(variants)]
        for part in (self.lpbs(variants), self.fluency(variants)):
            for measured, more in zip(found, part, strict=True):
                measured |= more
        return found

    def seats(self, variants: Sequence[Variant], intervals: bool | None = None) -> list[Measurement]:
        """SEAT in every variant."""
        asked = self.test, self.contexts, variants
        return ask_seat(self.model, *asked, resampling=self.resampling, intervals=intervals)

    def lpbs(self, variants: Sequence[Variant]) -> list[Measured]:
        """LPBS of the three shipped tests, which ask about she and he; of any other list, LPBS of that
        list."""
        if has_pronouns(self.test):
            return [
                {m.name: m for m in found} for found in ask_lpbs_tests(self.model, variants, self.resampling)
            ]
        return [{m.name: m} for m in ask_lpbs(self.model, self.test, variants, resampling=self.resampling)]

    def fluency(self, variants: Sequence[Variant]) -> list[Measured]:
        """Perplexity, and how it changed against the untouched model on the same sentences."""
        found = ask_fluency_and_change(self.model, self.judging, variants, self.resampling)
        return [{"fluency": value, "fluency change": change} for value, change in found]
