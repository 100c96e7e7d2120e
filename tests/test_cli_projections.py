"""levelhead nsp, nli and projections, as a user types them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from levelhead.cli.main import main
from levelhead.models.model import Model, load
from levelhead.pages.tables import shown
from levelhead.probes.triples import load_triples
from levelhead.runs.common import TRIPLES_TABLE
from levelhead.scoring.pairs import ask_nsp
from levelhead.studies.projections import TABLE5, TABLE7, Projections
from levelhead.studies.projections.records import ProjectionsSummary
from levelhead.studies.projections.run import Inputs
from levelhead.studies.projections.settings import ProjectionsSettings
from tests.studies.projection_cases import ABLE, own_pairs, small_triples
from tests.tiny import bpe, tiny

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def levelhead(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
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
    lines = [f"{p.premise}\t{p.hypothesis}\t{p.label}" for p in ABLE.pairs]
    text = "\n".join(["premise\thypothesis\tlabel", *lines]) + "\n"
    (place / "able.tsv").write_text(text, encoding="utf-8")
    return place


def test_nsp_prints_every_measure_with_value_interval_and_n(levelhead: Call, folder: Path) -> None:
    code, out, err = levelhead("nsp", str(folder / "nsp"), "--triples", str(folder / "mine.jsonl"), "--json")
    assert code == 0, err
    printed = json.loads(out)
    triples = load_triples(folder / "mine.jsonl")
    measured = ask_nsp(load(str(folder / "nsp"), device="cpu"), triples)[0]
    for name, measurement in measured.items():
        assert printed[name]["value"] == pytest.approx(measurement.value, abs=1e-6)
        assert printed[name]["n"] == measurement.n in (4, 8)  # triples, or they and their null models
        assert printed[name]["interval"] == pytest.approx(measurement.interval, abs=1e-6)
    assert printed["data"] == {"mine.jsonl": triples.fingerprint, "opening": "[CLS]"}


BAD_LINE = '{"context": "The aunt sat.", "stereotype": "She sewed.", "anti": "", "unrelated": "Ice melts."}\n'


def test_a_bad_line_of_triples_is_left_out_and_named_or_with_strict_an_error(
    levelhead: Call, folder: Path, tmp_path: Path
) -> None:
    lines = (folder / "mine.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    file = tmp_path / "mine.jsonl"
    file.write_text("".join([*lines[:2], BAD_LINE, *lines[2:]]), encoding="utf-8")
    command = ("nsp", str(folder / "nsp"), "--triples", str(file))
    code, out, err = levelhead(*command)
    assert code == 0, err
    assert "Left out: 1 that cannot be evaluated" in out
    assert "mine.jsonl line 3: anti is empty" in out
    printed = json.loads(levelhead(*command, "--json")[1])
    assert [(item["line"], item["reason"]) for item in printed["unusable"]] == [(3, "a text is empty")]
    assert printed["ss"]["unscored"] == {"a text is empty": 1}
    whole = json.loads(
        levelhead("nsp", str(folder / "nsp"), "--triples", str(folder / "mine.jsonl"), "--json")[1]
    )
    assert printed["strength"]["value"] == whole["strength"]["value"]
    code, out, err = levelhead(*command, "--strict")
    assert (code, out) == (4, "")
    assert "mine.jsonl line 3: anti is empty" in err


def test_a_stereoset_file_with_one_blank_problem_is_asked_without_it(
    levelhead: Call, folder: Path, tmp_path: Path
) -> None:
    def entry(context: str) -> dict[str, object]:
        labels = {"She sewed.": "stereotype", "She boxed.": "anti-stereotype", "It rained.": "unrelated"}
        sentences = [{"sentence": text, "gold_label": label} for text, label in labels.items()]
        return {"bias_type": "gender", "target": "mother", "context": context, "sentences": sentences}

    entries = [entry("The mother sat."), entry("The mother is BLANK."), entry("My mother works.")]
    file = tmp_path / "dev.json"
    file.write_text(json.dumps({"data": {"intersentence": entries}}), encoding="utf-8")
    code, out, err = levelhead("nsp", str(folder / "nsp"), "--triples", str(file))
    assert code == 0, err
    assert "on 2 triples" in " ".join(out.split())
    assert "by chance" in out  # the floor that Strength has by noise alone
    (strength,) = [line for line in out.splitlines() if "strength" in line]
    assert "±" in strength
    assert "dev.json entry 2: BLANK" in out
    code, _, err = levelhead("nsp", str(folder / "nsp"), "--triples", str(file), "--strict")
    assert code == 4
    assert "dev.json entry 2: BLANK" in err


def test_nsp_writes_every_triple_and_takes_the_share_of_the_top(
    levelhead: Call, folder: Path, tmp_path: Path
) -> None:
    command = ["nsp", str(folder / "nsp"), "--triples", str(folder / "mine.jsonl"), "--json"]
    code, out, err = levelhead(*command, "--top", "1", "--csv", str(tmp_path / "triples.csv"))
    assert code == 0, err
    lines = TRIPLES_TABLE.read(tmp_path)
    assert [line.context for line in lines] == [
        pair.original.context for pair in load_triples(folder / "mine.jsonl").pairs
    ]
    s = [line.s for line in lines if line.s is not None]
    assert json.loads(out)["strength"]["value"] == pytest.approx(sum(s) / len(s))
    code, _, err = levelhead(*command, "--top", "0")
    assert code == 2
    assert "share" in err


def test_nli_asks_a_probe_of_the_users_own(levelhead: Call, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "bakery.toml"
    file.write_text(
        'name = "bakery"\npremise = "A {occupation} {context}."\nhypothesis = "A {gender} {context}."\n'
        'feminine = "lady"\nmasculine = "man"\noccupations = ["baker", "cook"]\ncontexts = ["saw a book"]\n',
        encoding="utf-8",
    )
    command = ["nli", str(folder / "nli"), "--ability", str(folder / "able.tsv"), "--probe", str(file)]
    code, out, err = levelhead(*command, "--json")
    assert code == 0, err
    printed = json.loads(out)
    assert (printed["pairs"], printed["probe"]) == (4, "bakery")
    assert "occupation pairs (bakery)" in levelhead(*command)[1]
    code, out, err = levelhead(*command, "--words", "girl", "boy")
    assert (code, out) == (2, "")
    assert "Write the words into the file" in err


def test_an_ability_set_with_a_bad_line_names_it_or_with_strict_is_refused(
    levelhead: Call, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "able.tsv"
    text = (folder / "able.tsv").read_text(encoding="utf-8")
    file.write_text(f"{text}She sat.\tShe sat.\tmaybe\n", encoding="utf-8")
    command = ["nli", str(folder / "nli"), "--ability", str(file), "--limit", "2", "2"]
    code, out, err = levelhead(*command)
    assert code == 0, err
    assert "line 6: label 'maybe'" in out.replace("\n", " ")
    code, _, err = levelhead(*command, "--strict")
    assert code == 4
    assert "line 6: label 'maybe'" in err


def test_nsp_of_a_model_without_the_head_is_one_line_that_says_what_it_can_do(
    levelhead: Call, folder: Path
) -> None:
    code, out, err = levelhead("nsp", str(folder / "nli"), "--triples", str(folder / "mine.jsonl"))
    assert code == 3
    assert out == ""
    line = err.strip().splitlines()[-1]
    assert line.startswith("levelhead: ")
    assert "no nsp head" in line
    assert "It can do: embeddings, nli" in line


def test_nsp_reads_a_chat_by_likelihood_only_and_says_that_it_did(levelhead: Call, folder: Path) -> None:
    tokenizer = copy.deepcopy(bpe())
    tokenizer.chat_template = "{% for turn in messages %}{{ turn.content }}\n{% endfor %}"
    model = saved(tiny("gpt2", tokenizer=tokenizer, n_positions=256), folder / "chat")
    command = ("nsp", model, "--triples", str(folder / "mine.jsonl"), "--chat")
    code, _, err = levelhead(*command)
    assert code == 2
    assert "chat would change nothing without likelihood" in err
    code, out, _ = levelhead(*command, "--likelihood", "--json")
    assert code == 0
    assert "the context is a user's turn" in json.loads(out)["preference"]["settings"]["probability"]
    assert "through its chat template" in levelhead(*command, "--likelihood")[1]


def test_nli_prints_fairness_and_ability_and_names_the_ability_set(levelhead: Call, folder: Path) -> None:
    able = str(folder / "able.tsv")
    code, out, err = levelhead("nli", str(folder / "nli"), "--ability", able, "--limit", "3", "2", "--json")
    assert code == 0, err
    printed = json.loads(out)
    assert printed["pairs"] == 12
    accuracy, parity = (printed[name]["value"] for name in ("accuracy", "parity"))
    assert printed["fairness"]["value"] == pytest.approx(accuracy * parity)
    assert (printed["ability"]["n"], printed["ability_set"]) == (4, able)


def test_nli_needs_labels_for_outputs_without_names(levelhead: Call, folder: Path) -> None:
    command = ["nli", str(folder / "unnamed"), "--ability", str(folder / "able.tsv"), "--json"]
    command += ["--limit", "2", "2"]
    code, out, err = levelhead(*command)
    assert code == 3
    assert "does not say which is entailment" in err
    code, out, err = levelhead(*command, "--labels", "entailment,neutral,contradiction")
    assert code == 0, err
    assert json.loads(out)["accuracy"]["n"] == 2


@pytest.mark.nightly
def test_sweep_prints_the_best_of_each_level_and_resumes_to_the_same_words(
    levelhead: Call, folder: Path, tmp_path: Path
) -> None:
    options = {
        "--nli": "nli",
        "--triples": "mine.jsonl",
        "--ability": "able.tsv",
        "--pairs": "own.tsv",
    }
    command = ["projections", str(folder / "nsp"), "-o", str(tmp_path / "run"), "--limit", "3", "2"]
    command += [part for option, name in options.items() for part in (option, str(folder / name))]
    code, out, err = levelhead(*command)
    assert code == 0, err
    text, best = " ".join(out.split()), TABLE5.read(tmp_path / "run")
    assert all(each.level in text and shown(each.strength or 0.0) in text for each in best)
    assert "Fairest viable of the paper’s 74" in text
    assert levelhead(*command)[1] == out
    summary = ProjectionsSummary.from_json(json.loads(levelhead(*command, "--json")[1]))
    run = Projections.open(tmp_path / "run")
    assert list(summary.settings) == TABLE7.read(run.folder)
    assert summary.observations == run.observations
    assert all(f"{each.agree} of {each.cases}" in text for each in run.observations)
    assert summary.correlation == run.correlation
    assert shown(summary.correlation.value or 0.0) in text


def test_a_bad_line_of_the_pairs_of_a_sweep_is_left_out_or_with_strict_an_error(
    levelhead: Call, folder: Path, tmp_path: Path
) -> None:
    pairs = tmp_path / "own.tsv"
    good = (folder / "own.tsv").read_text(encoding="utf-8")
    pairs.write_text(f"{good}She sat.\tHe sat.\n", encoding="utf-8")
    number = len(good.splitlines()) + 1
    triples = load_triples(folder / "mine.jsonl")
    lenient = Inputs.of(ProjectionsSettings("nli", triples=triples, pairs=str(pairs)))
    assert len(lenient.fitted_on(tiny("bert", "nli"))) == number - 1
    assert [item.line for item in lenient.unusable] == [number]
    assert Inputs.of(ProjectionsSettings("nli")).unusable == ()
    command = [
        "projections",
        str(folder / "nsp"),
        "--nli",
        str(folder / "nli"),
        "--pairs",
        str(pairs),
        "--strict",
    ]
    code, out, err = levelhead(*command, "-o", str(tmp_path / "strict"))
    assert (code, out) == (4, "")
    assert f"own.tsv line {number}: 2 columns, 4" in err


def test_a_run_folder_of_other_settings_is_refused(levelhead: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = str(tmp_path / "file")
    code, out, err = levelhead("projections", str(folder / "nsp"), "--nli", str(folder / "nli"), "-o", place)
    assert out == ""
    assert code == 4
    assert "is a file" in err


@pytest.mark.parametrize("command", ["nsp", "nli", "projections"])
def test_each_command_has_help_and_stands_in_the_docs(levelhead: Call, command: str) -> None:
    code, out, err = levelhead(command, "--help")
    assert code == 0, err
    assert "--json" in out
    docs = Path(__file__).parents[1] / "docs" / "projections.md"
    assert f"levelhead {command} " in docs.read_text(encoding="utf-8")
