"""The certified model as a folder that transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from levelhead.edits.sites import passes
from levelhead.errors import CannotDo, NoEffect
from levelhead.mitigation.export import export
from levelhead.models.model import Model
from levelhead.results.records.mitigating import ModelWritten
from levelhead.studies.mitigating.protocol import Candidate


def write_chosen(model: Model, certified: Sequence[Candidate], folder: Path) -> ModelWritten:
    """Write the first certified candidate that can be written as a folder: one that is asked several times
    comes after those that are asked once."""
    reasons = []
    for candidate in sorted(certified, key=lambda each: passes(each.edits)):
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed after it
        try:
            report = export(model, candidate.edits, folder, candidate.recipe)
        except (CannotDo, NoEffect) as error:
            reasons.append(f"{candidate.name}: {error}")
            continue
        return ModelWritten(candidate.name, report.load_with, "", report.per_answer, report.per_token)
    return ModelWritten("", "", "; ".join(reasons) or "no mitigation is certified")
