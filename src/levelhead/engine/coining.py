"""A model that is asked once, at a turn of the groups that a coin decides for each text (probes/coin.py).

Answers about tokens are exchanged back class by class: what a word's counterparts got is shared out evenly
between words that have one counterpart together (his and him, for her). Readings that look inside the network
or follow a text token by token cannot be exchanged back, and are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.name_beliefs import Ask
from levelhead.engine.readings import Pooled, Reading, TokenLogProbs, WordVectors
from levelhead.engine.symmetry import Turned
from levelhead.engine.token_classes import TokenClasses
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.coin import Coin

Turns = NDArray[np.int64]


def coined(model: Model, coin: Coin, readings: Sequence[Reading[Any]], ask: Ask) -> list[Any]:
    """The answers to each reading, every text asked once; `ask` asks the model itself."""
    turned = Turned(model, coin.swap)
    turns = [_turns(coin, reading) for reading in readings]
    asked = [_asked(turned, reading, own) for reading, own in zip(readings, turns, strict=True)]
    answers = ask(asked)
    return [
        _back(turned, reading, given, own)
        for reading, given, own in zip(readings, answers, turns, strict=True)
    ]


def _turns(coin: Coin, reading: Any) -> Turns:
    if not isinstance(reading, Pooled | TokenLogProbs | WordVectors):
        raise CannotDo(
            f"{type(reading).__name__} cannot be asked by a coin: give the symmetrized model as a variant."
        )
    texts = [Text.of(text) for text in reading.texts]
    return np.asarray([coin.turn(f"{text.first}\n{text.second or ''}") for text in texts], np.int64)


def _asked(turned: Turned, reading: Any, turns: Turns) -> Reading[Any]:
    """The reading about turned texts; of tokens, all that stand for them are asked for."""
    given = list(reading.texts)
    texts = [turned.texts([text], int(turn))[0] for text, turn in zip(given, turns, strict=True)]
    if isinstance(reading, TokenLogProbs):
        return TokenLogProbs(texts, turned.classes.closed(reading.tokens))
    if isinstance(reading, WordVectors):
        places = zip(given, reading.spans, turns, strict=True)
        spans = [turned.spans([text], [span], int(turn))[0] for text, span, turn in places]
        return cast(Reading[Any], replace(reading, texts=texts, spans=spans))
    return cast(Reading[Any], replace(reading, texts=texts))


def _back(turned: Turned, reading: Any, answer: Any, turns: Turns) -> Any:
    if not isinstance(reading, TokenLogProbs):
        return answer
    tokens = turned.classes.closed(reading.tokens)
    place = {token: i for i, token in enumerate(tokens)}
    own = np.array(answer, np.float64)
    for turn in set(turns.tolist()) - {0}:
        own[:, turns == turn] = _exchanged(turned.classes, own[:, turns == turn], place, turn)
    return own[..., [place[token] for token in reading.tokens]].astype(np.float32)


def _exchanged(
    classes: TokenClasses, logs: NDArray[np.float64], place: dict[int, int], turn: int
) -> NDArray[np.float64]:
    """Log-probabilities at a turn as those about the text: p(y | x) is what y's counterparts got."""
    out = logs.copy()
    for groups in classes.classes:
        if groups[0][0] not in place:
            continue
        columns = [[place[token] for token in group] for group in groups]
        for group, own in enumerate(columns):
            there = columns[(group + turn) % len(columns)]
            mass = np.logaddexp.reduce(logs[..., there], axis=-1)
            out[..., own] = mass[..., None] - np.log(len(own))
    return out
