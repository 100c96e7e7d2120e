"""A text classifier as a scorer: how likely it thinks that a text has a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.models.model import Model, load

PREFIX = "classifier:"
_LONGEST = 512  # tokens of a text that are read; what is generated is shorter


@dataclass(frozen=True, eq=False)
class Classifier:
    """The probability of one label of a classifier; with a single output, its logistic function.

    p(label | text) = softmax over the logits, or 1 / (1 + exp(-logit)) where there is one logit.
    """

    model: Model
    label: int
    name: str
    unit: str = "probability"

    def scores(self, texts: Sequence[str]) -> list[float | None]:
        written = [text for text in texts if text.strip()]
        if not written:
            return [None] * len(texts)
        reading = Pooled(written, cut=_LONGEST)
        (logits,) = read_one(self.model, reading, label="Classifier")
        values = np.asarray(logits, np.float64)
        chosen = expit(values[:, 0]) if values.shape[1] == 1 else softmax(values, axis=1)[:, self.label]
        found = iter(chosen.tolist())
        return [next(found) if text.strip() else None for text in texts]


def load_classifier(chosen: str) -> Classifier:
    """classifier:FOLDER, classifier:HUB/NAME, either with #LABEL; without one, the last label."""
    place, _, label = chosen.removeprefix(PREFIX).partition("#")
    if not place:
        raise BadOption(f"a classifier must be {PREFIX}FOLDER or {PREFIX}NAME, with #LABEL (got {chosen!r})")
    model = load(place)
    if not model.is_classifier:
        raise CannotDo(
            f"{chosen}: {model.name} is no text classifier. Give one for AutoModelForSequenceClassification."
        )
    labels = {str(name).lower(): int(i) for i, name in model.hf.config.id2label.items()}
    if label and label.lower() not in labels:
        raise BadOption(f"#{label} must be a label of {model.name}: {', '.join(labels)} (got {label!r})")
    number = labels[label.lower()] if label else max(labels.values())
    named = label or next(name for name, i in labels.items() if i == number)
    return Classifier(model, number, f"{model.name} {named}")
