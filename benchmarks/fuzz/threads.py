"""Two threads ask one model at once: right numbers, or one line; never wrong numbers or odd errors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from random import Random

import torch
from tests.tiny import CORPUS, tiny

from benchmarks.fuzz.models import WORDS
from benchmarks.fuzz.trial import Place, Subject
from levelhead.edits.gates import removed
from levelhead.errors import LevelheadError
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.scoring.fluency import ask_fluency
from levelhead.scoring.seat import ask_seat

Ask = Callable[[Model], float]
_LIKE = 1e-6  # sums in another order: nothing here runs in another order, so this is generous


def _seat(model: Model) -> float:
    return float(ask_seat(model, WORDS, template_contexts(WORDS, 1))[0].value or 0.0)


def _fluency(model: Model) -> float:
    return float(ask_fluency(model, CORPUS[:2])[0].value or 0.0)


def _edited(ask: Ask, model: Model) -> float:
    with model.edited(*removed(model, ["1-1", "2-2"])):
        return ask(model)


def _failing(ask: Ask, model: Model) -> float:
    """A question that ends with an exception inside of an edit; what the next one hears must be unharmed."""
    try:
        with model.edited(*removed(model, ["1-2"])):
            ask(model)
            raise KeyError
    except KeyError:
        return 0.0


_QUESTIONS: dict[str, Ask] = {
    "seat": _seat,
    "fluency": _fluency,
    "seat, edited": partial(_edited, _seat),
    "fluency, edited": partial(_edited, _fluency),
    "failing": partial(_failing, _seat),
}


class Threads:
    """Questions of a few kinds, from two to four threads at once, on models of two kinds."""

    def subjects(self) -> list[Subject]:
        """One subject: all questions, mixed."""
        return [Subject("threads", 12, self._prepared)]

    def _prepared(self, rng: Random, _: Place) -> Callable[[], object]:
        family = rng.choice(("bert", "gpt2"))
        names = [rng.choice(list(_QUESTIONS)) for _ in range(rng.randint(2, 6))]
        expected = [_alone(family, name) for name in names]
        return partial(_at_once, _model(family), names, expected, rng.randint(2, 4))


@cache
def _model(family: str) -> Model:
    torch.manual_seed(0)
    return tiny(family, "mlm" if family == "bert" else "", layers=2)


@cache
def _alone(family: str, name: str) -> float:
    return _QUESTIONS[name](_model(family))


def _at_once(model: Model, names: list[str], expected: list[float], threads: int) -> None:
    """AssertionError for a number that is not the one that the question has alone."""
    with ThreadPoolExecutor(threads) as pool:
        asked = [pool.submit(_QUESTIONS[name], model) for name in names]
    refused = None
    for name, answer, right in zip(names, asked, expected, strict=True):
        error = answer.exception()
        if isinstance(error, LevelheadError):
            refused = error
        elif error is not None:
            raise error
        elif abs(answer.result() - right) > _LIKE * max(1.0, abs(right)):
            raise AssertionError(f"{name}: {answer.result()!r} instead of {right!r} with {names}")
    if refused is not None:
        raise refused
