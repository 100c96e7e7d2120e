"""What variants of a model do on text that nobody wrote for levelhead.

    m(x) = log P(x) − log P(σx),   G = mean |m| over sentences that σ exchanges exactly

P of a causal model is that of all tokens that it predicts, of a masked model the pseudo-likelihood. G is 0
for a symmetrized model. Of k groups |m| is the mean over the other k − 1 orientations. See
docs/method/certified.md, Outside evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.readings import Reading, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.measures.certified import AGREEMENT, MIRROR_GAP
from levelhead.models.encoding import Text, encode
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.probes.group_swap import GENDER, GroupSwap
from levelhead.probes.outside import FEWEST, NONE, OutsideSizes, OutsideText, load_outside
from levelhead.probes.words import WordTest
from levelhead.scoring.fluency import fluency_reading, why_no_fluency
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import agreement_question, disagreements, log_losses
from levelhead.scoring.seat import fitting

_CAUSAL = OutsideSizes(sentences=200, passages=40, stated=400)
# a pass per token: fewer and shorter sentences, so that it takes no more than 15 % of a run of mitigations
_MASKED = OutsideSizes(sentences=60, passages=40, stated=300, longest=12, whole=False)


def outside_text(model: Model, source: str, test: WordTest, trained: str = "") -> OutsideText:
    """What fits into a model's positions of a text: "" for ours, else a file, a folder or hub:NAME. What a
    mitigation is trained on (trained: a source) is left out.

    A text with too few exact sentences is refused, as is a model that nothing can be measured of.
    """
    if source == NONE:
        reason = "it was left out"
    elif not test.pairs:
        reason = f"{test.name} states no counterparts to exchange"
    elif not source and swap_for(test).name != GENDER:
        reason = f"no text ships for {test.name}; give one, --outside FILE"
    else:
        reason = why_no_fluency(model)
    if reason:
        raise CannotDo(f"Nothing is measured outside: {reason}.")
    exchange = swap_for(test)
    text = load_outside(source, exchange)
    if trained and len((text := text.without(trained)).sentences) < FEWEST:
        few = f"{len(text.sentences)} exact sentences of {text.name} are not in {trained}"
        raise CannotDo(
            f"Nothing is measured outside: {few}, which is trained on; it needs at least {FEWEST}."
        )
    oriented = [[exchange(x, t).text for x in text.sentences] for t in range(exchange.groups)]
    scored = [fitting(model, own) for own in oriented]
    if "causal" in model.abilities:
        # the first token gets no probability: a part of a word that is exchanged would be missing
        for own, fit in zip(oriented, list(scored), strict=True):
            short = [x for x, one in zip(own, fit, strict=True) if one]
            rows = dict(zip(short, encode(model, short), strict=True))
            scored.append(
                [
                    x in rows
                    and (
                        rows[x].part[0] != 0
                        or rows[x].offsets[0, 1] >= len(re.split(r"\W", x, maxsplit=1)[0])
                    )
                    for x in own
                ]
            )
    fits = [all(each) for each in zip(*scored, strict=True)]
    if sum(fits) < FEWEST:
        few = f"{sum(fits)} exact sentences of {text.name} fit into {model.name}"
        raise CannotDo(f"Nothing is measured outside: {few}, which needs at least {FEWEST}.")
    said = fitting(model, [item.text for item in text.stated])
    return replace(
        text,
        stated=tuple(item for item, fit in zip(text.stated, said, strict=True) if fit),
        sentences=tuple(x for x, fit in zip(text.sentences, fits, strict=True) if fit),
        documents=tuple(x for x, fit in zip(text.documents, fits, strict=True) if fit),
        passages=tuple(x for x, fit in zip(text.passages, fitting(model, text.passages), strict=True) if fit),
    )


def drawn_outside(model: Model, text: OutsideText, seed: int, every: int = 1) -> OutsideText:
    """What a model is given of a text: a sample by a seed. every: one of so many items alone."""
    return text.drawn((_CAUSAL if "causal" in model.abilities else _MASKED).one_of(every), seed)


def outside_readings(model: Model, text: OutsideText, exchange: GroupSwap) -> list[Reading[Any]]:
    """What outside_values reads of one variant."""
    readings: list[Reading[Any]] = [_mirrored(text, exchange)]
    if text.passages:
        readings.append(fluency_reading(model, text.passages))
    stated = agreement_question(model, text.stated)
    return readings if stated is None else [*readings, stated[1]]


def _mirrored(text: OutsideText, exchange: GroupSwap) -> TokenLikelihoods:
    """Every sentence at every orientation."""
    return TokenLikelihoods(
        [Text(exchange(x, t).text) for x in text.sentences for t in range(exchange.groups)]
    )


def outside_values(
    model: Model, text: OutsideText, exchange: GroupSwap, variants: Sequence[Variant]
) -> list[ItemValues]:
    """The mirror gap, and the costs of plain text: perplexity, and agreement behind nouns and names."""
    found = [mirror_gaps(model, text, exchange, variants)]
    found += [log_losses(model, text.passages, variants)] if text.passages else []
    if stated := disagreements(model, text.stated, variants):
        both = stated[0] if len(stated) == 1 else stated[0].with_items(stated[1])
        found.append(replace(both, name=AGREEMENT))
    return found


def mirror_gaps(
    model: Model, text: OutsideText, exchange: GroupSwap, variants: Sequence[Variant]
) -> ItemValues:
    """|m| of every sentence."""
    scores = read_one(model, _mirrored(text, exchange), variants, label="Mirror gap")
    log_p = np.asarray([[float(v.sum(dtype=np.float64)) for v in of] for of in scores.values])
    log_p = log_p.reshape(len(variants), len(text.sentences), exchange.groups)
    gaps = np.abs(log_p[..., :1] - log_p[..., 1:]).mean(axis=-1)
    return ItemValues(MIRROR_GAP, "nats", gaps, np.asarray(text.documents))
