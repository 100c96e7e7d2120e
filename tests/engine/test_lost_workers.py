"""Workers whose machine left or stalls: what they have goes to others, and the first answer counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from levelhead.engine import machines
from levelhead.engine import ray_workers as crews
from levelhead.engine.ray_workers import Crew
from levelhead.errors import CannotDo
from levelhead.models.placement import Workers

Ref = tuple[str, int, int]  # who was sent it, its number, which sending it is


class FakeRay:
    """Ray as the driver sees it: what was sent to whom, and what arrives when."""

    def __init__(self, states: dict[str, str], arrives: Callable[[Ref], bool]) -> None:
        pytest.importorskip("ray")
        from ray import exceptions

        self.exceptions, self.sent = exceptions, list[Ref]()
        self.states, self._arrives = states, arrives
        state = SimpleNamespace(actors=lambda key: {"State": self.states[key]})
        self._private = SimpleNamespace(state=state)

    def send(self, number: int) -> Callable[[Any], Ref]:
        def sent(actor: Any) -> Ref:
            self.sent.append((actor.name, number, len(self.sent)))
            return self.sent[-1]

        return sent

    def wait(self, refs: Sequence[Ref], **_: object) -> tuple[list[Ref], list[Ref]]:
        here = [ref for ref in refs if self._arrives(ref)]
        return here[:1], here[1:]

    def get(self, ref: Ref) -> str:
        return f"answer {ref[1]}"

    def nodes(self) -> list[Any]:
        return []

    def cluster_resources(self) -> dict[str, float]:
        return {}


def crew_of(names: str, monkeypatch: pytest.MonkeyPatch, ray: FakeRay) -> Crew:
    monkeypatch.setattr(crews, "_ray", lambda: ray)
    monkeypatch.setattr(crews, "_check_daemons", lambda: None)
    monkeypatch.setattr(crews, "_SILENCE", -1.0)
    made = Crew.__new__(Crew)
    made._workers, made._since = Workers(len(names)), 0.0
    made.hands = [
        crews._Hand(
            SimpleNamespace(name=name, _actor_id=SimpleNamespace(hex=lambda name=name: name)), None, True
        )
        for name in names
    ]
    return made


def test_what_a_worker_has_that_is_gone_another_one_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay({"a": "RESTARTING", "b": "ALIVE"}, lambda ref: ref[0] == "b")
    made = crew_of("ab", monkeypatch, ray)
    given = list(made.in_order([ray.send(number) for number in range(9)], each=2))
    assert given == [f"answer {number}" for number in range(9)]
    of_lost = [number for name, number, _ in ray.sent if name == "a"]
    assert of_lost == [0, 2]  # as many as it has at once, and no more after it was lost
    assert sorted(number for name, number, _ in ray.sent if name == "b") == list(range(9))
    assert [hand.load for hand in made.hands] == [0, 0]


def test_a_worker_that_is_there_and_far_slower_than_the_others_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crews, "_LATE", (0.0, 1))
    ray = FakeRay({"a": "ALIVE", "b": "ALIVE"}, lambda ref: ref[0] == "b")
    made = crew_of("ab", monkeypatch, ray)
    assert list(made.in_order([ray.send(number) for number in range(5)], each=1)) == [
        f"answer {number}" for number in range(5)
    ]


def test_a_slow_worker_keeps_what_it_has_while_it_is_as_fast_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[Ref] = []

    def in_time(ref: Ref) -> bool:
        waits.append(ref)
        return len(waits) > 40

    ray = FakeRay({"a": "ALIVE", "b": "ALIVE"}, in_time)
    made = crew_of("ab", monkeypatch, ray)
    assert len(list(made.in_order([ray.send(number) for number in range(6)], each=2))) == 6
    assert sorted(number for _, number, _ in ray.sent) == list(range(6))


def test_a_worker_that_comes_back_has_work_again_and_its_late_answer_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back: list[bool] = []

    def arrives(ref: Ref) -> bool:
        if ref[0] == "b" and ref[1] >= 4:
            back.append(True)
        return ref[0] == "b" or bool(back)

    ray = FakeRay({"a": "RESTARTING", "b": "ALIVE"}, arrives)
    made = crew_of("ab", monkeypatch, ray)
    given = list(made.in_order([ray.send(number) for number in range(20)], each=1))
    assert given == [f"answer {number}" for number in range(20)]
    assert max(number for name, number, _ in ray.sent if name == "a") > 4


@pytest.mark.parametrize("back_in", [0, 30])
def test_a_worker_that_was_given_up_has_work_in_the_next_pass_once_it_is_there(
    back_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = FakeRay({"a": "RESTARTING", "b": "ALIVE"}, lambda ref: ref[0] == "b")
    made = crew_of("ab", monkeypatch, ray)
    list(made.in_order([ray.send(number) for number in range(9)], each=2))
    waits, first = list[Ref](), len(ray.sent)

    def arrives(ref: Ref) -> bool:
        waits.append(ref)
        if len(waits) > back_in:
            ray.states["a"] = "ALIVE"
        return len(waits) % 7 == 0

    if not back_in:
        ray.states["a"] = "ALIVE"
    ray._arrives = arrives
    assert len(list(made.in_order([ray.send(number) for number in range(40)], each=2))) == 40
    assert "a" in {name for name, _, _ in ray.sent[first:]}


def test_a_worker_on_a_machine_that_differs_from_the_drivers_refuses_all_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # which a worker leaves for the driver's folder
    monkeypatch.setattr(crews, "_own_name", lambda: "n4 (gpu4)")
    here, threads = machines.equipment(), torch.get_num_threads()
    assert crews._Hired(threads, str(tmp_path), here).call(len, "abc") == 3
    late = crews._Hired(threads, str(tmp_path), {**here, "torch": "1.0"})
    line = f"Node n4 (gpu4) has torch {here['torch']}, the driver 1.0. Install the same on all machines."
    for refused in (late.call(len, "abc"), late.first(len, "abc")):
        assert isinstance(refused, crews._Refusal)
        assert str(refused.error) == line


def test_a_cluster_that_has_lost_all_workers_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crews, "_PATIENCE", 0.0)
    ray = FakeRay({"a": "RESTARTING"}, lambda _: False)
    made = crew_of("a", monkeypatch, ray)
    with pytest.raises(
        CannotDo, match=r"^No worker could begin in 0 s: 1 with 0 GPUs each were to; .*done\.$"
    ):
        list(made.in_order([ray.send(0)], each=1))
