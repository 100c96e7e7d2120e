"""What a mitigated model can still learn, as a cost: wrong answers after fine-tuning on GLUE.

A training takes as long as all other costs together. So candidates are trained in the order of the tests, and
only while every test passes: behind the first that fails nothing is certified anyway. The unmodified model
and a candidate are trained on the same examples with the same seeds. What acts where a model answers
(symmetrization) is put on the trained classifier; what acts inside or is weights is there from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.output import SelfDebiased, Symmetrized, edit_of
from levelhead.edits.sites import Variant
from levelhead.engine.finetuning import TaskData, finetune, task_reading
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.measures.certified import LEARNED, LEVEL, Certificate, Margins, PairedItems, with_costs
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.runs.files import file_label
from levelhead.studies.glue.run import Exam, exams_of
from levelhead.studies.glue.settings import GlueSettings
from levelhead.studies.mitigate.protocol import Candidate

_UNMODIFIED = "unmodified"
Wrong = NDArray[np.float64]  # [item]: the share of seeds whose classifier answers it wrongly


@dataclass(frozen=True, eq=False)
class Schooling:
    """The exams that every model is trained for; folder: of checkpoints."""

    model: Model
    settings: GlueSettings
    folder: Path

    @cached_property
    def exams(self) -> list[Exam]:
        """The tasks with their examples."""
        return exams_of(self.settings)

    def costs(self, candidate: Candidate) -> list[PairedItems]:
        """One for each task: what is answered wrongly before and after."""
        if edit_of(SelfDebiased, candidate.edits) is not None:
            raise CannotDo("Self-Debias changes what words are predicted; a classifier predicts none.")
        found = []
        for number, exam in enumerate(self.exams):
            if edit_of(Symmetrized, candidate.edits) is not None:
                before, after = self._wrong(number, (), _UNMODIFIED, [(), candidate.edits])
            else:
                before, (after,) = self._plain[number], self._wrong(number, candidate.edits, candidate.name)
            clusters, name = np.arange(len(before)).astype(np.str_), f"{LEARNED}{exam.task.name}"
            found.append(PairedItems(name, "share wrong", before, after, clusters, answers=len(before)))
        return found

    @cached_property
    def _plain(self) -> list[Wrong]:
        """The unmodified model, task by task."""
        return [self._wrong(number, (), _UNMODIFIED)[0] for number in range(len(self.exams))]

    @cached_property
    def _data(self) -> list[TaskData]:
        longest = self.settings.training.max_length
        return [exam.tokenized(self.model, longest) for exam in self.exams]

    def _wrong(self, number: int, edits: Variant, name: str, variants: Sequence[Variant] = ()) -> list[Wrong]:
        """A model trained with the edits on, and its answers: as it ends, or in each of the variants."""
        data, exam = self._data[number], self.exams[number]
        gold = np.asarray([label for _, label in data.dev])
        reading = task_reading(self.model, exam.dev.items, self.settings.training.max_length)
        wrong = []
        for seed in range(self.settings.seed, self.settings.seed + self.settings.seeds):
            place = self.folder / file_label(f"{exam.task.name}/{name}/{seed}")
            tuned = finetune(self.model, edits, data, self.settings.training, seed, place)
            logits = read_one(tuned.model, reading, variants) if variants else None
            answers = [tuned.predictions] if logits is None else list(logits.argmax(-1))
            wrong.append(np.asarray([own != gold for own in answers], np.float64))
        return list(np.mean(np.stack(wrong), axis=0))


def with_learning(
    schooling: Schooling, candidates: Sequence[Candidate], tested: Sequence[Certificate], margins: Margins
) -> list[Certificate]:
    """The certificates, in their order, with what each candidate can still learn, until one fails."""
    names = [f"{LEARNED}{exam.task.name}" for exam in schooling.exams]
    found = list(tested)
    with steps("Fine-tuning on GLUE", len(candidates)) as advance:
        for number, (candidate, own) in enumerate(zip(candidates, tested, strict=True)):
            if own.p > LEVEL:
                break
            try:
                found[number] = with_costs(own, schooling.costs(candidate), margins)
            except CannotDo:
                # that costs which could not be measured stay within a margin is not shown
                found[number] = replace(own, p_costs={**own.p_costs, **dict.fromkeys(names, 1.0)})
            advance(1)
            if found[number].p > LEVEL:
                break
    return found
