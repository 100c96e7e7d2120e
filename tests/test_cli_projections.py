"""levelhead nsp, nli and sweep, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from levelhead.cli import main
from levelhead.models.model import Model
from tests.studies.projection_cases import ABLE, own_pairs, small_triples
from tests.tiny import tiny

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def levelhead(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """The command line in this process: (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr("sys.argv", ["levelhead", *arguments])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return call


def saved(model: Model, folder: Path) -> str:
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models, triples, pairs and an ability set on disk."""
    place = tmp_path_factory.mktemp("cli")
    saved(tiny("bert", "nsp"), place / "nsp")
    saved(tiny("bert", "nli"), place / "nli")
    two = tiny("bert", "nli")
    two.hf.config.id2label, two.hf.config.label2id = {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, {}
    saved(two, place / "unnamed")
    small_triples(place)
    own_pairs(place)
    rows = [f"{p.premise}\t{p.hypothesis}\t{p.label}" for p in ABLE.pairs]
    (place / "able.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *rows]) + "\n", encoding="utf-8")
    return place


def test_nsp_prints_every_measure_with_value_interval_and_n(levelhead: Told, folder: Path) -> None:
    code, out, err = levelhead("nsp", str(folder / "nsp"), "--triples", str(folder / "mine.jsonl"), "--json")
    assert code == 0, err
    told = json.loads(out)
    for key in ("ss", "lms", "icat", "strength", "distance"):
        assert 0 <= abs(told[key]["value"]) <= 2
        assert told[key]["n"] == 4
        assert len(told[key]["interval"]) == 2


def test_nsp_of_a_model_without_the_head_is_one_line_that_says_what_it_can_do(
    levelhead: Told, folder: Path
) -> None:
    code, out, err = levelhead("nsp", str(folder / "nli"), "--triples", str(folder / "mine.jsonl"))
    assert code == 1
    assert out == ""
    line = err.strip().splitlines()[-1]
    assert line.startswith("levelhead: ")
    assert "no nsp head" in line
    assert "It can do: embeddings, nli" in line


def test_nli_prints_fairness_and_ability_and_names_the_ability_set(levelhead: Told, folder: Path) -> None:
    able = str(folder / "able.tsv")
    code, out, err = levelhead("nli", str(folder / "nli"), "--ability", able, "--limit", "3", "2", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["pairs"] == 12
    assert told["fairness"]["value"] == pytest.approx(told["accuracy"]["value"] * told["parity"]["value"])
    assert (told["ability"]["n"], told["ability_set"]) == (4, able)


def test_nli_needs_labels_for_outputs_without_names(levelhead: Told, folder: Path) -> None:
    asked = [
        "nli",
        str(folder / "unnamed"),
        "--ability",
        str(folder / "able.tsv"),
        "--limit",
        "2",
        "2",
        "--json",
    ]
    code, out, err = levelhead(*asked)
    assert code == 1
    assert "does not say which is entailment" in err
    code, out, err = levelhead(*asked, "--labels", "entailment,neutral,contradiction")
    assert code == 0, err
    assert json.loads(out)["accuracy"]["n"] == 2


def test_sweep_prints_the_best_of_each_level_and_resumes_to_the_same_words(
    levelhead: Told, folder: Path, tmp_path: Path
) -> None:
    asked = [
        "sweep",
        str(folder / "nsp"),
        "--nli",
        str(folder / "nli"),
        "-o",
        str(tmp_path / "run"),
        "--limit",
        "3",
        "2",
        "--triples",
        str(folder / "mine.jsonl"),
        "--ability",
        str(folder / "able.tsv"),
        "--pairs",
        str(folder / "own.tsv"),
    ]
    code, out, err = levelhead(*asked)
    assert code == 0, err
    for words in (
        "layer 2 + attn",
        "Weighting at SENT raises ability",
        "rank correlation",
        "Fairest viable of the paper's 74",
    ):
        assert words in out
    assert levelhead(*asked)[1] == out
    told = json.loads(levelhead(*asked, "--json")[1])
    assert len(told["settings"]) == 76
    assert told["settings"][0]["setting"] == "base"


def test_a_run_folder_of_other_settings_is_refused(levelhead: Told, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = str(tmp_path / "file")
    code, out, err = levelhead("sweep", str(folder / "nsp"), "--nli", str(folder / "nli"), "-o", place)
    assert out == ""
    assert code == 1
    assert "is a file" in err


@pytest.mark.parametrize("command", ["nsp", "nli", "sweep"])
def test_each_command_has_help_and_stands_in_the_docs(levelhead: Told, command: str) -> None:
    code, out, err = levelhead(command, "--help")
    assert code == 0, err
    assert "--json" in out
    docs = Path(__file__).parents[1] / "docs" / "projections.md"
    assert f"levelhead {command} " in docs.read_text(encoding="utf-8")
