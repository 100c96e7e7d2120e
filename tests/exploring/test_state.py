"""The state of a page travels in a link and back, and nothing else is taken for one."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelhead.edits.sites import Head, Neuron
from levelhead.errors import BadOption
from levelhead.exploring.state import LONGEST, PageState


@settings(max_examples=40)
@given(
    st.text(max_size=40),
    st.none() | st.text(max_size=20),
    st.dictionaries(st.tuples(st.integers(0, 40), st.integers(0, 40)), st.floats(-4, 4), max_size=4),
    st.floats(0, 2),
    st.booleans(),
)
def test_a_link_holds_the_whole_state(
    sentence: str, counterfactual: str | None, gates: dict[tuple[int, int], float], strength: float, on: bool
) -> None:
    own = {Head(*head): value for head, value in gates.items()}
    state = PageState(
        sentence,
        counterfactual,
        ("she", "he"),
        own,
        {Neuron(*head): value for head, value in gates.items()},
        10 * strength,
        "log-odds",
        "a recipe",
        strength,
        on,
        Head(1, 2),
        3,
        on,
        on,
        5,
    )
    fragment = state.to_fragment()
    assert fragment.isascii()
    assert not set(fragment) & set(" \"<>'&")
    assert PageState.from_json(json.loads(unquote(fragment))) == state


def test_an_empty_page_is_a_short_link() -> None:
    assert PageState().to_fragment() == quote("{}", safe="")
    assert json.dumps("x") in PageState("x").to_fragment().replace("%22", '"')


@pytest.mark.parametrize(
    "stored",
    [
        "[]",
        "null",
        '{"model": "other"}',
        '{"gates": {"0-1": 0}}',
        '{"gates": {"1-1": 9}}',
        '{"neurons": {"0-1": 0}}',
        '{"seed": -1}',
        '{"seed": 1.5}',
    ],
)
def test_what_is_no_state_is_one_line(stored: str) -> None:
    with pytest.raises((BadOption, ValueError), match=r"^[^\n]+$"):
        PageState.from_json(json.loads(stored))


def test_bounds_of_a_state() -> None:
    with pytest.raises(BadOption, match="characters"):
        PageState("x" * (LONGEST + 1))
    with pytest.raises(BadOption, match="strength"):
        PageState(strength=2.5)
    for steering in (101.0, float("nan")):
        with pytest.raises(BadOption, match="steering must be"):
            PageState(steering=steering)
    with pytest.raises(BadOption, match=r"gate of .* \(got 9"):
        PageState(neurons={Neuron(0, 1): 9.0})
    with pytest.raises(BadOption, match="recipe"):
        PageState(neurons={Neuron(0, n): 0.0 for n in range(1001)})
