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
DRIVER_WEIGHTS = ("full", "none")
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_HOSTS = ("cpu", "disk")
_MOST_CARDS, _MOST_BYTES = 1 << 16, 1 << 60
_CPU = torch.device("cpu")
Place = int | str  # a card's number, "cpu", "disk", "cuda:1"


class PlacementOptions(TypedDict, total=False):
    """What can be said about where a model lies and how much is run at once."""

    device: str | torch.device | None  # cpu, cuda, cuda:1 ...; cuda where there is one
    dtype: str | torch.dtype | None  # auto is the checkpoint's own, which models above 1 B parameters get
    device_map: str | Path | Mapping[str, Place] | None  # auto, balanced, a JSON file, or module -> device
    max_memory: str | Mapping[Place, int | str] | None  # "0=20GiB,cpu=60GiB", or device -> size
    batch_tokens: int | None  # of one batch, padding included
    workers: int | None  # processes that hold the model and share the work (Ray)
    gpus_per_worker: int | None  # cards of each; 1 where this machine's model lies on one
    ray: str | None  # address of a running cluster, or auto; none: Ray is started on this machine
    # send its files to all machines of a cluster; none: to those that do not see them
    ship_model: bool | None
    driver_weights: str | None  # full, or none: the driver reads weights from their files when it needs them


class LoadOptions(PlacementOptions, total=False):
    """The options of `levelhead.load`; the last two can run a stranger's code."""

    cache: bool  # keep what a GGUF file is converted to, and use it the next time (models/cache.py)
    allow_pickle: bool
    trust_remote_code: bool
    replay: str | Path | None  # of a model behind a server: a run whose stored answers are used in its place
    connections: int | None  # to a server, at once, at most


@dataclass(frozen=True)
class Workers:
    """How many processes share the work, with how many cards each, and where."""

    count: int
    gpus: int = 0
    address: str | None = None  # of a running Ray cluster; None: Ray is started on this machine
    ships: bool | None = None  # a model's files to all machines; None: to those which do not see them
    driver_weights: bool = True  # whether the driver holds a copy of the weights


@dataclass(frozen=True)
class Placement:
    """Checked options. None is what levelhead chooses by itself."""

    device: torch.device = _CPU
    dtype: torch.dtype | Literal["auto"] | None = None
    device_map: Literal["auto", "balanced"] | Mapping[str, Place] | None = None
    max_memory: Mapping[Place, int] | None = None
    batch_tokens: int | None = None
    workers: Workers | None = None

    @property
    def own_map(self) -> Literal["auto", "balanced"] | Mapping[str, Place] | None:
        """The device map of this process, where that of its workers is another."""
        weightless = self.workers is not None and not self.workers.driver_weights
        return {"": "disk"} if weightless else self.device_map

    def alone(self) -> Placement:
        """The same place without workers, who have the weights of the model that they were hired for only."""
        return replace(self, workers=None)


AS_IT_IS = Placement()  # of a network that is in memory already


def placement(options: PlacementOptions) -> Placement:
    """The options as one value, or one line about the first that is wrong."""
    device, device_map = options.get("device"), _device_map(options.get("device_map"))
    max_memory = _max_memory(options.get("max_memory"))
    if device is not None and device_map is not None:
        raise BadOption(
            "device must be left out with a device_map, which says where every part lies (got both)."
        )
    if max_memory is not None and device_map not in MAPS:
        raise BadOption("max_memory would change nothing without a device_map of auto or balanced. Add that.")
    place, tokens = _device(device), checked_tokens(options)
    workers = _workers(options, place.type == "cuda")
    if workers is not None and not workers.driver_weights:
        place = _CPU  # where it would run what it reads
    dtype = options.get("dtype")
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if dtype not in (None, AUTO) and (kind is None or kind not in DTYPES.values()):
        raise BadOption(f"No dtype {dtype!r}. Allowed: {', '.join(DTYPES)}, {AUTO} (the checkpoint's own).")
    return Placement(place, AUTO if dtype == AUTO else kind, device_map, max_memory, tokens, workers)


def checked_tokens(options: PlacementOptions) -> int | None:
    """The tokens of a batch that were given, None where nothing was."""
    tokens = options.get("batch_tokens")
    if tokens is not None and tokens < 1:
        raise BadOption(f"batch_tokens must be at least 1 (got {tokens}).")
    return tokens


def _workers(options: PlacementOptions, on_card: bool) -> Workers | None:
    count, gpus, address = options.get("workers"), options.get("gpus_per_worker"), options.get("ray")
    ships, weights = options.get("ship_model"), options.get("driver_weights")
    if count is None:
        given = {"gpus_per_worker": gpus, "ray": address, "ship_model": ships, "driver_weights": weights}
        if idle := [name for name, value in given.items() if value is not None]:
            raise BadOption(f"{idle[0]} would change nothing without workers. Add that, or leave it out.")
        return None
    gpus = int(on_card) if gpus is None else gpus
    if not 1 <= count <= MOST_WORKERS or not 0 <= gpus <= MOST_WORKERS:
        raise BadOption(
            f"workers must be 1 to {MOST_WORKERS}, and gpus_per_worker 0 to {MOST_WORKERS} (got "
            f"workers={count}, gpus_per_worker={gpus})."
        )
    if address not in (None, AUTO) and not re.fullmatch(r"[^\s:/]+:\d{1,5}", str(address)):
        raise BadOption(f"No Ray address {str(address)[:80]!r}. Give auto, or HOST:PORT of a cluster's head.")
    if find_spec("ray") is None:
        raise BadOption("Workers need the package ray: pip install 'levelhead[ray]'")
    if gpus and address is None and (cards := torch.cuda.device_count()) < count * gpus:
        raise BadOption(
            f"workers x gpus_per_worker must be at most {cards}, the cards of this machine (got {count} x "
            f"{gpus}). Give fewer, or the address of a cluster as ray."
        )
    if ships is not None and address is None:
        raise BadOption("ship_model would change nothing without a cluster. Give its address as ray.")
    if weights not in (None, *DRIVER_WEIGHTS):
        raise BadOption(f"driver_weights must be one of {', '.join(DRIVER_WEIGHTS)} (got {weights!r}).")
    has_accelerate = find_spec("accelerate") is not None
    if weights == "none" and not has_accelerate:
        raise BadOption("driver_weights=none needs the package accelerate: pip install 'levelhead[scale]'")
    # where the driver has no card and workers do, its own copy would only take memory
    full = weights == "full" or (weights is None and (on_card or not gpus or not has_accelerate))
    return Workers(count, gpus, address, ships, full)


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
    try:  # this machine has a device that torch knows if it can hold a number and give it back
        works = place.type != "meta" and torch.ones(1, device=place).item() == 1
    except (RuntimeError, AssertionError, NotImplementedError):  # what torch raises depends on the device
        works = False
    if not works:
        raise BadOption(f"No device {device!r} on this machine. Use cpu, or leave device out.")
    return torch.ones(1, device=place).device  # cuda is cuda:0 there


def _device_map(
    given: str | Path | Mapping[str, Place] | None,
) -> Literal["auto", "balanced"] | Mapping[str, Place] | None:
    if given is None:
        return None
    if find_spec("accelerate") is None:
        raise BadOption("A device map needs the package accelerate: pip install 'levelhead[scale]'")
    if given == "auto" or given == "balanced":
        return given  # type: ignore[return-value]  # mypy does not narrow a union by two comparisons
    places = given
    if not isinstance(places, Mapping):  # a file: {"model.embed_tokens": 0, "model.layers.0": "cpu", ...}
        path = Path(places).expanduser()
        if not path.is_file():
            raise BadOption(f"No device map {str(path)!r}. Give auto, balanced, or a JSON file of devices.")
        try:
            places = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:  # ValueError: no JSON, or a number too long
            kind = type(error).__name__
            raise BadOption(f"{path} is no JSON file ({kind}). Give module -> device.") from error
        usable = isinstance(places, dict) and all(type(place) in (int, str) for place in places.values())
        if not usable or not places:
            raise BadOption(
                f'{path} is no device map. Give module -> device: {{"model.layers.0": "cpu", ...}}.'
            )
    if any(isinstance(place, int) and not 0 <= place < _MOST_CARDS for place in places.values()):
        raise BadOption("A card's number in the device map is below 0 or too large. Give 0, 1, ... or cpu.")
    for place in {place for place in places.values() if place not in _HOSTS}:
        _device(f"cuda:{place}" if isinstance(place, int) else place)
    return dict(places)


def _max_memory(given: str | Mapping[Place, int | str] | None) -> dict[Place, int] | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = {place: size for place, _, size in (part.partition("=") for part in given.split(","))}
    sizes: dict[Place, int] = {}
    for name, size in ((str(place).strip(), str(size).strip()) for place, size in given.items()):
        number = name.removeprefix("cuda:")
        if name not in _HOSTS:
            if not number.isascii() or not number.isdigit() or len(number) > len(str(_MOST_CARDS)):
                raise BadOption(
                    f"No device {name[:80]!r} in max_memory. Write cards as numbers: 0=20GiB,cpu=60GiB."
                )
            _device(f"cuda:{number}")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)?", size)
        if match is None:
            raise BadOption(f"No size {size[:80]!r} in max_memory. Write 0=20GiB,cpu=60GiB.")
        if (size_in_bytes := float(match[1]) * _UNITS.get(match[2] or "", 1)) > _MOST_BYTES:
            raise BadOption(
                f"max_memory must be what a machine can have, such as 0=20GiB,cpu=60GiB (got {size[:80]})."
            )
        sizes[name if name in _HOSTS else int(number)] = int(size_in_bytes)
    return sizes
