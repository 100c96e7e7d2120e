"""Other weights in a live network for a while: no number is copied over another, so none can be lost.

A parameter keeps its identity and its own numbers; inside the `with` it only points to other ones. So tied
parameters stay tied, hooks stay where they are, and afterwards the network is bit for bit the one that was
loaded: workers may answer for it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from levelhead.edits.weights import Reweighted
from levelhead.errors import BadOption


@contextmanager
def reweighted(network: nn.Module, changes: Sequence[Reweighted]) -> Iterator[None]:
    """The network with these weights; with its own again afterwards, also after an exception."""
    found = [
        (_parameter(network, change, name), value)
        for change in changes
        for name, value in change.values.items()
    ]
    own = {id(weight): (weight, weight.data) for weight, _ in found}
    try:
        for weight, value in found:
            weight.data = value.detach().to(weight.device, weight.dtype).contiguous()
        yield
    finally:
        for weight, numbers in own.values():
            weight.data = numbers


def _parameter(network: nn.Module, change: Reweighted, name: str) -> nn.Parameter:
    try:
        weight = network.get_parameter(name)
    except AttributeError:
        raise BadOption(
            f"{change.name}: {type(network).__name__} has no parameter {name!r}. Give names as its "
            "named_parameters() has them."
        ) from None
    if weight.is_meta or not weight.is_floating_point():
        raise BadOption(
            f"{change.name}: the numbers of {name} cannot be exchanged. Load the model in floats."
        )
    if weight.shape != change.values[name].shape:
        raise BadOption(
            f"{change.name}: {name} has shape {tuple(weight.shape)}; {tuple(change.values[name].shape)} came."
        )
    return weight
