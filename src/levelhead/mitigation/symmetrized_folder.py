"""A symmetrized model as a folder: weights, and code that asks them at every turn of the groups and mixes the
answers without levelhead (remote/modeling_symmetrized.py)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Edit, Variant
from levelhead.edits.symmetry import Coined, Symmetrized, coin_of, symmetry_of
from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.outputs import network_outputs
from levelhead.engine.readings import Pooled, SentenceVectors, TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.token_classes import token_classes
from levelhead.mitigation.adapter_folder import write_remote
from levelhead.models.adapter import REMOTE
from levelhead.models.encoding import Text, encode, token_id
from levelhead.models.model import Model
from levelhead.probes.group_swap import GroupSwap, RowSwap

_TEMPLATE = "modeling_symmetrized.py"
_GENERATED, _ROUNDS = 16, 3  # tokens of a generation that is timed, and how often
_SHOWN = 5  # words that are named among those that cannot be exchanged in predictions


def without_exchange(edits: Sequence[Edit]) -> tuple[GroupSwap | None, tuple[Edit, ...]]:
    """The exchange of groups among edits, by coin or not, and the other edits."""
    symmetry, coin = symmetry_of(tuple(edits)), coin_of(tuple(edits))
    swap = symmetry.swap if symmetry is not None else coin.coin.swap if coin is not None else None
    return swap, tuple(edit for edit in edits if not isinstance(edit, Symmetrized | Coined))


def write_symmetrized(model: Model, swap: GroupSwap, folder: Path) -> None:
    """Code beside weights that are there."""
    write_remote(
        model,
        folder,
        _TEMPLATE,
        {
            "words": swap.name,
            "rows": [list(row) for row in swap.rows] if isinstance(swap, RowSwap) else None,
            "classes": [[list(group) for group in each] for each in token_classes(model, swap).classes],
            "causal": "causal" in model.abilities,
            "vocabulary": int(model.config.vocab_size),
            "coin": None,
            "opening": None if model.opening.tokens is None else list(model.opening.tokens),
            "own_opening": model.opening.own,
        },
    )


def set_coin(folder: Path, seed: int) -> None:
    """Let one turn be asked, which a coin of this seed decides for each text."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config[REMOTE]["coin"] = seed
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def unaligned(model: Model, swap: GroupSwap) -> str:
    """Which words cannot be exchanged in predictions, counted; empty where all can."""
    split = token_classes(model, swap).split
    if not split:
        return ""
    named = ", ".join(split[:_SHOWN]) + (" ..." if len(split) > _SHOWN else "")
    return (
        f"{len(split)} words of {swap.name}, or their counterparts, are several tokens here ({named}): they "
        "are exchanged in texts, not in predictions."
    )


def _sentence(word: str) -> str:
    return f"The {word} said that it was late."


def _first(out: Mapping[str, Any], *names: str) -> Tensor:
    """The output under the first of these names that a network returns."""
    found: Tensor = next(out[name] for name in names if name in out)
    return found


def _ratio(works: Sequence[Callable[[], object]]) -> float:
    """Wall time of the second relative to the first."""
    times = []
    for _ in range(_ROUNDS):
        marks = [perf_counter()]
        for work in works:
            work()
            marks.append(perf_counter())
        times.append(np.diff(marks))
    one, other = np.median(times, axis=0)
    return float(other / one)


class SymmetryProof:
    """A few texts that show whether a reloaded folder answers as the symmetrized model in memory does."""

    def __init__(self, model: Model, swap: GroupSwap) -> None:
        self._model = model
        kept = token_classes(model, swap).classes
        self._tokens = sorted({token for groups in kept[:20] for group in groups for token in group})
        # others are shared out over their tokens in memory, which no network does
        single = [groups for groups in swap.classes() if all(len(group) == 1 for group in groups)]
        rows = [[min(group) for group in groups] for groups in single]
        plain = [row for row in rows if swap(_sentence(row[0])).text == _sentence(row[1])]
        whole = [row for row in plain if all(token_id(model, word) is not None for word in row)]
        self._words = [row[0] for row in whole or plain][:4]

    def expected(self, variant: Variant) -> list[NDArray[np.float64]]:
        """What the model in memory answers, for each kind of answer that it gives."""
        model, found = self._model, []
        if "mlm" in model.abilities and self._tokens:
            found.append(read_one(model, TokenLogProbs(self._blanks, self._tokens), [variant])[0])
        if "causal" in model.abilities:
            scores = read_one(model, TokenLikelihoods(self._sentences), [variant])
            found.append(np.asarray([float(np.sum(own)) for own in scores.values[0]]))
        if model.classification_head is not None:
            logits = torch.tensor(
                read_one(model, Pooled(self._pairs), [variant])[0]
            )  # a copy: it is read-only
            found.append(logits.log_softmax(-1).numpy())
        if not found:
            found.append(read_one(model, SentenceVectors(self._sentences), [variant])[0])
        return [np.asarray(each, np.float64) for each in found]

    def answered(self, hf: Any) -> list[NDArray[np.float64]]:
        """The same from a network's own forward pass."""
        model, found = self._model, []
        if "mlm" in model.abilities and self._tokens:
            logs, batch = self._logs(hf, self._blanks)
            places = batch["input_ids"] == model.tokenizer.mask_token_id
            found.append(logs[places][:, self._tokens])
        if "causal" in model.abilities:
            logs, batch = self._logs(hf, self._sentences)
            ids, real = batch["input_ids"][:, 1:, None], batch["attention_mask"][:, 1:]
            found.append((logs[:, :-1].gather(-1, ids)[..., 0] * real).sum(1))
        if model.classification_head is not None:
            out, _ = self._out(hf, self._pairs)
            found.append(_first(out, "seq_relationship_logits", "logits").log_softmax(-1))
        if not found:
            out, _ = self._out(hf, self._sentences)
            own = [row.part != -1 for row in encode(model, self._sentences)]
            states = zip(out["last_hidden_state"], own, strict=True)
            found.append(torch.stack([h[: len(o)][torch.from_numpy(o)].mean(0) for h, o in states]))
        return [each.double().cpu().numpy() for each in found]

    def slower(self, hf: Any) -> tuple[float, float | None]:
        """How many times as long as the model itself a network takes for an answer, and for a generated token
        of a causal one: wall time in turn, medians."""
        asked = [partial(self.answered, network) for network in (self._model.hf, hf)]
        if "causal" not in self._model.abilities:
            return _ratio(asked), None
        first = Text(_sentence((self._words or ["nurse"])[0]))
        batch = inputs(self._model, [Tokens(row.ids, row.types) for row in encode(self._model, [first])])
        given = {name: batch[name] for name in ("input_ids", "attention_mask")}
        length = {"max_new_tokens": _GENERATED, "min_new_tokens": _GENERATED, "do_sample": False}
        written = [partial(each.generate, **given, **length) for each in (self._model.hf, hf)]
        return _ratio(asked), _ratio(written)

    def _logs(self, hf: Any, texts: Sequence[Text]) -> tuple[Tensor, dict[str, Tensor]]:
        out, batch = self._out(hf, texts)
        return _first(out, "prediction_logits", "logits").log_softmax(-1), batch

    def _out(self, hf: Any, texts: Sequence[Text]) -> tuple[dict[str, Any], dict[str, Tensor]]:
        batch = inputs(self._model, [Tokens(row.ids, row.types) for row in encode(self._model, texts)])
        return network_outputs(hf, batch), batch

    @property
    def _blanks(self) -> list[Text]:
        mask = self._model.tokenizer.mask_token
        return [Text(f"The {word} said that {mask} was tired.") for word in ("nurse", *self._words)]

    @property
    def _sentences(self) -> list[Text]:
        return [Text(_sentence(word)) for word in ("nurse", *self._words)]

    @property
    def _pairs(self) -> list[Text]:
        return [Text(f"The {word} is here.", f"The {word} is a nurse.") for word in ("nurse", *self._words)]
