"""Every command of README, tutorial and how-to pages runs, and prints the figures that pages show.

Commands that read a run, make a folder or measure one thing are executed as they stand, on models and runs
of the tests. Studies are executed up to their computing, which is replaced by a made-up run: what they
compute has tests of its own. A nightly test computes the demo of the README, as the README shows it.
"""

from __future__ import annotations

import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks import result_pages

from levelhead.api import studies as api
from levelhead.runs.study import Study
from tests.glue_files import write_glue
from tests.report.synthetic import write_audit, write_glue_run, write_heads, write_prompts
from tests.report.test_mitigations import written as write_mitigations
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.test_documents_words import DOCS, ROOT, command_lines, pages_of
from tests.tiny import tiny
from tests.typed import Typed, typist

HOW_TO = [ROOT / "README.md", *(DOCS / path for path in pages_of("How-to"))]
HELD = {0, 1, 3}  # verdicts of `levelhead check`; everything else must exit 0
ELSEWHERE = {  # commands that these tests cannot run, and what runs them
    r"server:|anthropic:": "needs a server: tests/studies/test_served.py",
    r"^explore ": "serves until it is stopped: tests/exploring",
    r"^serve ": "serves until it is stopped: tests/serving",
    r"^finetune ": "trains: tests/test_cli_glue.py",
    r"^nsp .*--chat": "needs a chat template: tests/models/test_chat.py",
    r" --learned ": "searches for gates: tests/test_cli_debias.py",
    r"^(benchmark|atlas) .*(office-pairs|half heads)": "needs the plug-in of the page: its python blocks run",
    r"^check .*crows-pairs share": "names a score of a benchmark: tests/studies/test_benchmark.py",
    r"^generate .*(--prompts|--chat|--recipe)": "needs a file or a template: tests/studies/test_generate.py",
    r"^check .*paired gap|^compare plain chat": "is about texts: tests/report/test_gates.py, test_compare.py",
    r"^nli CLASSIFIER *$": "has texts that the smallest models cannot hold: tests/test_cli.py",
    r"^nsp MODEL": "has texts that the smallest models cannot hold: tests/test_cli.py",
    r"^nli .*--(probe|labels)|--triples": "needs a file of the reader's: tests/test_cli.py",
    r"^seat .*TEST.jsonl|^lpbs .*--templates": "needs a file of the reader's: tests/test_front_door.py",
    r"^heads meta-llama/|^heads bert-base-uncased": "a model of the hub",
    r"^debias lh:bert-mini --recipe runs/demo": "a recipe of the demo: the nightly test below",
    r"--eval-results": "needs a whole run of a benchmark: tests/studies/test_benchmark.py",
    r"--from-heads": "needs a run about the same weights: tests/test_cli_places.py",
    r"^(benchmark|survey) .*bbq": "needs a folder of BBQ: tests/scoring/benchmarks",
    r"--pdf": "prints with a browser: tests/report/test_pdf.py",
    r"glue/sst2 change": "names a variant of the reader's: tests/report/test_gates.py",
}
MADE: Mapping[str, Callable[[Path], object]] = {  # runs that stand for what a study computes
    "audit": write_audit,
    "heads": write_heads,
    "counteracts": write_prompts,
    "glue": write_glue_run,
    "mitigate": lambda folder: write_mitigations(folder, certified=True),
}
BY_PAGE: Mapping[str, Callable[[Path], object]] = {
    "glue": write_glue_run,
    "debias-heads": write_heads,
    "chat": write_prompts,
}  # what RUN is there
BY_DAY = ("README", "check")
BARE = "A woman works here.\nThe nurse said that she was tired.\nHe left the house at noon.\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of models by the names that pages give them."""
    place = tmp_path_factory.mktemp("models")
    for name, ability in (("MODEL", "nsp"), ("CLASSIFIER", "nli")):
        made = tiny("bert", ability)
        made.hf.save_pretrained(place / name)
        made.tokenizer.save_pretrained(place / name)
    return place


@pytest.fixture
def place(
    models: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A working folder with all that a page's commands name."""
    page = request.getfixturevalue("page")
    for name in ("MODEL", "BASE", "CHAT", "FINETUNED", "CLASSIFIER", "FOLDER"):
        source = models / ("CLASSIFIER" if name == "CLASSIFIER" else "MODEL")
        (tmp_path / name).symlink_to(source, target_is_directory=True)
    make = BY_PAGE.get(page.stem, write_audit)
    for name in ("RUN", "OTHER", "LAST_RELEASE", "RUN-AFTER", "RUN2", "OTHER-RUN"):
        make(tmp_path / name)
    write_prompts(tmp_path / "runs" / "plain")
    write_prompts(tmp_path / "runs" / "chat")
    (tmp_path / "runs" / "my-training").mkdir()
    for name in ("a", "b", "HEADS"):
        write_heads(tmp_path / name)
    shutil.copyfile(write(tmp_path, PAIRS), tmp_path / "FILE")
    shutil.copyfile(tmp_path / "FILE", tmp_path / "crows_pairs_anonymized.csv")
    for name in ("news.txt", "CORPUS", "mine.tsv", "my_measure.py"):
        (tmp_path / name).write_text(BARE, encoding="utf-8")
    write_glue(tmp_path / "DIR")
    (tmp_path / "models.txt").write_text("MODEL\n", encoding="utf-8")
    for name in ("symmetrized.toml", "recipe.toml"):
        (tmp_path / name).write_text('[symmetrize]\nwords = "gender"\n', encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```toml\n(.*?)^```", text, re.M | re.S):
        saved = re.findall(r"`([\w-]+\.toml)`", text[: block.start()].partition("Save this as")[2])
        name = saved[0] if saved else "about.toml" if "intended_purpose" in block[1] else "release.toml"
        (tmp_path / name).write_text(block[1], encoding="utf-8")
    words = re.findall(r"^```toml\n(.*?)^```", (DOCS / "own-words.md").read_text("utf-8"), re.M | re.S)[0]
    for name in ("religion.toml", "my-words.toml"):
        (tmp_path / name).write_text(words, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begun(
    study: type[Study[Any]], models: Any, settings: Any, folder: Path, *_: Any, **__: Any
) -> Study[Any]:
    """A study without its computing: a made-up run where there is one, else the end of the command."""
    assert isinstance(settings, study.settings_type)
    computed = study.name in ("benchmark", "compare-heads") or getattr(settings, "run", None)
    if computed:  # which takes no time
        return COMPUTED(study, models, settings, folder, *_, **__)
    if study.name not in MADE:
        raise SystemExit(0)
    MADE[study.name](Path(folder))
    return study.open(folder)


COMPUTED = api.run_study


def lines_of(page: Path) -> Iterator[str]:
    for line in command_lines(page):
        told = " ".join(shlex.split(line.replace("…", ""), comments=False)[1:])
        if not any(re.search(each, told) for each in ELSEWHERE):
            yield line


def as_typed(line: str, page: Path, number: int) -> list[str]:
    """The words of a command: outputs are new, and what a reader has is what the tests have."""
    line = line.replace("MODELS...", "MODEL CLASSIFIER").replace("RUN/recipes/FILE.toml", "symmetrized.toml")
    line = re.sub(r"-o (\S+)", lambda out: f"-o new-{number}-{Path(out[1]).name}", line)
    words = re.split(r"[|&>]", " ".join(map(shlex.quote, shlex.split(line)[1:])))[0]
    said = shlex.split(words)
    large = {"debias"} & {said[0]} and "--heads" in said  # names heads that the smallest models do not have
    return [
        "lh:bert-mini" if large and word == "MODEL" else "HEADS" if _of_heads(said, at) else word
        for at, word in enumerate(said)
    ]


def _of_heads(said: list[str], at: int) -> bool:
    return said[at] == "RUN" and (said[0] == "compare-heads" or said[at - 1] in ("--from-heads", "--run"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        each if each.stem in BY_DAY else pytest.param(each, marks=pytest.mark.nightly)
        for each in HOW_TO
        if any(lines_of(each))
    ],
    ids=lambda page: page.stem,
)
def test_every_command_of_a_page_runs(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "run_study", begun)
    monkeypatch.setattr("levelhead.pages.page.vega_bundle", str)  # nobody looks at these pages
    typed: Typed = typist(monkeypatch, capsys)
    for number, line in enumerate(lines_of(page)):
        words = as_typed(line, page, number)
        code, _, error = typed(*words)
        assert code in (HELD if words[0] == "check" else {0}), f"{line}: {error}"


def test_what_runs_elsewhere_is_little_and_each_reason_is_needed() -> None:
    lines = [" ".join(shlex.split(line)[1:]) for page in HOW_TO for line in command_lines(page)]
    left = [line for line in lines if any(re.search(each, line) for each in ELSEWHERE)]
    assert len(left) < 0.3 * len(lines)
    assert all(any(re.search(each, line) for line in lines) for each in ELSEWHERE)


# ---- the demo, as the README shows it


def test_the_readme_shows_the_answers_that_are_stored() -> None:
    stored = result_pages.outputs("audit")["answers"]
    assert "\n".join(stored) in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_demo_prints_what_the_readme_and_the_page_about_check_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    typed: Typed = typist(monkeypatch, capsys)
    code, printed, error = typed("audit", "lh:bert-mini", "--nli", "lh:nli-mini", "-o", result_pages.FOLDER)
    assert code == 0, error
    assert len(textwrap.wrap(printed, 100)) <= 45
    stored = result_pages.outputs("audit")["answers"]
    assert flat("\n".join(stored)) in flat(printed)
    (block,) = [
        body
        for body in re.findall(r"(?:^ {4}.*\n)+", (DOCS / "check.md").read_text("utf-8"), re.M)
        if "$ " in body
    ]
    line, *shown = textwrap.dedent(block).splitlines()
    _, printed, error = typed(*shlex.split(line.replace("RUN", result_pages.FOLDER))[2:])
    assert flat("\n".join(shown)) == flat(error + printed)
    command = next(each for each in command_lines(ROOT / "README.md") if each.startswith("levelhead debias"))
    code, _, error = typed(*shlex.split(command)[1:])
    assert code == 0, error


def flat(text: str) -> str:
    return " ".join(text.split())
