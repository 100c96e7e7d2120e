"""Recipes are read back as written, and a mistake is said with its file and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.edits.sites import Head, Site
from levelhead.errors import BadOption
from levelhead.mitigation.recipe import Fit, Location, Recipe, Step, load_recipe, recipe_text, step
from tests.tiny import tiny

WHOLE = """
title = "all of it"

[model]
name = "lh:bert-mini"
fingerprint = "abc"

[fit]
on = "sequential"
pairs = "single"

[[gate]]
layer = 3
head = 5
value = 0.5

[[gate]]
layer = 1
head = 2

[[projection]]
location = "tokens"
layer = 2
dimensions = 2
soft = true

[[projection]]
location = "sent"
method = "leace"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_people_count_from_1_and_code_from_0(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, WHOLE)) == Recipe(
        gates={Head(2, 4): 0.5, Head(0, 1): 0.0},
        projections=(Step("tokens", 1, 2, True), Step("sent", 0, method="leace")),
        fit="sequential",
        pairs="single",
        title="all of it",
        model="lh:bert-mini",
        fingerprint="abc",
    )


steps = st.builds(
    lambda place, layer, dimensions, soft, strength: Step(
        place, 0 if place == "sent" else layer, dimensions, soft, strength=strength
    ),
    st.sampled_from(["sent", "cls", "tokens", "query", "key", "value"]),
    st.integers(-12, 11),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([1.0, 0.5, 0.05]),
)


@given(
    gates=st.dictionaries(
        st.builds(Head, st.integers(0, 40), st.integers(0, 40)),
        st.floats(allow_nan=False, allow_infinity=False),
        max_size=4,
    ),
    projections=st.lists(steps, min_size=1, max_size=4),
    fit=st.sampled_from(["base", "sequential"]),
    title=st.text(st.characters(codec="utf-8"), max_size=20).map(str.strip),
    steering=st.floats(0, 60),
)
def test_what_is_written_is_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    gates: dict[Head, float],
    projections: list[Step],
    fit: Fit,
    title: str,
    steering: float,
) -> None:
    recipe = Recipe(
        gates, tuple(projections), fit, title=title, model="m", fingerprint="f", steering=steering
    )
    path = write(tmp_path_factory.mktemp("recipe"), recipe_text(recipe))
    assert load_recipe(path) == recipe


def test_the_usual_layers_are_named_relative_to_the_last(tmp_path: Path) -> None:
    locations: tuple[Location, ...] = ("sent", "cls", "tokens", "query", "key", "value")
    text = "".join(f'[[projection]]\nlocation = "{place}"\n' for place in locations)
    projections = load_recipe(write(tmp_path, text)).projections
    assert projections == tuple(step(place) for place in locations)
    model = tiny("bert", "nli")  # 3 layers
    assert [projection.site(model) for projection in projections] == [
        Site(0, "pooled"),
        Site(2, "cls"),
        Site(1, "block"),
        Site(1, "query"),
        Site(1, "key"),
        Site(1, "value"),
    ]


def test_a_file_of_pairs_is_meant_relative_to_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, '[fit]\npairs = "mine.tsv"\n[[projection]]\nlocation = "sent"\n')
    assert load_recipe(path).pairs == str(tmp_path / "mine.tsv")


def test_gates_alone_need_no_fit() -> None:
    assert recipe_text(Recipe(gates={Head(0, 1): 0.0})) == "[[gate]]\nlayer = 1\nhead = 2\nvalue = 0.0\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"mine\.toml: no \[\[gate\]\], no \[\[neurons\]\], no \[\[projection\]\], no \[steering\] and"),
        (
            "gates = 1",
            r"the file: unknown key 'gates'; the keys are title, model, fit, gate, neurons, projection",
        ),
        ("[[gate]]\nlayer = 0\nhead = 1", r"\[\[gate\]\] number 1: layer and head are counted from 1"),
        ("[[gate]]\nhead = 1", r"\[\[gate\]\] number 1: layer must be a whole number \(missing\)"),
        ("[[gate]]\nlayer = 1\nhead = 1.5", r"head must be a whole number \(got 1\.5\)"),
        ("[[gate]]\nlayer = 1\nhead = true", r"head must be a whole number \(got True\)"),
        ("[[gate]]\nlayer = 1\nhead = 1\nvalue = nan", r"value must be a number \(got nan\)"),
        (
            "[[gate]]\nlayer = 1\nhead = 1\n[[gate]]\nlayer = 1\nhead = 1",
            r"number 2: head 1-1 stands there twice",
        ),
        ("[gate]\nlayer = 1\nhead = 1", r"gate: write each as a table of its own, \[\[gate\]\]"),
        (
            "[[projection]]\nlayer = 1",
            r"\[\[projection\]\] number 1: location must be one of sent, cls, .* \(missing\)",
        ),
        ('[[projection]]\nlocation = "CLS"', r"location must be one of .* \(got 'CLS'\)"),
        ('[[projection]]\nlocation = "cls"\nlayer = 0', r"layer must be 1 or more, .* \(got 0\)"),
        ('[[projection]]\nlocation = "cls"\ndimensions = 0', r"dimensions must be at least 1 \(got 0\)"),
        ('[[projection]]\nlocation = "cls"\nsoft = 1', r"soft must be true or false \(got 1\)"),
        ('[[projection]]\nlocation = "cls"\nsoft = true\nmethod = "inlp"', r"inlp is always hard"),
        ('[[projection]]\nlocation = "cls"\ndims = 2', r"number 1: unknown key 'dims'"),
        (
            '[fit]\non = "later"\n[[projection]]\nlocation = "cls"',
            r"\[fit\]: on must be one of base, sequential \(got 'later'\)",
        ),
        ('fit = "base"\n[[projection]]\nlocation = "cls"', r"fit: write it as a table, \[fit\]"),
        ("[[gate]\n", r"mine\.toml is not TOML"),
    ],
)
def test_a_mistake_is_said_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadOption, match=complaint) as raised:
        load_recipe(write(tmp_path, text))
    assert "mine.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_and_one_that_is_no_text_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="cannot be read"):
        load_recipe(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadOption, match="not UTF-8"):
        load_recipe(tmp_path / "bytes.toml")


def test_a_layer_that_the_model_lacks_is_refused() -> None:
    model = tiny("bert", "nli")
    with pytest.raises(BadOption, match=r"layers 1 to 3 \(or -3 to -1\); the recipe asks for 9"):
        Step("tokens", 8).site(model)
    with pytest.raises(BadOption, match="asks for -4"):
        Step("tokens", -4).site(model)


def test_a_recipe_for_other_weights_is_refused() -> None:
    model = tiny("bert", "nli")
    Recipe(fingerprint=model.fingerprint).check_model(model)
    Recipe().check_model(model)
    with pytest.raises(BadOption, match="made for lh:other with weights 123"):
        Recipe(model="lh:other", fingerprint="123").check_model(model)
