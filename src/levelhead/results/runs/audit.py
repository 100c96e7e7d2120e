"""An audit, and the runs inside it."""

from __future__ import annotations

from functools import cached_property

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.ordinary import subfolder
from levelhead.results import layout
from levelhead.results.records.audit import Headline, Mitigation, ProjectionCandidate
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.heads import ArcSheet
from levelhead.results.runs.glue import GlueRun
from levelhead.results.runs.heads import HeadsRun
from levelhead.results.runs.mitigating import MitigateRun
from levelhead.results.runs.prompts import PromptsRun
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import AuditRunSettings
from levelhead.results.stored import SETTINGS


class AuditRun(StudyRun[AuditRunSettings]):
    """An audit: measures, ways out, what is said, and the runs inside it."""

    LAYOUT = layout.AUDIT

    @property
    def model(self) -> str:
        """The model under audit."""
        return self.settings.model

    @property
    def bias(self) -> str:
        """The name of the bias: that of its word list."""
        words = None if self.heads is None else self.heads.words
        return self.settings.bias if words is None else words.test

    @property
    def measured(self) -> tuple[MeasuredVariant, ...]:
        """Every measure of the unmodified model."""
        return tuple(each for part in self.data.family(layout.MEASURED).values() for each in part)

    @property
    def verified(self) -> tuple[MeasuredVariant, ...]:
        """Every measure of every changed model."""
        return tuple(each for part in self.data.family(layout.VERIFIED).values() for each in part)

    @property
    def candidates(self) -> tuple[ProjectionCandidate, ...]:
        """Projections of the model that were tried, the unmodified model first."""
        return self.data.records(layout.CANDIDATES)

    @property
    def nli_candidates(self) -> tuple[ProjectionCandidate, ...]:
        """Projections of the classifier that stands beside the model."""
        return self.data.records(layout.NLI_CANDIDATES)

    @property
    def mitigations(self) -> tuple[Mitigation, ...]:
        """The ways out that were verified, the classifier's last."""
        return (*self.data.records(layout.MITIGATIONS), *self.data.records(layout.NLI_MITIGATIONS))

    @property
    def headline(self) -> Headline | None:
        """What the audit says; None while it is not finished."""
        return self.data.single(layout.HEADLINE)

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """How the user's own measures are shown and judged; the built-in ones stand in the catalog."""
        return self.data.records(layout.MEASURES)

    @property
    def arcs(self) -> ArcSheet | None:
        """Attention on sentence pairs, for the report."""
        return layout.ARCS.read(self.folder)

    @cached_property
    def heads(self) -> HeadsRun | None:
        """The heads study inside the audit."""
        folder = subfolder(self.folder, layout.HEADS_PART)
        return HeadsRun.open(folder) if (folder / SETTINGS).is_file() else None

    @cached_property
    def prompts(self) -> PromptsRun | None:
        """The CounterActs study inside the audit."""
        folder = subfolder(self.folder, layout.PROMPTS_PART)
        return PromptsRun.open(folder) if (folder / SETTINGS).is_file() else None

    @cached_property
    def glue(self) -> GlueRun | None:
        """The GLUE study inside the audit."""
        folder = subfolder(self.folder, layout.GLUE_PART)
        return GlueRun.open(folder) if (folder / SETTINGS).is_file() else None

    @cached_property
    def arena(self) -> MitigateRun | None:
        """The run of mitigations inside the audit."""
        folder = subfolder(self.folder, layout.ARENA_PART)
        return MitigateRun.open(folder) if (folder / SETTINGS).is_file() else None

    def by_variant(self) -> dict[str, dict[str, Measurement]]:
        """Measurements by variant and measure, the unmodified model first."""
        table: dict[str, dict[str, Measurement]] = {BASE: {}}
        for each in (*self.measured, *self.verified):
            table.setdefault(each.variant, {})[each.name] = each.measurement
        return table
