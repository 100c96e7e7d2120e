"""Plug-ins that print, raise, exit or return nonsense: one line names them and their package."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import levelhead as lh
from levelhead.api.registering import register
from levelhead.edits.gates import gates
from levelhead.engine.readings import Pooled, Text
from levelhead.errors import BadOption, BadPlugin, CannotDo
from levelhead.measures.maps import CONSTANT
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.scoring import plugins
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.catalog import benchmark_of
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import BENCHMARKS, BenchmarkInfo, Selection
from levelhead.scoring.objective import OBJECTIVES, Objective, mean_objective
from levelhead.scoring.objectives import seat_objective
from levelhead.scoring.plugins import Plugin, guarded
from levelhead.scoring.seat import word_table
from levelhead.studies.atlas.catalog import localizer_of
from levelhead.studies.atlas.protocol import (
    LOCALIZERS,
    ComponentKind,
    ComponentScores,
    register_localizer,
    scored,
)
from levelhead.studies.mitigate import trying
from levelhead.studies.mitigate.protocol import MITIGATIONS, Candidate, Mitigation, mitigations
from levelhead.studies.mitigate.training import NO_MEANS, Means, trains
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.typed import Typed
from tests.word_lists import GENDER, gender_toml

WHERE = "of the file test_plugin_guard.py"
TEXTS = ("The nurse was tired.", "She saw him.", "He works.", "Who knows?")


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (BENCHMARKS, LOCALIZERS, MITIGATIONS, OBJECTIVES):
        monkeypatch.setattr(registry, "own", {})
        monkeypatch.setattr(registry, "_loaded", True)


@pytest.fixture(scope="module")
def bert() -> Model:
    return tiny("bert", "nsp", layers=2, max_position_embeddings=256)


@dataclass
class Flat:
    """A localizer that scores all heads alike, and does something else before."""

    before: Callable[[], object] = str
    value: float = 1.0
    name: str = "flat"
    component: ClassVar[ComponentKind] = "heads"

    def why_not(self, model: Model, objective: Objective) -> str:
        return ""

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        self.before()
        return ComponentScores.exact("heads", np.full((model.layers, model.heads), self.value))


def broken() -> None:
    raise ValueError("no such\nhead")


def leaving() -> None:
    sys.exit(3)


def stopped() -> None:
    raise KeyboardInterrupt


def refusing() -> None:
    raise CannotDo("this model has no wheels")


def objective() -> Objective:
    return seat_objective(word_table(GENDER, template_contexts(GENDER, 1)))


# ---- the guard


@pytest.mark.parametrize(
    ("before", "kind", "line"),
    [
        (
            broken,
            BadPlugin,
            rf'^Localizer "flat" {WHERE} raised ValueError: no such head \(test_plugin_guard.py, line',
        ),
        (leaving, BadPlugin, rf'^Localizer "flat" {WHERE} raised SystemExit: 3 '),
        (stopped, KeyboardInterrupt, "^$"),
        (refusing, CannotDo, "^this model has no wheels$"),
    ],
)
def test_what_ends_a_plug_in_is_one_line_that_names_it(
    bert: Model, before: Callable[[], None], kind: type[BaseException], line: str
) -> None:
    register_localizer(Flat(before))
    with pytest.raises(kind, match=line) as caught:
        scored(localizer_of("flat", "heads"), bert, objective())
    assert "\n" not in str(caught.value)
    if kind is BadPlugin:
        assert caught.value.__cause__ is not None  # the traceback is there


def test_what_a_plug_in_prints_goes_to_standard_error(
    bert: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    register_localizer(Flat(lambda: print("loud")))
    scored(localizer_of("flat", "heads"), bert, objective())
    print("after")
    assert capsys.readouterr() == ("after\n", "loud\n")


def test_standard_output_comes_back_whatever_thread_leaves_first() -> None:
    out, inside, leave = sys.stdout, threading.Event(), threading.Event()

    def first() -> None:
        with guarded(None, BadPlugin):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with guarded(None, BadPlugin):
        leave.set()
        thread.join()
        assert sys.stdout is sys.stderr
    assert sys.stdout is out


def test_a_package_is_named_by_the_entry_point_that_led_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bert: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flat_heads.py").write_text(
        "from tests.test_plugin_guard import Flat, broken\n"
        "from levelhead.studies.atlas.protocol import register_localizer\n"
        "class Mine(Flat):\n    pass\n"
        "print('loading')\n"
        "register_localizer(Mine(broken))\n"
    )
    installed(monkeypatch, tmp_path, "flat_heads", "levelhead.localizers")
    monkeypatch.setattr(LOCALIZERS, "_loaded", False)
    with pytest.raises(BadPlugin, match=r'^Localizer "flat" of the package flat-pkg raised ValueError'):
        scored(localizer_of("flat", "heads"), bert, objective())
    assert capsys.readouterr() == ("", "loading\n")


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, group: str) -> None:
    """A package flat-pkg whose module lies in a folder."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)
    point = EntryPoint("flat", module, group)
    vars(point)["dist"] = SimpleNamespace(name="flat-pkg")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == point.group else [])
    monkeypatch.setattr(plugins, "_PACKAGES", {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys; sys.exit(5)", "SystemExit: 5"),
        (
            "import levelhead as lh\nfrom tests.test_plugin_guard import Flat\n"
            "class Mine(Flat): pass\nlh.register(Mine(name='gradient'))",
            r"The name 'gradient' belongs to the localizer levelhead\.\S+HeadGradient, which ships; bad",
        ),
    ],
)
def test_a_package_that_does_not_load_is_named_in_one_line(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_heads.py").write_text(text)
    installed(monkeypatch, tmp_path, "bad_heads", "levelhead.localizers")
    monkeypatch.setattr(LOCALIZERS, "_loaded", False)
    with pytest.raises(
        BadPlugin, match=f"^The localizers of the package flat-pkg do not load: {why}"
    ) as caught:
        LOCALIZERS.known()
    assert "\n" not in str(caught.value)


def test_what_ships_is_called_as_it_is() -> None:
    assert Plugin.of("localizer", "gradient", localizer_of("gradient", "heads")).ours
    with pytest.raises(ZeroDivisionError), Plugin("localizer", "x", "levelhead.studies", "X").guarded():
        print(1 / 0)


# ---- names


class Quiet:
    """A mitigation, or an objective, of any name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def why_not(self, model: Model, fit: Battery | None = None) -> str:
        return ""


class Mitigates(Quiet):
    def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
        return [Candidate("halved", self.name, 0.5, gates(model, {"1-1": 0.5}))]


class Counts(Quiet):
    """An objective of a user's own: how far a next-sentence head prefers some texts."""

    def objective(self, model: Model) -> Objective:
        reading = Pooled([Text(text, "She works.") for text in TEXTS])
        return mean_objective(
            "whatever", "nats", reading, lambda logits: logits[:, 0] - logits[:, 1], np.array(list("abcd"))
        )


def _named(name: str) -> Any:
    class Mine(type(CROWS_PAIRS)):  # type: ignore[misc]
        info = BenchmarkInfo(
            name, "Mine", "?", ("mlm",), "0", CROWS_PAIRS.info.rules, "CC0", "me", "none", 2026, ("*.csv",)
        )

    return Mine()


@pytest.mark.parametrize(
    ("plugin", "ours"),
    [
        (Flat(name="gradient"), "HeadGradient"),
        (Mitigates("symmetrized"), "the mitigation levelhead."),
        (Counts("seat"), "the objective seat"),
        (Counts("crows-pairs"), "the benchmark levelhead."),
        (_named("crows-pairs"), "the benchmark levelhead."),
        (_named("seat"), "the objective seat"),
    ],
)
def test_a_name_that_ships_is_refused_in_one_line_that_names_both(plugin: Any, ours: str) -> None:
    with pytest.raises(
        BadOption, match=f"{ours}.*which ships; .*{type(plugin).__name__} cannot have it"
    ) as caught:
        register(plugin)
    assert "\n" not in str(caught.value)


def test_a_class_defined_anew_replaces_itself_and_another_one_is_refused() -> None:
    def defined(value: float) -> Any:
        class Mine(Flat):
            pass

        return Mine(value=value)

    register(defined(1.0))
    register(defined(2.0))  # as when a notebook's cell runs again
    with pytest.raises(BadOption, match=r"Two localizers are called 'flat': .*Mine and .*Flat"):
        register(Flat())
    with pytest.raises(BadOption, match="give it a text"):
        register(Flat(name=" "))


# ---- what comes back


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_refused_before_null_models_are_mapped(
    bert: Model, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(Flat(value=value))
    monkeypatch.setattr("levelhead.studies.atlas.run.draw_null_model", broken)
    asked = lh.settings.AtlasSettings(("seat",), bias=GENDER, localizer="flat", null=3)
    with pytest.raises(
        BadPlugin, match=f'^Localizer "flat" {WHERE} gave 8 of 8 scores that are not finite for'
    ):
        lh.atlas(bert, asked, tmp_path / "run")


def test_constant_scores_map_to_the_end_and_their_agreement_is_not_measured(
    bert: Model, tmp_path: Path
) -> None:
    register(Flat())
    asked = lh.settings.AtlasSettings(("seat", "cosine-gap"), bias=GENDER, localizer="flat", null=3)
    found = lh.atlas(bert, asked, tmp_path / "run")
    (agreement,) = found.agreements
    assert (agreement.measurement.value, agreement.measurement.reason, agreement.p) == (None, CONSTANT, None)
    for each in found.objectives:
        assert (each.halves.value, each.halves.reason) == (None, CONSTANT)
        assert each.largest.value == 1.0
    assert found.sentence
    assert found.plot().to_dict()["concat"]
    assert lh.open_run(tmp_path / "run").lines() == found.lines()


class Numbered(Mitigates):
    """A mitigation with one candidate of any strength; it trains."""

    def __init__(self, name: str, strength: Any = 0.5, before: Callable[[], object] = str) -> None:
        super().__init__(name)
        self.strength, self.before = strength, before

    def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
        self.before()
        if self.strength is None:
            return None  # type: ignore[return-value]
        return [Candidate(self.name, self.name, self.strength, gates(model, {"1-1": 0.5}))]

    def with_means(self, means: Means) -> Numbered:
        return Numbered(self.name, self.strength, self.before)


@pytest.mark.parametrize(
    ("plugin", "line"),
    [
        (Numbered("mine", float("nan")), "gave 'mine' the strength nan"),
        (Numbered("mine", None), "returned NoneType from candidates; it must return a list of Candidate"),
        (Numbered("mine", before=broken), "raised ValueError"),
    ],
)
def test_a_mitigation_is_guarded_also_after_it_was_given_its_means(
    bert: Model, plugin: Mitigation, line: str
) -> None:
    register(plugin)
    (method,) = mitigations(("mine",))
    assert trains(method)
    for each in (method, method.with_means(NO_MEANS)):
        with pytest.raises(BadPlugin, match=f'^Mitigation "mine" {WHERE} {line}'):
            each.candidates(bert, Battery(GENDER, ()))


def test_a_mitigation_that_fails_is_left_out_beside_others_and_an_error_alone(
    bert: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    items: Any = SimpleNamespace(fit=Battery(GENDER, ()), order=None, test=None, outside=None)
    asked: Any = SimpleNamespace(and_of=lambda model, made: asked, values=None)
    monkeypatch.setattr(trying.PartValues, "of", lambda model, items, outside=None: asked)
    register(Numbered("bad", before=broken))
    register(Mitigates("good"))
    tried = trying.try_methods(bert, items, mitigations(("bad", "good")))
    assert [each.name for each in tried.candidates] == ["halved"]
    assert [(each.method, "raised ValueError" in each.reason) for each in tried.left_out] == [("bad", True)]
    with pytest.raises(BadPlugin, match=r'^Mitigation "bad"'):
        trying.try_methods(bert, items, mitigations(("bad",)))


@pytest.mark.parametrize(
    ("method", "result", "line"),
    [
        ("load", [], "returned list from load; it must return Items"),
        ("why_not", None, "returned NoneType from why_not"),
        ("ask", [[1.0]], "returned float from ask"),
        ("ask", [], "gave scores of 0 variants; expected 1"),
        ("ask", [[lh.Measurement("mine", float("nan"))]], "gave 'mine', which cannot be stored"),
        ("natural", None, "returned NoneType from natural"),
        ("objective", 1.0, "returned float from objective"),
    ],
)
def test_what_a_benchmark_returns_is_checked(
    bert: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, result: object, line: str
) -> None:
    mine = _named("mine")
    items = mine.load(write(tmp_path, PAIRS), Selection())
    monkeypatch.setattr(mine, method, lambda *given: result)
    register(mine)
    known = benchmark_of("mine")
    given: dict[str, tuple[Any, ...]] = {
        "load": ("file", Selection()),
        "why_not": (bert,),
        "ask": (bert, items, [()], None, None),
        "natural": (bert, items, [()]),
        "objective": (bert, items),
    }
    with pytest.raises(BadPlugin, match=f'^Benchmark "mine" {WHERE} {line}'):
        getattr(known, method)(*given[method])


# ---- objectives of one's own


@pytest.mark.slow
def test_an_objective_of_ones_own_is_mapped_beside_a_shipped_one(bert: Model, tmp_path: Path) -> None:
    lh.register(Counts("next"))
    asked = lh.settings.AtlasSettings(("next", "seat"), bias=GENDER, null=0, limit=4, transfer=1)
    found = lh.atlas(bert, asked, tmp_path / "run")
    own, _ = found.objectives
    assert (own.objective, own.unit, own.items) == ("next", "nats", 4)
    exact = Counts("next").objective(bert).absolute
    assert own.value == pytest.approx(exact.values(bert)[0], rel=1e-4)
    assert found.maps[0].scores == pytest.approx(exact.gradients(bert).scores, rel=1e-3, abs=1e-6)
    (cell,) = [each for each in found.transfer if each.own and each.optimized == "next"]
    assert cell.unit == "nats"


def test_halves_of_an_own_objective_share_no_cluster(bert: Model) -> None:
    whole = Counts("next").objective(bert)
    answer = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 4.0]])
    assert float(whole.number(answer)) == 0.0
    assert float(whole.about(["a", "b"]).number(answer)) == 2.0


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (lambda logits: broken(), "raised ValueError"),
        (lambda logits: logits[:, 0] * float("nan"), "gave nan as its number"),
        (lambda logits: 3.0, "raised AttributeError"),
    ],
)
def test_the_number_of_an_own_objective_is_called_behind_the_guard(
    bert: Model, number: Any, line: str
) -> None:
    class Mine(Counts):
        def objective(self, model: Model) -> Objective:
            clusters, reading = np.array(list("abcd")), Pooled([Text(text, "She works.") for text in TEXTS])
            return mean_objective(self.name, "nats", reading, number, clusters)

    lh.register(Mine("mine"))
    with pytest.raises(BadPlugin, match=f'^Objective "mine" {WHERE} {line}'):
        lh.atlas(bert, lh.settings.AtlasSettings(("mine",), bias=GENDER, null=0))


def test_a_model_without_an_own_objective_leaves_it_out_with_the_reason(bert: Model) -> None:
    class Mine(Counts):
        def why_not(self, model: Model, fit: Battery | None = None) -> str:
            return "it has no wheels"

    lh.register(Mine("mine"))
    found = lh.atlas(bert, lh.settings.AtlasSettings(("mine", "seat"), bias=GENDER, null=0))
    assert [(each.objective, each.reason) for each in found.left_out] == [("mine", "it has no wheels")]


# ---- the command


@pytest.fixture
def words(bert: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setattr("levelhead.models.model.load", lambda name, **options: bert)
    monkeypatch.setattr("levelhead.pages.page.vega_bundle", str)  # nobody looks at the page
    return (
        "heads",
        "lh:bert-mini",
        "--bias",
        str(gender_toml(tmp_path)),
        "--null",
        "0",
        "-o",
        str(tmp_path / "r"),
    )


def test_heads_maps_an_own_objective_with_an_own_localizer_and_prints_json_alone(
    typed: Typed, words: tuple[str, ...]
) -> None:
    lh.register(Flat(lambda: print("loud"), 2.0))
    lh.register(Counts("next"))
    code, out, error = typed(*words, "--objective", "next", "--localizer", "flat", "--json")
    assert code == 0, error
    assert {each["score"] for each in json.loads(out)["heads"]} == {2.0}
    assert "loud" in error


def test_a_localizer_without_an_objective_would_change_nothing(typed: Typed, words: tuple[str, ...]) -> None:
    code, _, error = typed(*words, "--localizer", "ablation")
    assert code == 2
    assert "--localizer would change nothing" in error


def test_a_plug_in_that_raises_is_no_bug_of_levelhead(typed: Typed, words: tuple[str, ...]) -> None:
    lh.register(Flat(leaving))
    code, out, error = typed(*words, "--objective", "seat", "--localizer", "flat", "--json")
    line = error.splitlines()[-1]
    assert (code, out) == (4, "")
    assert line.startswith(f'levelhead: Localizer "flat" {WHERE} raised SystemExit: 3')
    assert line.endswith("--debug shows where.")
    with pytest.raises(BadPlugin):
        typed(*words, "--objective", "seat", "--localizer", "flat", "--debug")
