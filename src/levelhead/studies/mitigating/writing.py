"""The certified model as a folder that transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from levelhead.edits.sites import passes
from levelhead.errors import CannotDo, NoEffect
from levelhead.files import write_text_inside
from levelhead.mitigation.export import export
from levelhead.models.model import Model
from levelhead.ordinary import read_bytes
from levelhead.results.records.mitigating import ModelWritten
from levelhead.studies.mitigating.protocol import Candidate

_CARD = "README.md"  # of an exported folder
Slower = dict[str, tuple[float | None, float | None]]  # method -> time per answer, per generated token


def write_chosen(
    model: Model, certified: Sequence[tuple[Candidate, str]], folder: Path, slower: Slower | None = None
) -> ModelWritten:
    """Write the first certified candidate that can be written as a folder: one that is asked several times
    comes after those that are asked once.

    certified: candidates with what they buy and cost, which the folder's README says too; slower: gets the
    times of the one that is written, which are no result that a run repeats.
    """
    reasons = []
    for candidate, buys in sorted(certified, key=lambda each: passes(each[0].edits)):
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed after it
        try:
            report = export(model, candidate.edits, folder, candidate.recipe)
        except (CannotDo, NoEffect) as error:
            reasons.append(f"{candidate.name}: {error}")
            continue
        card = (read_bytes(folder, _CARD) or b"").decode()
        said = f"## What it buys and costs\n\n{candidate.name} {buys}, on held-out items.\n"
        write_text_inside(folder, _CARD, f"{card}\n{said}")
        if slower is not None:
            slower[candidate.method] = report.per_answer, report.per_token
        return ModelWritten(candidate.name, report.load_with, "")
    return ModelWritten("", "", "; ".join(reasons) or "no mitigation is certified")
