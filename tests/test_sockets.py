"""No network unless a hub name was asked for (docs/architecture.md, Promises); tests have none at all."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from levelhead.errors import UnknownModel
from levelhead.models.model import load
from tests.tiny import tiny


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 443)])
def test_no_test_reaches_another_machine(address: tuple[str, int]) -> None:
    with pytest.raises(OSError, match="tests reach no other machine"):
        socket.create_connection(address, timeout=1)


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def test_a_local_folder_opens_no_socket_and_resolves_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert", "nsp", layers=1)
    model.hf.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # as it is for users

    attempts: list[object] = []

    def opened(*args: object, **_: object) -> None:
        attempts.append(args)
        raise OSError("no sockets")

    for name in ("socket", "getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, opened)
    assert load(str(tmp_path)).layers == 1
    assert attempts == []
    with pytest.raises(UnknownModel):
        load("nobody/nothing")
    assert attempts != []
