"""A measure of the user's own in an audit that is there already."""

from __future__ import annotations

from pathlib import Path

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.runs import open_audit


def bring(folder: Path, info: MeasureInfo, measurement: Measurement) -> Path:
    """Store how the measure is shown and what it gave for the unmodified model."""
    data = open_audit(folder).data
    with Run.open(folder, layout.AUDIT, data.settings, hashes=data.hashes) as run:
        run.results(layout.MEASURES, lambda: [info])
        run.result(layout.MEASURED.of("own"), lambda: MeasuredVariant(BASE, data.settings.model, measurement))
    return folder
