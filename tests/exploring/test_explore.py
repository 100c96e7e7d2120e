"""`levelhead explore` and `lh.explore`: an address is printed, the page is served, and it ends."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import levelhead as lh
from levelhead.errors import LevelheadError
from levelhead.studies.heads import Heads
from tests.studies.head_runs import empty_run, scored_run
from tests.tiny import tiny
from tests.typed import Typed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, path = tiny("bert"), tmp_path_factory.mktemp("models") / "tiny"
    made.hf.save_pretrained(path)
    made.tokenizer.save_pretrained(path)
    return path


def asked(address: str) -> http.client.HTTPResponse:
    """What the server of an address answers to a browser."""
    host, path = re.fullmatch(r"http://([^/]+)(/.*)", address).groups()  # type: ignore[union-attr]
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", path)
    return connection.getresponse()


def status(address: str) -> int:
    return asked(address).status


def body(address: str) -> str:
    return asked(address).read().decode()


@pytest.mark.nightly
@pytest.mark.slow
def test_the_command_prints_its_address_serves_the_page_and_ends_with_ctrl_c(folder: Path) -> None:
    pytest.importorskip("uvicorn", reason="pip install 'levelhead[explore]'")
    code = "from levelhead.cli.entry import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = subprocess.Popen(
        [sys.executable, "-c", code, "explore", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        assert status(address) == 200
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode == 0, error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lh:no-such"], "lh:no-such"),
        (["lh:bert-mini", "no/such/run"], "no/such/run"),
        (["lh:bert-mini", "--second", "lh:no-such"], "lh:no-such"),
        (["lh:bert-mini", "--bias", "no-such-list"], "no-such-list"),
        (["lh:bert-mini", "--port", "70000"], "port must be at most 65535 (got 70000)"),
    ],
)
def test_a_mistake_is_one_line_before_a_model_is_loaded(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setattr("levelhead.serving.listening.find_spec", lambda name: name)

    def loaded(*_: object, **__: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("levelhead.models.model.load", loaded)
    code, out, error = typed("explore", *words)
    assert code in (2, 4)
    assert out == ""
    assert re.fullmatch(r"levelhead: [^\n]+\n", error)
    assert said in error


def test_a_notebook_gets_a_frame_with_the_page_and_ends_it(folder: Path) -> None:
    pytest.importorskip("uvicorn", reason="pip install 'levelhead[explore]'")
    page = lh.explore(str(folder))
    try:
        shown = page._repr_html_()
        assert f'<iframe src="{page.address}"' in shown
        assert page.address in repr(page)
        assert status(page.address) == 200
    finally:
        page.close()
    with pytest.raises(OSError, match="refused"):
        status(page.address)


def test_the_page_of_a_notebook_has_texts_where_the_model_writes() -> None:
    pytest.importorskip("uvicorn", reason="pip install 'levelhead[explore]'")
    for family, writes in (("gpt2", True), ("bert", False)):
        page = lh.explore(tiny(family))
        try:
            html = body(page.address)
        finally:
            page.close()
        assert ('id="writes"' in html, 'id="again"' in html) == (writes, writes)


def test_results_link_to_the_open_page_of_their_model(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="pip install 'levelhead[explore]'")
    model, other = tiny("bert"), tiny("bert", seed=9)
    runs = []
    for number, each in enumerate((model, other)):
        with empty_run(tmp_path / f"run {number}", each.name, {"weights": each.fingerprint}) as run:
            made = Heads.open(scored_run(tmp_path, f"other {number}", [[0.1, 0.5, 0.2, 0.0]] * 3, 0.7))
            run.results(Heads.scores, lambda made=made: list(made.scores))  # type: ignore[misc]
        runs.append(Heads.open(run.folder))
    page = lh.explore(model)
    try:
        assert f'href="{page.address}#' in runs[0]._repr_html_()
        assert "1-2" in unquote(runs[0]._repr_html_())
        assert page.address not in runs[1]._repr_html_()
    finally:
        page.close()
    assert page.address not in runs[0]._repr_html_()


def test_a_model_that_fills_no_blanks_is_one_line() -> None:
    with pytest.raises(LevelheadError, match="masked or causal"):
        lh.explore(tiny("bert", "base"))
