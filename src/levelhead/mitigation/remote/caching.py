"""The cache of a model that is asked about a text at every orientation.

A new token can change an oriented text before its end: "she" is exchanged until it goes on as "shell", and
"her" is his or him by the word behind it. So rows of states are found by what they hold: a row that is run
takes the states of the longest start that some cached row shares with it, and only what follows is run. Two
orientations that are the same text share a row until a word is exchanged; all rows of a step are one batch,
padded on the left. Beams and crops change which texts are run next, and nothing else.
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


class OrientedCache(Cache):
    """The tokens that came in, and the network's states of every orientation of them."""

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
        self,
        forward: Callable[..., Any],
        rows: Sequence[Ids],
        first: Sequence[int],
        most: int,
        own: dict[str, Any],
    ) -> tuple[Any, Tensor]:
        """What the network gives the last tokens of each row, from token first[row] on at least, and log P of
        the row up to each of them, [row, token]. most: tokens before these that are run at once, whose logits
        nobody reads. own: other arguments of the network."""
        found = []  # of each row the cached row that shares the longest start with it, and that length
        for row in rows:
            longest, nearest = 0, 0
            for number, other in enumerate(self._rows):
                length = min(len(row), len(other))
                if row[:length] != other[:length]:
                    pairs = zip(row, other, strict=False)
                    length = next(i for i, (a, b) in enumerate(pairs) if a != b)
                if length > longest:  # the first of equals
                    longest, nearest = length, number
            found.append((nearest, longest))
        sources, lengths = [s for s, _ in found], [len(self._rows[s]) for s, _ in found if self._rows]
        lengths = lengths or [0] * len(rows)
        # behind the token that a cached row ends with, its logits are known; behind others they are run again
        starts = [
            min(needed, max(0, shared - (shared < length)))
            for needed, (_, shared), length in zip(first, found, lengths, strict=True)
        ]
        new = max(len(row) - start for row, start in zip(rows, starts, strict=True))
        starts = [len(row) - new for row in rows]
        unread = min(needed - start for needed, start in zip(first, starts, strict=True))
        ids = self._tensor([[*[0] * (new - len(row)), *row[-new:]] for row in rows])
        # log P of each row up to the first token that is run
        before = torch.zeros(len(rows), dtype=torch.double, device=self._device)
        if self._rows:
            source, start, held = map(self._tensor, (sources, starts, lengths))
            last = self._last[source]
            behind = (last.gather(1, ids[:, :1])[:, 0] - last.logsumexp(-1)).double()
            places = self._total.shape[1] - held + torch.minimum(start, held - 1)
            known = self._total[source, places.clamp(min=0)]
            before = torch.where(start > 0, known + torch.where(start == held, behind, 0.0), 0.0)
        kept = self._moved(sources, lengths, starts)
        width = kept.shape[1] + new
        real = self._tensor([[*[0] * (width - len(row)), *[1] * len(row)] for row in rows])
        placed = "position_ids" in signature(forward).parameters
        position = (real.cumsum(1) - 1).clamp(min=0)
        ends, logs = [*range(most, unread, most), new], list[Tensor]()
        cache = DynamicCache() if self._states is None and len(ends) > 1 else self._states
        for begin, end in zip([0, *ends], ends, strict=False):
            until = kept.shape[1] + end
            given = {**own, "past_key_values": cache, "use_cache": cache is not None}
            if placed:
                given["position_ids"] = position[:, kept.shape[1] + begin : until]
            out = forward(
                input_ids=ids[:, begin:end], attention_mask=real[:, :until], **given, return_dict=True
            )
            logits = out["logits"].to(self._device)
            following = ids[:, begin + 1 : end + 1, None]
            known = logits[:, : following.shape[1]].float()
            logs.append(known.gather(-1, following)[..., 0] - known.logsumexp(-1))
        log = torch.cat(logs, dim=1).double() * real[:, -new:-1]
        run = functional.pad(log, (1, 0)).cumsum(1) + before[:, None]
        if self.keeps:
            self._rows, self._last = list(rows), logits[:, -1].float()
            self._total = torch.cat([kept, run], dim=1)
        out["logits"] = logits[:, unread - begin :]
        return out, run[:, unread:]

    def _empty(self) -> Any:
        return DynamicCache() if self.keeps else None  # without a config: whole rows in every layer

    def _tensor(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, device=self._device)

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
