"""Where a model's weights lie and in which numbers: one value, from the command line to the weights."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypedDict

import torch

from levelhead.errors import BadOption

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
AUTO: Literal["auto"] = "auto"
MAPS = (AUTO, "balanced")
MOST_WORKERS = 4096
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_HOSTS = ("cpu", "disk")
_MOST_CARDS, _MOST_BYTES = 1 << 16, 1 << 60
_CPU = torch.device("cpu")
Place = int | str  # a card's number, "cpu", "disk", "cuda:1"


class PlacementOptions(TypedDict, total=False):
    """What can be said about where a model lies and how much of it is asked at once."""

    device: str | torch.device | None  # cpu, cuda, cuda:1 ...; cuda where there is one
    dtype: str | torch.dtype | None  # auto is the checkpoint's own, which models above 1 B parameters get
    device_map: str | Path | Mapping[str, Place] | None  # auto, balanced, a JSON file, or module -> device
    max_memory: str | Mapping[Place, int | str] | None  # "0=20GiB,cpu=60GiB", or device -> size
    batch_tokens: int | None  # of one batch, padding included
    workers: int | None  # processes that hold the model and share the work (Ray)
    gpus_per_worker: int | None  # cards of each; 1 where this machine's model lies on one
    ray: str | None  # address of a running cluster, or auto; none: Ray is started on this machine


class LoadOptions(PlacementOptions, total=False):
    """The options of `levelhead.load`; the last two can run a stranger's code."""

    cache: bool  # keep what a GGUF file is converted to, and use it the next time (models/cache.py)
    allow_pickle: bool
    trust_remote_code: bool


@dataclass(frozen=True)
class Workers:
    """How many processes share the work, with how many cards each, and where."""

    count: int
    gpus: int = 0
    address: str | None = None  # of a running Ray cluster; None: Ray is started on this machine


@dataclass(frozen=True)
class Placement:
    """Checked options. None is what levelhead chooses by itself."""

    device: torch.device = _CPU
    dtype: torch.dtype | Literal["auto"] | None = None
    device_map: Literal["auto", "balanced"] | Mapping[str, Place] | None = None
    max_memory: Mapping[Place, int] | None = None
    batch_tokens: int | None = None
    workers: Workers | None = None

    def alone(self) -> Placement:
        """The same place without workers, who have the weights of the model that they were hired for only."""
        return replace(self, workers=None)


AS_IT_IS = Placement()  # of a network that is in memory already


def placement(options: PlacementOptions) -> Placement:
    """The options as one value, or one line about the first that is wrong."""
    device, device_map = options.get("device"), _device_map(options.get("device_map"))
    max_memory = _max_memory(options.get("max_memory"))
    if device is not None and device_map is not None:
        raise BadOption("device and device_map came; a map says where every part lies. Leave device out.")
    if max_memory is not None and device_map not in MAPS:
        raise BadOption("max_memory would change nothing without a device_map of auto or balanced. Add that.")
    place, tokens = _device(device), checked_tokens(options)
    workers = _workers(options, place.type == "cuda")
    return Placement(place, _dtype(options.get("dtype")), device_map, max_memory, tokens, workers)


def checked_tokens(options: PlacementOptions) -> int | None:
    """The tokens of a batch that were asked for, None where nothing was."""
    tokens = options.get("batch_tokens")
    if tokens is not None and tokens < 1:
        raise BadOption(f"batch_tokens={tokens} came; a batch has at least 1 token.")
    return tokens


def _workers(options: PlacementOptions, on_card: bool) -> Workers | None:
    count, gpus, address = options.get("workers"), options.get("gpus_per_worker"), options.get("ray")
    if count is None:
        given = {"gpus_per_worker": gpus, "ray": address}
        if idle := [name for name, value in given.items() if value is not None]:
            raise BadOption(f"{idle[0]} would change nothing without workers. Add that, or leave it out.")
        return None
    gpus = int(on_card) if gpus is None else gpus
    if not 1 <= count <= MOST_WORKERS or not 0 <= gpus <= MOST_WORKERS:
        raise BadOption(
            f"workers={count}, gpus_per_worker={gpus} came; allowed are 1 to {MOST_WORKERS}, and from 0."
        )
    if address not in (None, AUTO) and not re.fullmatch(r"[^\s:/]+:\d{1,5}", str(address)):
        raise BadOption(f"No Ray address {str(address)[:80]!r}. Give auto, or HOST:PORT of a cluster's head.")
    if find_spec("ray") is None:
        raise BadOption("Workers need the package ray: pip install 'levelhead[ray]'")
    if gpus and address is None and (cards := torch.cuda.device_count()) < count * gpus:
        raise BadOption(
            f"{count} workers with gpus_per_worker={gpus} came; this machine has {cards} cards. Give fewer, "
            "or the address of a cluster as ray."
        )
    return Workers(count, gpus, address)


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | Literal["auto"] | None:
    if dtype is None or dtype == AUTO:
        return None if dtype is None else AUTO
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if kind is None or kind not in DTYPES.values():
        raise BadOption(f"No dtype {dtype!r}. Allowed: {', '.join(DTYPES)}, {AUTO} (the checkpoint's own).")
    return kind


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise BadOption(f"No device {device!r}. Allowed: cpu, cuda, cuda:0 ..., mps.") from error
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if place.type == "cuda" and (place.index or 0) >= cuda:
        raise BadOption(
            f"No device {device!r}: this machine has {cuda} CUDA devices. Use cpu, or leave device out."
        )
    if place.type == "meta" or not _works(place):
        raise BadOption(f"No device {device!r} on this machine. Use cpu, or leave device out.")
    return torch.ones(1, device=place).device  # cuda is cuda:0 there


def _works(place: torch.device) -> bool:
    """Whether this machine has a device that torch knows: it can hold a number and give it back."""
    try:
        return torch.ones(1, device=place).item() == 1
    except (RuntimeError, AssertionError, NotImplementedError):  # what torch raises depends on the device
        return False


def _device_map(
    given: str | Path | Mapping[str, Place] | None,
) -> Literal["auto", "balanced"] | Mapping[str, Place] | None:
    if given is None:
        return None
    if find_spec("accelerate") is None:
        raise BadOption("A device map needs the package accelerate: pip install 'levelhead[scale]'")
    if given == "auto" or given == "balanced":
        return given  # type: ignore[return-value]  # mypy does not narrow a union by two comparisons
    places = given if isinstance(given, Mapping) else _map_file(Path(given))
    if any(isinstance(place, int) and not 0 <= place < _MOST_CARDS for place in places.values()):
        raise BadOption("A card's number in the device map is below 0 or too large. Give 0, 1, ... or cpu.")
    for place in {place for place in places.values() if place not in _HOSTS}:
        _device(f"cuda:{place}" if isinstance(place, int) else place)
    return dict(places)


def _map_file(path: Path) -> dict[str, Place]:
    """The map that lies in a file: {"model.embed_tokens": 0, "model.layers.0": "cpu", ...}."""
    path = path.expanduser()
    if not path.is_file():
        raise BadOption(f"No device map {str(path)!r}. Give auto, balanced, or a JSON file of devices.")
    try:
        places = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no JSON, or a number too long
        raise BadOption(f"{path} is no JSON file ({type(error).__name__}). Give module -> device.") from error
    usable = isinstance(places, dict) and all(type(place) in (int, str) for place in places.values())
    if not usable or not places:
        raise BadOption(f'{path} is no device map. Give module -> device: {{"model.layers.0": "cpu", ...}}.')
    return dict(places)


def _max_memory(given: str | Mapping[Place, int | str] | None) -> dict[Place, int] | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = {place: size for place, _, size in (part.partition("=") for part in given.split(","))}
    return {_memory_place(str(place).strip()): _bytes(str(size).strip()) for place, size in given.items()}


def _memory_place(name: str) -> Place:
    if name in _HOSTS:
        return name
    number = name.removeprefix("cuda:")
    if not number.isascii() or not number.isdigit() or len(number) > len(str(_MOST_CARDS)):
        raise BadOption(f"No device {name[:80]!r} in max_memory. Write cards as numbers: 0=20GiB,cpu=60GiB.")
    _device(f"cuda:{number}")
    return int(number)


def _bytes(size: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)?", size)
    if match is None:
        raise BadOption(f"No size {size[:80]!r} in max_memory. Write 0=20GiB,cpu=60GiB.")
    if (size_in_bytes := float(match[1]) * _UNITS.get(match[2] or "", 1)) > _MOST_BYTES:
        raise BadOption(f"{size[:80]} came in max_memory; no machine has so much. Write 0=20GiB,cpu=60GiB.")
    return int(size_in_bytes)
