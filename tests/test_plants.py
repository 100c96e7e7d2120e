"""A planted null model has the association that was planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import plants
from benchmarks.plants import MEASURED, planted_null_model

from levelhead.errors import CannotDo
from levelhead.models.model import Model
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import word_table
from tests.tiny import tiny
from tests.word_lists import gender_toml


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("rise", [0.3, 0.5])
def test_a_plant_raises_seat_by_what_was_asked_and_not_much_more(
    bert: Model, tmp_path: Path, rise: float
) -> None:
    bias = gender_toml(tmp_path)
    test = load_words(bias)
    table = word_table(test, template_contexts(test, MEASURED))
    before = word_objective(table).sizes(null_model_copy(bert, draw_null_model(bert, 4)))[0]
    after = word_objective(table).sizes(planted_null_model(bert, 4, rise, bias))[0]
    assert rise <= after - before < rise + 0.15


def test_a_rise_that_no_plant_can_make_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plants, "_TRIES", 2)
    with pytest.raises(CannotDo, match=r"raise \|SEAT\| by 3"):
        planted_null_model(tiny("bert"), 4, 3.0, gender_toml(tmp_path))
