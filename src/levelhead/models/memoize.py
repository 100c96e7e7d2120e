"""What is worked out once for each model, and forgotten with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:  # chat.py imports this in a process that has no torch
    from levelhead.models.model import Model

P = ParamSpec("P")
T = TypeVar("T")


def once_a_model(function: Callable[Concatenate[Model, P], T]) -> Callable[Concatenate[Model, P], T]:
    """The function, whose value for a model and further arguments, which are hashable, is kept.

    For what follows from the tokenizer alone, which does not change: a model's weights may.
    """
    values: WeakKeyDictionary[Model, dict[Hashable, T]] = WeakKeyDictionary()

    @wraps(function)
    def kept(model: Model, /, *args: P.args, **kwargs: P.kwargs) -> T:
        own = values.setdefault(model, {})
        key = (args, *sorted(kwargs.items()))
        if key not in own:  # the first of several threads gives its value to all
            own.setdefault(key, function(model, *args, **kwargs))
        return own[key]

    return kept
