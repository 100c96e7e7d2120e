"""A GGUF file is converted once: the kept model is the same; a damaged, foreign or full cache is harmless."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from benchmarks.fuzz.models import write_gguf
from transformers import AutoTokenizer

from levelhead.errors import BadOption, BadRun
from levelhead.models import gguf
from levelhead.models.cache import MOST, PLACE, Held, cache_folder, clear, entries, most_bytes, obtain
from levelhead.models.gguf import convert
from levelhead.models.model import Model, load

ABOUT = {"source": "some.gguf", "dtype": "float32"}
POSIX = pytest.mark.skipif(os.name == "nt", reason="no locks and modes there")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path / "cache"))


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were converted for the cache, in order."""
    done: list[Path] = []

    def counted(path: Path, *given: Any) -> Any:
        done.append(path)
        return convert(path, *given)

    monkeypatch.setattr(gguf, "convert", counted)
    return done


def answers(model: Model) -> torch.Tensor:
    ids = model.tokenizer("the nurse said that she", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits: torch.Tensor = model.hf(input_ids=ids).logits
    return logits


def keep(key: str, size: int = 1000) -> Held:
    return obtain(key, ABOUT, size, lambda work: (work / "weights").write_bytes(b"\1" * size))


def never(work: Path) -> None:
    raise AssertionError("written again")


# ---- the model


def test_the_kept_model_is_the_converted_one_to_the_bit_and_is_converted_once(
    tiny: Path, conversions: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    plain = load(tiny, device="cpu", cache=False)
    assert entries() == []
    first, second = load(tiny, device="cpu"), load(tiny, device="cpu")
    assert conversions == [tiny]
    said = capfd.readouterr().err
    assert said.count("converted once") == 1
    assert str(entries()[0].folder) in said
    for model in (first, second):
        assert model.fingerprint == plain.fingerprint
        assert torch.equal(answers(model), answers(plain))
        backend = model.tokenizer.backend_tokenizer.to_str()
        assert backend == plain.tokenizer.backend_tokenizer.to_str()
        assert model.abilities == plain.abilities


def test_each_dtype_and_each_content_has_an_entry_of_its_own(
    tiny: Path, tmp_path: Path, conversions: list[Path]
) -> None:
    half = load(tiny, device="cpu", dtype="bfloat16")
    assert half.fingerprint == load(tiny, device="cpu", dtype="bfloat16", cache=False).fingerprint
    load(tiny, device="cpu")
    data = bytearray(tiny.read_bytes())
    data[-3] ^= 1
    other = tmp_path / "tiny.gguf"
    other.write_bytes(data)
    assert load(other, device="cpu").fingerprint != load(tiny, device="cpu").fingerprint
    same = tmp_path / "same.gguf"
    same.write_bytes(tiny.read_bytes())
    load(same, device="cpu")
    assert conversions == [tiny, tiny, other]
    assert sorted(entry.dtype for entry in entries()) == ["bfloat16", "float32", "float32"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def link(path: Path) -> None:
    path.rename(path.parents[3] / "elsewhere")
    path.symlink_to(path.parents[3] / "elsewhere")


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "model.safetensors"),
        lambda folder: flip(folder / "tokenizer.json"),
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "entry.json").write_text("{"),
        lambda folder: (folder / "entry.json").write_text("[" * 10**5),
        lambda folder: (folder / "entry.json").unlink(),
        lambda folder: (folder / "adapter.json").write_text("{}"),
        lambda folder: link(folder / "config.json"),
        lambda folder: os.link(folder / "config.json", folder.parents[1] / "second name"),
    ],
    ids=["weights", "tokenizer", "missing", "cut", "deep", "unsealed", "more", "link", "hard link"],
)
def test_a_damaged_entry_is_noticed_and_made_anew(
    tiny: Path, conversions: list[Path], damage: Callable[[Path], object]
) -> None:
    expected = load(tiny, device="cpu").fingerprint
    damage(entries()[0].folder)
    assert load(tiny, device="cpu").fingerprint == expected
    assert load(tiny, device="cpu").fingerprint == expected
    assert conversions == [tiny, tiny]


def test_a_tokenizer_that_would_be_read_back_as_another_one_is_not_kept(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = load(tiny, device="cpu", cache=False)
    other = copy(plain.tokenizer)
    other.padding_side = "left" if other.padding_side == "right" else "right"

    def read(folder: Path, **given: Any) -> Any:
        return AutoTokenizer.from_pretrained(folder, **given) if "gguf_file" in given else other

    monkeypatch.setattr(gguf, "AutoTokenizer", SimpleNamespace(from_pretrained=read))
    assert load(tiny, device="cpu").fingerprint == plain.fingerprint
    assert "tokenizer does not survive" in capfd.readouterr().err
    assert entries() == []


def test_a_cache_that_cannot_be_used_costs_one_line_and_time(
    tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").write_text("a file")
    plain = load(tiny, device="cpu", cache=False)
    assert load(tiny, device="cpu").fingerprint == plain.fingerprint
    lines = capfd.readouterr().err.splitlines()
    assert ["tiny.gguf is not kept" in line for line in lines].count(True) == 1
    assert all("not kept" in line or "plain English" in line for line in lines)  # its weights are random


# ---- the folder


def test_the_place_is_ours_then_that_of_the_desktop_then_the_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv(PLACE, "/own")
    assert cache_folder() == Path("/own/gguf")
    monkeypatch.delenv(PLACE)
    assert cache_folder() == Path("/xdg/levelhead/gguf")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/me/.cache/levelhead/gguf")


@pytest.mark.parametrize("given", ["much", "-1", "nan", "1e99"])
def test_a_limit_that_is_no_number_of_gib_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(MOST, given)
    with pytest.raises(BadOption, match=MOST):
        most_bytes()


@POSIX
def test_the_folder_is_the_users_alone(tmp_path: Path) -> None:
    held = keep("a")
    assert held.folder.stat().st_mode & 0o077 == 0
    assert cache_folder().stat().st_mode & 0o077 == 0
    cache_folder().chmod(0o755)
    with pytest.raises(BadRun, match="open to others"):
        keep("b")
    cache_folder().chmod(0o700)
    cache_folder().rename(tmp_path / "real")
    cache_folder().symlink_to(tmp_path / "real")
    with pytest.raises(BadRun, match="link"):
        keep("a")
    assert entries() == []


def test_a_link_under_an_entrys_name_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    keep("other").release()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (cache_folder() / "a").symlink_to(tmp_path / "mine")
    assert not keep("a").folder.is_symlink()
    assert (tmp_path / "mine" / "file").read_text() == "mine"


def test_what_fails_while_it_is_written_leaves_nothing_and_the_next_one_writes() -> None:
    def fail(work: Path) -> None:
        (work / "weights").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain("a", ABOUT, 1000, fail)
    assert entries() == []
    assert keep("a").is_new
    assert not obtain("a", ABOUT, 1000, never).is_new


@POSIX
def test_two_who_want_the_same_entry_at_once_write_it_once() -> None:
    begun, go_on, writers = threading.Event(), threading.Event(), []

    def write(work: Path) -> None:
        writers.append(work)
        begun.set()
        go_on.wait()
        (work / "weights").write_bytes(b"\1")

    found: list[Held] = []
    threads = [threading.Thread(target=lambda: found.append(obtain("a", ABOUT, 1, write))) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(writers) == 1
    assert sorted(held.is_new for held in found) == [False, False, True]


@POSIX
def test_the_least_recently_used_goes_first_and_what_is_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MOST, str(5_000 / 2**30))
    for age, key in enumerate("abc"):
        held = keep(key)
        os.utime(held.folder, (age, age))
        if key != "a":
            held.release()
    keep("d", 2_500).release()
    assert {entry.folder.name for entry in entries()} == {"a", "c", "d"}  # a is older than b, and in use
    with pytest.raises(BadRun, match=MOST):
        keep("e", 6_000)
    assert [entry.folder.name for entry in clear()] == ["c", "d"]
    assert [entry.folder.name for entry in entries()] == ["a"]
