"""The training loop that all three models share: AdamW, linear warm-up and decay, within a budget of
seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Budget:
    """How long to train and how fast to learn."""

    seconds: float
    peak: float  # learning rate
    warmup: float = 0.04  # share of the budget
    weight_decay: float = 0.01
    steps: float = float("inf")  # ends the training too, when it comes first


def learning_rate(done: float, peak: float, warmup: float) -> float:
    """Up to the peak in a straight line, then down to zero; done is the share of the budget that is used."""
    return peak * (done / warmup if done < warmup else max(0.0, (1 - done) / (1 - warmup)))


def adamw(model: nn.Module, budget: Budget) -> torch.optim.AdamW:
    """AdamW whose weight decay spares biases and norms."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": budget.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=budget.peak, betas=(0.9, 0.98), eps=1e-6, fused=True)


def train(model: nn.Module, loss_of: Callable[[int], Tensor], budget: Budget, report_every: int = 500) -> int:
    """Train until the budget is used; loss_of(step) is the loss of a fresh batch. Returns the number of
    steps."""
    device = next(model.parameters()).device.type
    optimizer = adamw(model, budget)
    model.train()
    start, step = time.monotonic(), 0
    while (done := max((time.monotonic() - start) / budget.seconds, step / budget.steps)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(done, budget.peak, budget.warmup)
        with autocast(device):
            loss = loss_of(step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % report_every == 0:
            print(f"step {step}, {done:.0%} of the budget, loss {loss.item():.3f}", flush=True)
    model.eval()
    return step


def autocast(device: str) -> torch.autocast:
    """bfloat16 on a GPU, float32 on a CPU."""
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
