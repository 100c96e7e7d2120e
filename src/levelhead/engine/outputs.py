"""A model's own forward pass on a few texts, every output of it: what shows that two models are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from levelhead.engine.batches import Tokens, inputs
from levelhead.models.concurrency import asking
from levelhead.models.encoding import Text, encode
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model


@torch.no_grad()
def network_outputs(hf: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """All that a network returns for one batch, by name."""
    with asking(hf), at_rest(hf):
        return dict(hf(**given))


class OwnForward:
    """Some texts as one batch, and all that a network of this architecture returns for them.

    first_token=False leaves the outputs at each text's first token out.
    """

    def __init__(self, model: Model, texts: Sequence[Text], *, first_token: bool = True) -> None:
        self._inputs = inputs(model, [Tokens(row.ids, row.types) for row in encode(model, texts)])
        self._extra = {"use_cache": False} if model.family.causal else {}
        self._real = self._inputs["attention_mask"].bool()  # [text, token]
        if not first_token:
            self._real[:, 0] = False

    def outputs(self, hf: Any) -> dict[str, Tensor]:
        """Name -> values; of an output for each token only the real tokens, as [token, ...]."""
        returned = network_outputs(hf, {**self._inputs, **self._extra})
        tensors = {
            name: value
            for name, value in returned.items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return {
            name: (value[self._real] if value.shape[:2] == self._real.shape else value).float()
            for name, value in tensors.items()
        }
