"""Values on their way from the host to a model's device."""

from __future__ import annotations

import torch
from torch import Tensor


def placed(values: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """The values on a device, in their own dtype or another.

    A copy to a card waits in the card's queue, not here: the host would stand still until all work before it
    is done, and the card while the host catches up.
    """
    if device.type == "cuda" and values.device.type == "cpu":
        values = values.pin_memory().to(device, non_blocking=True)
    return values.to(device=device, dtype=dtype or values.dtype)


def beside(values: Tensor, other: Tensor) -> Tensor:
    """The values on another tensor's device, in its dtype."""
    return placed(values, other.device, other.dtype)
