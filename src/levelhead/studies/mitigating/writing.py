"""The certified model as a folder that transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from levelhead.edits.symmetry import symmetry_of
from levelhead.errors import CannotDo
from levelhead.mitigation.export import export
from levelhead.models.model import Model
from levelhead.studies.mitigating.protocol import Candidate


def write_chosen(model: Model, certified: Sequence[Candidate], folder: Path) -> None:
    """Write the first certified candidate that can be written; a symmetrized model is no set of weights."""
    for candidate in certified:
        if symmetry_of(candidate.edits) is not None:
            continue
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed after it
        with suppress(CannotDo):  # what was measured stands, whether it can be written or not
            export(model, candidate.edits, folder, candidate.recipe)
            return
