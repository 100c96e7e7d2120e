"""A trap at any name of any study's run: refused in one line or passed by; nothing of the user's changes.

The runs are real ones on tiny models. Every trap meets a reader at every name; a page and a repeated command
meet one trap at every name, the next kind at each next name. The fuzzer tries all of it at random.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from benchmarks.fuzz.runs import READERS
from benchmarks.fuzz.trapped import LATER, RESUMING, STUDIES, Trapped
from benchmarks.fuzz.trial import FINDINGS, Place, Subject, Trial, run_trial
from benchmarks.fuzz.watch import Watch

from levelhead.results.folder import LOCK, RESULTS, SETTINGS
from tests.traps import TRAPS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Trapped:
    return Trapped(tmp_path_factory.mktemp("trapped"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "inputs", tmp_path / "outputs")


def tried(place: Place, watch: Watch, prepare: Callable[[], Callable[[], object]]) -> Trial:
    for folder in (place.inputs, place.outputs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    return run_trial(Subject("trap", 1, lambda *_: prepare()), 0, place, watch)


def findings(trials: Iterator[tuple[str, Trial]]) -> list[str]:
    return [
        f"{name}: {trial.outcome}\n{trial.details}" for name, trial in trials if trial.outcome in FINDINGS
    ]


@pytest.mark.parametrize("study", STUDIES)
def test_no_reader_follows_a_trap_at_any_name_of_a_run(
    study: str, trapped: Trapped, place: Place, watch: Watch
) -> None:
    def trials() -> Iterator[tuple[str, Trial]]:
        for name in trapped.names(study):
            for trap in TRAPS:

                def prepare(name: str = name, trap: str = trap) -> Callable[[], object]:
                    trapped.prepared(study, name, trap, "card", place)
                    return lambda: READERS["card"](place.outputs / "run", place)

                trial = tried(place, watch, prepare)
                if name in (SETTINGS, RESULTS):
                    assert trial.outcome == "refused", (name, trap)
                yield f"{trap} at {name}", trial

    assert findings(trials()) == []


@pytest.mark.parametrize("command", ["report", RESUMING])
@pytest.mark.parametrize("study", STUDIES)
def test_no_page_and_no_repeated_command_follows_a_trap_at_any_name_of_a_run(
    study: str, command: str, trapped: Trapped, place: Place, watch: Watch
) -> None:
    def trials() -> Iterator[tuple[str, Trial]]:
        for name, trap in zip(trapped.names(study), cycle(TRAPS), strict=False):
            yield (
                f"{trap} at {name}",
                tried(place, watch, lambda n=name, t=trap: trapped.prepared(study, n, t, command, place)),  # type: ignore[misc]
            )

    assert findings(trials()) == []


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", [SETTINGS, RESULTS, "files.sha256", LOCK])
def test_a_repeated_command_refuses_every_trap_at_the_files_that_every_run_has(
    name: str, trap: str, trapped: Trapped, place: Place, watch: Watch
) -> None:
    trial = tried(place, watch, lambda: trapped.prepared("heads", name, trap, RESUMING, place))
    assert trial.outcome == "refused"


def test_a_run_without_traps_is_read_and_goes_on(trapped: Trapped, place: Place, watch: Watch) -> None:
    unused = next(name for name in LATER if "heads" in name)
    for command in ("card", "report", RESUMING):
        trial = tried(place, watch, lambda c=command: trapped.prepared("heads", unused, "folder", c, place))  # type: ignore[misc]
        assert trial.outcome == "accepted", command
