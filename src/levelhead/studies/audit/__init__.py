"""The audit: measure, find the heads, mitigate, certify, report."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.files import JsonFile
from levelhead.runs.study import REPORT, Inside, Many, One, Parts, Study
from levelhead.studies.audit.records import Headline
from levelhead.studies.audit.settings import AuditSettings, AuditStored
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.generate import Generate
from levelhead.studies.glue import Glue
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import ArcSheet
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.records import CandidateTested

ARCS = JsonFile("arcs.json", ArcSheet)
FIRST_LOOK = "first-look"  # the folder of the audit that an audit begins with
NLI = "nli "  # how variants of the classifier beside a model begin


class Audit(Study[AuditStored]):
    """An audit: `headline`, `measured`, `verified`; the runs inside it: `heads`, `counteracts`, `generate`,
    `mitigate`, `nli_mitigate`, `glue`."""

    name = "audit"
    title = "Audit"
    question = "Is the model biased, which heads carry it, and what lowers it at which cost?"
    about = "Measure a model's bias, find the heads that carry it, certify a mitigation, write a report."
    settings_type = AuditSettings
    stored = AuditStored
    order = 90
    writes_page = True
    loads = False
    document = "report.md"
    unserved = "it reads word vectors, null models and counterfactual weights, which no server gives"
    rows = ("measured", "verified")
    default_folder = "runs/audit"
    default_model = "lh:bert-mini"

    measured = Parts(MeasuredVariant, "Every measure of the unmodified model; labels: a group of measures.")
    verified = Parts(
        MeasuredVariant,
        "Every measure of the recommended mitigation on held-out items; labels: variant/group.",
    )
    headline = One(Headline, "What the audit says; None while it is not finished.")
    measures = Many(MeasureInfo, "How the user's own measures are shown and judged.")

    heads = Inside(Heads)
    counteracts = Inside(Counteracts)
    generate = Inside(Generate)
    glue = Inside(Glue)
    mitigate = Inside(Mitigate)
    nli_mitigate = Inside(Mitigate)

    @property
    def bias(self) -> str:
        """The name of the bias: that of its word list."""
        words = None if self.heads is None else self.heads.words
        return self.settings.bias if words is None else words.test

    @property
    def recommended(self) -> dict[str, tuple[Mitigate, CandidateTested]]:
        """By variant, of the model and of the classifier beside it: the certified mitigation that gains most,
        and the run that it is tested in."""
        arenas = (("", self.mitigate), (NLI, self.nli_mitigate))
        return {
            f"{prefix}{each.name}": (arena, each)
            for prefix, arena in arenas
            if arena is not None
            for each in arena.certified[:1]
        }

    @property
    def arcs(self) -> ArcSheet | None:
        """Attention on sentence pairs, for the report."""
        return ARCS.read(self.folder)

    @property
    def finished(self) -> bool:
        return self.headline is not None

    @cached_property
    def measurements(self) -> dict[str, dict[str, Measurement]]:
        """Measurements by variant and measure, the unmodified model first."""
        table: dict[str, dict[str, Measurement]] = {BASE: {}}
        for each in (*self.measured, *self.verified):
            table.setdefault(each.variant, {})[each.name] = each.measurement
        return table

    def __getitem__(self, measure: str) -> Measurement:
        """A measure of the unmodified model: audit["seat"].value."""
        return self.measurements[BASE][measure]

    @property
    def report(self) -> Path:
        """The page, one HTML file; `save` takes it along."""
        return self.folder / REPORT.name

    def stated(self) -> dict[str, object]:
        said = self.headline
        return {
            "run": str(self.folder),
            "report": str(self.report),
            "headline": said and said.text,
            "findings": said and said.findings,
            "measurements": self.measurements,
        }
