"""The name of a neuron: counted from 0, written from 1."""

from __future__ import annotations

from typing import NamedTuple


class Neuron(NamedTuple):
    """One neuron. It indexes arrays from 0 and is written from 1: Neuron(7, 511) prints as 8-512."""

    layer: int
    neuron: int

    def __str__(self) -> str:
        return f"{self.layer + 1}-{self.neuron + 1}"
