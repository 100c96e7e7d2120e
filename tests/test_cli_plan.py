"""`--plan`: what every command that runs a model would take; nothing is evaluated, sent or written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.cli.commands import built, listed
from levelhead.engine import effort
from levelhead.engine.effort import Speed
from levelhead.progress import Plan, counted_work
from levelhead.runs.study import studies
from tests.glue_files import write_glue
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.servers import Behavior, serving
from tests.tiny import saved
from tests.typed import Typed

_NOT_PLANNED = {"explore", "serve", "models", "cache", "report", "check", "compare", "card"}
# what each command is given: NSP, MLM, NLI and GPT are models, DATA is a folder
_WORDS = {
    "audit": "NSP --quick",
    "heads": "MLM --null 0 --per-word 1",
    "atlas": "MLM --null 0 --limit 20",
    "projections": "NSP --nli NLI --limit 4 2",
    "counteracts": "MLM --per-background 0",
    "mitigate": "MLM --methods quickest",
    "benchmark": "crows-pairs GPT --data DATA/pairs.csv",
    "glue": "MLM --data DATA/glue --tasks rte",
    "planted": "MLM --seeds 1",
    "survey": "MLM --quick",
    "generate": "GPT --limit 4 --tokens 4 --samples 2",
    "reproduce": "heads --models MLM --quick",
    "compare-heads": "DATA/heads DATA/heads",
    "seat": "MLM",
    "lpbs": "MLM",
    "nsp": "lh:bert-mini",
    "nli": "lh:nli-mini",
    "fluency": "GPT",
    "debias": "MLM --heads 1-1 -o OUT/debiased",
    "finetune": "MLM --task rte --data DATA/glue -o OUT/classifier",
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("given")
    write(place, PAIRS).rename(place / "pairs.csv")
    write_glue(place / "glue")
    (place / "heads").mkdir()
    (place / "heads" / "settings.json").write_text("{}")
    models = {"NSP": ("bert", "nsp"), "MLM": ("bert", "mlm"), "NLI": ("bert", "nli"), "GPT": ("gpt2", "mlm")}
    return {"DATA": str(place), **{name: saved(place / name, *each) for name, each in models.items()}}


def planned_words(command: str, given: dict[str, str], out: Path) -> list[str]:
    words = []
    for word in _WORDS[command].split():
        for name, value in {**given, "OUT": str(out)}.items():
            word = value + word.removeprefix(name) if word.startswith(name) else word
        words.append(word)
    return [command, *words, "--plan"]


def test_every_study_and_every_command_that_loads_a_model_is_planned_here() -> None:
    assert {study.spelled() for study in studies().values()} <= _WORDS.keys()
    assert set(listed()) - _NOT_PLANNED == _WORDS.keys()


@pytest.mark.parametrize("command", sorted(_WORDS))
@pytest.mark.nightly
def test_a_plan_evaluates_and_writes_nothing(
    command: str, given: dict[str, str], typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where folders that have a usual name would appear
    monkeypatch.setattr(effort, "_SENTENCES", 2)
    monkeypatch.setattr(effort, "_MOST", 0.0)
    with counted_work() as done:  # outside of the probe, which counts its own work
        code, printed, error = typed(*planned_words(command, given, tmp_path), "--json")
    assert code == 0, error
    plan = json.loads(printed)
    assert list(tmp_path.iterdir()) == []
    assert sum(done) == 0
    assert (plan["tokens"] > 0, plan["seconds"] > 0, plan["passes"] > 0) == (command != "compare-heads",) * 3


def test_a_plan_is_printed_for_a_person(given: dict[str, str], typed: Typed) -> None:
    code, printed, _ = typed("fluency", given["GPT"], "--plan")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()][:3] == ["tokens", "passes", "time"]


def test_what_a_run_holds_already_is_not_planned_again(
    given: dict[str, str], typed: Typed, tmp_path: Path
) -> None:
    run = str(tmp_path / "run")
    words = ("counteracts", given["MLM"], "--per-background", "0", "--null", "0", "-o", run)
    assert typed(*words)[0] == 0
    before = {path: path.read_bytes() for path in Path(run).rglob("*") if path.is_file()}
    code, printed, _ = typed(*words, "--plan", "--json")
    assert (code, json.loads(printed)["tokens"]) == (0, 0)
    assert {path: path.read_bytes() for path in Path(run).rglob("*") if path.is_file()} == before


def test_python_plans_a_study(given: dict[str, str], tmp_path: Path) -> None:
    plan = lh.counteracts(given["MLM"], None, tmp_path / "run", plan=True)
    assert isinstance(plan, Plan)
    assert plan.tokens > 0
    assert not (tmp_path / "run").exists()


def test_a_plan_is_the_tokens_at_the_speed_of_the_model_and_plans_add_up() -> None:
    speed = Speed(token=0.01, estimate=1.25, batch=100, memory=700)
    plan = speed.plan(1000, estimated=400, shorter="--null 0")
    assert (plan.tokens, plan.passes, plan.memory, plan.shorter) == (1500, 15, 700, "--null 0")
    assert plan.seconds == pytest.approx(15.0)
    assert speed.lasting(15.0).tokens == pytest.approx(1500)
    both = plan + Plan(tokens=500, memory=900)
    assert (both.tokens, both.memory) == (2000, 900)


@pytest.mark.parametrize("command", ["generate", "benchmark"])
def test_a_plan_of_a_server_counts_requests_and_money_and_sends_nothing(
    command: str, given: dict[str, str], typed: Typed, tmp_path: Path
) -> None:
    behavior = Behavior()
    with serving(behavior) as url:
        words = [
            each.replace(given["GPT"], f"server:{url}#tiny")
            for each in planned_words(command, given, tmp_path)
        ]
        prices = ("--price-in", "2", "--price-out", "8", "--json")
        code, printed, error = typed(*words, "-o", str(tmp_path / "run"), *prices)
    assert code == 0, error
    plan = json.loads(printed)
    assert behavior.requests == 0
    assert not (tmp_path / "run").exists()
    assert plan["requests"] > 35  # its proofs
    assert plan["price"] == pytest.approx((2 * plan["tokens"] + 8 * plan["tokens_written"]) / 1e6, rel=0.01)


@pytest.mark.nightly
def test_a_server_gets_no_more_requests_than_were_planned(
    given: dict[str, str], typed: Typed, tmp_path: Path
) -> None:
    behavior = Behavior()
    with serving(behavior) as url:
        words = ["generate", f"server:{url}#tiny", "--limit", "4", "--tokens", "4", "--samples", "2"]
        run = ("-o", str(tmp_path / "run"))
        plan = json.loads(typed(*words, *run, "--plan", "--json")[1])
        assert typed(*words, *run)[0] == 0
        assert 0.7 * plan["requests"] < behavior.requests <= plan["requests"]
        again = json.loads(typed(*words, *run, "--plan", "--json")[1])
        assert again["requests"] <= 0.3 * plan["requests"]  # answers that are stored are not sent for


def test_prices_without_a_plan_are_refused(given: dict[str, str], typed: Typed, tmp_path: Path) -> None:
    words = ("generate", given["GPT"], "-o", str(tmp_path / "run"), "--price-in", "2")
    code, _, error = typed(*words)
    assert code == 2
    assert "--price-in and --price-out would change nothing without --plan" in error


def test_every_planned_command_says_so_in_its_help() -> None:
    for name in _WORDS:
        options = {option for each in built(name).params for option in each.opts}
        assert "--plan" in options, name
    for name in ("explore", "serve"):
        assert "--plan" not in {option for each in built(name).params for option in each.opts}
