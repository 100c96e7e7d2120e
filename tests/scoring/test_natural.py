"""Which bias a model is judged by where none is named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from levelhead.edits.sites import Variant
from levelhead.models.model import Model
from levelhead.scoring import natural
from levelhead.scoring.battery import Battery
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import (
    BLANKS,
    COSINE,
    INFERENCES,
    LOG_ODDS,
    PREFERENCE,
    NaturalItems,
    behaviors,
    clearest_bias,
)
from tests.tiny import tiny
from tests.word_lists import GENDER

ITEMS = NaturalItems(Battery(GENDER, ()))


@pytest.fixture
def model() -> Model:
    return tiny("bert")


def asks(monkeypatch: pytest.MonkeyPatch, **means: tuple[float, float]) -> list[str]:
    """Biases whose 20 items have these means and spreads; the names of those that are asked."""
    asked: list[str] = []
    names = {"preference": PREFERENCE, "odds": LOG_ODDS, "blanks": BLANKS, "cosine": COSINE}

    def ask_for(key: str) -> natural._Ask:
        def ask(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
            asked.append(names[key])
            mean, spread = means[key]
            values = mean + spread * np.tile([-1.0, 1.0], 10)
            return ItemValues(names[key], "nats", values[None], np.arange(20).astype(str))

        return ask

    monkeypatch.setattr(natural, "_askable", lambda *_: {names[key]: ask_for(key) for key in means})
    return asked


def test_the_clearest_bias_is_neither_the_first_nor_the_largest(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks(monkeypatch, preference=(0.1, 0.2), odds=(3.0, 9.0), blanks=(0.5, 0.3), cosine=(0.01, 0.0001))
    assert clearest_bias(model, ITEMS) == BLANKS  # t 7; 2 of the first, 1.5 of the largest
    assert behaviors(model, ITEMS) == (PREFERENCE, LOG_ODDS, BLANKS)


def test_a_bias_that_leans_the_other_way_is_as_clear(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asks(monkeypatch, preference=(0.1, 0.2), odds=(-0.5, 0.3), cosine=(0.01, 0.0001))
    assert clearest_bias(model, ITEMS) == LOG_ODDS


def test_nothing_is_asked_where_there_is_no_choice(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asks(monkeypatch, odds=(0.1, 0.2), cosine=(0.01, 0.0001))
    assert clearest_bias(model, ITEMS) == LOG_ODDS
    asks(monkeypatch, cosine=(0.01, 0.0001))
    assert clearest_bias(model, ITEMS) == COSINE
    assert not asked


def test_a_classifier_is_judged_by_its_inferences() -> None:
    assert clearest_bias(tiny("bert", "nli"), ITEMS) == INFERENCES
