"""What is worked out once for each model."""

from __future__ import annotations

import gc
import weakref

from levelhead.models.encoding import Text, encode
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from tests.tiny import tiny


def test_a_value_is_kept_for_each_model_and_argument_and_forgotten_with_the_model() -> None:
    calls: list[tuple[str, int]] = []

    @once_a_model
    def length(model: Model, factor: int = 1) -> int:
        calls.append((model.name, factor))
        return len(model.name) * factor

    bert, gpt = tiny("bert"), tiny("gpt2")
    assert [length(bert), length(bert), length(bert, factor=2), length(gpt), length(gpt)] == [9, 9, 18, 9, 9]
    assert calls == [(bert.name, 1), (bert.name, 2), (gpt.name, 1)]
    ghost = weakref.ref(gpt)
    del gpt
    gc.collect()
    assert ghost() is None


def test_rows_that_were_made_before_are_those_of_a_model_that_has_made_none() -> None:
    texts: list[Text | str] = [
        "The nurse said that she was tired.",
        Text("Who knows", "A teacher?"),
        "Who knows",
    ]
    used, fresh = tiny("bert"), tiny("bert")
    list(encode(used, texts[::-1]))
    again, first = list(encode(used, texts)), list(encode(fresh, texts))
    assert [row.key for row in again] == [row.key for row in first]
    cut = [len(row.ids) for row in encode(used, texts, cut=4)]
    assert cut == [4, 4, 4]
    assert [row.key for row in encode(used, texts)] == [row.key for row in first]
