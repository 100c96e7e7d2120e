"""The cache of a model that is asked about a text at every turn.

A new token can change a turned text before its end: "she" is exchanged until it goes on as "shell", and "her"
is his or him by the word behind it. So rows of states are found by what they hold: a row that is asked takes
the states of the longest start that some cached row shares with it, and only what follows is run. Two turns
that are the same text share a row until a word is exchanged; all rows of a step are one batch, padded on the
left. Beams and crops change which texts are asked next, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Cache, DynamicCache

Ids = tuple[int, ...]


class TurnedCache(Cache):
    """The tokens that came in, and the network's states of every turn of them."""

    def __init__(self, device: torch.device, keep: bool = True) -> None:
        super().__init__(layers=[])
        self._device, self.keeps = device, keep
        self.ids: Tensor | None = None  # [text, token], with padding
        self.real: Tensor | None = None  # which of them are no padding
        self._rows: list[Ids] = []  # what each row of states holds; its last token is at the last place
        self._states = self._empty()
        self._total = torch.empty(0)  # log P of a row up to each place, [row, place]
        self._last = torch.empty(0)  # logits behind each row

    # ---- what `generate` asks of a cache

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self.ids is None else self.ids.shape[1]

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._change(lambda tokens: tokens[indices.to(tokens.device)])

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._change(lambda tokens: tokens.repeat_interleave(repeats, dim=0))

    def crop(self, tokens_to_remove: int) -> None:
        self._change(lambda tokens: tokens[:, : tokens.shape[1] - abs(tokens_to_remove)])

    def reset(self) -> None:
        self.__init__(self._device, self.keeps)  # type: ignore[misc]

    def _change(self, change: Callable[[Tensor], Tensor]) -> None:
        if self.ids is not None and self.real is not None:
            self.ids, self.real = change(self.ids), change(self.real)

    def with_tokens(self, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """All tokens of the texts, with these behind those that came before."""
        if self.ids is None or self.real is None:
            return ids, real
        return torch.cat([self.ids, ids], dim=1), torch.cat([self.real, real], dim=1)

    # ---- states

    def run(
        self, forward: Callable[..., Any], rows: Sequence[Ids], first: Sequence[int], own: dict[str, Any]
    ) -> tuple[Any, Tensor]:
        """What the network gives the last tokens of each row, from token first[row] on at least, and log P of
        the row up to each of them, [row, token]. own: other arguments of the network."""
        found = [self._longest(row) for row in rows]
        sources, lengths = (
            [source for source, _ in found],
            [len(self._rows[s]) for s, _ in found if self._rows],
        )
        lengths = lengths or [0] * len(rows)
        # behind the token that a cached row ends with, its logits are known; behind others they are run again
        starts = [
            min(asked, max(0, shared - (shared < length)))
            for asked, (_, shared), length in zip(first, found, lengths, strict=True)
        ]
        new = max(len(row) - start for row, start in zip(rows, starts, strict=True))
        starts = [len(row) - new for row in rows]
        ids = self._tensor([_padded(row[-new:], new) for row in rows])
        before = self._before(ids[:, 0], sources, lengths, starts)
        kept = self._moved(sources, lengths, starts)
        real = self._tensor([_padded([1] * len(row), kept.shape[1] + new) for row in rows])
        if "position_ids" in signature(forward).parameters:
            own = {**own, "position_ids": (real.cumsum(1) - 1).clamp(min=0)[:, -new:]}
        cache = {"past_key_values": self._states, "use_cache": self.keeps}
        out = forward(input_ids=ids, attention_mask=real, **cache, **own, return_dict=True)
        out["logits"] = out["logits"].to(self._device)
        logits = out["logits"][:, :-1].float()
        log = logits.gather(-1, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
        run = functional.pad(log.double() * real[:, -new:-1], (1, 0)).cumsum(1) + before[:, None]
        if self.keeps:
            self._rows, self._last = list(rows), out["logits"][:, -1].float()
            self._total = torch.cat([kept, run], dim=1)
        return out, run

    def _empty(self) -> Any:
        return DynamicCache() if self.keeps else None  # without a config: whole rows in every layer

    def _tensor(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, device=self._device)

    def _longest(self, row: Ids) -> tuple[int, int]:
        """The cached row that shares the longest start with this one, and its length."""
        shared = [(_shared(row, other), -number) for number, other in enumerate(self._rows)]
        length, number = max(shared, default=(0, 0))
        return -number, length

    def _before(
        self, tokens: Tensor, sources: Sequence[int], lengths: Sequence[int], starts: Sequence[int]
    ) -> Tensor:
        """log P of each row up to the first token that is run."""
        if not self._rows:
            return torch.zeros(len(tokens), dtype=torch.double, device=self._device)
        source, start, length = map(self._tensor, (sources, starts, lengths))
        last = self._last[source]
        behind = (last.gather(1, tokens[:, None])[:, 0] - last.logsumexp(-1)).double()
        width = self._total.shape[1]
        known = self._total[source, (width - length + torch.minimum(start, length - 1)).clamp(min=0)]
        return torch.where(start > 0, known + torch.where(start == length, behind, 0.0), 0.0)

    def _moved(self, sources: Sequence[int], lengths: Sequence[int], starts: Sequence[int]) -> Tensor:
        """Let each row hold its source's tokens before its start, and return their totals. [row, place]"""
        width = max(0, *starts)
        if not width:
            self._states = self._empty()
            return torch.empty(len(starts), 0, dtype=torch.double, device=self._device)
        if (list(starts), list(sources)) == (list(lengths), list(range(len(self._rows)))):
            return self._total
        source, start, length = map(self._tensor, (sources, starts, lengths))
        shift = start - width + self._total.shape[1] - length
        places = (torch.arange(width, device=self._device) + shift[:, None]).clamp(min=0)
        for layer in self._states.layers:
            for name in ("keys", "values"):
                states = getattr(layer, name)
                rows = states[source.to(states.device)]
                at = places[:, None, :, None].expand(-1, rows.shape[1], -1, rows.shape[3])
                setattr(layer, name, rows.gather(2, at.to(rows.device)))
        return self._total[source].gather(1, places)


def _padded(row: Sequence[int], width: int) -> list[int]:
    return [*[0] * (width - len(row)), *row]


def _shared(row: Ids, other: Ids) -> int:
    """How many tokens two rows begin with alike."""
    most = min(len(row), len(other))
    if row[:most] == other[:most]:
        return most
    return next(i for i, (a, b) in enumerate(zip(row, other, strict=False)) if a != b)
