"""Options of workers: every mistake is one line, before a model is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from levelhead.errors import BadOption
from levelhead.models.model import load
from tests.tiny import tiny
from tests.typed import Typed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be 1 to 4096, and .* .got workers=0, gpus_per_worker=0"),
        ({"workers": 1, "gpus_per_worker": -1}, "gpus_per_worker=-1"),
        (
            {"workers": 2, "gpus_per_worker": 99},
            r"must be at most \d+, the cards .* .got 2 x 99",
        ),
        ({"gpus_per_worker": 1}, "gpus_per_worker would change nothing without workers"),
        ({"workers": 1, "ray": "ray://head:10001"}, r"No Ray address .* Give auto, or HOST:PORT"),
        ({"ray": "auto"}, "ray would change nothing without workers"),
    ],
)
def test_wrong_options_of_workers_are_one_line(options: Any, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        load("lh:bert-mini", **options)


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelhead.models.placement.find_spec", lambda name: None)
    with pytest.raises(BadOption, match=r"pip install 'levelhead\[ray\]'"):
        load("lh:bert-mini", workers=2)


def test_a_model_in_memory_takes_no_workers() -> None:
    model = tiny("bert")
    with pytest.raises(BadOption, match=r"a model in memory .* .got workers"):
        load(model.hf, model.tokenizer, workers=2)


def test_no_cluster_at_an_address_is_one_line(typed: Typed) -> None:
    code, out, line = typed("fluency", "lh:bert-mini", "--workers", "1", "--ray", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert line.startswith("levelhead: No Ray cluster at '127.0.0.1:1'")
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [("models", "lh:bert-mini"), ("finetune", "lh:bert-mini", "--task", "rte", "--data", ".", "-o", "new")],
)
def test_commands_that_have_nothing_to_share_refuse_workers(typed: Typed, command: tuple[str, ...]) -> None:
    code, _, line = typed(*command, "--workers", "2")
    assert code == 2
    assert "--workers must be left out (got 2): " in line
