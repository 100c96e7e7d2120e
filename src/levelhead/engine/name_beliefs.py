"""Which gender a model takes a first name to have that is in no table.

    s(name) = mean over frames of log p(she) − log p(he)
    logit p(feminine | name) = (μ_F − μ_M) / σ² · ( s(name) − ½ (μ_F + μ_M) )

μ and the pooled σ are those of known names, so that p is calibrated: a model that says "he" more often in
general, or that is never sure, is measured on its own scale. Below a certainty of 0.9 a name counts as
stating no gender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levelhead.engine.readings import Reading, TokenLogProbs
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model
from levelhead.probes.group_swap import GenderSwap, GroupSwap
from levelhead.probes.swap import name_pairs
from levelhead.probes.swap.gendered import Gender
from levelhead.probes.swap.names import unknown_names

CERTAIN = 0.9
_FRAMES = (
    ("{} said that", "was late."),
    ("{} smiled because", "knew the answer."),
    ("We asked {} whether", "was ready."),
    ("{} laughed. Then", "went home."),
)
_KNOWN = 40  # pairs of the table that scores are calibrated on


Ask = Callable[[Sequence[Reading[Any]]], list[Any]]  # readings to a model in some variants -> their answers


def believing(model: Model, swap: GroupSwap, texts: Sequence[Text | str], ask: Ask) -> GroupSwap:
    """The swap with the genders of names in these texts that no table has, as the unmodified model sees them.

    ask: evaluates readings on the unmodified model.
    """
    if not isinstance(swap, GenderSwap) or not swap.names or not model.abilities & {"mlm", "causal"}:
        return swap
    sentences = {part for text in map(Text.of, texts) for part in (text.first, text.second) if part}
    names = sorted({token.text for sentence in sentences for token in unknown_names(sentence)})
    she, he = (token_id(model, word) for word in ("she", "he"))
    if not names or she is None or he is None:
        return swap
    known = [name for pair in name_pairs()[:_KNOWN] for name in pair]
    causal = "causal" in model.abilities
    blank = "" if causal else f" {model.tokenizer.mask_token} "
    asked = [
        Text(before.format(name) + ("" if causal else blank + after))
        for name in (*known, *names)
        for before, after in _FRAMES
    ]
    (log_p,) = ask([TokenLogProbs(asked, [she, he])])  # [variant, text, token]
    scores = (log_p[0, :, 0] - log_p[0, :, 1]).astype(np.float64).reshape(-1, len(_FRAMES)).mean(axis=1)
    pairs, own = scores[: len(known)].reshape(-1, 2), scores[len(known) :]
    apart = float(pairs[:, 0].mean() - pairs[:, 1].mean())
    if apart <= 0:  # it does not tell known names apart, so nothing is known of others
        return swap
    logits = apart / pairs.var(axis=0, ddof=1).mean() * (own - pairs.mean())
    feminine = 1 / (1 + np.exp(-logits))
    believed: list[tuple[str, Gender]] = [
        (name, "F" if p > 0.5 else "M")
        for name, p in zip(names, feminine, strict=True)
        if max(p, 1 - p) >= CERTAIN
    ]
    return replace(swap, believed=tuple(believed))
