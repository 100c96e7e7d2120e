"""The certified model as a folder that transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from levelhead.edits.symmetry import symmetry_of
from levelhead.mitigation.export import export
from levelhead.models.model import Model
from levelhead.studies.mitigating.protocol import Candidate


def write_chosen(model: Model, certified: Sequence[Candidate], folder: Path) -> None:
    """Write the first certified candidate that can be written; a symmetrized model is no set of weights."""
    for candidate in certified:
        if symmetry_of(candidate.edits) is None:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed after it
            export(model, candidate.edits, folder, candidate.recipe)
            return
