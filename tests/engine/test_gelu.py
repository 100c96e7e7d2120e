"""GELU that is quick on the way back: torch's values and slopes, to rounding."""

from __future__ import annotations

import torch
from torch.nn import functional

from levelhead.engine.gradients import QuickGelu


def test_values_and_slopes_are_torchs_up_to_rounding() -> None:
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, -40.0, 40.0])]).requires_grad_()
    weights = torch.sin(torch.arange(len(x)))
    plain = functional.gelu(x)
    (expected,) = torch.autograd.grad(plain @ weights, x)
    with QuickGelu():
        quick = functional.gelu(x)
    (slopes,) = torch.autograd.grad(quick @ weights, x)
    torch.testing.assert_close(quick, plain, rtol=1e-5, atol=1e-6)
    assert type(plain.grad_fn) is not type(quick.grad_fn)
    torch.testing.assert_close(slopes, expected, rtol=1e-5, atol=1e-6)


def test_the_approximation_by_tanh_is_left_alone() -> None:
    x = torch.linspace(-3, 3, 100).requires_grad_()
    with QuickGelu():
        found = functional.gelu(x, approximate="tanh")
    assert torch.equal(found, functional.gelu(x, approximate="tanh"))
    assert type(found.grad_fn).__name__ == "GeluBackward0"


def test_bfloat16_keeps_torchs_own_which_rounds_once() -> None:
    x = torch.linspace(-3, 3, 100, dtype=torch.bfloat16).requires_grad_()
    with QuickGelu():
        found = functional.gelu(x)
    assert torch.equal(found, functional.gelu(x))
    assert type(found.grad_fn).__name__ == "GeluBackward0"
