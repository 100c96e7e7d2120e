"""How many tokens of a batch fit: what one costs is measured once for each kind of work, and what is free.

    tokens = (share of free memory − what any batch costs) / what one more token costs

Both costs come from the peaks of two small probes of different size, with what a walk through variants holds
at its deepest. Where the host's memory is used, or tokens were asked for, nothing is measured.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.gated import HEADS, gated_blocks
from levelhead.engine.trunk import Trunk
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model

Work = Literal["answers", "gradients"]
KINDS: tuple[Work, ...] = ("answers", "gradients")
CPU_TOKENS, GPU_TOKENS = 2048, 65536  # rows x longest row; larger batches were not faster on either
_ROWS = (2, 8)  # of the two probes
_LENGTH = 32  # tokens of a row
# the rest is for what the probes do not see: logits of the vocabulary, longer rows, gaps between allocations
_SHARE = 0.8


def token_budget(model: Model, work: Work) -> int:
    """How many tokens, padding included, go into one batch: as told, else as many as fit."""
    with asking(model.hf):
        if work not in model.fitting_tokens:
            model.fitting_tokens[work] = known_budget(model, work) or _measured(model, work)
        return model.fitting_tokens[work]


def known_budget(model: Model, work: Work) -> int | None:
    """The tokens of a batch without measuring; None on a card where nothing has been measured yet."""
    told = model.fitting_tokens.get(work) or model.placement.batch_tokens
    return told or (None if model.device.type == "cuda" else CPU_TOKENS)


def shared_budget(model: Model, work: Work) -> int | None:
    """The tokens of a batch that goes to a worker; None where none has gone yet."""
    return model.fitting_tokens.get(f"{work} of workers")


def keep_shared_budget(model: Model, work: Work, tokens: int) -> int:
    """Keep what a worker has measured, beside what fits here."""
    return model.fitting_tokens.setdefault(f"{work} of workers", tokens)


def fitting_tokens(free: int, peaks: tuple[int, int], sizes: tuple[int, int]) -> int:
    """The tokens that fit into so many free bytes, if batches of two sizes had these peaks."""
    token = max(1.0, (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]))
    fixed = max(0.0, peaks[0] - token * sizes[0])
    return int(max(1.0, min(GPU_TOKENS, (_SHARE * free - fixed) / token)))


def _measured(model: Model, work: Work) -> int:
    length = min(_LENGTH, model.max_tokens or _LENGTH)
    cards = _cards(model)
    try:
        _probe(model, work, 1, length)  # libraries take their own memory at their first call
        small, large = (_peaks(model, work, rows, length, cards) for rows in _ROWS)
    except torch.OutOfMemoryError:
        return length  # one row after the other; what cannot be run at all is said where it is asked
    sizes = (_ROWS[0] * length, _ROWS[1] * length)
    return min(fitting_tokens(free_bytes(card), (small[card], large[card]), sizes) for card in cards)


def _cards(model: Model) -> list[torch.device]:
    places = {model.device, *(weight.device for weight in model.hf.parameters())}
    return sorted((place for place in places if place.type == "cuda"), key=str)


def _peaks(
    model: Model, work: Work, rows: int, length: int, cards: list[torch.device]
) -> dict[torch.device, int]:
    """What a probe needs on each card beside what is there already, in bytes."""
    before = {card: torch.cuda.memory_allocated(card) for card in cards}
    for card in cards:
        torch.cuda.reset_peak_memory_stats(card)
    _probe(model, work, rows, length)
    return {card: torch.cuda.max_memory_allocated(card) - before[card] for card in cards}


def free_bytes(card: torch.device) -> int:
    """What this process may still take of a card, a cap of set_per_process_memory_fraction included."""
    free, total = torch.cuda.mem_get_info(card)
    taken = torch.cuda.memory_allocated(card)
    cap = int(total * torch.cuda.get_per_process_memory_fraction(card))
    return min(free + torch.cuda.memory_reserved(card) - taken, cap - taken)


def _probe(model: Model, work: Work, rows: int, length: int) -> None:
    """The work on rows of one token, again and again."""
    row = Tokens(np.full(length, 3 % int(model.config.vocab_size), np.int64), None)
    trunk, batch = Trunk(model), inputs(model, [row] * rows)
    with at_rest(model.hf):
        if work == "answers":
            with torch.inference_mode():
                plan = trunk.plan(batch)
                states = [plan.hidden]  # a walk through variants holds one at every layer where they part
                for layer in range(model.layers):
                    states.append(trunk.block(plan, layer, states[-1]))
            return
        with torch.no_grad():
            plan = trunk.plan(batch)
        gates = [
            torch.ones(rows, model.heads, device=model.device, requires_grad=True)
            for _ in range(model.layers)
        ]
        first = torch.arange(rows, device=model.device) * length
        with torch.enable_grad():
            out = gated_blocks(trunk, plan, HEADS, gates, first, recompute=model.waits_on_host)
        torch.autograd.grad(out[:, 0].float().sum(), gates)
