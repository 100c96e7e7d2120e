"""The front door: wrong kinds are one line, settings explain themselves, commands and functions agree."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import levelhead as lh
from levelhead.kinds import fits
from levelhead.models.model import Model
from levelhead.options import options
from levelhead.probes.nli import LABELS
from levelhead.runs.again import command
from levelhead.runs.study import open_run, studies
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.typed import Typed

TAKES = ("model", "models", "settings", "words", "run", "runs", "folder", "name", "path", "hf", "layouts")
FUNCTIONS = [name for name in lh.__all__ if name != "__version__" and not inspect.isclass(getattr(lh, name))]
FUNCTIONS += studies()
SETTINGS = [name for name in dir(lh.settings) if is_dataclass(getattr(lh.settings, name))]


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("bert", "nsp")


def strangers(model: Model) -> dict[str, Any]:
    """Values that people put in by mistake."""
    result = lh.seat(model, {"A": ["she", "her"], "B": ["he", "him"], "X": ["a", "b"], "Y": ["c", "d"]})
    return {
        "a transformers model": model.hf,
        "a dict": {"bias": "gender"},
        "a number": 5,
        "nothing": None,
        "a result": result,
        "an object": object(),
    }


def calls(name: str, model: Model) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls of a function with one argument of a wrong kind, and the others as they should be."""
    declared = inspect.signature(getattr(lh, name)).parameters
    right: dict[str, Any] = {"model": model, "paper": "heads", "folder": "no such folder", "values": {}}
    needed = {p.name: right.get(p.name, ()) for p in declared.values() if p.default is p.empty}
    variadic = {p.name for p in declared.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for parameter in declared:
        if parameter in TAKES and parameter not in variadic:
            for kind, value in strangers(model).items():
                optional = declared[parameter].default is None and value is None
                if not optional:
                    yield (
                        f"{parameter}: {kind}",
                        {
                            **{key: each for key, each in needed.items() if key not in variadic},
                            parameter: value,
                        },
                    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_kind_of_argument_is_one_line(name: str, model: Model) -> None:
    for what, arguments in calls(name, model):
        with pytest.raises(lh.LevelheadError) as refused:
            getattr(lh, name)(**arguments)
        line = str(refused.value)
        assert "\n" not in line, (name, what)
        assert len(line) <= 500, (name, what)


def test_a_transformers_model_is_told_how_it_is_loaded(model: Model) -> None:
    with pytest.raises(
        lh.LevelheadError, match=r"got BertForPreTraining as model.*load\(hf_model, tokenizer\)"
    ):
        lh.seat(model.hf)


def test_runs_of_a_comparison_are_looked_at_one_by_one() -> None:
    with pytest.raises(lh.LevelheadError, match=r"compare\(\) got int '5' as runs"):
        lh.compare(5)  # type: ignore[arg-type]


def test_a_word_list_can_stand_in_the_place_of_settings(model: Model) -> None:
    own = {"A": ["she", "her"], "B": ["he", "him"], "X": ["nurse", "dance"], "Y": ["boss", "tank"]}
    assert lh.seat(model, own).measurement == lh.seat(model, lh.settings.SeatSettings(own)).measurement
    assert (
        lh.seat(model, "career").measurement == lh.seat(model, lh.settings.SeatSettings("career")).measurement
    )


@pytest.mark.parametrize(
    ("value", "kind", "fit"),
    [
        (1, int, True),
        (True, int, False),
        (1, float, True),
        ("a", list[str] | None, False),
        (["a"], list[str], True),
        (["a", 1], list[str], False),
        (None, int | None, True),
        (object(), Any, True),
    ],
)
def test_kinds(value: object, kind: Any, fit: bool) -> None:
    assert fits(value, kind) is fit


# ---- help


@pytest.mark.parametrize("name", SETTINGS)
def test_every_field_of_every_settings_class_is_explained(name: str) -> None:
    kind = getattr(lh.settings, name)
    declared = options(kind)
    lines = [line.strip() for line in (inspect.getdoc(kind) or "").splitlines()]
    for field in fields(kind):
        told = field.name in declared or "group" in field.metadata
        assert told or any(line.startswith(f"{field.name}: ") for line in lines), field.name


@pytest.mark.parametrize("name", ["audit", "heads", "seat", "nsp", "survey", "counteracts", "planted"])
def test_help_of_a_function_explains_its_settings(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(lh, name)))
    assert "seed: " in text


# ---- commands and functions


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    made = tiny("bert", "nsp")
    made.hf.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return str(folder)


def answer(typed: Typed, *words: str) -> Any:
    code, printed, error = typed(*words, "--json")
    assert code == 0, error
    return json.loads(printed)


def plain(result: Any, name: str) -> Any:
    data = result.measurements[name].to_json()
    return json.loads(json.dumps({key: value for key, value in data.items() if key != "influence"}))


def agree(printed: Any, result: Any, name: str) -> None:
    wanted = plain(result, name)
    assert {key: printed[key] for key in wanted} == wanted


def test_seat_is_one_path(typed: Typed, saved: str, tmp_path: Path) -> None:
    words = tmp_path / "own.toml"
    words.write_text(
        'A = ["she", "her", "woman"]\nB = ["he", "him", "man"]\nX = ["nurse", "dance", "漢字"]\n'
        'Y = ["boss", "tank", "king"]\n',
        encoding="utf-8",
    )
    model, table = lh.load(saved), tmp_path / "words.csv"
    result = lh.seat(model, lh.settings.SeatSettings(str(words), per_word=2, seed=3, each_word=True))
    command = ("seat", saved, str(words), "--per-word", "2", "--seed", "3", "--csv", str(table))
    printed = answer(typed, *command)
    agree(printed, result, "seat")
    assert printed["data"] == result.data
    assert result.measurement.unscored  # two signs, which the tokenizer cannot write
    header, *lines = table.read_text(encoding="utf-8").splitlines()
    assert header == "word,group,association"
    assert [line.split(",")[0] for line in lines] == [each.word for each in result.words]
    assert "漢字" not in {each.word for each in result.words}


def test_associations_of_words_are_what_seat_is_the_effect_size_of(model: Model) -> None:
    result = lh.seat(model, lh.settings.SeatSettings("career", each_word=True))
    sides = {group: [w.association for w in result.words if w.group == group] for group in "XY"}
    mean = {group: sum(side) / len(side) for group, side in sides.items()}
    every = [*sides["X"], *sides["Y"]]
    middle = sum(every) / len(every)
    sd = (sum((each - middle) ** 2 for each in every) / (len(every) - 1)) ** 0.5
    assert result.value == pytest.approx((mean["X"] - mean["Y"]) / sd, abs=1e-5)


def test_lpbs_nsp_and_fluency_are_one_path(typed: Typed, saved: str, tmp_path: Path) -> None:
    model = lh.load(saved)
    (printed,) = answer(typed, "lpbs", saved, "--bias", "math")
    agree(printed, lh.lpbs(model, lh.settings.LpbsSettings(["math"])), "math")
    result = lh.nsp(model, lh.settings.NspSettings(limit=6))
    printed = answer(typed, "nsp", saved, "--limit", "6")
    for name in result.measurements:
        agree(printed[name], result, name)
    assert len(result.triples) == 6
    text = tmp_path / "text.txt"
    text.write_text("The train leaves at noon.\nShe put the keys there.\nHe is late.\n", encoding="utf-8")
    read = lh.fluency(model, lh.settings.FluencySettings(text, 2))
    agree(answer(typed, "fluency", saved, "--text", str(text), "--limit", "2"), read, *read.measurements)


def test_nli_is_one_path(typed: Typed, tmp_path: Path) -> None:
    tiny("bert", "nli").hf.save_pretrained(tmp_path / "nli")
    tiny("bert", "nli").tokenizer.save_pretrained(tmp_path / "nli")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(
        "premise\thypothesis\tlabel\n"
        + "".join(f"A man eats.\tA man {what}.\t{label}\n" for what, label in enumerate(LABELS)),
        "utf-8",
    )
    model = lh.load(tmp_path / "nli")
    result = lh.nli(model, lh.settings.NliSettings(limit=(3, 2), ability=pairs))
    printed = answer(typed, "nli", str(tmp_path / "nli"), "--limit", "3", "2", "--ability", str(pairs))
    for name in result.measurements:
        agree(printed[name], result, name)


def test_options_about_words_are_refused_with_sentences(typed: Typed, tmp_path: Path) -> None:
    sets = {"targ1": ["a nurse"], "targ2": ["a boss"], "attr1": ["she"], "attr2": ["he"]}
    test = tmp_path / "mine.jsonl"
    test.write_text(json.dumps({key: {"category": key, "examples": texts} for key, texts in sets.items()}))
    code, _, error = typed("seat", "lh:bert-mini", str(test), "--per-word", "2")
    assert (code, "per_word would change nothing" in error) == (2, True)


def test_a_quick_audit_is_the_first_look_alone(model: Model) -> None:
    from levelhead.runs.presets import QUICK, SMALL
    from levelhead.studies.audit.extent import Extent

    assert Extent(lh.settings.AuditSettings(), model).sizes == SMALL
    assert Extent(lh.settings.AuditSettings(quick=True), model).sizes == QUICK
    assert Extent(lh.settings.AuditSettings(per_word=3), model).heads.per_word == 3
    with pytest.raises(lh.LevelheadError, match="full and quick exclude each other"):
        lh.settings.AuditSettings(full=True, quick=True)


def test_the_line_that_a_report_prints_is_taken_by_the_folder_that_it_came_from(
    typed: Typed, saved: str, tmp_path: Path
) -> None:
    """A run folder refuses other settings, so a second run in it shows that the line asks for the same."""
    options = (
        "--experiments",
        "scores",
        "--per-word",
        "1",
        "--null",
        "0",
        "--dtype",
        "float32",
        "--seed",
        "2",
    )
    assert typed("heads", saved, "--bias", "career", *options, "-o", str(tmp_path / "a b"))[0] == 0
    line = command(open_run(tmp_path / "a b"))
    assert "--dtype float32" in line
    code, _, error = typed(*shlex.split(line)[1:])
    assert code == 0, error


def test_no_page_or_message_tells_a_reader_to_use_a_name_that_has_moved() -> None:
    told = re.compile(rf"\blh\.({'|'.join(lh._OLD)})\b")
    files = [path for path in Path(lh.__file__).parent.rglob("*.py") if path.name != "__init__.py"]
    assert not {path.name for path in files if told.search(path.read_text(encoding="utf-8"))}


# ---- names of version 0.2


def test_names_of_version_0_2_still_work_with_a_warning(tmp_path: Path) -> None:
    pairs, model = write(tmp_path, PAIRS), tiny("bert")
    with pytest.warns(DeprecationWarning, match=r"levelhead\.measure is now levelhead\.benchmark"):
        measure = lh.measure
    old = measure("crows-pairs", model, lh.settings.BenchmarkSettings(str(pairs), null=0, resamples=100))
    asked = lh.settings.BenchmarkSettings("crows-pairs", str(pairs), null=0, resamples=100)
    new = lh.benchmark(model, asked)
    assert old.lines() == new.lines()
    with pytest.warns(DeprecationWarning, match=r"levelhead\.mitigate"):
        certify = lh.certify
    with pytest.raises(lh.LevelheadError, match="No mitigation is called 'nothing'"):
        certify(model, lh.settings.MitigateSettings(methods=("nothing",)))


def test_a_sweep_of_version_0_2_is_one_line_that_says_what_to_use() -> None:
    with pytest.warns(DeprecationWarning, match=r"levelhead\.projections"):
        sweep = lh.sweep
    with pytest.raises(lh.LevelheadError, match=r"Use levelhead\.projections\(model, .*ProjectionsSettings"):
        sweep(tiny("bert", "nsp"))
    with pytest.raises(AttributeError, match="Use ProjectionsSettings"):
        lh.settings.SweepSettings  # noqa: B018


def test_there_are_at_most_45_public_names() -> None:
    assert len(dir(lh)) <= 45
