"""From files to a transformers model: safetensors folders, GGUF files, and the int8 files that ship."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from levelhead.errors import BadOption, CannotDo, LevelheadError, UnknownModel
from levelhead.files import new_folder
from levelhead.models.adapter import EDITED, REMOTE, AffineEdit, adapter_settings, read_adapter
from levelhead.models.catalog import SCALE, WEIGHTS_FILE
from levelhead.models.checkpoint_files import (
    Trust,
    check_config,
    check_safetensors,
    check_tokenizer,
    give_padding,
    one_line,
    weight_files,
)
from levelhead.models.concurrency import Together
from levelhead.models.foreign_code import check_foreign, without_kernels
from levelhead.models.gguf import check_memory, checked_header, convert
from levelhead.models.gguf_header import GgufHeader
from levelhead.models.gguf_kept import converted
from levelhead.models.opening import NOTHING_DECLARED, Declared, folder_declares, gguf_declares
from levelhead.models.placement import AUTO, Placement
from levelhead.models.weights import count_parameters, weight_names

# the only families with next-sentence heads; a checkpoint called ...ForMaskedLM often carries one too
NEXT_SENTENCE_TYPES = ("bert", "mobilebert", "ernie", "megatron-bert", "fnet")
NEXT_SENTENCE_HEAD = "cls.seq_relationship.weight"
LARGE = 10**9  # parameters; a model with more is read in its own numbers unless others are asked for


class _Places(TypedDict, total=False):
    """Arguments of from_pretrained that say where weights go as they are read."""

    device_map: str | Mapping[str, int | str]
    max_memory: Mapping[int | str, int]
    offload_folder: str


@dataclass(frozen=True)
class Loaded:
    """A model and tokenizer as the files had them, and the names of weights that they lacked."""

    hf: Any
    tokenizer: Any
    missing: tuple[str, ...]
    adapter: tuple[AffineEdit, ...] = ()
    files: tuple[Path, ...] = ()  # safetensors that hold the weights
    gguf: Mapping[str, object] = field(default_factory=dict)  # texts and numbers of a GGUF file's header
    declared: Declared = NOTHING_DECLARED  # of how texts open


def load_checkpoint(path: Path, placement: Placement, trust: Trust, cache: bool = True) -> Loaded:
    """Load a `.gguf` file, an int8 folder of ours or a `save_pretrained` folder; each failure is one line.

    cache: keep what a GGUF file is converted to, and use what was kept.
    """
    load: Callable[[Path, Placement, Trust], Loaded] = _load_folder
    if path.suffix == ".gguf":
        load = partial(_load_gguf, cache=cache)
    elif (path / WEIGHTS_FILE).is_file():
        load = _load_int8
    with quiet():
        try:
            with panics_as_errors(), without_kernels(trust):
                check_foreign(path, trust)
                loaded = load(path, placement, trust)
        except LevelheadError:
            raise
        except torch.OutOfMemoryError as error:
            raise CannotDo(
                f"{path} does not fit into the memory of {placement.device}. --dtype bfloat16, --device-map "
                "auto (parts of it wait on the host or on disk) or another device would help."
            ) from error
        except Exception as error:  # what transformers raises on damaged files is of every kind
            found = isinstance(placement.device_map, str)  # by transformers, which fails on some networks
            hint = ". Give --device-map a file where no map can be found" if found else ""
            raise UnknownModel(f"{path} cannot be loaded: {one_line(error)}{hint}") from error
    _check_network(loaded, path)
    give_padding(loaded.tokenizer, path)
    return loaded


def restore_int8(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The float32 weights of an int8 file.

    weight = int8 × scale[:, None] where NAME.scale exists; what was stored as float16 is widened.
    """
    weights = {}
    for name, value in stored.items():
        if name.endswith(SCALE):
            continue
        scale = stored.get(name + SCALE)
        weights[name] = value.float() if scale is None else value.float() * scale[:, None]
    return weights


@contextmanager
def new_model_folder(target: str | Path) -> Iterator[Path]:
    """A folder to save a model in, which appears whole or not at all, and quietly.

    safetensors has an error of its own for a full disk; here it is one line like that of any other file.
    """
    with new_folder(target) as work, quiet():
        try:
            yield work
        except SafetensorError as error:
            raise OSError(0, one_line(error)) from error


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Let a panic of a library in Rust (tokenizers), which is no Exception, be an error like any other."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # the class cannot be imported
            raise RuntimeError(one_line(error)) from error
        raise


def _silence() -> Callable[[], None]:
    """Silence what transformers and accelerate print while loading; what comes back undoes it."""
    talk: Any = transformers_logging  # its functions are not all typed
    maps = logging.getLogger("accelerate.big_modeling")
    level = maps.level
    maps.setLevel(logging.CRITICAL)
    verbosity, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity(logging.CRITICAL)
    talk.disable_progress_bar()
    unheard = warnings.catch_warnings()
    unheard.__enter__()
    warnings.simplefilter("ignore")

    def undo() -> None:
        unheard.__exit__(None, None, None)
        maps.setLevel(level)
        talk.set_verbosity(verbosity)
        if bars:
            talk.enable_progress_bar()

    return undo


quiet = Together(_silence)  # `with quiet(): ...`, in any number of threads


def _load_folder(folder: Path, placement: Placement, trust: Trust) -> Loaded:
    is_quantized = check_config(folder)
    files = weight_files(folder, trust)
    check_tokenizer(folder)
    own = {"local_files_only": True, "trust_remote_code": trust.remote_code}
    beside = _config_beside_adapter(folder)
    config = beside or AutoConfig.from_pretrained(folder, **own)
    parameters = count_parameters(files) or sum(f.stat().st_size for f in folder.glob("*.bin")) // 4
    dtype = placement.dtype or (AUTO if is_quantized or parameters > LARGE else torch.float32)
    options = {"dtype": dtype, "use_safetensors": bool(files), "output_loading_info": True, **own}
    with _placing(placement) as places:
        for kind in _candidate_classes(config, files):
            hf = None  # of two classes that are tried, one is in memory at a time
            hf, info = kind.from_pretrained(folder, config=config, **places, **options)
            if NEXT_SENTENCE_HEAD not in info["missing_keys"]:
                break
    _forget_offloaded(hf, places)
    tokenizer = AutoTokenizer.from_pretrained(folder, **own, **({"config": beside} if beside else {}))
    about = _missing(hf, info["missing_keys"]), read_adapter(folder), files
    return Loaded(hf, tokenizer, *about, declared=folder_declares(folder))


@contextmanager
def _placing(placement: Placement) -> Iterator[_Places]:
    """Where transformers puts weights as it reads them, so that they are in memory once.

    Without accelerate, which is needed for that, they are read first and moved then, one after the other.
    """
    if placement.device_map is None:
        direct = placement.device.type != "cpu" and find_spec("accelerate") is not None
        yield {"device_map": {"": str(placement.device)}} if direct else {}
        return
    folder = tempfile.mkdtemp(prefix="levelhead-offload-")
    places: _Places = {"device_map": placement.device_map, "offload_folder": folder}
    try:
        yield {**places, "max_memory": dict(placement.max_memory)} if placement.max_memory else places
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _forget_offloaded(hf: Any, places: _Places) -> None:
    """Take the folder of weights that wait on disk away when the network goes."""
    if "offload_folder" in places:
        weakref.finalize(hf, shutil.rmtree, places["offload_folder"], ignore_errors=True)


def _config_beside_adapter(folder: Path) -> Any:
    """The config of an exported folder without its remote code: the adapter does the same and runs none."""
    about = adapter_settings(folder)
    if about is None:
        return None
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in written.items() if key not in ("auto_map", "model_type", REMOTE)}
    kept["architectures"] = [name.removeprefix(EDITED) for name in kept.get("architectures") or ()]
    return AutoConfig.for_model(about["model_type"], **kept)


def _load_gguf(path: Path, placement: Placement, trust: Trust, cache: bool) -> Loaded:
    """From the folder that it was converted to, which is made where there is none yet."""
    header = checked_header(path)
    dtype = _gguf_dtype(header, placement)
    check_memory(path, header, dtype)
    placed = replace(placement, dtype=dtype)
    held = converted(path, header, dtype) if cache else None
    if held is not None:
        loaded = _load_folder(held.folder, placed, Trust())
        weakref.finalize(loaded.hf, held.release)  # a device map may leave weights in those files
    else:
        with _placing(placed) as places:
            hf, tokenizer, info = convert(path, dtype, places)
        _forget_offloaded(hf, places)
        loaded = Loaded(hf, tokenizer, _missing(hf, info["missing_keys"]))
    return replace(loaded, gguf=header.metadata, declared=gguf_declares(header.metadata))


def _gguf_dtype(header: GgufHeader, placement: Placement) -> torch.dtype:
    """The dtype for a GGUF file. Quantized blocks have none of their own; bfloat16 is as fine as they are."""
    if isinstance(placement.dtype, torch.dtype):
        return placement.dtype
    is_large = header.parameters > LARGE
    return torch.bfloat16 if not header.is_plain and (is_large or placement.dtype == AUTO) else torch.float32


def _load_int8(folder: Path, placement: Placement, trust: Trust) -> Loaded:
    if placement.device_map is not None:
        raise BadOption("A shipped model is small and lies on one device. Leave the device map out.")
    check_config(folder)
    check_safetensors(folder / WEIGHTS_FILE)
    check_tokenizer(folder)
    options = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **options)
    state = restore_int8(load_file(folder / WEIGHTS_FILE))
    # transformers builds on the meta device, so that no random weights are drawn first, and ties the weights
    kind = _architecture(config)
    dtype = torch.float32 if placement.dtype in (None, AUTO) else placement.dtype
    hf, info = kind.from_pretrained(
        None, config=config, state_dict=state, dtype=dtype, output_loading_info=True
    )
    wrong = sorted({*info["missing_keys"], *info["unexpected_keys"]})
    if wrong:
        raise UnknownModel(
            f"{folder / WEIGHTS_FILE} does not fit config.json: {wrong[0]}. Install levelhead again."
        )
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    return Loaded(hf.to(placement.device), tokenizer, ())


def _architecture(config: Any) -> Any:
    """The class that the checkpoint says it is; AutoModel (no heads) when it does not say."""
    for name in config.architectures or ():
        kind = getattr(transformers, name, None)
        if isinstance(kind, type) and issubclass(kind, PreTrainedModel):
            return kind
    for name in getattr(config, "auto_map", None) or ():  # only here when remote code was allowed
        if name.startswith("AutoModelFor"):
            return getattr(transformers, name)
    return AutoModel


def _candidate_classes(config: Any, files: Sequence[Path]) -> list[Any]:
    """Classes to try in turn: a masked model of a family with next-sentence heads may carry one unsaid.

    Safetensors say by their names whether it does.
    """
    kind = _architecture(config)
    if config.model_type not in NEXT_SENTENCE_TYPES or not kind.__name__.endswith("ForMaskedLM"):
        return [kind]
    judging = getattr(transformers, kind.__name__.replace("ForMaskedLM", "ForPreTraining"))
    if not files:
        return [judging, kind]
    return [judging if NEXT_SENTENCE_HEAD in weight_names(files) else kind]


def _missing(hf: Any, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(keys) - set(hf.all_tied_weights_keys)))


def _check_network(loaded: Loaded, path: Path) -> None:
    """Heads may be new; a network whose own weights were never loaded measures nothing."""
    hf = loaded.hf
    prefix = "" if hf.base_model is hf else hf.base_model_prefix + "."
    inner = [name for name in loaded.missing if name.startswith(prefix) and "pooler" not in name]
    if inner:
        raise UnknownModel(
            f"{path} lacks {len(inner)} weights of {type(hf).__name__}, first {inner[0]}: they would be "
            "random. Check that config.json and the weights belong together."
        )
