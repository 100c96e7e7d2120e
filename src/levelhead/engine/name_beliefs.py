"""The genders of names that no table has, as a model sees them (probes/name_beliefs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levelhead.engine.readings import Reading, TokenLogProbs
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model
from levelhead.probes.group_swap import GenderSwap, GroupSwap
from levelhead.probes.name_beliefs import KNOWN, WORDS, belief_texts, believed, strange_names

Ask = Callable[[Sequence[Reading[Any]]], list[Any]]  # readings to a model in some variants -> their answers


def believing(model: Model, swap: GroupSwap, texts: Sequence[Text | str], ask: Ask) -> GroupSwap:
    """The swap with the genders of names in these texts that no table has, as the unmodified model sees them.

    ask: evaluates readings on the unmodified model.
    """
    if not isinstance(swap, GenderSwap) or not swap.names or not model.abilities & {"mlm", "causal"}:
        return swap
    names = strange_names(part for text in map(Text.of, texts) for part in (text.first, text.second) if part)
    tokens = [token for word in WORDS if (token := token_id(model, word)) is not None]
    if not names or len(tokens) < len(WORDS):
        return swap
    blank = "" if "causal" in model.abilities else model.tokenizer.mask_token
    (log_p,) = ask([TokenLogProbs(belief_texts([*KNOWN, *names], blank), tokens)])  # [variant, text, token]
    known, own = np.split(log_p[0, :, 0] - log_p[0, :, 1], [len(belief_texts(KNOWN))])
    return replace(swap, believed=believed(names, known, own))
