"""A trap at any name of any study's run: refused in one line or passed by; nothing of the user's changes.

The runs are real ones on tiny models; of files that differ in a label alone one is taken. A reader meets
every trap at settings and results, and one at any other name, the next kind at each next name, as a repeated
command does; at night it meets every trap at every name. The fuzzer tries all names, kinds and commands at
random. An audit takes long: test_auditing.py lays traps in its own.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from benchmarks.fuzz.__main__ import MEMORY
from benchmarks.fuzz.runs import READERS
from benchmarks.fuzz.trapped import LATER, RESUMING, STUDIES, Trapped
from benchmarks.fuzz.trial import FINDINGS, Place, Subject, Trial, run_trial
from benchmarks.fuzz.watch import Watch

from levelhead.runs.files import FILES
from levelhead.runs.folder import LOCK, RESULTS, SETTINGS
from tests.audit_sizes import ask_little
from tests.traps import TRAPS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("figures_not_drawn")]
QUICK = [study for study in STUDIES if study != "audit"]
ONE_AND_THE_REST = [QUICK[0], *(pytest.param(study, marks=pytest.mark.nightly) for study in QUICK[1:])]
EVERY_RUN = (SETTINGS, RESULTS, FILES, LOCK)


@pytest.fixture(autouse=True)
def _a_device_that_is_read_stops_the_test_and_not_the_machine() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.fixture(scope="module", autouse=True)
def _runs_ask_little(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """They have files of all kinds all the same."""
    with pytest.MonkeyPatch.context() as patch:
        ask_little(patch, tmp_path_factory.mktemp("prompts"))
        yield


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


def kinds_of_names(names: Iterable[str]) -> list[str]:
    """Names that differ in more than a label: of the files in a folder of a run one for each ending."""
    first: dict[tuple[str, str] | str, str] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        first.setdefault((folder, Path(file).suffix) if folder else name, name)
    return list(first.values())


def findings(trials: Mapping[tuple[str, str], Trial]) -> list[str]:
    """Traps that did harm, each with its name, and what happened."""
    found = ((at, trial) for at, trial in trials.items() if trial.outcome in FINDINGS)
    return [f"{trap} at {name}: {trial.outcome}\n{trial.details}" for (name, trap), trial in found]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("study", ONE_AND_THE_REST)
def test_no_reader_follows_a_trap_at_any_name_of_a_run(
    study: str, every: bool, trapped: Trapped, place: Place, watch: Watch
) -> None:
    def read(name: str, trap: str) -> Trial:
        def prepare() -> Callable[[], object]:
            trapped.prepared(study, name, trap, "card", place)
            return lambda: READERS["card"](place.outputs / "run", place)

        return tried(place, watch, prepare)

    names = kinds_of_names(trapped.names(study))
    always = {(name, trap) for name in (SETTINGS, RESULTS) for trap in TRAPS}
    all_of_them = {(name, trap) for name in names for trap in TRAPS}
    asked = all_of_them if every else {*always, *zip(names, cycle(TRAPS), strict=False)}
    results = {at: read(*at) for at in sorted(asked)}
    assert findings(results) == []
    assert always <= {at for at, trial in results.items() if trial.outcome == "refused"}


@pytest.mark.parametrize("study", ONE_AND_THE_REST)
def test_no_repeated_command_follows_a_trap_at_any_name_of_a_run(
    study: str, trapped: Trapped, place: Place, watch: Watch
) -> None:
    later = LATER if study in ("heads", "glue", "survey") else ()  # others get none of these, or few
    names = [*kinds_of_names(trapped.names(study)), *later]
    at = dict(zip(names, cycle(TRAPS), strict=False)).items()
    results = {
        (name, trap): tried(place, watch, partial(trapped.prepared, study, name, trap, RESUMING, place))
        for name, trap in at
    }
    assert findings(results) == []


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", EVERY_RUN)
def test_a_repeated_command_refuses_every_trap_at_the_files_that_every_run_has(
    name: str, trap: str, trapped: Trapped, place: Place, watch: Watch
) -> None:
    trial = tried(place, watch, lambda: trapped.prepared("glue", name, trap, RESUMING, place))
    ignored = name == FILES and FILES not in trapped.names("glue")  # a run without such files reads none
    assert trial.outcome == ("accepted" if ignored else "refused")


@pytest.mark.parametrize("trap", TRAPS)
def test_a_page_is_written_into_a_run_through_no_trap(
    trap: str, trapped: Trapped, place: Place, watch: Watch
) -> None:
    trial = tried(place, watch, lambda: trapped.prepared("glue", "report.html", trap, "report", place))
    assert trial.outcome == "refused"


def test_a_run_without_traps_is_read_and_goes_on(trapped: Trapped, place: Place, watch: Watch) -> None:
    for command in ("card", "report", RESUMING):
        trial = tried(place, watch, partial(trapped.prepared, "heads", "empty", "folder", command, place))
        assert trial.outcome == "accepted", command
