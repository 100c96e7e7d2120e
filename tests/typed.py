"""Commands as a person types them, without a new process for each."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from levelhead.cli.main import main

Typed = Callable[..., tuple[int, str, str]]


def typist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command; get its exit code, standard output and standard error."""

    def run(*words: str, width: int = 120) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["levelhead", *words])
        monkeypatch.setenv("COLUMNS", str(width))
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return run
