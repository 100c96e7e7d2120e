"""A run folder as the report reads it: the run, the studies inside it, measurements with their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from levelhead.errors import BadRun
from levelhead.measures.measurement import CHANGE, Measurement
from levelhead.measures.score_infos import main_names
from levelhead.results.layout import ARENA_PART
from levelhead.results.records.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.results.records.glue import GlueCell, GlueCost
from levelhead.results.records.heads import ArcPair, ArcVersion, AttentionExample, HeadScore
from levelhead.results.runs import (
    AnyRun,
    AtlasRun,
    AuditRun,
    BenchmarkRun,
    GlueRun,
    HeadsRun,
    MitigateRun,
    PlantedRun,
    PromptsRun,
    SurveyRun,
    SweepRun,
    open_run,
)


@dataclass(frozen=True)
class Reported:
    """A measurement as a report shows it: of which variant and model, and where it stands in the results."""

    measurement: Measurement
    variant: str
    model: str
    address: str

    @property
    def name(self) -> str:
        """The measure's name."""
        return self.measurement.name

    @property
    def is_change(self) -> bool:
        """Whether it compares a variant with the unmodified model, item by item."""
        return self.name.endswith(CHANGE)


@dataclass(frozen=True)
class Contents:
    """A run, and the runs inside it. Addresses: `PART:KEY#INDEX`, without the part for the folder's own."""

    run: AnyRun

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self.run.folder

    @property
    def model(self) -> str:
        """The model, or the models, that were asked."""
        return self.run.model

    @property
    def study(self) -> str:
        """The study that wrote the run."""
        return self.run.settings.study

    @property
    def audit(self) -> AuditRun | None:
        """The run, where it is an audit."""
        return self.run if isinstance(self.run, AuditRun) else None

    @property
    def heads(self) -> HeadsRun | None:
        """The heads study: the run itself, or the one inside an audit."""
        return self.run if isinstance(self.run, HeadsRun) else self.audit.heads if self.audit else None

    @property
    def prompts(self) -> PromptsRun | None:
        """The CounterActs study: the run itself, or the one inside an audit."""
        return self.run if isinstance(self.run, PromptsRun) else self.audit.prompts if self.audit else None

    @property
    def sweep(self) -> SweepRun | None:
        """The run, where it is a sweep."""
        return self.run if isinstance(self.run, SweepRun) else None

    @property
    def glue(self) -> GlueRun | None:
        """The GLUE study: the run itself, or the one inside an audit."""
        return self.run if isinstance(self.run, GlueRun) else self.audit.glue if self.audit else None

    @property
    def survey(self) -> SurveyRun | None:
        """The run, where it is a survey."""
        return self.run if isinstance(self.run, SurveyRun) else None

    @property
    def mitigations(self) -> MitigateRun | None:
        """The run of mitigations: the run itself, or the one inside an audit."""
        return self.run if isinstance(self.run, MitigateRun) else self.audit.arena if self.audit else None

    @property
    def atlas(self) -> AtlasRun | None:
        """The run, where it is an atlas."""
        return self.run if isinstance(self.run, AtlasRun) else None

    @property
    def planted(self) -> PlantedRun | None:
        """The run, where it is one of planted bias."""
        return self.run if isinstance(self.run, PlantedRun) else None

    @property
    def benchmark(self) -> BenchmarkRun | None:
        """The run, where it is one of a published benchmark."""
        return self.run if isinstance(self.run, BenchmarkRun) else None

    @cached_property
    def parts(self) -> dict[str, AnyRun]:
        """The runs inside this one, by the name of their folder."""
        inner: dict[str, AnyRun | None] = {}
        if self.audit is not None:
            inner = {"heads": self.audit.heads, "prompts": self.audit.prompts, "glue": self.audit.glue}
            inner[ARENA_PART] = self.audit.arena
        return {name: run for name, run in inner.items() if run is not None}

    def address(self, record: object) -> str:
        """Where a record stands; nothing for a record that is in none of the runs."""
        if (own := self.run.address(record)) is not None:
            return own
        for name, run in self.parts.items():
            if (inner := run.address(record)) is not None:
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


# ---- measurements, wherever a study keeps them


def measurements(contents: Contents, variant: str = BASE) -> list[Reported]:
    """One measurement a measure of one variant: of the audit, else of the studies that the folder holds."""
    own = [each for each in _audited(contents) if each.variant == variant]
    chosen: dict[str, Reported] = {}
    for each in own or _of_studies(contents, variant):
        if not each.is_change:
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
    paired = [each for each in _audited(contents) if each.variant == variant and each.is_change]
    if contents.audit is None and contents.glue is not None:
        paired = list(_learned(contents, contents.glue.costs, variant))
    return {each.name.removesuffix(CHANGE): each for each in paired}


def variants(contents: Contents) -> list[str]:
    """Names of the variants that have measurements, the unmodified model first."""
    named = [each.variant for each in _audited(contents)]
    if not named and contents.sweep is not None:
        named = [each.variant for each in contents.sweep.measured]
    if not named and contents.prompts is not None:
        named = list(contents.prompts.settings.variants)
    if not named and contents.glue is not None:
        named = list(contents.glue.settings.recipes)
    return list(dict.fromkeys([BASE, *named]))


def _audited(contents: Contents) -> list[Reported]:
    """An audit's measurements, before and after."""
    if contents.audit is None:
        return []
    return _reported(contents, (*contents.audit.measured, *contents.audit.verified))


def _reported(contents: Contents, records: Iterable[MeasuredVariant]) -> list[Reported]:
    return [Reported(r.measurement, r.variant, r.model, contents.address(r)) for r in records]


def _of_studies(contents: Contents, variant: str) -> Iterator[Reported]:
    heads, sweep, prompts, glue = contents.heads, contents.sweep, contents.prompts, contents.glue
    if heads is not None and heads.seat is not None and variant == BASE:
        yield Reported(heads.seat.measurement, BASE, heads.seat.model, contents.address(heads.seat))
    for setting in () if sweep is None else sweep.measured:
        if setting.variant == variant:
            yield Reported(setting.measurement, variant, setting.model, contents.address(setting))
    for cell in () if prompts is None else (prompts.log_odds(variant), prompts.margin(variant)):
        if cell is not None:
            yield Reported(cell.measurement, variant, cell.model, contents.address(cell))
    if glue is not None:
        yield from _learned(contents, glue.cells, variant)
    if contents.benchmark is not None:
        yield from (each for each in _reported(contents, contents.benchmark.scores) if variant == BASE)


def _learned(contents: Contents, records: Iterable[GlueCell | GlueCost], variant: str) -> Iterator[Reported]:
    """What a GLUE run has on one recipe."""
    for each in records:
        if each.recipe == variant:
            yield Reported(each.measurement, variant, contents.model, contents.address(each))


# ---- attention arcs


def arcs(contents: Contents) -> tuple[ArcPair, ...]:
    """Sentence pairs with every head's attention: the audit's, else the heads study's running example."""
    if contents.audit is not None and (sheet := contents.audit.arcs) is not None:
        return sheet.pairs
    heads = contents.heads
    return () if heads is None or not heads.example else (_example_pair(heads.example, heads.scores),)


def _example_pair(example: tuple[AttentionExample, ...], scores: tuple[HeadScore, ...]) -> ArcPair:
    """The example in the form of an arc sheet; heads that it does not show are None."""
    original, counter = (
        _example_version([each for each in example if each.version == version], scores)
        for version in ("original", "counter")
    )
    return ArcPair(_joined(original), _joined(counter), original, counter)


def _example_version(shown: list[AttentionExample], scores: tuple[HeadScore, ...]) -> ArcVersion:
    weights = {each.head: each.weights for each in shown}
    layers = sorted({score.head.layer for score in scores})
    attention = tuple(
        tuple(weights.get(score.head) for score in scores if score.head.layer == layer) for layer in layers
    )
    first = shown[0]
    return ArcVersion(first.tokens, first.target, first.attribute, attention)


def _joined(version: ArcVersion) -> str:
    return " ".join(token for token in version.tokens if token)
