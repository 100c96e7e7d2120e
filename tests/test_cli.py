"""The command line itself: help, version, models, and one line for every mistake."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForPreTraining, AutoTokenizer

from levelhead import __version__
from levelhead.cli.app import keeps_results
from levelhead.cli.commands import function_of, listed
from levelhead.cli.main import main
from levelhead.errors import BadOption, BadRun
from levelhead.measures.statistics import Resampling
from levelhead.models.model import load
from levelhead.pages.charts import heads as figures_heads
from levelhead.studies.compare_heads import CompareHeadsSettings
from levelhead.studies.compare_heads import chapter as compared
from levelhead.studies.compare_heads.run import compare_heads
from levelhead.studies.counteracts import chapter as counteracted
from tests.report.synthetic import write_heads, write_prompts
from tests.studies.head_runs import scored_run

ROOT = Path(__file__).resolve().parents[1]


def call(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    """Exit code of `levelhead ARGS`."""
    monkeypatch.setattr("sys.argv", ["levelhead", *args])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str
) -> tuple[int, str]:
    """Exit code and the one line of a command that prints nothing else."""
    code = call(monkeypatch, *args)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"levelhead: [^\n]+\n", printed.err), printed.err
    return code, printed.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small plain Hugging Face folder, made once and copied by those who damage it."""
    from tests.tiny import tiny

    path = tmp_path_factory.mktemp("plain") / "model"
    model = tiny("bert", "nsp")
    model.hf.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return path


def damaged(folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"levelhead {__version__}"


def test_the_package_runs_as_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["levelhead", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("levelhead", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out.strip()) == (0, f"levelhead {__version__}")


def test_every_command_has_help_and_stands_in_the_docs() -> None:
    docs = "".join(
        page.read_text(encoding="utf-8") for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    )
    known = {"models", "audit", "heads", "projections", "counteracts", "nsp", "nli", "debias", "check"}
    assert known <= {*listed()}
    for name, each in listed().items():
        assert each.about == inspect.getdoc(function_of(name)), name
        assert each.about.strip(), f"{name} has no help"
        assert f"levelhead {name}" in docs, f"{name} is not in the docs"


def test_models_lists_what_ships(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "models", "--json") == 0
    shipped = json.loads(capsys.readouterr().out)
    assert [m["name"] for m in shipped] == ["lh:bert-mini", "lh:gpt-mini", "lh:nli-mini"]
    assert call(monkeypatch, "models", "lh:nli-mini", "--json") == 0
    assert json.loads(capsys.readouterr().out)["abilities"] == ["embeddings", "nli"]


def test_a_saved_model_loads_with_nothing_of_levelhead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert call(monkeypatch, "models", "--save", "lh:bert-mini", str(tmp_path / "bert")) == 0
    plain = AutoModelForPreTraining.from_pretrained(tmp_path / "bert").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bert")
    inputs = tokenizer("The nurse said that [MASK] was tired.", return_tensors="pt")
    with torch.no_grad():
        theirs = plain(**inputs).prediction_logits
        ours = load("lh:bert-mini").hf(**inputs).prediction_logits
    torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=0)


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def _no_tokenizer(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


def _nan(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.1.output.dense.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_truncate, "cut short"),
        (_pickle, "allow_pickle"),
        (_no_tokenizer, "tokenizer"),
        (_nan, "layer.1.output.dense"),
    ],
)
def test_damaged_folders_give_one_line_and_exit_4(
    damage: object,
    says: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = damaged(folder, tmp_path)
    damage(copy)  # type: ignore[operator]
    out = tmp_path / "run"
    assert call(monkeypatch, "heads", str(copy), "-o", str(out)) == 4
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert says in lines[0]
    assert not out.exists()


@pytest.mark.parametrize(
    ("code", "args", "says"),
    [
        (4, ["models", "lh:bert-mimi"], "lh:bert-mini"),  # suggests the nearest
        (4, ["models", "./no/such/folder"], "no/such/folder"),
        (4, ["models", "missing.gguf"], "missing.gguf"),
        (4, ["heads", "lh:bert-mini", "--bias", "gneder", "-o", "RUN"], "gender"),
        (2, ["heads", "lh:bert-mini", "--experiments", "scores,abblation", "-o", "RUN"], "abblation"),
        (3, ["nsp", "lh:gpt-mini"], "It can do: causal, embeddings"),
        (
            4,
            ["projections", "lh:bert-mini", "--nli", "lh:nli-mini", "--pairs", "none.tsv", "-o", "RUN"],
            "none.tsv",
        ),
        (2, ["debias", "lh:bert-mini", "--heads", "3", "-o", "OUT"], "heads must be LAYER-HEAD"),
        (
            4,
            ["debias", "lh:bert-mini", "--from-heads", "nowhere", "-o", "OUT"],
            "nowhere is not a run folder",
        ),
        (2, ["debias", "lh:bert-mini", "--recipe", "none.toml", "-o", "OUT"], "none.toml cannot be read"),
        (2, ["audit", "lh:bert-mini", "--measure", "none.py", "-o", "RUN"], "none.py is no Python file"),
        (4, ["fluency", "lh:bert-mini", "--text", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_mistakes_give_one_line_and_the_exit_code_of_their_kind(
    code: int,
    args: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ended, line = refusal(monkeypatch, capsys, *args)
    assert (ended, says in line) == (code, True), line
    assert not list(tmp_path.iterdir())


RUNS = (
    *("heads", "compare-heads", "planted", "projections", "counteracts", "glue", "finetune"),
    *("atlas", "mitigate", "audit", "survey", "reproduce", "generate"),
)


def test_ctrl_c_says_how_to_go_on_where_results_are_kept_and_nowhere_else() -> None:
    """Every command; a new one that keeps its results must be named here."""
    kept = set()
    for name in listed():
        if keeps_results(function_of(name), {"out": Path("run")}):
            kept.add(name)
        assert not keeps_results(function_of(name), {"out": None})
    assert kept == set(RUNS)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("nsp", "lh:bert-mini"), "nothing was kept."),
        (("fluency", "lh:bert-mini"), "nothing was kept."),
        (("heads", "lh:bert-mini", "-o", "run"), "run the same command again to go on."),
    ],
)
def test_ctrl_c_is_one_line_that_says_what_was_kept(
    args: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("levelhead.api.studies.load", interrupted)
    monkeypatch.setattr("levelhead.models.model.load", interrupted)
    assert call(monkeypatch, *args) == 130
    assert capsys.readouterr().err.strip() == f"levelhead: stopped; {says}"


def test_ctrl_c_is_one_line_and_exit_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("levelhead.models.model.load", interrupted)
    assert call(monkeypatch, "models", "lh:bert-mini") == 130
    assert capsys.readouterr().err.strip() == "levelhead: stopped; nothing was kept."


def test_an_error_that_nobody_foresaw_is_one_line_with_its_log_and_a_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("\x1b[31mdivided\nby nothing")

    monkeypatch.setattr("levelhead.models.model.load", broken)
    assert call(monkeypatch, "models", "lh:bert-mini") == 4
    line = capsys.readouterr().err
    assert re.fullmatch(r"levelhead: an unexpected ZeroDivisionError \([^\n\x1b]+\n", line)
    log = re.search(r"with (\S+\.log)", line)
    assert log is not None
    assert "Traceback" in Path(log[1]).read_text(encoding="utf-8")
    Path(log[1]).unlink()
    monkeypatch.setattr("sys.argv", ["levelhead", "models", "lh:bert-mini", "--debug"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_a_negative_seed_is_refused_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        BadOption, match=r"seed=-1, .*: allowed are 100 or more resamples, a seed of 0 or more"
    ):
        Resampling(seed=-1)
    assert call(monkeypatch, "lpbs", "lh:bert-mini", "--seed", "-1") in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_heads(tmp_path / "run")
    (tmp_path / "taken").write_text("a file")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    for place in ("taken/report.html", "folder.html"):
        assert call(monkeypatch, "report", str(run), "-o", place) == 4
        assert re.fullmatch(rf"levelhead: Cannot write {place}: [^\n]+\n", capsys.readouterr().err)
    assert call(monkeypatch, "report", str(run), "-o", ".") == 2
    assert re.fullmatch(r"levelhead: -o \.: allowed are \.html, [^\n]+\n", capsys.readouterr().err)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "taken", "folder.html"}
    assert not any((tmp_path / "folder.html").iterdir())


def _comparison(folder: Path) -> Path:
    scores = [[0.1, -0.2], [0.3, -0.1]]
    runs = [scored_run(folder.parent / "scored", name, scores, 0.5) for name in ("base", "chat")]
    compare_heads(runs, CompareHeadsSettings(top=1), folder)
    return folder


@pytest.mark.usefixtures("figures_not_drawn")
@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (write_heads, figures_heads.write_figures),
        (_comparison, compared.figures),
        (write_prompts, counteracted.figures),
    ],
)
def test_figures_that_cannot_be_written_are_one_line_and_leave_no_halves(
    make: Callable[[Path], Path],
    draw: Callable[[Path], list[Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    run = make(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(BadRun, match=r"^Cannot write [^\n]*\.svg: No space left on device\. [^\n]*$"):
            draw(run)
    assert not list((run / "figures").iterdir())
    assert all(path.read_text(encoding="utf-8").startswith("<svg") for path in draw(run))
