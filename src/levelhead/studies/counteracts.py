"""CounterActs: does a counterexample change the model's mind? (docs/method.md, Cloze scores)

Reference: Zhang 2023.

Varied: the knowledge before the question (nine kinds and none), the model, and any edit of it. Measured: the
log-odds of the two groups' words, and what knowledge does to them, which the verdicts rest on; and, as in the
paper, for each k the mass of either group's words among the k likeliest tokens and the margin pro − anti.

A run holds, for each model and variant:

    results.jsonl           how the model was asked; measurements per k, kind and group, changes with verdicts
    occupations/NAME.csv    the same measurements for each occupation
    answers/NAME.jsonl      what the model filled in for each prompt, word by word
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.edits.sites import Variant
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.cloze.scores import ClozeScores
from levelhead.measures.cloze.verdicts import Verdict
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.cloze import ClozeSet, load_cloze
from levelhead.results import layout
from levelhead.results.folder import Run, text_hash
from levelhead.results.keys import Key
from levelhead.results.presets import check_null
from levelhead.results.records.cloze import AnswerWord, ClozeCell, ClozeForm, OccupationLine, PromptAnswers
from levelhead.results.records.common import BASE
from levelhead.results.runs import PromptsRun, prompts_label
from levelhead.results.settings import PromptsRunSettings
from levelhead.scoring.cloze import Change, ClozeAnswers, ask_cloze, prompt_form
from levelhead.scoring.cloze_null import change_nulls
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places


@dataclass(frozen=True)
class Edited:
    """How a model is edited, and a text that says it: another text is another run."""

    edits: Callable[[Model], Variant]
    stated: str = ""
    recipe: str | None = None  # the file that has them, if the command line would name the variant like this


@dataclass(frozen=True)
class CounteractsSettings:
    """What is asked and how it is counted.

    prompts: a shipped set, or the path of a TOML file
    verbalizer: a file in place of the set's own words
    seed: of the drawn backgrounds and of the bootstrap
    per_background: None: as the set says; 0: no knowledge before any question
    ks: how many likeliest tokens count
    draws: of the bootstrap
    null: null twins that verdicts are held against, at most; 0: verdicts stay untested
    remove_heads: asks every model without these heads too
    chat: through the chat template of each model's tokenizer; else in plain text
    """

    prompts: str = "gender-occupation"
    verbalizer: str | None = None
    seed: int = 0
    per_background: int | None = None
    ks: tuple[int, ...] = (3, 5, 10)
    draws: int = 2000
    null: int = 9
    remove_heads: tuple[Head, ...] = ()
    chat: bool = False

    def __post_init__(self) -> None:
        if not self.ks or min(self.ks) < 1 or len(set(self.ks)) < len(self.ks):
            given = ", ".join(map(str, self.ks)) or "nothing"
            raise BadOption(f"k = {given}. Give different whole numbers from 1, such as 3, 5, 10.")
        check_null(self.null)
        if self.draws < 100:
            raise BadOption(f"{self.draws} bootstrap draws are too few for a 95 % interval. Use 100 or more.")

    def load(self) -> ClozeSet:
        """The prompts."""
        return load_cloze(self.prompts, self.seed, self.per_background, self.verbalizer)

    def load_fewest(self) -> ClozeSet:
        """The prompts with one background a word, for null twins: fewer prompts scatter more, not less."""
        return load_cloze(self.prompts, self.seed, 1, self.verbalizer)


def counteracts(
    models: Sequence[Model],
    settings: CounteractsSettings,
    folder: str | Path,
    variants: Mapping[str, Edited] | None = None,
) -> PromptsRun:
    """Ask every model, untouched and in every variant of it, and keep the results in a run folder.

    variants: further edits by name, e.g. {"without gender": Edited(lambda model: (projection,))}. The same
    prompts are asked under every edit, so a variant can be compared with the unmodified model, which is named
    "base". A folder begun with other models, weights, prompts or variants is refused.
    """
    cloze_set = settings.load()
    edited = _all_variants(settings, variants or {})
    for model in models:
        prompt_form(model, settings.chat)  # a model that cannot be asked is refused before the first is
    with (
        _opened(folder, models, settings, cloze_set, edited) as run,
        keeping_long_work(run, models),
    ):
        for model in models:
            subjects = {name: _Subject(model.name, name) for name in edited}
            missing = [name for name, subject in subjects.items() if subject.cells not in run]
            edits = [edited[name].edits(model) for name in missing]
            answers = ask_cloze(model, cloze_set, edits, settings.ks, settings.chat) if missing else []
            nulls = _nulls(model, settings, answers)
            for name, answer, null in zip(missing, answers, nulls, strict=True):
                scores = answer.scores(Resampling(settings.draws, settings.seed), nulls=null)
                _keep(run, subjects[name], cloze_set, answer, scores)
        note_places(run, models)
        return PromptsRun(run.data())


def _nulls(
    model: Model, settings: CounteractsSettings, answers: Sequence[ClozeAnswers]
) -> list[dict[Change, NullDistribution]]:
    """Changes in null twins, for each answer; none for a tokenizer without words to deal out, and for a model
    that does not read plain English: their verdicts stay untested."""
    untested: list[dict[Change, NullDistribution]] = [{} for _ in answers]
    if model.opening.doubt or not answers:
        return untested
    changes, few = [answer.changes() for answer in answers], settings.load_fewest()
    try:
        return change_nulls(model, few, changes, settings.null, settings.seed, settings.chat)
    except CannotDo:
        return untested


def _all_variants(settings: CounteractsSettings, variants: Mapping[str, Edited]) -> dict[str, Edited]:
    """Every variant by its name, the unmodified model first."""
    named = {BASE: Edited(lambda model: ())}
    if settings.remove_heads:
        name = f"without heads {', '.join(map(str, settings.remove_heads))}"
        named[name] = Edited(lambda model: removed(model, settings.remove_heads))
    return {**named, **variants}


def _opened(
    folder: str | Path,
    models: Sequence[Model],
    settings: CounteractsSettings,
    cloze_set: ClozeSet,
    variants: Mapping[str, Edited],
) -> Run[PromptsRunSettings]:
    names = tuple(model.name for model in models)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadOption(f"{twice[0]} was given twice. Results are kept by name: give each model once.")
    recipe_file = next((each.recipe for each in variants.values() if each.recipe is not None), None)
    further = len(variants) - 1 - bool(settings.remove_heads)  # beside the unmodified model
    stored = PromptsRunSettings(
        study=layout.PROMPTS.study,
        seed=settings.seed,
        models=names,
        variants=tuple(variants),
        prompts=settings.prompts,
        verbalizer=settings.verbalizer,
        per_background=cloze_set.per_background,
        ks=settings.ks,
        draws=settings.draws,
        null=settings.null,
        chat=settings.chat,
        remove_heads=settings.remove_heads,
        groups=cloze_set.groups,
        kinds=cloze_set.kinds,
        n_prompts=len(cloze_set.prompts),
        recipe_file=recipe_file,
        variants_in_memory=further > (recipe_file is not None),
        loading=loaded_as(models),
    )
    hashes = {f"weights of {model.name}": model.fingerprint for model in models}
    for model in models:
        hashes |= model.facts(model.name)
    hashes |= {f"edits {name}": text_hash(each.stated) for name, each in variants.items() if each.stated}
    hashes[layout.PROMPTS_HASH] = cloze_set.fingerprint
    return Run.open(folder, layout.PROMPTS, stored, hashes=hashes)


# ---- what is kept of a model in one variant


@dataclass(frozen=True)
class _Subject:
    """A model in one variant of it."""

    model: str
    variant: str

    @property
    def label(self) -> str:
        """The end of its results' names."""
        return prompts_label(self.model, self.variant)

    @property
    def cells(self) -> Key[ClozeCell]:
        """Its measurements, which are written last: where they are, all is there."""
        return layout.CLOZE_CELLS.of(self.label)


class _Cell(NamedTuple):
    """Where a measurement belongs, as the measure labels it in the measurement's settings; "" means all."""

    k: int
    kind: str
    group: str
    occupation: str


_LABELS = _K, _KIND, _GROUP, _OCCUPATION = _Cell._fields
Cells = Sequence[tuple[_Cell, Measurement]]


def _keep(
    run: Run[PromptsRunSettings],
    subject: _Subject,
    cloze_set: ClozeSet,
    answers: ClozeAnswers,
    scores: ClozeScores,
) -> None:
    form = ClozeForm(subject.model, subject.variant, answers.form, answers.absent)
    cells = [(_cell(each), each) for each in (*scores.measurements, *scores.robustness)]
    run.file(layout.ANSWERS.of(subject.label), _answer_lines(cloze_set, answers))
    run.file(layout.OCCUPATIONS.of(subject.label), _occupation_lines(cells))
    run.result(layout.CLOZE_FORMS.of(subject.label), lambda: form)
    run.results(subject.cells, lambda: _cloze_cells(subject, cells, scores.verdicts, cloze_set))


def _cell(measurement: Measurement) -> _Cell:
    get = measurement.settings.get
    return _Cell(get(_K, ""), get(_KIND, ""), get(_GROUP, ""), get(_OCCUPATION, ""))


def _unlabeled(measurement: Measurement) -> Measurement:
    """A measurement without the labels of its cell: they stand beside it, once."""
    settings = {name: each for name, each in measurement.settings.items() if name not in _LABELS}
    return replace(measurement, settings=settings)


def _cloze_cells(
    subject: _Subject, cells: Cells, verdicts: Iterable[Verdict], cloze_set: ClozeSet
) -> Iterator[ClozeCell]:
    """Measurements of kinds and groups; a change of log-odds or of the margin has its verdict beside it."""
    expected = {prompt.kind: prompt.expected for prompt in cloze_set.prompts}
    words = {(v.change.name, v.k, v.kind, v.group): v.word for v in verdicts}
    for cell, measurement in cells:
        if cell.occupation:
            continue
        word = words.get((measurement.name, cell.k, cell.kind, cell.group))
        yield ClozeCell(
            model=subject.model,
            variant=subject.variant,
            k=cell.k,
            kind=cell.kind,
            group=cell.group,
            measurement=_unlabeled(measurement),
            verdict=word,
            expected=None if word is None else expected[cell.kind],
        )


def _occupation_lines(cells: Cells) -> Iterator[OccupationLine]:
    for cell, measurement in cells:
        if cell.occupation:
            low, high = measurement.interval or (None, None)
            yield OccupationLine(
                k=cell.k,
                kind=cell.kind,
                group=cell.group,
                occupation=cell.occupation,
                name=measurement.name,
                value=measurement.value,
                low=low,
                high=high,
                n=measurement.n,
                reason=measurement.reason or None,
            )


def _answer_lines(cloze_set: ClozeSet, answers: ClozeAnswers) -> Iterator[PromptAnswers]:
    names = {1: cloze_set.groups[0], -1: cloze_set.groups[1], 0: None}
    top = answers.topk
    for prompt, words, groups, probs in zip(cloze_set.prompts, top.words, top.groups, top.probs, strict=True):
        likeliest = (
            AnswerWord(str(word), names[int(group)], round(float(p), 6))
            for word, group, p in zip(words, groups, probs, strict=True)
        )
        yield PromptAnswers(prompt.id, tuple(likeliest))
