"""Does a model still know a person's gender where the text states it? A pronoun behind it must agree.

A masked model fills the blank in its place, a causal model says the next word. The cost of an item is 1 where
the pronoun of the other gender is likelier, ½ where both are alike (docs/method.md, Certified mitigations).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.measures.certified import AGREEMENT, NAME_AGREEMENT
from levelhead.measures.stereoset import wins
from levelhead.models.encoding import Text, mask_id, token_id
from levelhead.models.model import Model
from levelhead.probes.agreement import NOUN, AgreementItem
from levelhead.scoring.item_values import Doubles, ItemValues

_DIGITS = 5  # of nats: two pronouns with the same vector differ beyond by how sums are rounded in float32


def disagreements(
    model: Model, items: Sequence[AgreementItem], variants: Sequence[Variant]
) -> list[ItemValues]:
    """Where the pronoun of the other gender is likelier, behind nouns and behind names: two costs, so that a
    gain in one hides no loss in the other. Items whose pronouns are several tokens are left out; empty where
    none is left, and for a model that predicts no words."""
    if not model.abilities & {"mlm", "causal"}:
        return []
    words = sorted({word for item in items for word in (item.own, item.other)})
    tokens = {word: token for word in words if (token := token_id(model, word)) is not None}
    kept = [item for item in items if item.own in tokens and item.other in tokens]
    if not kept:
        return []
    # An uncased model writes She as she: each token is read once.
    column = {token: number for number, token in enumerate(dict.fromkeys(tokens.values()))}
    reading = TokenLogProbs([_text(model, item) for item in kept], list(column))
    log_p = read_one(model, reading, variants, label="Agreement").astype(np.float64)
    own, other = (
        log_p[:, np.arange(len(kept)), [column[tokens[word]] for word in asked]]
        for asked in ([item.own for item in kept], [item.other for item in kept])
    )
    people, missed = np.asarray([item.people for item in kept]), wrong(own, other)
    nouns = np.asarray([item.kind == NOUN for item in kept])
    costs = {AGREEMENT: nouns, NAME_AGREEMENT: ~nouns}
    return [
        ItemValues(name, "share wrong", missed[:, of], people[of], answers=1)
        for name, of in costs.items()
        if of.any()
    ]


def wrong(own: Doubles, other: Doubles) -> Doubles:
    """1 where the other pronoun has the higher log-probability, 0 where the own one has, ½ for a tie."""
    return np.asarray(1 - wins((own - other).round(_DIGITS), 0.0))


def _text(model: Model, item: AgreementItem) -> Text:
    if "causal" in model.abilities:
        return Text(item.before)
    mask_id(model)  # a model without a mask token is refused here, in one line
    return Text(item.with_pronoun(model.tokenizer.mask_token))
