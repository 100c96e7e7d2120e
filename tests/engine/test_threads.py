"""Threads, tasks and two models over one network: each gets the serial numbers, or one line."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.threads import QUESTIONS, asked_by_threads

from levelhead.edits.gates import HeadGates
from levelhead.errors import Busy
from levelhead.models import concurrency
from levelhead.models.concurrency import Together, asking, holding, lock_of
from levelhead.models.copies import new_classifier
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model, load
from levelhead.models.sources import quiet
from tests.tiny import tiny

vectors, edited = QUESTIONS["vectors"], QUESTIONS["without a head"]
_SOON = 20.0  # seconds after which a test that should have ended fails


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("bert")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits longer than a moment for a `with` inside which nothing is asked."""
    monkeypatch.setattr(concurrency, "PATIENCE", 0.05)


@contextmanager
def held_elsewhere(model: Model) -> Iterator[Callable[[], None]]:
    """Another thread holds the model without one of its heads, until what is given is called."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with model.without_heads(["1-1"]):
            inside.set()
            leave.wait(_SOON)

    thread = threading.Thread(target=hold, name="holder")
    thread.start()
    assert inside.wait(_SOON)
    try:
        yield leave.set
    finally:
        leave.set()
        thread.join()


def is_free(model: Model) -> bool:
    """Whether another thread gets the model at once, and as it was."""
    with ThreadPoolExecutor(1) as pool:
        return bool(pool.submit(lambda: not lock_of(model.hf).holds and vectors(model).any()).result(_SOON))


def waiting(model: Model, threads: int) -> bool:
    """Whether so many threads come to wait for the model."""
    lock, until = lock_of(model.hf), threading.Event()
    for _ in range(2_000):
        if len(lock._queue) == threads:
            return True
        until.wait(0.01)
    return False


# ---- threads


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_eight_threads_get_the_numbers_of_one(family: str) -> None:
    asked = tiny(family)
    both = [asked, load(asked.hf, asked.tokenizer)]
    assert asked_by_threads(both, threads=8, questions=25) == {"right": 200}


@pytest.mark.parametrize("through_another_model", [False, True])
def test_a_question_waits_for_another_threads_edit_and_gets_the_plain_number(
    model: Model, through_another_model: bool
) -> None:
    held = load(model.hf, model.tokenizer) if through_another_model else model
    plain = vectors(model)
    with ThreadPoolExecutor(1) as pool, held_elsewhere(held) as leave:
        answer = pool.submit(vectors, model)
        assert waiting(model, 1)
        leave()
        assert np.array_equal(answer.result(_SOON), plain)


def test_two_heads_over_one_base_model_share_its_lock(model: Model) -> None:
    classifier = new_classifier(model, ("a", "b"), seed=0)
    assert lock_of(classifier.hf) is not lock_of(model.hf)
    classifier.hf.bert = model.base
    assert lock_of(classifier.hf) is lock_of(model.hf)


def test_threads_get_the_model_in_the_order_of_their_coming(model: Model) -> None:
    order: list[int] = []

    def ask(number: int) -> None:
        with asking(model.hf):
            order.append(number)

    with ThreadPoolExecutor(3) as pool, held_elsewhere(model) as leave:
        for number in range(3):
            pool.submit(ask, number)
            assert waiting(model, number + 1)
        leave()
    assert order == [0, 1, 2]


@pytest.mark.usefixtures("impatient")
def test_a_with_in_which_nothing_is_asked_is_refused_in_one_line(model: Model) -> None:
    with held_elsewhere(model), pytest.raises(Busy, match="held by a `with` in thread 'holder'") as refused:
        vectors(model)
    assert "\n" not in str(refused.value)
    assert is_free(model)


@pytest.mark.usefixtures("impatient")
def test_a_question_is_waited_for_however_long_it_takes(model: Model) -> None:
    inside, leave = threading.Event(), threading.Event()

    def long_question() -> None:
        with asking(model.hf):
            inside.set()
            leave.wait(_SOON)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(long_question)
        assert inside.wait(_SOON)
        answer = pool.submit(vectors, model)
        assert waiting(model, 1)
        assert not answer.done()
        threading.Event().wait(0.3)  # six times as long as anybody waits for a `with`
        leave.set()
        assert np.array_equal(answer.result(_SOON), vectors(model))


@pytest.mark.usefixtures("impatient")
def test_a_pool_inside_a_with_is_refused_instead_of_waiting_for_ever(model: Model) -> None:
    with ThreadPoolExecutor(2) as pool, model.without_heads(["1-1"]), pytest.raises(Busy):
        list(pool.map(vectors, [model, model]))
    assert is_free(model)


def test_two_models_taken_in_opposite_order_end_in_one_refusal(model: Model) -> None:
    other, both = tiny("bert", seed=1), threading.Barrier(2)

    def ask(first: Model, second: Model) -> str:
        with first.without_heads(["1-1"]):
            both.wait(_SOON)
            try:
                vectors(second)
            except Busy as refused:
                return str(refused)
        return "answered"

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(ask, model, other), pool.submit(ask, other, model)]
        said = sorted(answer.result(_SOON) for answer in answers)
    assert "which waits for a model that" in said[0]
    assert said[1] == "answered"
    assert is_free(model)
    assert is_free(other)


# ---- errors, and leaving elsewhere


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_lock_is_given_back_after_an_error(model: Model, error: type[BaseException]) -> None:
    def fail(_: object) -> None:
        raise error

    with pytest.raises(error), model.without_heads(["1-1"]):
        raise error
    assert is_free(model)
    handle = model.blocks[0].register_forward_pre_hook(lambda *_: fail(_))
    try:
        for question in ("vectors", "gradients", "null model"):
            with pytest.raises(error):
                QUESTIONS[question](model)
    finally:
        handle.remove()
    assert is_free(model)


def test_an_edit_that_the_model_refuses_leaves_it_free(model: Model) -> None:
    with pytest.raises(Exception, match="layer"), model.edited(HeadGates(99, (1.0,))):
        pass
    assert is_free(model)


def test_a_with_that_is_left_in_another_thread_gives_the_model_back(model: Model) -> None:
    plain, context = vectors(model), model.without_heads(["1-1"])
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.__enter__).result(_SOON)
    context.__exit__(None, None, None)
    assert np.array_equal(vectors(model), plain)


def test_a_with_that_is_thrown_away_gives_the_model_back(model: Model) -> None:
    context = model.without_heads(["1-1"])
    context.__enter__()
    del context
    gc.collect()
    assert is_free(model)


@pytest.mark.usefixtures("impatient")
def test_calls_that_a_server_runs_in_one_thread_are_told_apart(model: Model) -> None:
    # as anyio does for a generator that FastAPI depends on: each call in a copy of its request's context
    context = model.without_heads(["1-1"])
    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy_context().run, context.__enter__).result(_SOON)
        other: Future[object] = pool.submit(copy_context().run, vectors, model)
        assert isinstance(other.exception(_SOON), Busy)
        pool.submit(copy_context().run, context.__exit__, None, None, None).result(_SOON)
    assert is_free(model)


def test_networks_with_a_lock_are_copied_and_pickled(model: Model) -> None:
    with model.without_heads(["1-1"]):
        copied = copy.deepcopy(model.hf)
    again = pickle.loads(pickle.dumps(model.hf))
    for network in (copied, again):
        assert lock_of(network) is not lock_of(model.hf)
        with asking(network):
            pass


# ---- asyncio


def test_tasks_that_do_not_wait_inside_get_the_serial_numbers(model: Model) -> None:
    async def ask(name: str) -> bool:
        await asyncio.sleep(0)
        return bool(np.array_equal(QUESTIONS[name](model), serial[name]))

    async def all_of_them() -> list[bool]:
        return await asyncio.gather(*(ask(name) for name in serial))

    serial = {name: QUESTIONS[name](model) for name in ("vectors", "without a head", "null model")}
    assert all(asyncio.run(all_of_them()))


def test_a_task_is_refused_at_once_while_another_one_holds_the_model(model: Model) -> None:
    plain, changed = vectors(model), edited(model)

    async def hold(inside: asyncio.Event, leave: asyncio.Event) -> None:
        with model.without_heads(["1-1"]):
            inside.set()
            await leave.wait()
            assert np.array_equal(vectors(model), changed)

    async def both() -> None:
        inside, leave = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(hold(inside, leave), name="holder")
        await inside.wait()
        with pytest.raises(Busy, match="task 'holder'"):
            vectors(model)
        leave.set()
        await holder
        assert np.array_equal(vectors(model), plain)

    asyncio.run(both())


def test_a_task_or_thread_that_was_started_inside_a_with_is_refused_at_once(model: Model) -> None:
    async def ask() -> None:
        vectors(model)

    async def inside() -> None:
        with model.without_heads(["1-1"]):
            with pytest.raises(Busy):
                await asyncio.create_task(ask())
            with pytest.raises(Busy):
                await asyncio.to_thread(vectors, model)
        await asyncio.create_task(ask())

    asyncio.run(inside())
    assert is_free(model)


def test_executors_of_a_loop_get_the_serial_numbers(model: Model) -> None:
    names = ["vectors", "without a head", "gradients", "null model"] * 3
    serial = {name: QUESTIONS[name](model) for name in names}

    async def ask() -> list[bool]:
        loop = asyncio.get_running_loop()
        answers = await asyncio.gather(
            *(loop.run_in_executor(None, QUESTIONS[name], model) for name in names)
        )
        return [np.array_equal(answer, serial[name]) for name, answer in zip(names, answers, strict=True)]

    assert all(asyncio.run(ask()))


def test_a_loop_inside_a_with_asks_the_edited_model(model: Model) -> None:
    async def ask() -> bool:
        return np.array_equal(vectors(model), changed)

    changed = edited(model)
    with model.without_heads(["1-1"]):
        assert asyncio.run(ask())
    assert is_free(model)


# ---- settings of the process


def test_threads_that_load_one_folder_at_once_get_the_same_model(model: Model, tmp_path: Path) -> None:
    model.hf.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(load, [tmp_path] * 4))
    assert {each.fingerprint for each in loaded} == {load(tmp_path).fingerprint}
    assert torch.get_default_dtype() == torch.float32


def test_a_shared_setting_is_put_back_by_the_last_to_go() -> None:
    setting: list[str] = []

    @Together
    @contextmanager
    def together() -> Iterator[None]:
        setting.append("changed")
        yield
        setting.clear()

    first, second = together(), together()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert setting == ["changed"]
    second.__exit__(None, None, None)
    assert not setting


def test_two_threads_leave_warnings_and_kernels_as_they_were(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, onednn = tiny("bert", seed=1), torch.backends.mkldnn
    monkeypatch.setattr("levelhead.models.hooks._BLAS_IS_QUICKER", True)
    monkeypatch.setattr(onednn, "enabled", True)
    filters, planned = list(warnings.filters), (torch.backends.cuda.cudnn_sdp_enabled(), onednn.enabled)
    first, second = [quiet(), at_rest(model.hf)], [quiet(), at_rest(other.hf)]
    for context in (*first, *second):
        context.__enter__()
    assert [torch.backends.cuda.cudnn_sdp_enabled(), onednn.enabled] == [False, False]
    for context in (*first, *second):  # the first to come is the first to go
        context.__exit__(None, None, None)
    assert list(warnings.filters) == filters
    assert (torch.backends.cuda.cudnn_sdp_enabled(), onednn.enabled) == planned


def test_holding_and_asking_nest(model: Model) -> None:
    with holding(model.hf), asking(model.hf), holding(model.hf):
        assert len(lock_of(model.hf).holds) == 3
    assert not lock_of(model.hf).holds
