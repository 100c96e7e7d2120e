"""The three labels of natural-language inference, and which output of a classifier means which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from levelhead.errors import BadOption, CannotDo

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)
NEUTRAL = LABELS.index("neutral")  # the right answer where nothing can be inferred

_STEMS: dict[str, Label] = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}
_EXAMPLE = '"contradiction,entailment,neutral"'


def label_order(id2label: Mapping[int, str], labels: str | None = None) -> tuple[int, int, int]:
    """Which outputs of a classifier mean (entailment, neutral, contradiction).

    The order is read from the names in id2label and never guessed; labels="contradiction,entailment,neutral"
    overrides them and says what outputs 0, 1 and 2 mean.
    """
    came = ", ".join(
        f"{index}={name!r}" for index, name in sorted((int(i), str(n)) for i, n in id2label.items())
    )
    if len(id2label) != len(LABELS):
        raise CannotDo(
            f"This classifier has {len(id2label)} labels ({came or 'none'}); the NLI measures need three: "
            f"{', '.join(LABELS)}. Use a three-way NLI classifier."
        )
    if labels is not None:
        return parse_labels(labels)
    outputs = {_label_of(str(name)): int(index) for index, name in id2label.items()}
    if set(outputs) != set(LABELS) or set(outputs.values()) != {0, 1, 2}:
        raise CannotDo(
            f"This classifier names its labels {came}, which does not say which is {', '.join(LABELS)}. "
            f"Pass the order of its outputs, e.g. labels={_EXAMPLE}."
        )
    return outputs["entailment"], outputs["neutral"], outputs["contradiction"]


def parse_labels(labels: str) -> tuple[int, int, int]:
    """The meaning of outputs 0, 1, 2 as the indices of (entailment, neutral, contradiction)."""
    named = [_label_of(name) for name in labels.split(",")]
    if sorted(map(str, named)) != sorted(LABELS):
        raise BadOption(
            f"Labels {labels!r}: expected {', '.join(LABELS)}, each once, in the order of the classifier's "
            f"outputs, e.g. {_EXAMPLE}."
        )
    return named.index("entailment"), named.index("neutral"), named.index("contradiction")


def _label_of(name: str) -> Label | None:
    """The label that a classifier's name means: case does not matter, nor what follows the stem."""
    return next((label for stem, label in _STEMS.items() if name.strip().lower().startswith(stem)), None)
