"""Adapters: edits that belong to a model for good, as a few kilobytes beside its weights.

    levelhead_adapter.json          where each edit acts, and which model it was made for
    levelhead_adapter.safetensors   its numbers

`levelhead.load` attaches them when it finds them. Reference: docs/method/projections.md, export.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from levelhead.edits.sites import Part, Site
from levelhead.errors import UnknownModel

PLACES, NUMBERS = "levelhead_adapter.json", "levelhead_adapter.safetensors"
REMOTE = "levelhead"  # the key of config.json that the remote code of an exported folder reads
EDITED = "Edited"  # before the names of that code's classes, which end like those that they edit
FORMAT = 1
TENSORS = ("scale", "read", "write", "offset")
WEIGHTS = "weights"  # the key of the JSON that says beside which weights the adapter was written


@dataclass(frozen=True, eq=False)
class AffineEdit:
    """Every gate, projection and linear erasure in one form, which can be stored.

        h' = s h − (h Rᵀ) W + o

    scale s: [head, 1], or [neuron]. read R and write W: [dimension, hidden]; an orthogonal projection has
    W = w R. offset o: [hidden]. At sites inside attention each has the head in front: [head, dimension, dim].
    What is None is absent.
    """

    site: Site
    scale: Tensor | None = None
    read: Tensor | None = None
    write: Tensor | None = None
    offset: Tensor | None = None

    def __call__(self, h: Tensor) -> Tensor:
        out = self.linear(h)
        return out if self.offset is None else out + self.offset.to(h)

    def linear(self, h: Tensor) -> Tensor:
        """The edit without its offset: s h − (h Rᵀ) W."""
        out = h if self.scale is None else h * self.scale.to(h)
        if self.read is None or self.write is None:
            return out
        read, write = self.read.to(h), self.write.to(h)
        if read.dim() == 2:
            return out - (h @ read.T) @ write
        return out - ((h[..., None, :] @ read.mT) @ write)[..., 0, :]

    @property
    def transposed(self) -> AffineEdit:
        """Its linear part, transposed: what happens to the weights that read h."""
        return AffineEdit(self.site, self.scale, self.write, self.read)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Its numbers by name."""
        named = ((name, getattr(self, name)) for name in TENSORS)
        return {name: value for name, value in named if value is not None}


def write_adapter(folder: Path, edits: Sequence[AffineEdit], about: Mapping[str, object]) -> None:
    """Write the two files beside weights that are there. about: what else the JSON says (model_type, ...)."""
    places = [{"layer": edit.site.layer + 1, "part": edit.site.part} for edit in edits]
    facts = {"format": FORMAT, **about, WEIGHTS: weights_hash(folder), "edits": places}
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    (folder / PLACES).write_text(text + "\n", encoding="utf-8")
    (folder / NUMBERS).write_bytes(save(_numbers(edits)))


def read_adapter(folder: str | Path) -> tuple[AffineEdit, ...]:
    """The edits that lie in a folder, () where there are none: `model.edited(*read_adapter(folder))`."""
    folder = Path(folder).expanduser()
    about = adapter_settings(folder)
    if about is None:
        return ()
    edits = []
    try:
        numbers = load_file(folder / NUMBERS)
        for i, place in enumerate(about["edits"]):
            if place["part"] not in get_args(Part) or place["part"] == "output":
                raise ValueError(f"part {place['part']!r}")
            site = Site(int(place["layer"]) - 1, place["part"])
            own = {name: numbers[f"{i}.{name}"] for name in TENSORS if f"{i}.{name}" in numbers}
            edits.append(AffineEdit(site, **own))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UnknownModel(
            f"{folder / NUMBERS} does not fit {PLACES} ({error!r}). Export the model again."
        ) from error
    if not edits or sum(len(edit.tensors) for edit in edits) != len(numbers):
        raise UnknownModel(f"{folder / NUMBERS} does not fit {PLACES}. Export the model again.")
    if about.get(WEIGHTS) != weights_hash(folder):
        raise UnknownModel(
            f"{folder / PLACES} was made for other weights than those beside it. Export the model again."
        )
    return tuple(edits)


def weights_hash(folder: Path) -> str:
    """sha256 of all tensors in a folder's safetensors files but the adapter's: names, shapes, bytes."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        if path.name == NUMBERS:
            continue
        with safe_open(path, "pt") as file:
            for name in sorted(file.keys()):
                value = file.get_tensor(name)
                digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
                digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def adapter_settings(folder: Path) -> dict[str, Any] | None:
    """What the JSON of an adapter says; None where there is no adapter."""
    path = folder / PLACES
    if not path.is_file():
        return None
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if about["format"] != FORMAT or not isinstance(about["edits"], list) or not about["model_type"]:
            raise ValueError(f"format {about['format']}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UnknownModel(
            f"{path} is not an adapter of format {FORMAT} ({error!r}). Export it again."
        ) from error
    return dict(about)


def adapter_hash(edits: Sequence[AffineEdit]) -> str:
    """sha256 of an adapter, for the fingerprint of a model that has one."""
    digest = hashlib.sha256(repr([edit.site for edit in edits]).encode())
    digest.update(save(_numbers(edits)))
    return digest.hexdigest()


def _numbers(edits: Sequence[AffineEdit]) -> dict[str, Tensor]:
    return {
        f"{i}.{name}": value.detach().cpu().float().clone().contiguous()
        for i, edit in enumerate(edits)
        for name, value in edit.tensors.items()
    }
