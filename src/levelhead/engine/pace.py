"""How fast a model runs on this machine: seconds of a token, by a plain pass over a few sentences."""

from __future__ import annotations

from levelhead.engine.effort import now
from levelhead.engine.readings import SentenceVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.sentences import fluency_sentences
from levelhead.work import tokens_in

_SENTENCES = 12  # about 150 tokens: a second or two of 300 M parameters on two cores


def seconds_per_token(model: Model) -> float:
    """Seconds that a token takes through all blocks, as tokens are estimated (work.tokens_in)."""
    texts = fluency_sentences()[:_SENTENCES]
    read_one(model, SentenceVectors([Text(texts[0])], "mean"), label="Speed")  # what happens once only
    began = now()
    read_one(model, SentenceVectors([Text(text) for text in texts], "mean"), label="Speed")
    return (now() - began) / tokens_in(texts)
