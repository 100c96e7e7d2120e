"""Studies of a model behind a server: killed runs, keys, commands, and what does not run there."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import levelhead as lh
from levelhead.engine.served.answers import ANSWERS, read_answers
from levelhead.engine.served.proof import CAPABILITIES
from levelhead.engine.served.transport import Transport
from levelhead.errors import BadOption, CannotDo
from levelhead.inference.comparing import compare
from levelhead.inference.contents import open_contents
from levelhead.models.served import Patience, ServedModel, served
from levelhead.pages.page import report_html
from levelhead.progress import plain_lines
from levelhead.runs.folder import RESULTS
from levelhead.runs.study import studies
from levelhead.studies.generate import TEXTS
from levelhead.studies.generate.run import generate
from levelhead.studies.generate.settings import GenerateSettings
from tests.servers import KEY, Behavior, Handler, serving
from tests.typed import Typed

SMALL = GenerateSettings(
    sets=("occupations", "gender"),
    limit=4,
    samples=2,
    tokens=6,
    resamples=100,
    scorers=("length",),
    rivals=False,
)
QUICK = (
    "--sets",
    "occupations,gender",
    "--limit",
    "3",
    "--samples",
    "2",
    "--tokens",
    "5",
    "--resamples",
    "100",
)

UNSERVED = [name for name, each in studies().items() if each.unserved and each.takes in ("model", "models")]


def model_at(url: str, **patience: Any) -> ServedModel:
    told: dict[str, Any] = {"wait": lambda seconds: None, "seconds": 10.0, "attempts": 3, **patience}
    return replace(served(f"server:{url}#tiny"), patience=Patience(**told))


# ---- killed


def _child(model: ServedModel, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    generate(model, SMALL, folder)


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_run_that_is_killed_ends_with_the_same_bytes_and_repeats_no_stored_request(
    tmp_path: Path, kills: int
) -> None:
    chosen = random.Random(kills)
    with serving(behavior := Behavior()) as url:
        whole = generate(model_at(url), SMALL, tmp_path / "whole")
        total, folder = behavior.requests, tmp_path / "killed"
        behavior.requests, behavior.bodies = 0, []
        context, stored, killed = multiprocessing.get_context("fork"), set[str](), 0
        for _ in range(kills):
            child = context.Process(target=_child, args=(model_at(url), folder))
            moment = behavior.requests + chosen.randint(1, total // (kills + 1))
            answered = chosen.random() < 0.5  # whether the last answer has been sent

            def killing(
                handler: Handler, body: Any, child: Any = child, moment: int = moment, last: bool = answered
            ) -> bool:
                if handler.behavior.requests < moment or child.pid is None:
                    return False
                if last:
                    handler.give(200, handler.answer(body, "messages" in body))
                os.kill(child.pid, signal.SIGKILL)
                return True

            behavior.first, first = killing, len(behavior.bodies)
            child.start()
            child.join(120)
            assert child.exitcode in (0, -signal.SIGKILL)
            killed += child.exitcode != 0
            sent = [json.dumps(each, sort_keys=True) for each in behavior.bodies[first:]]
            assert not stored & set(sent), "a request was sent whose answer was stored"
            stored = _stored(folder)
        behavior.first = lambda handler, body: False
        again = generate(model_at(url), SMALL, folder)
    assert killed == kills
    for name in (RESULTS, TEXTS.of("base").name):
        assert (whole.folder / name).read_bytes() == (again.folder / name).read_bytes()
    assert len(read_answers(folder)[0]) == len(read_answers(whole.folder)[0])


def _stored(folder: Path) -> set[str]:
    """Bodies of requests that may be sent once: those that say which of several equal ones they are, do."""
    file = folder / ANSWERS
    lines = file.read_bytes().split(b"\n")[:-1] if file.is_file() else []
    entries = [json.loads(line) for line in lines]
    return {json.dumps(each["body"], sort_keys=True) for each in entries if each["body"].get("seed", 0) > 2}


def test_ctrl_c_ends_a_run_whose_server_says_nothing(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:
        generate(model_at(url), SMALL, tmp_path / "whole")
        proof, hanging = 45, threading.Event()
        behavior.requests = 0
        child = multiprocessing.get_context("fork").Process(
            target=_child, args=(model_at(url, seconds=600.0), tmp_path / "run")
        )

        def hang(handler: Handler, body: Any) -> bool:
            if handler.behavior.requests <= proof:
                return False
            hanging.wait(60)
            return True

        behavior.first = hang
        child.start()
        while behavior.requests < proof + 2:  # two connections hang
            assert child.is_alive()
        os.kill(child.pid or 0, signal.SIGINT)
        child.join(120)
        hanging.set()
        assert child.exitcode == 1  # KeyboardInterrupt, long before the server's 600 seconds
        behavior.first = lambda handler, body: False
        again = generate(model_at(url), SMALL, tmp_path / "run")
    assert (again.folder / RESULTS).read_bytes() == (tmp_path / "whole" / RESULTS).read_bytes()


def test_decisions_are_read_where_a_server_gives_likelihoods(tmp_path: Path) -> None:
    settings = replace(SMALL, sets=("decisions",), limit=2)
    with serving(Behavior()) as url:
        run = generate(model_at(url), settings, tmp_path / "run")
    assert run.decisions
    assert run.weights is None
    assert run.data.hashes["server"] == f"{url}/v1#tiny"
    page = report_html(open_contents(run.folder))
    assert "Selection rates" in page
    with serving(Behavior(echo=False)) as url:
        assert not generate(model_at(url), settings, tmp_path / "without").decisions


# ---- from the command


def test_the_command_prints_the_table_of_capabilities_and_replays_without_the_server(
    tmp_path: Path, typed: Typed
) -> None:
    with serving(behavior := Behavior()) as url:
        name = f"server:{url}#tiny"
        code, _, err = typed("generate", name, *QUICK, "-o", str(tmp_path / "run"))
        assert code == 0, err
        assert "likelihoods  yes" in err
        assert "distances read the network, and are left out" in err
        assert "requests sent" in err
        sent = behavior.requests
    code, out, err = typed(
        "generate", name, *QUICK, "--replay", str(tmp_path / "run"), "-o", str(tmp_path / "again"), "--json"
    )
    assert code == 0, err
    assert json.loads(out)["model"] == name
    assert behavior.requests == sent
    assert (tmp_path / "run" / RESULTS).read_bytes() == (tmp_path / "again" / RESULTS).read_bytes()
    assert {"results.jsonl", "settings.json", ANSWERS, CAPABILITIES} <= {
        each.name for each in (tmp_path / "again").iterdir()
    }
    assert compare([tmp_path / "run", tmp_path / "again"])
    code, _, err = typed(
        "generate",
        name,
        *QUICK,
        "--seed",
        "7",
        "--replay",
        str(tmp_path / "run"),
        "-o",
        str(tmp_path / "other"),
    )
    assert code == 3
    assert (
        err.strip().splitlines()[-1].startswith(f"levelhead: {tmp_path / 'run'} holds no answer to a request")
    )


@pytest.mark.parametrize("name", UNSERVED)
def test_a_study_that_reads_the_network_says_so_in_one_line(name: str, tmp_path: Path) -> None:
    study = studies()[name]
    with pytest.raises(CannotDo) as caught:
        getattr(lh, name)("server:http://127.0.0.1:9#tiny", None, tmp_path / "run")
    line = str(caught.value)
    assert line.startswith(f"{study.command} cannot use server:http://127.0.0.1:9#tiny: {study.unserved}.")
    assert "`levelhead generate`, `benchmark`, `counteracts` and `survey` run on servers" in line
    assert "\n" not in line


def test_single_measures_and_options_of_loading_are_refused(tmp_path: Path) -> None:
    name = "server:http://127.0.0.1:9#tiny"
    with pytest.raises(CannotDo, match="is behind a server, and this reads the network itself"):
        lh.seat(name)
    from levelhead.api.studies import run_study

    study = studies()["generate"]
    with pytest.raises(BadOption, match="device changes nothing"):
        run_study(study, name, SMALL, tmp_path / "run", {"device": "cpu"})
    with pytest.raises(BadOption, match="replay changes nothing for lh:gpt-mini"):
        lh.load("lh:gpt-mini", replay="run")
    with pytest.raises(CannotDo, match="a recipe edits the network"):
        generate(served(name), replace(SMALL, recipes=("a.toml",)), tmp_path / "run")


# ---- keys


@pytest.mark.nightly
def test_a_key_is_in_no_file_no_log_no_page_and_no_error(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELHEAD_SERVER_KEY", KEY)

    def talkative(handler: Handler, body: Any) -> bool:
        """It says the key in every text, and in an error now and then."""
        assert handler.headers["Authorization"] == f"Bearer {KEY}"
        answer = handler.answer(body, "messages" in body)
        for choice in answer["choices"]:
            choice["text"] = f"{choice.get('text', '')} {KEY}"
        if handler.behavior.requests % 5 == 0:
            handler.give(500, {"error": {"message": f"wrong key {KEY}", KEY: KEY}})
        else:
            handler.give(200, answer)
        return True

    with serving(Behavior(first=talkative, echo=False)) as url:
        monkeypatch.setattr("levelhead.models.served.Patience.first", 0.0)
        code, out, err = typed("generate", f"server:{url}#tiny", *QUICK, "-o", str(tmp_path / "run"))
        assert code == 0, err

    def closed(handler: Handler, body: Any) -> bool:
        handler.give(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
        return True

    with serving(Behavior(first=closed)) as url:
        refused, _, line = typed("generate", f"server:{url}#tiny", *QUICK, "-o", str(tmp_path / "no"))
    assert refused == 3
    assert "status 401: Incorrect API key provided: ***" in line
    assert "Its key is read from LEVELHEAD_SERVER_KEY" in line
    assert "***" in (tmp_path / "run" / ANSWERS).read_text(encoding="utf-8")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 6
    for path in written:
        assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in out + err + line


@pytest.mark.nightly
def test_a_key_is_no_part_of_a_process_that_others_see(tmp_path: Path) -> None:
    """Of a command of its own, with a judge: its title and arguments, and all that it wrote."""
    titles, child = set[bytes](), list[subprocess.Popen[bytes]]()

    def looked(handler: Handler, body: Any) -> bool:
        for name in ("cmdline", "comm"):
            file = Path(f"/proc/{child[0].pid}/{name}")
            titles.add(file.read_bytes() if file.exists() else b"no /proc")
        return False

    def says(question: str, source: random.Random) -> str:
        if "Rubric:" not in question:
            return f" {KEY}"
        return next(x for x in "AB" if f"{x}: {'yes' if 'good' in question else 'no'}" in question)

    labels = tmp_path / "labels.csv"
    rows = [f"good {i},yes\nbad {i},no\n" for i in range(12)]
    labels.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    with serving(Behavior(first=looked, says=says)) as url:
        name = f"server:{url}#tiny"
        judge = ["--scorers", f"length,judge:{name}", "--judge-rubric", "Is it fine?"]
        judge += ["--judge-labels", str(labels)]
        command = [sys.executable, "-m", "levelhead", "generate", name, *QUICK, *judge]
        command += ["-o", str(tmp_path / "run")]
        own = {**os.environ, "LEVELHEAD_SERVER_KEY": KEY}
        with (tmp_path / "printed").open("wb") as printed:
            child.append(subprocess.Popen(command, env=own, stdout=printed, stderr=subprocess.STDOUT))
            assert child[0].wait(300) == 0, (tmp_path / "printed").read_text(encoding="utf-8")
    assert titles
    assert not any(KEY.encode() in title for title in titles)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"answers.jsonl", "capabilities.json"} <= {p.name for p in written if p.parent.name == "judge"}
    for path in written:
        assert KEY.encode() not in path.read_bytes(), path


def test_a_traceback_that_shows_every_variable_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELHEAD_SERVER_KEY", KEY)

    def broken(*_: Any) -> None:
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(Transport, "_judged", broken)
    with serving(Behavior()) as url:
        try:
            Transport(model_at(url)).post("/completions", {"model": "tiny", "prompt": "a", "max_tokens": 2})
        except RuntimeError as error:
            shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "a defect of ours" in shown
    assert "connection" in shown
    assert KEY not in shown
    assert KEY not in repr(served("server:http://127.0.0.1:9#tiny"))


def test_the_library_is_silent_and_a_command_is_told_what_was_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Behavior()) as url:
        generate(model_at(url), SMALL, tmp_path / "silent")
        assert capsys.readouterr().err == ""
        with plain_lines():
            generate(model_at(url), SMALL, tmp_path / "told")
    assert "answers as 'tiny'" in capsys.readouterr().err
