"""START HERE: measure, locate, mitigate, verify, report. The whole story on one page.

    measure    every question that the model can answer, a user's own among them (scoring/registry.py)
    locate     which attention heads carry the bias (studies/heads/study.py)
    mitigate   two ways out: close the worst heads, or project the best viable subspace away
               (studies/projections/candidates.py)
    verify     the same questions again, on items that no projection was chosen on, and what the change cost
    report     headline, page, recipes (pages/)

The command begins with a first look, a small audit of its own (results/presets.py, QUICK), whose answers and
page are there within a minute. Every result is stored as soon as it is there; a killed audit goes on and ends
with the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from levelhead.auditing.arena import certify_quickest
from levelhead.auditing.asked import asked_readings
from levelhead.auditing.plan import audit_plan
from levelhead.auditing.stages import fill_in_prompts, learn, locate, measure, mitigate, verify
from levelhead.auditing.subjects import Open, Subject, models_of, opened, subjects_of
from levelhead.auditing.ways import Way, write_recipes
from levelhead.engine.kept import keeping_answers
from levelhead.engine.pace import seconds_per_token
from levelhead.errors import Announcement, BadProbe, BadRun, CannotDo, LevelheadError
from levelhead.inference.headline import headline
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.ordinary import subfolder
from levelhead.pages.links import run_link
from levelhead.pages.notebook import notebook_html
from levelhead.pages.page import write_report
from levelhead.progress import duration
from levelhead.results import layout
from levelhead.results.records.common import BASE
from levelhead.results.runs import AuditRun, HeadsRun, open_audit
from levelhead.scoring.battery import Battery
from levelhead.scoring.placed import keeping_long_work, note_places
from levelhead.studies.extent import AuditSettings, Extent
from levelhead.work import Stage, stage, whole


@dataclass(frozen=True)
class Audit:
    """What an audit measured and says: the numbers of its run folder. In a notebook it shows itself."""

    folder: Path
    headline: str
    findings: tuple[str, ...]
    measurements: Mapping[str, Mapping[str, Measurement]] = field(repr=False)  # variant -> measure -> number
    report: Path | None = None

    def __getitem__(self, measure: str) -> Measurement:
        """A measure of the unmodified model: audit["seat"].value."""
        return self.measurements[BASE][measure]

    def _repr_html_(self) -> str:
        shown = notebook_html(self.headline, self.findings, self.measurements)
        return shown + run_link(self.folder, layout.AUDIT).html


def audit(
    model: Model | str,
    folder: str | Path,
    settings: AuditSettings | None = None,
    *,
    first_look: Callable[[Audit], None] | None = None,
    **loading: Unpack[LoadOptions],
) -> Audit:
    """Audit a model: `audit("lh:bert-mini", "runs/bert")`. loading: device, dtype ... as for `load`.

    first_look: is given the answers of a first look, within about a minute on two cores, and the audit goes
    on; None: no first look is taken.
    """
    settings, folder = settings or AuditSettings(), Path(folder)
    model = _loaded(model, **loading)
    beside = settings.nli is not None and "nli" not in model.abilities
    classifier = _loaded(settings.nli, **loading) if settings.nli is not None and beside else None
    _ask(folder, Extent(settings, model), classifier, first_look)
    return read_audit(folder, write_report(folder))


def _ask(
    folder: Path, extent: Extent, classifier: Model | None, told: Callable[[Audit], None] | None
) -> None:
    """Ask everything, and keep it in the folder."""
    battery = extent.battery()
    subjects = subjects_of(extent, classifier)
    plan = audit_plan(extent, battery, models_of(subjects), looks=told is not None)
    with (
        opened(folder, extent, battery, classifier) as run,
        _noting_a_stop(run.folder),
        keeping_long_work(run, models_of(subjects)),
        keeping_answers(models_of(subjects), asked_readings(extent, battery, models_of(subjects))),
        whole("Audit", plan, lambda: _times(extent, models_of(subjects), plan, run)),
    ):
        if told is not None:
            with stage(Stage.LOOK):
                _look_first(extent, classifier, run, told)
        located = locate(extent, run)
        for subject in subjects:
            measure(subject, extent, battery, run)
        ways = [] if extent.settings.quick else _ways_out(subjects, extent, battery, located, run)
        with stage(Stage.PROMPTS):
            fill_in_prompts(extent, ways, battery.test, run)
        if not extent.settings.quick:
            with stage(Stage.CERTIFIED):
                certify_quickest(extent, battery, run)
        with stage(Stage.LEARNING):
            learn(extent, run)
        note_places(run, models_of(subjects))
        run.result(layout.HEADLINE, lambda: headline(AuditRun(run.data())))


@contextmanager
def _noting_a_stop(folder: Path) -> Iterator[None]:
    """If the audit is stopped, the page of its first look no longer waits for that of the whole."""
    try:
        yield
    except BaseException:  # Ctrl-C too
        look, page = folder / layout.FIRST_LOOK, folder / layout.REPORT.name
        with suppress(LevelheadError, OSError):  # why it was stopped is what is said
            if page.exists() and open_audit(look).headline and open_audit(folder).headline is None:
                write_report(look, page, stopped=True)
        raise


def _times(
    extent: Extent, models: Sequence[Model], plan: Mapping[Stage, float], run: Open
) -> tuple[float, str]:
    """Seconds that the plan takes on this machine, and which option makes it shorter."""
    if layout.HEADLINE in run:
        return 0.0, ""
    token = seconds_per_token(extent.model)
    seconds = token * sum(plan.values())
    if extent.settings.quick or (first := extent.first_look) is None:
        return seconds, ""
    look = Extent(first, extent.model)
    quick = token * sum(audit_plan(look, look.battery(), models, looks=False).values())
    return seconds, f"--quick takes about {duration(quick)}"


def _look_first(extent: Extent, classifier: Model | None, run: Open, told: Callable[[Audit], None]) -> None:
    """A small audit inside the audit, whose page stands in the folder while the audit goes on."""
    if (settings := extent.first_look) is None or layout.HEADLINE in run:
        return
    folder, page = subfolder(run.folder, layout.FIRST_LOOK), run.folder / layout.REPORT.name
    try:
        _ask(folder, Extent(settings, extent.model), classifier, None)
    except (BadProbe, CannotDo) as error:  # it asks other items than the audit, which may well go on
        warnings.warn(f"There is no first look: {error}", Announcement, stacklevel=2)
        return
    write_report(folder, page, reload=True)  # also over that of an audit that was stopped
    told(read_audit(folder, page))


def _ways_out(
    subjects: Sequence[Subject], extent: Extent, battery: Battery, located: HeadsRun, run: Open
) -> list[Way]:
    """Mitigate and verify; what comes back are the ways out of the model itself."""
    parts = extent.halves(battery)
    with stage(Stage.CHANGES):
        ways = [mitigate(subject, extent, parts.choose, located, run) for subject in subjects]
        write_recipes(extent, [way for own in ways for way in own], parts.choose, run)
    with stage(Stage.VERIFIED):
        for subject, own in zip(subjects, ways, strict=True):
            verify(subject, own, parts, run)
    return ways[0]


def _loaded(model: Model | str, **loading: Unpack[LoadOptions]) -> Model:
    return load(model, **loading) if isinstance(model, str) else model


def read_audit(folder: str | Path, report: Path | None = None) -> Audit:
    """An audit from its run folder."""
    run = open_audit(folder)
    if run.headline is None:
        raise BadRun(f"The audit in {folder} is not finished. Run the same command again; it goes on.")
    return Audit(run.folder, run.headline.text, run.headline.findings, run.by_variant(), report)
