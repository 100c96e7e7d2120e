"""GGUF files: what can be told of one by its header, and its weights as plain numbers.

De-quantizing is done by the packages gguf and transformers. They read the header three times, text by text of
a vocabulary, and build the same table of names once per module, which takes ten times as long as the numbers
do: here both are done once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from levelhead.errors import CannotDo, UnknownModel
from levelhead.models.gguf_header import GgufHeader, blocks, read_header
from levelhead.progress import steps

_NEEDED = ("gguf", "accelerate")
_NO_ARCHITECTURE = ("general", "tokenizer")  # other tables of transformers beside those of architectures


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


def check_memory(path: Path, header: GgufHeader, dtype: torch.dtype) -> None:
    """Refuse a file whose plain numbers are more than this machine can hold."""
    if not hasattr(os, "sysconf"):
        return
    needed, there = (
        header.parameters * dtype.itemsize,
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )
    if needed > there > 0:
        raise CannotDo(
            f"{path} has {header.parameters:,} parameters, {needed / 2**30:.0f} GiB as {dtype}; this "
            f"machine has {there / 2**30:.0f} GiB of memory. Give --dtype bfloat16, or a smaller model."
        )


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


# ---- what a header tells


def _complaints(header: GgufHeader) -> Iterator[str]:
    """What speaks against a file, the first thing first."""
    name, known = header.architecture, _architectures()
    if _folded(name) not in map(_folded, known):
        yield f"architecture {name[:80]!r} is none that transformers reads. Known: {', '.join(sorted(known))}"
    if not header.lengths.get("tokenizer.ggml.tokens") or "tokenizer.ggml.model" not in header.metadata:
        yield "it has no tokenizer. Get a file with one, or the model as a folder"
    yield from _tensor_complaints(header)
    said, there = header.metadata.get(f"{name}.block_count"), blocks(header)
    if type(said) is not int or not 1 <= said <= there:
        yield f"it says that it has {str(said)[:80]} blocks, and has tensors of {there}. Get the file again"
    width = header.metadata.get(f"{name}.embedding_length")
    embeddings = [tensor.shape for tensor in header.tensors if tensor.name == "token_embd.weight"]
    if not embeddings or embeddings[0][:1] != (width,):
        found = f"embeddings of {embeddings[0][:1]}" if embeddings else "no embeddings"
        yield f"it says that its vectors have {str(width)[:80]} numbers, and has {found}. Get the file again"


def _tensor_complaints(header: GgufHeader) -> Iterator[str]:
    """Tensors that are there twice, are of a kind that nobody reads, or lie outside the file."""
    from gguf import GGML_QUANT_SIZES  # of the extra `gguf`

    sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items() if _readable(kind, size[1])}
    names = {int(kind): kind.name for kind in GGML_QUANT_SIZES}
    if len({tensor.name for tensor in header.tensors}) < len(header.tensors):
        yield "a tensor is there twice. Get the file again"
    for tensor in header.tensors:
        label = repr(tensor.name[:80])
        if tensor.kind not in sizes:
            kind = names.get(tensor.kind, tensor.kind)
            yield f"tensor {label} is quantized as {kind}, which gguf does not read. Get it as Q8_0 or F16"
            return
        block, width = sizes[tensor.kind]
        end = tensor.offset + tensor.elements // block * width
        if not tensor.shape or not tensor.elements or tensor.shape[0] % block:
            yield f"tensor {label} has the shape {tensor.shape}. Get the file again"
        if end > header.room:
            yield f"tensor {label} ends {end - header.room:,} bytes behind the file's end. Get the file again"


def _readable(kind: Any, width: int) -> bool:
    """Whether gguf can de-quantize a kind: one block of zeros shows it."""
    import numpy as np
    from gguf import dequantize

    try:
        dequantize(np.zeros((1, width), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _architectures() -> set[str]:
    """ggml's names of architectures that transformers reads as causal models."""
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    try:
        from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS
    except ImportError:  # an older one
        GGUF_ARCHS = {}
    causal = {name for name in GGUF_SUPPORTED_ARCHITECTURES if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    return (causal | set(GGUF_ARCHS)) - set(_NO_ARCHITECTURE)


def _folded(name: str) -> str:
    """A name without what ggml and transformers write differently: qwen2moe is qwen2_moe."""
    return name.replace("-", "").replace("_", "")


# ---- conversion


@contextmanager
def _reading_once(name: str) -> Iterator[None]:
    """Inside, one reader serves all who open the same file, one table of names all modules, and the bar of
    transformers is ours: on a terminal only."""
    import gguf
    import numpy as np
    from transformers import modeling_gguf_pytorch_utils as reading

    class PlainReader(gguf.GGUFReader):
        """The same of a plain array, whose slices cost a third of what those of a mapped file cost."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, np.asarray(value) if name == "data" else value)

    def counted(tensors: Iterable[Any], **_: object) -> Iterator[Any]:
        return _shown(list(tensors), f"Converting {name}, once")

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


def _shown(tensors: list[Any], label: str) -> Iterator[Any]:
    """The tensors one by one, and how far they have come where somebody looks."""
    if not sys.stderr.isatty():
        yield from tensors
        return
    with steps(label, len(tensors)) as advance:
        for tensor in tensors:
            yield tensor
            advance(1)


@contextmanager
def _replaced(module: Any, name: str, value: Callable[..., Any]) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
