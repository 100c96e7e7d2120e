"""The models that ship inside the package: what they are, without loading them and without torch."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from pathlib import Path

from levelhead.errors import UnknownModel

EMBEDDED = Path(__file__).parent / "embedded"
WEIGHTS_FILE = "weights-int8.safetensors"
SCALE = ".scale"  # NAME.scale holds one float32 scale a row of NAME
PREFIX = "lh:"
WEIGHTS_LICENSE = "CC BY-SA 4.0"  # part of their text and SNLI are share-alike; the code is Apache-2.0


@dataclass(frozen=True)
class ShippedModel:
    """One model of the package, as `levelhead models` lists it."""

    name: str  # "lh:bert-mini"
    architecture: str  # the transformers class
    layers: int
    heads: int
    width: int
    parameters: int  # tied weights counted once
    license: str
    card: Path

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return self.card.parent

    @property
    def shape(self) -> str:
        """The shape as people write it."""
        return f"{self.layers} layers × {self.heads} heads × {self.width}"


def list_shipped() -> list[ShippedModel]:
    """All shipped models, by name."""
    return [_describe(path.parent) for path in sorted(EMBEDDED.glob(f"*/{WEIGHTS_FILE}"))]


def find_shipped(name: str) -> ShippedModel:
    """The shipped model called `name` ("lh:bert-mini"); an unknown name is told the nearest one."""
    known = {model.name: model for model in list_shipped()}
    if name in known:
        return known[name]
    raise UnknownModel(f"No shipped model {name!r}.{suggestion(name)} Shipped: {', '.join(known)}.")


def suggestion(name: str) -> str:
    """' Did you mean lh:bert-mini?', or nothing when no shipped name is near."""
    bare = {model.name.removeprefix(PREFIX): model.name for model in list_shipped()}
    near = get_close_matches(name.removeprefix(PREFIX).lower(), bare, n=1, cutoff=0.5)
    return f" Did you mean {bare[near[0]]}?" if near else ""


def _describe(folder: Path) -> ShippedModel:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    is_gpt2 = config["model_type"] == "gpt2"  # the one family here that abbreviates its shape
    layers, heads, width = ("n_layer", "n_head", "n_embd") if is_gpt2 else _BERT_SHAPE
    return ShippedModel(
        name=PREFIX + folder.name,
        architecture=config["architectures"][0],
        layers=config[layers],
        heads=config[heads],
        width=config[width],
        parameters=_count_parameters(folder / WEIGHTS_FILE),
        license=WEIGHTS_LICENSE,
        card=folder / "README.md",
    )


_BERT_SHAPE = ("num_hidden_layers", "num_attention_heads", "hidden_size")


def _count_parameters(path: Path) -> int:
    """Sum of sizes in the safetensors header: eight bytes of length, then JSON."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return sum(
        prod(t["shape"]) for key, t in header.items() if key != "__metadata__" and not key.endswith(SCALE)
    )
