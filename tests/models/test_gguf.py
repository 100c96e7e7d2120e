"""What the header of a GGUF file tells before a weight is read, and what hostile headers cannot do."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from benchmarks.fuzz.models import write_gguf

from levelhead.errors import CannotDo, UnknownModel
from levelhead.models import gguf, sources
from levelhead.models.gguf import check_memory, checked_header, read_header
from levelhead.models.sources import open_source

HEADER = b"GGUF" + struct.pack("<I", 3)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def number(value: int) -> bytes:
    """A field's value: the type uint32, and the number."""
    return struct.pack("<II", 4, value)


def after(key: bytes, was: bytes, value: bytes) -> Callable[[bytes], bytes]:
    """Another value behind a key."""
    return lambda data: data.replace(key + was, key + value, 1)


def test_a_header_tells_scalars_lengths_of_arrays_and_tensors(tiny: Path) -> None:
    header = read_header(tiny)
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["tokenizer.ggml.bos_token_id"] == 1
    assert header.metadata["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-5)
    assert "tokenizer.ggml.tokens" not in header.metadata
    words = header.lengths["tokenizer.ggml.tokens"]
    assert header.parameters == 2 * 16 * words + 4 * 16 * 16 + 3 * 16 * 24 + 3 * 16
    assert header.is_plain
    assert {tensor.name: tensor.shape for tensor in header.tensors}["blk.0.ffn_down.weight"] == (24, 16)


def test_a_source_hands_the_headers_scalars_on(tiny: Path) -> None:
    source = open_source(tiny, device="cpu")
    assert source.gguf["tokenizer.ggml.eos_token_id"] == 2
    assert source.gguf == open_source(tiny, device="cpu", cache=False).gguf
    assert open_source("lh:gpt-mini", device="cpu").gguf == {}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data.replace(b"llama", b"blama"), "architecture 'blama'"),
        (lambda data: data.replace(text(b"llama"), text(b"t5"), 1), "architecture 't5'"),
        (lambda data: data.replace(b"ggml.tokens", b"ggml.nothing"[:11]), "no tokenizer"),
        (after(b"llama.block_count", number(1), number(10**9)), "1000000000 blocks"),
        (after(b"llama.block_count", number(1), number(0)), "0 blocks"),
        (after(b"llama.embedding_length", number(16), number(2**31)), "2147483648 numbers"),
        (lambda data: data[:-100], "behind the file's end"),
        (lambda data: data.replace(b"ffn_gate", b"ffn_down"), "twice"),
        (after(b"output_norm.weight", struct.pack("<IQI", 1, 16, 0), struct.pack("<IQI", 1, 16, 99)), "99"),
        (after(b"output_norm.weight", struct.pack("<IQI", 1, 16, 0), struct.pack("<IQI", 1, 16, 8)), "shape"),
        (after(b"output_norm.weight", struct.pack("<I", 1), struct.pack("<I", 10**9)), "dimensions"),
        (lambda data: data[:4] + struct.pack("<I", 1) + data[8:], "version is 1"),
        (lambda data: data[:300], "middle of its header"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_header_shows_is_refused_in_one_line_before_a_weight_is_read(
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[bytes], bytes],
    said: str,
) -> None:
    def reached(*_: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(sources, "convert", reached)
    monkeypatch.setattr(gguf, "convert", reached)
    broken, whole = tmp_path / "broken.gguf", tiny.read_bytes()
    broken.write_bytes(damage(whole))
    assert broken.read_bytes() != whole
    with pytest.raises(UnknownModel, match=said) as caught:
        open_source(broken, device="cpu")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(broken))


@pytest.mark.parametrize(
    "rest",
    [
        struct.pack("<QQ", 2**63, 0),
        struct.pack("<QQ", 0, 2**63),
        struct.pack("<QQ", 1000, 0) + b"\0" * 64,
        struct.pack("<QQQ", 0, 1, 2**62),
        struct.pack("<QQ", 0, 1) + text(b"a") + struct.pack("<IQ", 8, 2**40),
        struct.pack("<QQ", 0, 1) + text(b"a") + struct.pack("<IIQ", 9, 8, 2**63),
        struct.pack("<QQ", 0, 1) + text(b"a") + struct.pack("<IIQQ", 9, 8, 2, 2**63),
        struct.pack("<QQ", 0, 1) + text(b"a") + struct.pack("<IIQ", 9, 12, 2**24),
        struct.pack("<QQ", 0, 1) + text(b"a") + struct.pack("<IIQ", 9, 9, 2**24),
        struct.pack("<QQ", 0, 1) + text(b"a") + struct.pack("<I", 77),
        struct.pack("<QQ", 0, 2) + (text(b"a") + number(1)) * 2,
        struct.pack("<QQ", 0, 1) + text(b"general.alignment") + number(0),
        b"",
    ],
)
def test_no_number_of_a_header_makes_it_allocate(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(HEADER + rest)
    tracemalloc.start()
    try:
        with pytest.raises(UnknownModel, match=r"header is broken[^\n]*Get the file again\.$"):
            read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_and_a_folder_that_are_called_gguf_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    for name in ("pipe.gguf", "folder.gguf"):
        with pytest.raises(UnknownModel, match="no ordinary file"):
            open_source(tmp_path / name, device="cpu")


def test_more_numbers_than_the_machine_holds_are_refused_with_both_sizes(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = checked_header(tiny)
    check_memory(tiny, header, torch.float32)
    there = {"SC_PHYS_PAGES": header.parameters, "SC_PAGE_SIZE": 2}
    monkeypatch.setattr(os, "sysconf", there.__getitem__)
    check_memory(tiny, header, torch.bfloat16)
    with pytest.raises(CannotDo, match="--dtype bfloat16"):
        check_memory(tiny, header, torch.float32)


def test_converting_is_silent_where_stderr_is_no_terminal(
    tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    open_source(tiny, device="cpu", cache=False)
    assert capfd.readouterr().err == ""


def test_libraries_are_left_as_they_were_after_a_conversion(tiny: Path, tmp_path: Path) -> None:
    import gguf as package
    from transformers import modeling_gguf_pytorch_utils as reading

    def ours() -> list[object]:
        return [package.GGUFReader, package.get_tensor_name_map, vars(reading)["tqdm"]]

    before = ours()
    open_source(tiny, device="cpu", cache=False)
    assert ours() == before
    (tmp_path / "nothing.gguf").write_bytes(HEADER)
    with pytest.raises(struct.error):
        gguf.convert(tmp_path / "nothing.gguf", torch.float32, {})
    assert ours() == before


def test_no_layers_from_a_hub_replace_those_of_a_gguf_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations.gguf import kernels

    def asked() -> bool:
        raise AssertionError("layers would be fetched")

    monkeypatch.setattr(kernels, "is_kernels_available", asked)
    with gguf._fetching_nothing():
        kernels.kernelize_ggml_layers(None)
    with pytest.raises(AssertionError, match="fetched"):
        kernels.kernelize_ggml_layers(None)
