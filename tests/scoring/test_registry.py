"""The questions of an audit: what the built-in ones answer, and how a measure of a user's own joins them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head, Variant
from levelhead.errors import BadOption, BadPlugin, CannotDo
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import nli_probe
from levelhead.probes.words import load_words
from levelhead.scoring import plugins, registry
from levelhead.scoring.battery import Battery
from levelhead.scoring.registry import BUILT_IN, load_measures, questions, register_measure
from tests.studies.projection_cases import ABLE, FEW, small_triples
from tests.tiny import tiny

GAP = MeasureInfo("gap", "Gap", "How many layers does it have?", "0: none.", neutral=0.0)
MEASURE = """
import levelhead as lh

def depth(model, variants):
    return [lh.Measurement("depth", float(model.layers), n=1) for _ in variants]

lh.register_measure(lh.MeasureInfo("depth", "Depth", neutral=0.0), depth)
"""


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No measure of another test, and no installed package."""
    monkeypatch.setattr(registry, "_OWN", {})
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    registry._load_installed.cache_clear()


@pytest.fixture(scope="module")
def battery(tmp_path_factory: pytest.TempPathFactory) -> Battery:
    """Few texts, whose words the tiny tokenizers know or can spell."""
    test = load_words("career")
    return Battery(
        test,
        tuple(template_contexts(test, 2)),
        triples=small_triples(tmp_path_factory.mktemp("triples")),
        probe=nli_probe(occupations=["nurse", "engineer"], contexts=["saw a book"]),
        ability=ABLE,
        sentences=("The nurse said that she was tired.", "Who knows?"),
        resampling=FEW,
    )


def answers(model: Model, variants: Sequence[Variant], battery: Battery) -> list[Measurement]:
    """What the one registered measure answers."""
    (own,) = registry.own_questions()
    return [measurements[0] for measurements in own.ask(model, variants, battery)]


# ---- built in


@pytest.mark.parametrize(
    ("family", "head", "cannot"),
    [
        ("bert", "nsp", {"inference"}),
        ("bert", "nli", {"lpbs", "triples", "fluency"}),
        ("gpt2", "causal", {"lpbs", "inference"}),
    ],
)
def test_every_question_answers_its_own_measures_before_and_after_an_edit(
    family: str, head: str, cannot: set[str], battery: Battery
) -> None:
    model = tiny(family, head)
    edited = removed(model, [Head(1, 2)])
    silent = set()
    for question in BUILT_IN:
        (before,), (after,) = (question.ask(model, [v], battery) for v in ((), edited))
        known = {info.name for info in question.measures}
        assert {m.name for m in (*before, *after)} == known, question.name
        if all(m.value is None for m in before):
            silent.add(question.name)
            assert all(m.reason for m in before)
        elif question.name != "inference":  # the labels of random weights may all stay the same
            assert [m.value for m in before] != [m.value for m in after], question.name
    assert silent == cannot


def test_only_inferences_are_put_to_the_classifier_beside_a_model() -> None:
    assert [question.name for question in BUILT_IN if question.of_classifier] == ["inference"]


# ---- a user's own


def test_an_own_measure_is_the_last_question_and_answers_each_variant_under_its_name(
    battery: Battery,
) -> None:
    def heads_removed(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
        return [Measurement("whatever", float(len(variant)), n=1) for variant in variants]

    register_measure(GAP, heads_removed)
    assert [question.name for question in questions()] == [*(q.name for q in BUILT_IN), "gap"]
    assert questions()[-1].measures == (GAP,)
    model = tiny("bert", "nsp")
    measured = answers(model, [(), removed(model, [Head(0, 1)])], battery)
    assert [(m.name, m.value, m.neutral) for m in measured] == [("gap", 0.0, 0.0), ("gap", 1.0, 0.0)]


def failing(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    return [Measurement("gap", 1 / (model.layers - 3)) for _ in variants]


def test_an_error_inside_is_a_reason_with_its_place_not_a_crash(battery: Battery) -> None:
    register_measure(GAP, failing)
    line = failing.__code__.co_firstlineno + 1
    for measured in answers(tiny("bert", "nsp"), [(), ()], battery):
        assert measured.value is None
        assert measured.neutral == 0.0
        assert measured.reason.startswith("ZeroDivisionError: ")
        assert measured.reason.endswith(f" (test_registry.py, line {line})")


def refusing(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    raise CannotDo("this model has no wheels")


def one_too_few(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    return [Measurement("gap", 1.0)] * (len(variants) - 1)


def not_a_number(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    return [Measurement("gap", float("nan"))] * len(variants)


def leaving(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    print("leaving")
    sys.exit(3)


def a_bare_number(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    return [1.0] * len(variants)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (refusing, "this model has no wheels"),
        (one_too_few, "must be 2, one per variant (got 1)"),
        (not_a_number, "ValueError"),
        (a_bare_number, "must be a Measurement (got float)"),
        (leaving, "SystemExit: 3 (test_registry.py, line"),
    ],
)
def test_answers_that_cannot_be_used_are_not_measured_and_say_why(
    ask: registry.OwnAsk, reason: str, battery: Battery, capsys: pytest.CaptureFixture[str]
) -> None:
    register_measure(GAP, ask)
    for measured in answers(tiny("bert", "nsp"), [(), ()], battery):
        assert measured.value is None
        assert reason in measured.reason
        assert "\n" not in measured.reason
    assert capsys.readouterr().out == ""


def test_a_model_that_lacks_what_a_measure_needs_is_not_asked(battery: Battery) -> None:
    register_measure(MeasureInfo("gap", "Gap", needs=("causal", "nli")), failing)
    (measured,) = answers(tiny("bert", "nsp"), [()], battery)
    assert all(term in measured.reason for term in ("causal or nli", "tiny-bert cannot"))


@pytest.mark.parametrize("name", ["seat", "lpbs career", "fluency change", "margin", "", " ", "a=b"])
def test_names_that_are_built_in_or_no_names_are_refused(name: str) -> None:
    with pytest.raises(BadOption, match="name") as caught:
        register_measure(MeasureInfo(name, "Mine"), failing)
    assert "\n" not in str(caught.value)


def test_a_function_defined_anew_replaces_itself_and_another_one_is_refused() -> None:
    def defined(value: float) -> registry.OwnAsk:
        def ask(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
            return [Measurement("gap", value)] * len(variants)

        return ask

    register_measure(GAP, defined(1.0))
    register_measure(GAP, defined(2.0))  # as when a notebook's cell runs again
    assert len(registry.own_questions()) == 1
    with pytest.raises(BadOption, match=r"Two measures are called 'gap': .*ask and .*failing"):
        register_measure(GAP, failing)


def test_another_text_of_the_function_is_another_hash() -> None:
    register_measure(GAP, failing)
    first = registry.own_hashes()
    registry._OWN.clear()
    register_measure(GAP, refusing)
    assert first.keys() == registry.own_hashes().keys() == {"measure gap"}
    assert first != registry.own_hashes()


# ---- from files and packages


def test_a_file_registers_its_measures_and_may_be_loaded_twice(tmp_path: Path, battery: Battery) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MEASURE, encoding="utf-8")
    load_measures(file)
    load_measures(file)
    (measured,) = answers(tiny("bert", "nsp"), [()], battery)
    assert (measured.name, measured.value) == ("depth", 3.0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "is no Python file"),
        ("x = 1\n", "registers no measure"),
        ("x = 1\ny = x.z\n", r"AttributeError: .* \(mine\.py, line 2\)"),
        ("def (:\n", "SyntaxError"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3 \(mine\.py, line 2\)"),
        ("import levelhead as lh\nlh.register_measure(lh.MeasureInfo('seat', 'S'), print)\n", "built-in"),
    ],
)
def test_a_file_that_registers_nothing_usable_is_one_line(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(BadOption, match=complaint) as caught:
        load_measures(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, text: str) -> None:
    """A package that names a module under the entry-point group."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("mine", name, group)])
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_an_installed_package_brings_its_measures_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "installed_measures", MEASURE)
    names = [question.name for question in questions()]
    assert names == [*(q.name for q in BUILT_IN), "depth"]


def test_an_installed_package_that_does_not_load_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "broken_measures", "import no_such_module\n")
    with pytest.raises(BadPlugin, match=r"broken_measures.*No module named 'no_such_module'") as caught:
        questions()
    assert "\n" not in str(caught.value)
