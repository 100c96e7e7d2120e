"""Many threads ask one model at once: every number must be the serial one, or refused in one line.

    python -m benchmarks.threads --threads 8 --questions 200 --model tiny
    python -m benchmarks.threads --threads 8 --questions 10 --model lh:bert-mini

Every kind of question that hooks, edits, null models, differentiates, copies or folds a network, and those
that cut
and pad with its tokenizer, in an order drawn for each thread, half of the threads through a second Model over
the same network. The last line is what the lock costs where nobody waits for it, beside a read of one text.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.tiny import tiny

from levelhead.edits.gates import removed
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import Attention, StaticVectors, TokenLikelihoods, WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import Busy
from levelhead.mitigation.export import folded, plan_folding
from levelhead.models.concurrency import asking
from levelhead.models.encoding import encode, find_word
from levelhead.models.model import Model, load
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_copy

Answer = NDArray[Any]
Question = Callable[[Model], Answer]
_TEXTS = [f"The {who} said that {she} was tired." for who in ("nurse", "engineer") for she in ("she", "he")]
_WHO = [find_word(text, text.split()[1]) for text in _TEXTS]
_SAID = [find_word(text, "said") for text in _TEXTS]


def _vectors(model: Model) -> Answer:
    answer: Answer = read_one(model, WordVectors(_TEXTS, _WHO))[0]
    return answer


def _variants(model: Model) -> Answer:
    return read_one(model, WordVectors(_TEXTS, _WHO), [(), removed(model, ["2-1"])])


def _attention(model: Model) -> Answer:
    rows = read_one(model, Attention(_TEXTS, _WHO, _SAID))[0]
    return np.concatenate([row.weights.ravel() for row in rows])


def _likelihoods(model: Model) -> Answer:
    return np.concatenate(read_one(model, TokenLikelihoods(_TEXTS)).values[0])


def _gradients(model: Model) -> Answer:
    reading = StaticVectors(_TEXTS, _WHO, [0, 0, 1, 1])
    return gate_gradients(model, reading, lambda vectors: (vectors[0] * vectors[1]).sum()).scores


def _without_head(model: Model) -> Answer:
    with model.without_heads(["1-1"]):
        return _vectors(model)


def _half_open(model: Model) -> Answer:
    with model.gated({"2-2": 0.5}), model.without_heads(["1-2"]):
        return np.concatenate([_vectors(model), _vectors(model)])


def _after_an_error(model: Model) -> Answer:
    with suppress(ValueError), model.without_heads(["1-1", "2-2"]):
        raise ValueError("inside")
    return _vectors(model)


def _null_model(model: Model) -> Answer:
    with as_null_model(model, draw_null_model(model, 3)):
        return _vectors(model)


def _copied_null_model(model: Model) -> Answer:
    return _vectors(null_model_copy(model, draw_null_model(model, 4)))


def _folded(model: Model) -> Answer:
    with folded(model, plan_folding(model, removed(model, ["1-2"]))):
        return _vectors(model)


def _cut(model: Model) -> Answer:
    rows = encode(model, [*_TEXTS, f"{_TEXTS[0]} {time.perf_counter_ns()}"], cut=6)  # the last is new to it
    return np.stack([row.ids[:5] for row in rows])


def _fingerprint(model: Model) -> Answer:
    model.__dict__.pop("_hash_of_rest", None)
    return np.asarray([model.fingerprint])


QUESTIONS: Mapping[str, Question] = {
    "vectors": _vectors,
    "variants": _variants,
    "attention": _attention,
    "likelihoods": _likelihoods,
    "gradients": _gradients,
    "without a head": _without_head,
    "half-open gate": _half_open,
    "after an error": _after_an_error,
    "null model": _null_model,
    "copied null model": _copied_null_model,
    "folded weights": _folded,
    "cut texts": _cut,
    "fingerprint": _fingerprint,
}


def asked_by_threads(models: list[Model], threads: int, questions: int, seed: int = 0) -> Counter[str]:
    """How many answers were right, refused, wrong or an error; wrong ones and errors by question."""
    serial = {name: ask(models[0]) for name, ask in QUESTIONS.items()}

    def work(number: int) -> list[str]:
        chosen = Random(seed * threads + number).choices(list(QUESTIONS), k=questions)
        return [_outcome(name, models[number % len(models)], serial[name]) for name in chosen]

    with ThreadPoolExecutor(threads) as pool:
        return Counter(outcome for outcomes in pool.map(work, range(threads)) for outcome in outcomes)


def _outcome(name: str, model: Model, serial: Answer) -> str:
    try:
        answer = QUESTIONS[name](model)
    except Busy as error:
        return "refused" if "\n" not in str(error) else f"several lines: {name}"
    except Exception as error:  # what two threads in one network raise is of every kind
        return f"error: {name}: {type(error).__name__}"
    return "right" if np.array_equal(answer, serial) else f"wrong: {name}"


def _seconds(work: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def _cost(model: Model) -> Iterator[float]:
    """Seconds of a turn that nobody waits for, and of a small read."""

    def turn() -> None:
        with asking(model.hf):
            pass

    yield _seconds(turn, 10_000)
    yield _seconds(lambda: read_one(model, WordVectors(_TEXTS[:1], _WHO[:1])), 50)


def main() -> int:
    """Ask, count, print; 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--questions", type=int, default=200, help="of each thread")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="tiny", help="tiny, or the name of a model")
    given = parser.parse_args()
    model = tiny("bert") if given.model == "tiny" else load(given.model)
    began = time.perf_counter()
    counts = asked_by_threads(
        [model, load(model.hf, model.tokenizer)], given.threads, given.questions, given.seed
    )
    print(f"{given.model}: {dict(counts)} in {time.perf_counter() - began:.0f} s")
    turn, small = _cost(model)
    print(f"a turn: {turn * 1e6:.1f} us; a read of one text: {small * 1e3:.2f} ms; {turn / small:.3%}")
    return 0 if set(counts) <= {"right", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
