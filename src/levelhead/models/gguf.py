"""GGUF files: what their headers tell, their weights as plain numbers, and where they are kept.

The file may be anybody's: every length in its header is checked against the bytes that are there before it is
used, vocabularies are stepped over, and nothing is allocated by a number that the file gives.

De-quantizing is done by the packages gguf and transformers, which read the header three times and build one
table of names per module, ten times as long as the numbers take: here both are done once, and what comes out
is kept as an ordinary folder of safetensors in the cache.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from levelhead.errors import BadRun, CannotDo, UnknownModel
from levelhead.models.cache import Held, obtain
from levelhead.models.checkpoint_files import one_line
from levelhead.models.identity import configuration_hash, tokenizer_hash, weight_names
from levelhead.progress import say, steps

_NEEDED = ("gguf", "accelerate")
_NO_ARCHITECTURE = ("general", "tokenizer")  # other tables of transformers beside those of architectures

_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST_FIELDS = 1 << 16
_MOST_TENSORS = 1 << 20
_MOST_ITEMS = 1 << 24  # of an array; the largest vocabularies have some 300,000 tokens
_LONGEST = 1 << 22  # bytes of a text; chat templates have some 10,000
_MOST_DIMENSIONS = 8
_PLAIN = 0  # the type of tensors that are float32 in the file

_FORMAT = "1"  # of what is kept; another number makes all entries anew
_MAKERS = ("transformers", "tokenizers", "gguf")  # packages whose versions may change what comes out
_SHARD = "200MB"  # files of this size are hashed side by side
# what a tokenizer does beside its backend's own file
_MANNERS = ("special_tokens_map", "model_max_length", "padding_side", "truncation_side", "chat_template")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of the file; its dimensions are written with the fastest first."""

    name: str
    shape: tuple[int, ...]
    kind: int  # ggml's number of its quantization
    offset: int  # behind the header

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says about itself."""

    metadata: Mapping[str, object]  # every field that is one text, number or truth value
    lengths: Mapping[str, int]  # of every field that is an array
    tensors: tuple[StoredTensor, ...]
    room: int  # bytes behind the header

    @property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is quantized, not even to half precision."""
        return all(tensor.kind == _PLAIN for tensor in self.tensors)


# ---- reading a header


class _Broken(Exception):
    """Why a header cannot be read on."""


@dataclass
class _Cursor:
    """A place in the file that moves on; reading past the end is an error and not a short answer."""

    _data: mmap.mmap
    at: int = 0

    def number(self, kind: str) -> int | float | bool:
        """The next number, of one of struct's kinds."""
        form = f"<{kind}"
        start = self.skip(struct.calcsize(form))
        value: int | float | bool = struct.unpack_from(form, self._data, start)[0]
        return value

    def count(self, most: int, what: str, kind: str = "Q") -> int:
        """The next number as a count of something of which there cannot be more than `most`."""
        value = int(self.number(kind))
        if value > most:
            raise _Broken(f"it says that it has {value} {what}")
        return value

    def text(self) -> str:
        """The next text."""
        length = self.count(_LONGEST, "bytes in one text")
        start = self.skip(length)
        return self._data[start : self.at].decode("utf-8", errors="replace")

    def skip(self, length: int) -> int:
        """Move on, and say where we were."""
        if length > len(self._data) - self.at:
            raise _Broken("it ends in the middle of its header")
        self.at += length
        return self.at - length

    def skip_array(self) -> int:
        """Move on behind an array, and say how long it is."""
        kind = int(self.number("I"))
        count = self.count(_MOST_ITEMS, "items in one array")
        if kind == _STRING:
            # a vocabulary has hundreds of thousands of texts, so no function of ours is called for each
            at, size, length = self.at, len(self._data), struct.Struct("<Q").unpack_from
            for _ in range(count):
                if at + 8 > size:
                    break
                at += 8 + length(self._data, at)[0]
            self.skip(at - self.at)
        elif kind in _NUMBERS:
            self.skip(count * struct.calcsize(f"<{_NUMBERS[kind]}"))
        else:
            raise _Broken(f"it has an array of the unknown type {kind}")
        return count


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file; one line about a file that is none, or whose header is broken."""
    if not path.is_file():
        raise UnknownModel(f"{path} is no ordinary file. Give a .gguf file, or a folder with a model.")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UnknownModel(
                f"{path} is not a GGUF file. Give a .gguf file, or a folder with model.safetensors."
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _header(data)
            except _Broken as error:
                raise UnknownModel(
                    f"{path} cannot be loaded: its header is broken, {error}. Get the file again."
                ) from None


def _header(data: mmap.mmap) -> GgufHeader:
    cursor = _Cursor(data)
    cursor.skip(4)
    form = cursor.number("I")
    if form not in _VERSIONS:
        raise _Broken(f"its version is {form}, not {_VERSIONS[0]} or {_VERSIONS[1]}")
    tensors = cursor.count(_MOST_TENSORS, "tensors")
    metadata: dict[str, object] = {}
    lengths: dict[str, int] = {}
    for _ in range(cursor.count(_MOST_FIELDS, "fields")):
        name, kind = cursor.text(), int(cursor.number("I"))
        if name in metadata or name in lengths:
            raise _Broken(f"it has the field {name[:80]!r} twice")
        if kind == _ARRAY:
            lengths[name] = cursor.skip_array()
        elif kind == _STRING:
            metadata[name] = cursor.text()
        elif kind in _NUMBERS:
            metadata[name] = cursor.number(_NUMBERS[kind])
        else:
            raise _Broken(f"it has a field of the unknown type {kind}")
    stored = []
    for _ in range(tensors):
        name = cursor.text()
        dimensions = cursor.count(_MOST_DIMENSIONS, f"dimensions of {name[:80]!r}", "I")
        shape = tuple(int(cursor.number("Q")) for _ in range(dimensions))
        stored.append(StoredTensor(name, shape, int(cursor.number("I")), int(cursor.number("Q"))))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise _Broken(f"its alignment is {str(alignment)[:80]!r}, which is no power of two")
    room = len(data) - cursor.at - (-cursor.at) % alignment
    return GgufHeader(MappingProxyType(metadata), MappingProxyType(lengths), tuple(stored), room)


# ---- what a header tells


def checked_header(path: Path) -> GgufHeader:
    """The header of a file that can be loaded as far as headers tell; else one line, within a second."""
    absent = [package for package in _NEEDED if find_spec(package) is None]
    if absent:
        raise UnknownModel(
            f"{path.name} needs the package {' and '.join(absent)}: pip install 'levelhead[gguf]'"
        )
    header = read_header(path)
    for complaint in _complaints(header):
        raise UnknownModel(f"{path} cannot be loaded: {complaint}.")
    return header


def _complaints(header: GgufHeader) -> Iterator[str]:
    """What speaks against a file, the first thing first: of its tensors, those that are there twice, are of a
    kind that nobody reads, or lie outside the file."""
    from gguf import GGML_QUANT_SIZES, dequantize  # of the extra `gguf`
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    try:
        from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS
    except ImportError:  # an older one
        GGUF_ARCHS = {}
    # ggml's names of architectures that transformers reads as causal models
    causal = {name for name in GGUF_SUPPORTED_ARCHITECTURES if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    name = str(header.metadata.get("general.architecture", ""))
    known = (causal | set(GGUF_ARCHS)) - set(_NO_ARCHITECTURE)
    # ggml and transformers write names differently: qwen2moe is qwen2_moe
    bare, *others = (each.replace("-", "").replace("_", "") for each in (name, *known))
    if bare not in others:
        yield f"architecture {name[:80]!r} is none that transformers reads. Known: {', '.join(sorted(known))}"
    if not header.lengths.get("tokenizer.ggml.tokens") or "tokenizer.ggml.model" not in header.metadata:
        yield "it has no tokenizer. Get a file with one, or the model as a folder"
    sizes, names = {}, {int(kind): kind.name for kind in GGML_QUANT_SIZES}
    for kind, (block, width) in GGML_QUANT_SIZES.items():
        try:  # one block of zeros shows whether gguf can de-quantize a kind
            dequantize(np.zeros((1, width), np.uint8), kind)
        except NotImplementedError:
            continue
        sizes[int(kind)] = block, width
    if len({tensor.name for tensor in header.tensors}) < len(header.tensors):
        yield "a tensor is there twice. Get the file again"
    for tensor in header.tensors:
        label = repr(tensor.name[:80])
        if tensor.kind not in sizes:
            quantized = names.get(tensor.kind, tensor.kind)
            yield (
                f"tensor {label} is quantized as {quantized}, which gguf does not read. Get it as Q8_0 or F16"
            )
            break
        block, width = sizes[tensor.kind]
        end = tensor.offset + tensor.elements // block * width
        if not tensor.shape or not tensor.elements or tensor.shape[0] % block:
            yield f"tensor {label} has the shape {tensor.shape}. Get the file again"
        if end > header.room:
            yield f"tensor {label} ends {end - header.room:,} bytes behind the file's end. Get the file again"
    said = header.metadata.get(f"{name}.block_count")
    named = (re.match(r"blk\.(\d{1,9})\.", tensor.name) for tensor in header.tensors)
    there = len({match[1] for match in named if match})
    if type(said) is not int or not 1 <= said <= there:
        yield f"it says that it has {str(said)[:80]} blocks, and has tensors of {there}. Get the file again"
    length = header.metadata.get(f"{name}.embedding_length")
    embeddings = [tensor.shape for tensor in header.tensors if tensor.name == "token_embd.weight"]
    if not embeddings or embeddings[0][:1] != (length,):
        found = f"embeddings of {embeddings[0][:1]}" if embeddings else "no embeddings"
        yield f"it says that its vectors have {str(length)[:80]} numbers, and has {found}. Get the file again"


def check_memory(path: Path, header: GgufHeader, dtype: torch.dtype) -> None:
    """Refuse a file whose plain numbers are more than this machine can hold."""
    if not hasattr(os, "sysconf"):
        return
    needed = header.parameters * dtype.itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there > 0:
        raise CannotDo(
            f"{path} has {header.parameters:,} parameters, {needed / 2**30:.0f} GiB as {dtype}; this "
            f"machine has {there / 2**30:.0f} GiB of memory. Give --dtype bfloat16, or a smaller model."
        )


# ---- conversion


def convert(
    path: Path, dtype: torch.dtype, places: Mapping[str, object]
) -> tuple[Any, Any, Mapping[str, Iterable[str]]]:
    """Network and tokenizer of a GGUF file, and what transformers says about its loading.

    places: arguments of from_pretrained that say where weights go.
    """
    source = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    plainly = getattr(transformers, "GgufConfig", None)  # older ones leave nothing packed
    if plainly is not None:
        source["quantization_config"] = plainly(dequantize=True)  # packed weights run code from a hub
    kind: Any = AutoModelForCausalLM
    with _reading_once(path.name), _fetching_nothing():
        hf, info = kind.from_pretrained(
            path.parent, dtype=dtype, output_loading_info=True, **places, **source
        )
        source.pop("quantization_config", None)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, **source)
    quantizer = getattr(hf, "hf_quantizer", None)
    if quantizer is not None:  # the weights are plain numbers now, and can be saved
        quantizer.remove_quantization_config(hf)
    return hf, tokenizer, info


@contextmanager
def _reading_once(name: str) -> Iterator[None]:
    """Inside, one reader serves all who open the same file, one table of names all modules, and the bar of
    transformers is ours: on a terminal only."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reading

    class PlainReader(gguf.GGUFReader):
        """The same of a plain array, whose slices cost a third of what those of a mapped file cost."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, np.asarray(value) if name == "data" else value)

    def counted(tensors: Iterable[Any], **_: object) -> Iterator[Any]:
        all_tensors = list(tensors)
        if not sys.stderr.isatty():
            yield from all_tensors
            return
        with steps(f"Converting {name}, once", len(all_tensors)) as advance:
            for tensor in all_tensors:
                yield tensor
                advance(1)

    with ExitStack() as stack:
        stack.enter_context(_replaced(gguf, "GGUFReader", cache(PlainReader)))
        stack.enter_context(_replaced(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)))
        stack.enter_context(_replaced(reading, "tqdm", counted))
        yield


@contextmanager
def _fetching_nothing() -> Iterator[None]:
    """Inside, transformers puts no layers from a hub in place of a model's own, as it does for some
    architectures where the package `kernels` is installed."""
    try:
        from transformers.integrations.gguf import kernels
    except ImportError:  # an older one
        yield
        return
    with _replaced(kernels, "kernelize_ggml_layers", lambda model: None):
        yield


@contextmanager
def _replaced(module: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


# ---- what is kept


class _Unlike(Exception):
    """What is read back is not what was converted."""


def converted(path: Path, header: GgufHeader, dtype: torch.dtype) -> Held | None:
    """The folder of a GGUF file in the cache, made where there is none; None and a line if none can be."""
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    versions = {package: version(package) for package in _MAKERS}
    about = {"source": path.name, "sha256": content, "dtype": str(dtype).removeprefix("torch."), **versions}
    facts = [_FORMAT, content, about["dtype"], *versions.values()]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()

    def write(work: Path) -> None:
        hf, tokenizer, info = convert(path, dtype, {"device_map": {"": "cpu"}})
        if set(info["missing_keys"]) - set(hf.all_tied_weights_keys):
            raise _Unlike("it lacks weights")
        hf.save_pretrained(work, max_shard_size=_SHARD)
        tokenizer.save_pretrained(work)
        # a folder from which another model would be read is refused
        options = {"local_files_only": True, "trust_remote_code": False}
        if configuration_hash(AutoConfig.from_pretrained(work, **options)) != configuration_hash(hf.config):
            raise _Unlike("its configuration does not survive saving")
        stored = AutoTokenizer.from_pretrained(work, **options)
        manners = [  # what both tokenizers do, as far as it can be written down
            [
                type(each).__name__,
                each.backend_tokenizer.to_str(),
                *(getattr(each, n, None) for n in _MANNERS),
            ]
            for each in (stored, tokenizer)
        ]
        if manners[0] != manners[1] or tokenizer_hash(stored) != tokenizer_hash(tokenizer):
            raise _Unlike("its tokenizer does not survive saving")
        weights, files = hf.state_dict(), weight_names(work.glob("*.safetensors"))
        if set(weights) - set(files) - set(hf.all_tied_weights_keys):
            raise _Unlike("its weights get other names")
        for name, file in files.items():
            with safe_open(file, "pt") as opened:
                if name not in weights or not torch.equal(opened.get_tensor(name), weights[name]):
                    raise _Unlike(f"its weight {name} does not survive saving")

    try:
        held = obtain(key, about, header.parameters * dtype.itemsize, write)
    except (BadRun, SafetensorError, _Unlike) as error:  # safetensors has an error of its own for a full disk
        say(f"{path.name} is not kept, and is converted each time: {one_line(error)}.")
        return None
    if held.is_new:
        say(f"{path.name} was converted once and is kept in {held.folder} (see `levelhead cache`).")
    return held
