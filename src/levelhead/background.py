"""Work beside the asking: hashes and statistics wait for no card, and a card does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T]) -> Future[T]:
    """Begin with work that asks no model, in a thread of its own; the result is waited for where it is used.

    What it needs of the model must be there: models are asked by one thread at a time.
    """
    thread = ThreadPoolExecutor(1, "levelhead background")
    begun = thread.submit(work)
    thread.shutdown(wait=False)
    return begun
