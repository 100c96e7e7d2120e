"""A measure of the user's own in an audit that is there already."""

from __future__ import annotations

from pathlib import Path

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.studies.audit import Audit


def bring(folder: Path, info: MeasureInfo, measurement: Measurement) -> Path:
    """Store how the measure is shown and what it gave for the unmodified model."""
    data = Audit.open(folder).data
    with Run.open(folder, Audit, data.settings, hashes=data.hashes) as run:
        run.results(Audit.measures, lambda: [info])
        run.result(Audit.measured.of("own"), lambda: MeasuredVariant(BASE, data.settings.model, measurement))
    return folder
