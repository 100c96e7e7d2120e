"""From files to a transformers model: safetensors folders, GGUF files, and the int8 files that ship."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from levelhead.errors import UnknownModel
from levelhead.files import new_folder
from levelhead.models.adapter import REMOTE, AffineEdit, adapter_settings, read_adapter
from levelhead.models.catalog import SCALE, WEIGHTS_FILE
from levelhead.models.names import PICKLES

# transformers 5 builds an *empty* tokenizer, without a word, when none of these is there
VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
# the only families with next-sentence heads; a checkpoint called ...ForMaskedLM often carries one too
NEXT_SENTENCE_TYPES = ("bert", "mobilebert", "ernie", "megatron-bert", "fnet")
NEXT_SENTENCE_HEAD = "cls.seq_relationship.weight"


@dataclass(frozen=True)
class Trust:
    """What the user explicitly allowed; both can run a stranger's code."""

    pickle: bool = False
    remote_code: bool = False


@dataclass(frozen=True)
class Loaded:
    """A model and tokenizer as the files had them, and the names of weights that they lacked."""

    hf: Any
    tokenizer: Any
    missing: tuple[str, ...]
    adapter: tuple[AffineEdit, ...] = ()


def load_checkpoint(path: Path, dtype: torch.dtype, trust: Trust) -> Loaded:
    """Load a `.gguf` file, an int8 folder of ours or a `save_pretrained` folder; each failure is one line."""
    load: Callable[[Path, torch.dtype, Trust], Loaded] = _load_folder
    if path.suffix == ".gguf":
        load = _load_gguf
    elif (path / WEIGHTS_FILE).is_file():
        load = _load_int8
    with quiet():
        try:
            with panics_as_errors():
                loaded = load(path, dtype, trust)
        except UnknownModel:
            raise
        except Exception as error:  # what transformers raises on damaged files is of every kind
            raise UnknownModel(f"{path} cannot be loaded: {one_line(error)}") from error
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


def fingerprint(hf: torch.nn.Module) -> str:
    """sha256 of all weights: names, shapes, dtypes and bytes, sorted by name, tied weights once."""
    digest = hashlib.sha256()
    for name, weight in sorted(hf.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}\n".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_finite(hf: torch.nn.Module, name: str) -> None:
    """Refuse NaN and infinity: every measure would come out as NaN, or worse, as 'no difference'."""
    for key, weight in hf.named_parameters():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise UnknownModel(
                f"{name}: weight {key} holds NaN or infinite numbers as {weight.dtype}. "
                "Get the checkpoint again, or load it as float32."
            )


def one_line(error: BaseException) -> str:
    """The first line of a message that may have twenty, without its final stop."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0].strip().rstrip(".:")
    return first if len(first) <= 240 else first[:237] + "..."


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


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what transformers prints while loading, and leave its settings as they were."""
    talk: Any = transformers_logging  # its functions are not all typed
    verbosity, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity(logging.CRITICAL)
    talk.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        talk.set_verbosity(verbosity)
        if bars:
            talk.enable_progress_bar()


def _load_folder(folder: Path, dtype: torch.dtype, trust: Trust) -> Loaded:
    _check_config(folder, trust)
    safetensors = _check_weights(folder, trust)
    _check_tokenizer(folder)
    options = {"local_files_only": True, "trust_remote_code": trust.remote_code}
    beside = _config_beside_adapter(folder)
    config = beside or AutoConfig.from_pretrained(folder, **options)
    for kind in _candidate_classes(config):
        hf, info = kind.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            use_safetensors=safetensors,
            output_loading_info=True,
            **options,
        )
        if NEXT_SENTENCE_HEAD not in info["missing_keys"]:
            break
    tokenizer = AutoTokenizer.from_pretrained(folder, **options, **({"config": beside} if beside else {}))
    return Loaded(hf, tokenizer, _missing(hf, info), read_adapter(folder))


def _config_beside_adapter(folder: Path) -> Any:
    """The config of an exported folder without its remote code: the adapter does the same and runs none."""
    about = adapter_settings(folder)
    if about is None:
        return None
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in written.items() if key not in ("auto_map", "model_type", REMOTE)}
    return AutoConfig.for_model(about["model_type"], **kept)


def _load_gguf(path: Path, dtype: torch.dtype, trust: Trust) -> Loaded:
    absent = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    if absent:
        raise UnknownModel(
            f"{path.name} needs the package {' and '.join(absent)}: pip install 'levelhead[gguf]'"
        )
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UnknownModel(
                f"{path} is not a GGUF file. Give a .gguf file, or a folder with model.safetensors."
            )
    source = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    kind: Any = AutoModelForCausalLM
    hf, info = kind.from_pretrained(path.parent, dtype=dtype, output_loading_info=True, **source)
    hf.hf_quantizer.remove_quantization_config(hf)  # the weights are plain numbers now, and can be saved
    return Loaded(hf, AutoTokenizer.from_pretrained(path.parent, **source), _missing(hf, info))


def _load_int8(folder: Path, dtype: torch.dtype, trust: Trust) -> Loaded:
    _check_config(folder, trust)
    _check_safetensors(folder / WEIGHTS_FILE)
    _check_tokenizer(folder)
    options = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **options)
    state = restore_int8(load_file(folder / WEIGHTS_FILE))
    # transformers builds on the meta device, so that no random weights are drawn first, and ties the weights
    kind = _architecture(config)
    hf, info = kind.from_pretrained(
        None, config=config, state_dict=state, dtype=dtype, output_loading_info=True
    )
    wrong = sorted({*info["missing_keys"], *info["unexpected_keys"]})
    if wrong:
        raise UnknownModel(
            f"{folder / WEIGHTS_FILE} does not fit config.json: {wrong[0]}. Install levelhead again."
        )
    return Loaded(hf, AutoTokenizer.from_pretrained(folder, **options), ())


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


def _candidate_classes(config: Any) -> list[Any]:
    """Classes to try in turn: a masked model of a family with next-sentence heads may carry one unsaid."""
    kind = _architecture(config)
    if config.model_type in NEXT_SENTENCE_TYPES and kind.__name__.endswith("ForMaskedLM"):
        return [getattr(transformers, kind.__name__.replace("ForMaskedLM", "ForPreTraining")), kind]
    return [kind]


def _missing(hf: Any, info: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(set(info["missing_keys"]) - set(hf.all_tied_weights_keys)))


def _check_config(folder: Path, trust: Trust) -> None:
    path = folder / "config.json"
    if not path.is_file():
        raise UnknownModel(f"{folder} has no config.json. Give a folder written by save_pretrained.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UnknownModel(f"{path} is not valid JSON: {one_line(error)}. Get the file again.") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise UnknownModel(f"{path} names no model_type. Give a folder written by save_pretrained.")
    native = all(hasattr(transformers, name) for name in config.get("architectures") or ["?"])
    if "auto_map" in config and not (native or trust.remote_code) and adapter_settings(folder) is None:
        raise UnknownModel(
            f"{folder} brings its own code (auto_map in config.json), which levelhead does not run. "
            "Read that code, then pass trust_remote_code=True."
        )
    kernel = _foreign_kernel(config)
    if kernel is not None and not trust.remote_code:
        raise UnknownModel(
            f"{path} asks for the attention code {kernel!r}, which would be fetched and run. Take that line "
            "out, or pass trust_remote_code=True if you trust it."
        )


def _foreign_kernel(config: Mapping[str, Any]) -> str | None:
    """An attention implementation that is not part of transformers, which would be fetched from a hub."""
    for key, value in config.items():
        if isinstance(value, dict) and (kernel := _foreign_kernel(value)) is not None:
            return kernel
        if key.endswith("attn_implementation") and isinstance(value, str) and not value.isidentifier():
            return value
    return None


def _check_weights(folder: Path, trust: Trust) -> bool:
    """Are the weights safetensors? Whole ones; pickles only when allowed."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        _check_safetensors(folder / "model.safetensors")
        return True
    if index.is_file():
        for shard in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())):
            _check_safetensors(folder / shard)
        return True
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if not pickles:
        raise UnknownModel(f"{folder} has no model.safetensors. Give a folder written by save_pretrained.")
    if not trust.pickle:
        raise UnknownModel(
            f"{folder} has its weights only as a pickle ({pickles[0]}), which can run code when opened. "
            "Convert it to safetensors, or pass allow_pickle=True if you trust its maker."
        )
    return False


def _check_safetensors(path: Path) -> None:
    if not path.is_file():
        raise UnknownModel(f"{path} is missing. Get the checkpoint again.")
    try:
        with safe_open(path, "pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise UnknownModel(
            f"{path} is damaged or cut short ({one_line(error)}). Get the file again."
        ) from error


def _check_tokenizer(folder: Path) -> None:
    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise UnknownModel(
            f"{folder} has no tokenizer (tokenizer.json, vocab.txt ...). Save the model's tokenizer there."
        )


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


def give_padding(tokenizer: Any, path: Path | str) -> None:
    """Refuse a slow tokenizer, which gives no character offsets; let GPT-2 and its kin pad with their end."""
    if not getattr(tokenizer, "is_fast", False):
        kind = type(tokenizer).__name__
        raise UnknownModel(
            f"{path}: {kind} gives no character offsets. Save a fast tokenizer (tokenizer.json)."
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise UnknownModel(
            f"{path}: the tokenizer has no pad, end, start or unknown token. Give it a pad_token."
        )
