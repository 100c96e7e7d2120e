"""Work beside the asking: it goes on while others do, and what it meets is told where it is waited for."""

from __future__ import annotations

from threading import Event

import pytest

from levelhead.errors import BadProbe
from levelhead.models.concurrency import in_background


def test_nobody_waits_until_the_result_is_used() -> None:
    go_on = Event()
    begun = in_background(lambda: go_on.wait(60) and "done")
    assert not begun.done()
    go_on.set()
    assert begun.result() == "done"


def test_a_mistake_is_told_where_the_result_is_used() -> None:
    def fail() -> None:
        raise BadProbe("No word has a context.")

    begun = in_background(fail)
    with pytest.raises(BadProbe, match="No word"):
        begun.result()
