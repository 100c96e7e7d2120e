"""Where each architecture keeps its blocks, heads and projections: families.toml is the only
architecture-specific file.

A family is a handful of attribute paths; everything else is run by the model's own code. To add a family, add
one entry and run `pytest tests/models/test_contract.py`, which builds a tiny model of it and checks gates,
projections, gradients, variants and attention against independent computations.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from levelhead.errors import UnknownFamily

Layout = Literal["separate", "stacked", "interleaved"]


@dataclass(frozen=True)
class Family:
    """Attribute paths, relative to the base model (blocks) or to one block (the rest)."""

    blocks: str  # the ModuleList that the base model walks through
    attention: str  # the module that returns (output, weights) under eager attention
    output: str  # the output projection W^O: head gates multiply the per-head slices of its input
    qkv: tuple[str, ...]  # the query, key and value projections: three paths, or one that is fused
    rowwise: tuple[str, ...]  # modules, or chains "from>to", that treat tokens one by one
    causal: bool = False  # attends to earlier tokens only
    padding_leaks: bool = False  # padding changes the answer, so only rows of equal length share a batch
    layout: Layout = "separate"  # of a fused projection: stacked [q | k | v], interleaved (head, qkv, dim)
    joint_norm: bool = False  # one norm over the queries of all heads: a closed head's still scale the others
    down: str = ""  # the MLP's down projection: neuron gates multiply its input; "": experts share the work

    def __post_init__(self) -> None:
        if len(self.qkv) not in (1, 3) or self.layout not in get_args(Layout):
            raise ValueError(f"qkv must be 1 or 3 paths and layout one of {get_args(Layout)} (got {self}).")


def _read() -> tuple[dict[str, Family], dict[str, str]]:
    data = tomllib.loads((Path(__file__).parent / "families.toml").read_text(encoding="utf-8"))
    families: dict[str, Family] = {}
    for entry in data["family"]:
        types, qkv, rowwise = (tuple(entry.pop(name)) for name in ("types", "qkv", "rowwise"))
        families |= dict.fromkeys(types, Family(**entry, qkv=qkv, rowwise=rowwise))
    return families, data["refused"]


FAMILIES, REFUSED = _read()  # by model_type; refused is what no entry can make askable, with the reason


def unknown_family(model_type: str, reason: str) -> UnknownFamily:
    """The error for a Hugging Face `model_type` without an entry, and why none could be derived."""
    known = ", ".join(sorted(FAMILIES))
    return UnknownFamily(
        f"No family for model_type {model_type!r}, and none could be derived: {reason}. Known: {known}. Add "
        "one entry to levelhead/models/families.toml (docs/new-family.md shows how)."
    )
