"""A run folder as the report reads it: the run, the studies inside it, measurements with their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from levelhead.errors import BadRun
from levelhead.measures.catalog import main_names
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.runs.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.runs.study import AnyRun, open_run
from levelhead.studies.atlas import Atlas
from levelhead.studies.audit import Audit
from levelhead.studies.benchmark import Benchmark
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.records import ClozeCell
from levelhead.studies.generate import Generate
from levelhead.studies.generate.records import GenerationMeasured
from levelhead.studies.glue import Glue
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import ArcPair, ArcVersion
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.planted import Planted
from levelhead.studies.projections import Projections
from levelhead.studies.projections.records import SettingMeasured
from levelhead.studies.survey import Survey

R = TypeVar("R", bound=AnyRun)


@dataclass(frozen=True)
class Reported:
    """A measurement as a report shows it: of which variant and model, and where it stands in the results."""

    measurement: Measurement
    variant: str
    model: str
    address: str

    @property
    def name(self) -> str:
        return self.measurement.name


@dataclass(frozen=True, eq=False)
class Found(Generic[R]):
    """The run of one study: the folder's own, or the one inside it; else None."""

    study: type[R]

    def __get__(self, contents: Contents, owner: object = None) -> R | None:
        return contents.of(self.study)


@dataclass(frozen=True)
class Contents:
    """A run, and the runs inside it. Addresses: `PART:KEY#INDEX`, without the part for the folder's own."""

    run: AnyRun
    audit = Found(Audit)
    heads = Found(Heads)
    counteracts = Found(Counteracts)
    projections = Found(Projections)
    glue = Found(Glue)
    generate = Found(Generate)
    survey = Found(Survey)
    mitigate = Found(Mitigate)
    atlas = Found(Atlas)
    planted = Found(Planted)
    benchmark = Found(Benchmark)

    def of(self, study: type[R]) -> R | None:
        """The run of a study: the run itself, or the one inside it."""
        return next((run for run in (self.run, *self.parts.values()) if isinstance(run, study)), None)

    @property
    def arenas(self) -> tuple[Mitigate, ...]:
        """The runs of mitigations: of the model, and of a classifier beside it."""
        runs = (self.run, *self.parts.values())
        return tuple(run for run in runs if isinstance(run, Mitigate))

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def model(self) -> str:
        return self.run.model

    @property
    def study(self) -> str:
        return self.run.name

    @cached_property
    def parts(self) -> dict[str, AnyRun]:
        """The runs inside this one, by their names."""
        return self.run.parts

    def address(self, record: object) -> str:
        """Where a record stands; nothing for a record that is in none of the runs."""
        if (own := self.run.data.address(record)) is not None:
            return own
        for name, run in self.parts.items():
            if (inner := run.data.address(record)) is not None:
                return f"{name}:{inner}"
        return ""


def open_contents(folder: str | Path) -> Contents:
    """Read a run folder and the studies in it."""
    contents = Contents(open_run(folder))
    if not contents.run.data.results and not any(run.data.results for run in contents.parts.values()):
        raise BadRun(
            f"{folder} has no results yet. Run the command that began it again; it goes on where it was."
        )
    return contents


@contextmanager
def consistent(contents: Contents) -> Iterator[None]:
    """Inside, a record that names what no other record has is one line: a name in the folder was changed."""
    try:
        yield
    except (KeyError, IndexError, StopIteration) as error:
        raise BadRun(
            f"The results in {contents.folder} do not fit together ({' '.join(str(error).split())[:80]}): a "
            "name or a number in it was changed. Run the study again in a new folder."
        ) from error


# ---- lines that stand wherever the numbers of a model stand


def doubt_text(run: AnyRun) -> str:
    """One line about the models of a run that do not read plain English, on which no verdict may rest; empty
    where there are none."""
    return " ".join(f"{model}: {doubt}." for model, doubt in run.doubts.items())


def openings_text(run: AnyRun) -> str:
    """What every text began with, model by model where they differ."""
    said = run.openings
    if len(set(said.values())) <= 1:
        return next(iter(said.values()), "")
    return "; ".join(f"{model}: {opening}" for model, opening in said.items())


# ---- measurements, wherever a study keeps them


def measurements(contents: Contents, variant: str = BASE) -> list[Reported]:
    """One measurement a measure of one variant: of the audit, else of the studies that the folder holds."""
    found = [each for each in _audited(contents) if each.variant == variant]
    if not found:
        records: list[MeasuredVariant | SettingMeasured | ClozeCell | GenerationMeasured] = []
        heads, projections, prompts = contents.heads, contents.projections, contents.counteracts
        if heads is not None and heads.seat is not None and variant == BASE:
            records.append(heads.seat)
        if projections is not None:
            records += [each for each in projections.measured if each.variant == variant]
        if prompts is not None:
            cells = (prompts.log_odds(variant), prompts.margin(variant))
            records += [cell for cell in cells if cell is not None]
        if contents.generate is not None:
            records += [each for each in contents.generate.measured if each.variant == variant]
        found = [Reported(r.measurement, variant, r.model, contents.address(r)) for r in records]
        for learned in () if contents.glue is None else contents.glue.cells:
            if learned.recipe == variant:
                address = contents.address(learned)
                found.append(Reported(learned.measurement, variant, contents.model, address))
        if contents.benchmark is not None and variant == BASE:
            for r in contents.benchmark.scores:
                found.append(Reported(r.measurement, r.variant, r.model, contents.address(r)))
    chosen: dict[str, Reported] = {}
    for each in found:
        if not each.name.endswith(CHANGE):
            chosen.setdefault(each.name, each)
    return list(chosen.values())


def main_scores(reported: Sequence[Reported]) -> list[Reported]:
    """Scores of all items of a benchmark, without those of groups of them."""
    names = main_names([each.name for each in reported])
    return [each for each in reported if each.name in names]


def before(contents: Contents) -> list[Reported]:
    """The unmodified model, on the items that changed models were verified on where there are such."""
    same = {each.name: each for each in measurements(contents, SAME_ITEMS)} if contents.audit else {}
    return [same.get(each.name, each) for each in measurements(contents)]


def changes(contents: Contents, variant: str) -> dict[str, Reported]:
    """Paired changes of a variant against the unmodified model, by the name of the measure."""
    paired = [each for each in _audited(contents) if each.variant == variant and each.name.endswith(CHANGE)]
    if contents.audit is None and contents.glue is not None:
        own = [each for each in contents.glue.costs if each.recipe == variant]
        paired = [Reported(r.measurement, variant, contents.model, contents.address(r)) for r in own]
    if contents.audit is None and contents.generate is not None:
        written = [each for each in contents.generate.changed if each.variant == variant]
        paired = [Reported(r.measurement, variant, r.model, contents.address(r)) for r in written]
    return {each.name.removesuffix(CHANGE): each for each in paired}


def variants(contents: Contents) -> list[str]:
    """Names of the variants that have measurements, the unmodified model first."""
    named = [each.variant for each in _audited(contents)]
    if not named and contents.projections is not None:
        named = [each.variant for each in contents.projections.measured]
    if not named and contents.counteracts is not None:
        named = list(contents.counteracts.settings.variants)
    if not named and contents.glue is not None:
        named = list(contents.glue.settings.names)
    if not named and contents.generate is not None:
        named = list(contents.generate.settings.variants)
    return list(dict.fromkeys([BASE, *named]))


def _audited(contents: Contents) -> list[Reported]:
    records = () if contents.audit is None else (*contents.audit.measured, *contents.audit.verified)
    return [Reported(r.measurement, r.variant, r.model, contents.address(r)) for r in records]


def arcs(contents: Contents) -> tuple[ArcPair, ...]:
    """Sentence pairs with every head's attention: the audit's, else the heads study's running example, in
    which heads that it does not show are None."""
    if contents.audit is not None and (sheet := contents.audit.arcs) is not None:
        return sheet.pairs
    heads = contents.heads
    if heads is None or not heads.example:
        return ()
    layers = sorted({score.head.layer for score in heads.scores})
    versions = []
    for name in ("original", "counter"):
        shown = [each for each in heads.example if each.version == name]
        weights = {each.head: each.weights for each in shown}
        attention = tuple(
            tuple(weights.get(score.head) for score in heads.scores if score.head.layer == layer)
            for layer in layers
        )
        versions.append(ArcVersion(shown[0].tokens, shown[0].target, shown[0].attribute, attention))
    original, counter = versions
    texts = [" ".join(token for token in each.tokens if token) for each in versions]
    return (ArcPair(texts[0], texts[1], original, counter),)
