"""How a run of this study is shown."""

from __future__ import annotations

from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.renderers import notebook_html
from levelhead.studies.audit import Audit


def chart(run: Audit) -> Chart:
    """Every measure before and after, with intervals."""
    return intervals(
        [Labeled(each.variant, each.measurement) for each in (*run.measured, *run.verified)], run.model
    )


def notebook(run: Audit) -> str | None:
    """Headline, findings and measures; None while the audit is not finished."""
    said = run.headline
    return None if said is None else notebook_html(said.text, said.findings, run.measurements)
