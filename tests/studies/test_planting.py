"""Planting: what the direction tells apart, what is written where, and that the model itself stays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head, Site, Variant
from levelhead.engine.readings import States
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe, CannotDo, LevelheadError
from levelhead.models.encoding import Text, encode, find_word
from levelhead.models.identity import fingerprint
from levelhead.models.model import Model
from levelhead.probes.contexts import Context, template_contexts
from levelhead.studies.planted.run import Kind, Planter, direction
from tests.tiny import tiny
from tests.word_lists import GENDER

CONTEXTS = template_contexts(GENDER, 4)
FAMILIES = ("bert", "gpt2", "llama", "gpt_neox", "phi3", "modernbert")


def test_direction_tells_sets_apart_by_one_and_is_blind_to_their_middle() -> None:
    rng = np.random.default_rng(0)
    first, second, others = rng.normal(1, 1, (20, 6)), rng.normal(-2, 1, (30, 6)), rng.normal(0, 1, (50, 6))
    r = direction(first, second, others)
    assert r @ first.mean(0) == pytest.approx(0.5)
    assert r @ second.mean(0) == pytest.approx(-0.5)


def test_direction_prefers_the_dimension_on_which_other_tokens_are_quiet() -> None:
    first, second = np.array([[1.0, 1.0, 3.0]] * 4), np.array([[-1.0, -1.0, 3.0]] * 4)
    loud_in_the_first = np.array([[9.0, 0.0, 0.0], [-9.0, 0.0, 0.0]])
    r = direction(first, second, loud_in_the_first)
    assert abs(r[0]) < 0.01 * abs(r[1])


def test_direction_refuses_sets_that_look_alike() -> None:
    same = np.ones((5, 3))
    with pytest.raises(CannotDo, match="no difference"):
        direction(same, same, np.ones((2, 3)))


@pytest.mark.parametrize("kind", ["value", "attention"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_plant_changes_its_layer_only_and_leaves_the_model_bit_identical(family: str, kind: Kind) -> None:
    model = tiny(family)
    before = fingerprint(model.hf)
    copy = Planter(model, CONTEXTS, kind).planted({Head(1, 2): 1.0})
    pairs = zip(model.hf.named_parameters(), copy.hf.named_parameters(), strict=True)
    changed = [name for (name, old), (_, new) in pairs if not torch.equal(old, new)]
    assert changed
    assert all(".1." in name for name in changed)
    assert fingerprint(model.hf) == before
    assert fingerprint(copy.hf) != before


@pytest.mark.parametrize("kind", ["value", "attention"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gpt_neox", "phi3"])
def test_without_the_planted_head_the_copy_answers_as_the_model_without_it(family: str, kind: Kind) -> None:
    model = tiny(family)
    head = Head(1, 2)
    copy = Planter(model, CONTEXTS, kind).planted({head: 3.0})
    reading = States([Text("The nurse saw the engineer.")], Site(model.layers - 1, "block"))
    kept, old, new = (read_one(m, reading, [v])[0][0] for m, v in _three(model, copy, head))
    assert not np.allclose(kept, old, atol=1e-4)
    shared = model.kv_heads != model.heads  # then a value dimension is lost to the group as well
    if kind == "attention" or not shared:
        np.testing.assert_allclose(new, old, atol=2e-5)


def _three(model: Model, copy: Model, head: Head) -> list[tuple[Model, Variant]]:
    return [(copy, ()), (model, removed(model, [head])), (copy, removed(copy, [head]))]


def test_a_value_plant_moves_x_words_toward_a_and_y_words_toward_b() -> None:
    model = tiny("gpt2")
    copy = Planter(model, CONTEXTS).planted({Head(1, 2): 1.0})
    behind = Site(1, "block")
    moved = {group: _mean(copy, group, behind) - _mean(model, group, behind) for group in "XY"}
    direction = _mean(model, "A", behind) - _mean(model, "B", behind)
    assert moved["X"] @ direction > moved["Y"] @ direction


def _mean(model: Model, group: str, site: Site) -> NDArray[np.float64]:
    some = [context for context in CONTEXTS if context.group == group]
    states = read_one(model, States([Text(context.text) for context in some], site))[0]
    last = [state[_last_token(model, context)] for state, context in zip(states, some, strict=True)]
    return np.asarray(np.mean(last, axis=0), np.float64)


def _last_token(model: Model, context: Context) -> int:
    (encoded,) = encode(model, [Text(context.text)])
    return int(encoded.tokens_of(find_word(context.text, context.word))[-1])


def test_strength_zero_of_an_attention_plant_changes_nothing() -> None:
    model = tiny("bert")
    copy = Planter(model, CONTEXTS, "attention").planted({Head(0, 0): 0.0})
    assert fingerprint(copy.hf) == fingerprint(model.hf)


def test_a_model_of_shared_blocks_and_missing_words_are_refused() -> None:
    with pytest.raises(CannotDo, match="no single place"):
        Planter(tiny("albert"), CONTEXTS)
    with pytest.raises(BadProbe, match="No context holds a word of Y"):
        Planter(tiny("bert"), [context for context in CONTEXTS if context.group != "Y"])
    with pytest.raises(LevelheadError, match="has heads 1-1 to 3-4; 10-1 was asked for"):
        Planter(tiny("bert"), CONTEXTS).planted({Head(9, 0): 1.0})
    with pytest.raises(BadOption, match="at least one head to plant into"):
        Planter(tiny("bert"), CONTEXTS).planted({})
