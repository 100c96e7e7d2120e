"""Places, terminals and days that are bad: one line, the right exit code, nothing half-written."""

from __future__ import annotations

import errno
import io
import os
import re
import resource
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from levelhead.cli.entry import main as entry
from levelhead.edits.gates import gates
from levelhead.edits.sites import Head
from levelhead.errors import BadOption, BadRun, NoEffect
from levelhead.mitigation.export import export
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.runs.folder import LOCK
from levelhead.safe_files import new_folder
from levelhead.studies.planted.settings import PlantedSettings
from tests.report.synthetic import write_heads
from tests.studies.head_runs import scored_run
from tests.test_cli import call, refusal
from tests.tiny import tiny

ROOT = Path(__file__).resolve().parents[1]
LONG = "a" * 300


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_heads(tmp_path_factory.mktemp("runs") / "heads")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["models", f"{LONG}/x"], 4, "File name too long"),
        (["report", LONG], 4, "File name too long"),
        (["heads", "lh:bert-mini", "--null", "0", "-o", LONG], 4, "File name too long"),
        (["card", "~nobody-of-that-name/run"], 4, "a user that this machine does not have"),
        (["survey", "\udcff", "-o", "RUN"], 2, "must be valid Unicode text"),
        (["debias", "lh:bert-mini", "--recipe", "/dev/full", "-o", "OUT"], 2, "it is a device"),
        (["check", "RUN", "--thresholds", "/dev/zero"], 2, "it is a device"),
        (["models", "lh:bert-mini", "--device", "meta"], 2, "No device 'meta' on this machine"),
        (["models", "lh:bert-mini", "--device", "xpu"], 2, "No device 'xpu' on this machine"),
        (["planted", "lh:bert-mini", "--rise", "1000", "-o", "RUN"], 2, "rise must be below 2"),
        (["planted", "lh:bert-mini", "--rise", "nan", "-o", "RUN"], 2, "rise must be a number (got nan)"),
        (["fluency", "lh:bert-mini", "--limit", "5"], 2, "--limit would change nothing without --text"),
        (["debias", "lh:bert-mini", "--heads", "1-1", "--top", "5", "-o", "OUT"], 2, "without --from-heads"),
        (
            [
                "heads",
                "lh:bert-mini",
                "--experiments",
                "scores",
                "--top",
                "7",
                "--text",
                __file__,
                "-o",
                "RUN",
            ],
            2,
            "--top and --text would change nothing without --experiments debias",
        ),
        (
            ["heads", "lh:bert-mini", "--experiments", "scores", "--sentences", __file__, "-o", "RUN"],
            2,
            "--sentences would change nothing without --experiments counter",
        ),
        (["audit", "lh:bert-mini", "--glue-tasks", "rte", "-o", "RUN"], 2, "without --glue"),
    ],
)
def test_a_place_or_an_option_that_cannot_work_is_one_line(
    args: Sequence[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ended, line = refusal(monkeypatch, capsys, *args)
    assert (ended, says in line) == (code, True), line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_is_no_text_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "checkpoints" / "step-1\udcff"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text("{}", encoding="utf-8")
    code, line = refusal(monkeypatch, capsys, "survey", str(checkpoint.parent), "-o", str(tmp_path / "run"))
    assert (code, "stands in a name" in line) == (4, True), line


def test_a_recipe_whose_gates_are_all_1_is_an_error_wherever_it_is_used() -> None:
    with pytest.raises(NoEffect, match="Every gate of the recipe is 1"):
        edits_of(tiny("bert"), Recipe(gates={Head(0, 1): 1.0, Head(1, 0): 1.0}))
    assert edits_of(tiny("bert"), Recipe(gates={Head(0, 1): 1.0, Head(1, 0): 0.5}))


@pytest.mark.parametrize("rise", [0.0, -1.0, 2.0, float("inf")])
def test_a_rise_that_no_seat_can_have_is_refused(rise: float) -> None:
    with pytest.raises(BadOption, match=r"rise must be (above 0|below 2)"):
        PlantedSettings(rise=rise)


@pytest.mark.parametrize(
    "command", ["audit", "heads", "seat", "nsp", "projections", "glue", "planted", "counteracts"]
)
def test_a_seed_that_some_generator_would_refuse_is_refused_before_anything_runs(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--data", "."] if command == "glue" else []
    out = [] if command in ("seat", "nsp") else ["-o", "run"]
    assert call(monkeypatch, command, "x", *more, *out, "--seed", str(2**32)) == 2
    assert "seed must be at most 4294967295 (got 4294967296)" in capsys.readouterr().err


# ---- terminals


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_letters_shows_their_numbers(
    run: Path, encoding: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = io.BytesIO()
    terminal = io.TextIOWrapper(sent, encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        assert call(patch, "card", str(run)) == 0
    assert capsys.readouterr().err == ""
    assert rb"\u" in sent.getvalue()


OUTPUTS = """
import os, pathlib, sys
import levelhead.cli.main
from levelhead.cli.entry import main

def full():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

def left():
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)

def closed():
    os.close(1)
    sys.stdout = None  # as Python has it where a process begins without one

place = pathlib.Path(sys.argv[1])
ends = {}
for output in (full, left, closed):  # each in a copy of this process, which has read all modules already
    if (child := os.fork()) == 0:
        os.dup2(os.open(place / output.__name__, os.O_WRONLY | os.O_CREAT), 2)
        output()
        sys.argv = ["levelhead", "card", sys.argv[2]]
        main()
        sys.exit("it went on")
    ends[output.__name__] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(ends)
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_an_output_that_is_full_or_left_or_closed_ends_with_one_line_or_in_silence(
    run: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", OUTPUTS, str(tmp_path), str(run)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert literal_eval(done.stdout) == {"full": 4, "left": 141, "closed": 0}
    errors = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert re.fullmatch(r"levelhead: [^\n]+ No space left [^\n]+\n", errors.pop("full"))
    assert errors == {"left": "", "closed": ""}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_control_characters_of_a_users_data_are_never_sent_to_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "red\x1b[31m\x9b2J\x07 model"
    folder = write_heads(tmp_path / "run", name)
    for args, bracket in ((["card", str(folder)], r"\["), (["compare", str(folder), str(folder)], "[")):
        terminal = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setenv("COLUMNS", "300")
            assert call(patch, *args) == 0
        text = terminal.getvalue()
        ours = re.sub(r"\x1b\[[0-9;]*m", "", text) if args[0] == "compare" else text  # rich paints tables
        assert rf"red\u001b{bracket}31m\u009b2J\u0007" in ours  # a card is Markdown
        assert not {"\x1b", "\x9b", "\x07"} & set(ours)
        assert "red\x1b" not in text


# ---- Ctrl-C


def test_ctrl_c_while_modules_are_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            if name == "levelhead.cli.main":
                raise KeyboardInterrupt
            return None

    monkeypatch.delitem(sys.modules, "levelhead.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        entry()
    assert end.value.code == 130
    assert capsys.readouterr().err == "levelhead: stopped; nothing was kept.\n"


@pytest.mark.parametrize(
    ("args", "step"),
    [
        (["report", "RUN"], "levelhead.pages.page.render"),
        (["report", "RUN"], "os.replace"),
        (["card", "RUN", "-o", "card.md"], "os.fsync"),
    ],
)
def test_ctrl_c_while_a_file_is_written_leaves_nothing_half_written(
    args: Sequence[str],
    step: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = write_heads(tmp_path / "RUN")
    before = sorted(folder.parent.rglob("*"))
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(step, interrupted)
        assert call(patch, *args) == 130
    assert capsys.readouterr().err == "levelhead: stopped; nothing was kept.\n"
    assert sorted(folder.parent.rglob("*")) == before


def test_ctrl_c_while_a_model_is_exported_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    model = tiny("bert", layers=1)
    monkeypatch.setattr(type(model.tokenizer), "save_pretrained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(model, gates(model, {(0, 0): 0.0}), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# ---- a number that was changed


@pytest.mark.parametrize(
    "args", [["report"], ["check", "--max", "seat=9"], ["card"], ["compare"]], ids=lambda args: str(args[0])
)
def test_a_run_in_which_a_number_was_changed_is_refused_with_the_file_and_the_line(
    args: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_heads(tmp_path / "RUN") / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if '"key": "scores"' in line)
    lines[number] = re.sub(r'"score": (-?)0\.', r'"score": \g<1>1.', lines[number], count=1)
    path.write_text("".join(lines), encoding="utf-8")
    assert call(monkeypatch, args[0], str(tmp_path / "RUN"), *args[1:]) == 4
    line = capsys.readouterr().err
    assert re.fullmatch(rf"levelhead: [^\n]+results\.jsonl is damaged at line {number + 1} \([^\n]+\n", line)
    assert "its checksum does not fit" in line


# ---- disks and neighbors


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk that is full after so many bytes of each file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def read_only_disk() -> Iterator[None]:
    """Root may write anywhere, so the system's answer is played."""
    opened = os.open

    def refused(path: str | Path, flags: int, *rest: int, **options: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refused)
        yield


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != LOCK]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def small() -> Model:
    return tiny("bert", layers=1)


def test_a_disk_that_fills_while_a_model_is_saved_is_one_line_and_leaves_no_folder(
    small: Model, tmp_path: Path
) -> None:
    with (
        files_of_at_most(20_000),
        pytest.raises(BadRun, match=r"^Cannot write [^\n]*out: [^\n]*File too large[^\n]* Make room"),
    ):
        export(small, gates(small, {(0, 0): 0.0}), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_goes_with_the_next_one_and_what_a_living_one_writes_stays(
    tmp_path: Path,
) -> None:
    left = tmp_path / ".tmp-0123456789abcdef-out"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    with new_folder(tmp_path / "out") as living:
        assert not left.exists()
        (living / "a").touch()
        with new_folder(tmp_path / "out"):
            assert (living / "a").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]


@pytest.mark.parametrize("args", [["report", "RUN"], ["card", "RUN", "-o", "OUT/card.md"]])
def test_a_read_only_disk_is_one_line_and_nothing_is_lost(
    args: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = write_heads(tmp_path / "RUN")
    (tmp_path / "OUT").mkdir()
    before = contents(folder)
    monkeypatch.chdir(tmp_path)
    with read_only_disk():
        assert call(monkeypatch, *args) == 4
    line = capsys.readouterr().err
    assert re.fullmatch(r"levelhead: Cannot write [^\n]+: Read-only file system\. [^\n]+\n", line), line
    assert contents(folder) == before


HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def neighbor_in(folder: Path) -> Iterator[None]:
    """Another process that writes in a run folder."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", HOLD, str(folder / LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate()


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (neighbor_in, "Another process is writing in"),
        (lambda _: files_of_at_most(400), "File too large. Make room"),
        (lambda _: read_only_disk(), "Read-only file system. Make room"),
    ],
    ids=["another process", "a full disk", "a read-only disk"],
)
def test_a_study_in_trouble_is_one_line_loses_nothing_and_goes_on_afterwards(
    trouble: Callable[[Path], AbstractContextManager[None]],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("base", "chat"):
        scored_run(tmp_path, name, [[0.1, -0.2], [0.3, -0.1]], 0.5)
    monkeypatch.setattr("levelhead.studies.compare_heads.chapter.figures", lambda _: [])
    command = ["compare-heads", "base", "chat", "-o"]
    assert call(monkeypatch, *command, "calm") == 0
    before = contents(tmp_path / "base")
    capsys.readouterr()
    with trouble(tmp_path / "out"):
        code, line = refusal(monkeypatch, capsys, *command, "out")
    assert (code, says in line) == (4, True), line
    assert call(monkeypatch, *command, "out") == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "calm")
    assert contents(tmp_path / "base") == before
