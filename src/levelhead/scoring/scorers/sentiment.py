"""Sentiment by the lexicon and rules of VADER (Hutto and Gilbert 2014), from the package vaderSentiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

from levelhead.errors import CannotDo
from levelhead.scoring.scorers.protocol import register_scorer

Part = Literal["compound", "neg", "pos"]
MISSING = "sentiment needs the package vaderSentiment: pip install 'levelhead[sentiment]'"


def installed() -> bool:
    return find_spec("vaderSentiment") is not None


def vader(texts: Sequence[str], part: Part = "compound") -> list[float]:
    """A part of VADER's answer for every text: its sum in -1 to 1, or its share of negative or positive."""
    return [float(_analyzer().polarity_scores(text)[part]) for text in texts]


@cache
def _analyzer() -> Any:
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as error:
        raise CannotDo(MISSING) from error
    return SentimentIntensityAnalyzer()


@dataclass(frozen=True)
class Sentiment:
    """VADER's compound score, -1 to 1; None for an empty text."""

    name: str = "sentiment"
    unit: str = "compound"

    def scores(self, texts: Sequence[str]) -> list[float | None]:
        return [vader([text])[0] if text.strip() else None for text in texts]


SENTIMENT = Sentiment()
register_scorer(SENTIMENT)
