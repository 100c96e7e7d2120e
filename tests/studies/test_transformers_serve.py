"""Studies of a model behind `transformers serve`, which samples and gives no likelihoods."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path

import pytest

from levelhead.engine.served.proof import CAPABILITIES
from levelhead.models.model import load
from levelhead.studies.generate import TEXTS, Generate
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.typed import Typed

MISSING = [name for name in ("fastapi", "uvicorn", "openai") if find_spec(name) is None]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        bool(MISSING), reason="`transformers serve` needs pip install 'transformers[serving]'"
    ),
]
FEW = ("--sets", "occupations", "--limit", "2", "--samples", "2", "--tokens", "6", "--resamples", "100")


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A shipped model as a folder, behind a server on a free port."""
    folder, model = tmp_path_factory.mktemp("served") / "gpt", load("lh:gpt-mini")
    model.hf.generation_config.do_sample = True
    try:
        model.hf.save_pretrained(folder)
    finally:
        model.hf.generation_config.do_sample = False
    model.tokenizer.save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    log = folder.with_suffix(".log")
    with log.open("w") as written:
        place = ("--host", "127.0.0.1", "--port", str(port), "--device", "cpu")
        server = subprocess.Popen([*command, *place], stdout=written, stderr=subprocess.STDOUT)
    try:
        while not _answers(port):
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
        yield f"server:http://127.0.0.1:{port}/v1#{folder}"
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


def rows(folder: Path) -> dict[str, str]:
    """What the server has proved about completions: option -> result."""
    table = json.loads((folder / CAPABILITIES).read_text(encoding="utf-8"))["rows"]
    return {row["option"]: row["result"] for row in table if row["endpoint"] == "completions"}


def test_it_writes_texts_and_its_seeds_hold_where_one_request_comes_at_a_time(
    name: str, tmp_path: Path, typed: Typed
) -> None:
    code, _, err = typed("generate", name, *FEW, "--connections", "1", "-o", str(tmp_path / "run"))
    assert code == 0, err
    assert rows(tmp_path / "run") == {
        "endpoint": "yes",
        "max_tokens": "yes",
        "temperature": "yes",
        "seed": "yes",
        "n": "ignored",
        "stop": "ignored",  # a text ends behind it
        "likelihoods": "no",
    }
    run = Generate.open(tmp_path / "run")
    assert run.finished
    assert all(text.text for text in run.texts())
    code, _, err = typed("generate", name, *FEW, "--connections", "1", "-o", str(tmp_path / "again"))
    assert code == 0, err
    first, again = ((tmp_path / each / TEXTS.of("base").name).read_bytes() for each in ("run", "again"))
    assert first == again


def test_its_seeds_that_other_requests_change_are_not_relied_on(
    name: str, tmp_path: Path, typed: Typed
) -> None:
    code, _, err = typed("generate", name, *FEW, "-o", str(tmp_path / "run"))
    assert code == 0, err
    assert rows(tmp_path / "run")["seed"] == "ignored"
    assert "beside other requests a seed gives another text; --connections 1 avoids that" in err


@pytest.mark.parametrize("study", ["counteracts", "benchmark"])
def test_what_reads_likelihoods_is_refused_in_one_line(
    name: str, study: str, tmp_path: Path, typed: Typed
) -> None:
    words = [study, name]
    if study == "benchmark":
        words = [study, "crows-pairs", name, "--data", str(write(tmp_path, PAIRS))]
    code, out, err = typed(*words, "-o", str(tmp_path / "run"))
    assert (code, out) == (3, "")
    *proofs, line = err.splitlines()
    assert line.startswith("levelhead: ")
    assert "have no log p for each token" in line
    assert "vLLM and `levelhead serve` give likelihoods" in line
    assert all(each.startswith("levelhead: ") for each in proofs)
