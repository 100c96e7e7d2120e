"""GELU whose way back is quick on a CPU, where torch's own takes ten times as long as the way there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any, cast

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class QuickGelu(TorchFunctionMode):
    """While it is on, GELU of float32 and float64 on a CPU is x Φ(x), with torch's values to rounding.

    d/dx x Φ(x) = Φ(x) + x φ(x)

    Fewer bits would be lost in every step, where torch's own rounds once.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        exact = func is torch.nn.functional.gelu and not kwargs and len(args) == 1
        if exact and args[0].is_cpu and args[0].dtype in (torch.float32, torch.float64):
            return _Gelu.apply(args[0])  # type: ignore[no-untyped-call]
        return func(*args, **kwargs)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        below = torch.erf(x * sqrt(0.5)).add_(1).mul_(0.5)
        ctx.save_for_backward(x, below)
        return x * below

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        x, below = ctx.saved_tensors
        density = (x * x).mul_(-0.5).exp_().mul_(1 / sqrt(2 * pi))
        return cast(Tensor, density.mul_(x).add_(below).mul_(slopes[0]))
