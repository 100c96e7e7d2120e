"""What a mitigated model can still learn, as a cost: wrong answers after fine-tuning on GLUE.

A training takes as long as all other costs together. So candidates are asked in the order of the tests, and
only while every test passes: behind the first that fails nothing is certified anyway. The unmodified model
and a candidate are trained on the same examples with the same seeds. What acts where a model answers
(symmetrization) is put on the trained classifier; what acts inside or is weights is there from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.self_debias import self_debias_of
from levelhead.edits.sites import Variant
from levelhead.edits.symmetry import symmetry_of
from levelhead.engine.finetuning import TaskData, finetune, task_reading
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.measures.certified import LEVEL, Certificate, Margins, PairedItems, learned_cost
from levelhead.models.model import Model
from levelhead.progress import steps
from levelhead.results.keys import file_label
from levelhead.scoring.glue import task_data
from levelhead.studies.glue import Exam, GlueSettings
from levelhead.studies.mitigating.protocol import Candidate

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
        return self.settings.exams()

    def costs(self, candidate: Candidate) -> list[PairedItems]:
        """One for each task: what is answered wrongly before and after."""
        if self_debias_of(candidate.edits) is not None:
            raise CannotDo("Self-Debias changes what words are predicted; a classifier predicts none.")
        return [self._cost(number, candidate) for number in range(len(self.exams))]

    def _cost(self, number: int, candidate: Candidate) -> PairedItems:
        if symmetry_of(candidate.edits) is not None:
            before, after = self._wrong(number, (), _UNMODIFIED, [(), candidate.edits])
        else:
            before, (after,) = self._plain[number], self._wrong(number, candidate.edits, candidate.name)
        clusters = np.arange(len(before)).astype(np.str_)
        name = learned_cost(self.exams[number].task.name)
        return PairedItems(name, "share wrong", before, after, clusters, answers=len(before))

    @cached_property
    def _plain(self) -> list[Wrong]:
        """The unmodified model, task by task."""
        return [self._wrong(number, (), _UNMODIFIED)[0] for number in range(len(self.exams))]

    @cached_property
    def _data(self) -> list[TaskData]:
        longest = self.settings.training.max_length
        return [task_data(self.model, exam.train, exam.dev, longest) for exam in self.exams]

    def _wrong(self, number: int, edits: Variant, name: str, asked: Sequence[Variant] = ()) -> list[Wrong]:
        """A model trained with the edits on, and its answers: as it ends, or in every variant asked."""
        data, exam = self._data[number], self.exams[number]
        gold = np.asarray(data.dev.labels)
        reading = task_reading(self.model, exam.dev.items, self.settings.training.max_length)
        wrong = []
        for seed in self.settings.all_seeds:
            place = self.folder / file_label(f"{exam.task.name}/{name}/{seed}")
            tuned = finetune(self.model, edits, data, self.settings.training, seed, place)
            logits = read_one(tuned.model, reading, asked) if asked else None
            answers = [tuned.predictions] if logits is None else list(logits.argmax(-1))
            wrong.append(np.asarray([own != gold for own in answers], np.float64))
        return list(np.mean(np.stack(wrong), axis=0))


def with_learning(
    schooling: Schooling, candidates: Sequence[Candidate], tested: Sequence[Certificate], margins: Margins
) -> list[Certificate]:
    """The certificates, in their order, with what each candidate can still learn, until one fails."""
    names = [learned_cost(exam.task.name) for exam in schooling.exams]
    found = list(tested)
    with steps("What it can still learn", len(candidates)) as advance:
        for number, (candidate, own) in enumerate(zip(candidates, tested, strict=True)):
            if own.p > LEVEL:
                break
            try:
                found[number] = own.with_costs(schooling.costs(candidate), margins)
            except CannotDo:
                found[number] = own.with_unknown_costs(names)
            advance(1)
            if found[number].p > LEVEL:
                break
    return found
