"""CounterActs: does a counterexample change the model's mind? (Zhang 2023; docs/method/prompts.md, Cloze
scores)

Varied: the knowledge before the question (nine kinds and none), the model, and any edit of it. Measured: the
log-odds of the two groups' words, and what knowledge does to them, which the verdicts rest on; and, as in the
paper, for each k the mass of either group's words among the k likeliest tokens and the margin pro − anti.

    results.jsonl           how the model was asked; measurements per k, kind and group, changes with verdicts
    occupations/NAME.csv    the same measurements for each occupation
    answers/NAME.jsonl      what the model filled in for each prompt, word by word
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from levelhead.edits.gates import removed
from levelhead.edits.sites import Variant
from levelhead.engine.effort import speed_of
from levelhead.engine.served.writing import Wanted, requests_plan
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.cloze import ClozeScores
from levelhead.measures.null import NullDistribution, likely
from levelhead.measures.statistics import Resampling
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import load_recipe, recipe_text
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.probes.cloze import ClozeSet, prompt_rows
from levelhead.progress import Plan, announce, announced, duration, tokens_in
from levelhead.runs.common import BASE
from levelhead.runs.folder import Run, text_hash
from levelhead.runs.study import stored_as
from levelhead.scoring.cloze import (
    Change,
    ClozeAnswers,
    ask_cloze,
    ask_served_cloze,
    change_nulls,
    cloze_texts,
    prompt_form,
    word_texts,
)
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.studies.counteracts import ANSWERS, OCCUPATIONS, PROMPTS_HASH, Counteracts, cells_label
from levelhead.studies.counteracts.records import (
    AnswerWord,
    ClozeCell,
    ClozeForm,
    OccupationLine,
    PromptAnswers,
)
from levelhead.studies.counteracts.settings import CounteractsSettings, CounteractsStored


@dataclass(frozen=True)
class Edited:
    """How a model is edited, and a text that says it: another text is another run."""

    edits: Callable[[Model], Variant]
    stated: str = ""
    recipe: str | None = None  # the file that has them, if the command line would name the variant like this


Open = Run[CounteractsStored]


def listing(settings: CounteractsSettings) -> list[dict[str, Any]]:
    """Every prompt of the settings."""
    return prompt_rows(settings.load())


def counteracts(
    models: Sequence[Model | ServedModel],
    settings: CounteractsSettings | None,
    folder: str | Path,
    variants: Mapping[str, Edited] | None = None,
) -> Counteracts:
    """Ask every model, untouched and in every variant of it, and keep the results in a run folder.

    variants: further edits by name, e.g. {"without gender": Edited(lambda model: (projection,))}. The same
    prompts are evaluated under every edit, so a variant can be compared with the unmodified model, which is
    named "base". A folder begun with other models, weights, prompts or variants is refused.
    """
    settings = settings or CounteractsSettings()
    cloze_set = settings.load()
    servers = [model for model in models if isinstance(model, ServedModel)]
    if servers and (settings.remove_heads or settings.recipes or variants):
        raise CannotDo(
            f"{servers[0].name} is behind a server: heads and recipes edit the network. Leave them out."
        )
    if servers and settings.chat:
        raise CannotDo(
            f"{servers[0].name} is behind a server, and chats have no likelihoods. Leave --chat out."
        )
    if len(servers) == len(models):  # null models change weights, which a server keeps
        settings = replace(settings, null=0)
    edited = {**_variants(settings), **(variants or {})}
    names = [model.name for model in models]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadOption(f"{twice[0]} was given twice. Results are kept by name: give each model once.")
    for model in models:
        if isinstance(model, ServedModel):
            continue
        prompt_form(model, settings.chat)  # a model that cannot be asked is refused before the first is
        if max(settings.ks) > (vocabulary := int(model.config.vocab_size)):
            raise BadOption(
                f"ks must be at most {vocabulary}, the vocabulary of {model.name} (got {max(settings.ks)})"
            )
    with ExitStack() as stack:
        run = stack.enter_context(_opened(folder, models, settings, cloze_set, edited))
        missing = {
            model.name: [
                each for each in edited if Counteracts.cells.of(cells_label(model.name, each)) not in run
            ]
            for model in models
        }
        unfinished = [model for model in models if missing[model.name]]
        takes = partial(_times, unfinished, settings, cloze_set, missing, run.folder)
        if servers:  # whose work is no tokens of a model here
            announce(takes)
        else:
            stack.enter_context(announced("CounterActs", takes))
        stack.enter_context(keeping_long_work(run, unfinished, apart=len(servers) > 1))
        for model in unfinished:
            if isinstance(model, ServedModel):
                read = ask_served_cloze(model, cloze_set, settings.ks)
                scores = read.scores(Resampling(settings.draws, settings.seed))
                _keep(run, ClozeForm(model.name, BASE, read.form, read.absent), cloze_set, read, scores)
                continue
            variants_here = missing[model.name]
            edits = [edited[name].edits(model) for name in variants_here]
            answers = ask_cloze(model, cloze_set, edits, settings.ks, settings.chat)
            # verdicts stay untested without null models: of a tokenizer without words to permute, and of a
            # model that does not read plain English
            nulls: list[dict[Change, NullDistribution]] = [{} for _ in answers]
            if not model.opening.doubt:
                # one background a word is enough for null models: fewer prompts scatter more, not less
                few = replace(settings, per_background=1).load()
                changes = [answer.changes() for answer in answers]
                with suppress(CannotDo):
                    nulls = change_nulls(model, few, changes, settings.null, settings.seed, settings.chat)
            for name, answer, null in zip(variants_here, answers, nulls, strict=True):
                scores = answer.scores(Resampling(settings.draws, settings.seed), nulls=null)
                _keep(run, ClozeForm(model.name, name, answer.form, answer.absent), cloze_set, answer, scores)
        note_places(run, models)
        return Counteracts(run.data())


def _times(
    models: Sequence[Model | ServedModel],
    settings: CounteractsSettings,
    cloze_set: ClozeSet,
    missing: Mapping[str, Sequence[str]],
    folder: Path,
) -> Plan:
    """What is not there yet, and which options make it shorter."""
    own, nulls, fewest = Plan(), Plan(), Plan()
    few = replace(settings, per_background=1).load()
    for model in models:
        if isinstance(model, ServedModel):
            texts = [text for text, _, _ in word_texts(cloze_set)]
            own += requests_plan(model, [Wanted(texts)], folder)
            continue
        every, of_few = (
            tokens_in(f"{text.first} {text.second or ''}" for text in cloze_texts(model, each, settings.chat))
            for each in (cloze_set, few)
        )
        speed, variants = speed_of(model), len(missing[model.name])
        own += speed.plan(estimated=variants * every)
        fewest += speed.plan(estimated=variants * of_few)
        nulls += speed.plan(estimated=0.0 if model.opening.doubt else likely(settings.null) * of_few)
    shorter = [f"--null 0 takes about {duration(own.seconds)}"] if nulls.seconds else []
    if fewest.seconds < own.seconds:
        shorter.append(f"--per-background 1 about {duration((fewest + nulls).seconds)}")
    if own.requests:
        shorter.append("--per-background 1 takes fewer prompts")
    return replace(own + nulls, shorter=", ".join(shorter))


def _variants(settings: CounteractsSettings) -> dict[str, Edited]:
    """The variants of the settings by their names, the unmodified model first: without heads, with recipes,
    which are files, or recipes by name."""
    named = {BASE: Edited(lambda model: ())}
    if settings.remove_heads:
        name = f"without heads {', '.join(map(str, settings.remove_heads))}"
        named[name] = Edited(lambda model: removed(model, settings.remove_heads))
    if isinstance(settings.recipes, Mapping):
        for name, recipe in settings.recipes.items():
            named[name] = Edited(partial(edits_of, recipe=recipe), recipe_text(recipe))
        return named
    for path in map(Path, settings.recipes):
        edits = partial(edits_of, recipe=load_recipe(path))
        named[f"with {path.name}"] = Edited(edits, path.read_text(encoding="utf-8"), str(path))
    return named


def _opened(
    folder: str | Path,
    models: Sequence[Model | ServedModel],
    settings: CounteractsSettings,
    cloze_set: ClozeSet,
    variants: Mapping[str, Edited],
) -> Open:
    files = tuple(each.recipe for each in variants.values() if each.recipe is not None)
    further = len(variants) - 1 - bool(settings.remove_heads)  # beside the unmodified model
    stored = stored_as(
        CounteractsStored,
        settings,
        study=Counteracts.name,
        models=tuple(model.name for model in models),
        recipes=files,
        in_memory=("recipes",) if further > len(files) else (),
        loading=loaded_as(models),
        variants=tuple(variants),
        groups=cloze_set.groups,
        kinds=cloze_set.kinds,
        n_prompts=len(cloze_set.prompts),
        per_background=cloze_set.per_background,
    )
    hashes: dict[str, str] = {}
    for model in models:
        if isinstance(model, ServedModel):
            hashes |= {f"{name} of {model.name}": fact for name, fact in model.facts().items()}
        else:
            hashes |= {f"weights of {model.name}": model.fingerprint, **model.facts(model.name)}
    hashes |= {f"edits {name}": text_hash(each.stated) for name, each in variants.items() if each.stated}
    hashes[PROMPTS_HASH] = cloze_set.fingerprint
    return Run.open(folder, Counteracts, stored, hashes=hashes)


class _Cell(NamedTuple):
    """Where a measurement belongs, as the measure labels it in the measurement's settings; "" means all."""

    k: int
    kind: str
    group: str
    occupation: str


def _keep(
    run: Open, form: ClozeForm, cloze_set: ClozeSet, answers: ClozeAnswers, scores: ClozeScores
) -> None:
    """Store what was measured of a model in one variant; its cells last: where they are, all is there."""
    label, top = cells_label(form.model, form.variant), answers.topk
    names = {1: cloze_set.groups[0], -1: cloze_set.groups[1], 0: None}
    filled_in = []
    of_prompts = zip(cloze_set.prompts, top.words, top.groups, top.probs, strict=True)
    for prompt, words, groups, probs in of_prompts:
        likeliest = (
            AnswerWord(str(word), names[int(group)], round(float(p), 6))
            for word, group, p in zip(words, groups, probs, strict=True)
        )
        filled_in.append(PromptAnswers(prompt.id, tuple(likeliest)))
    occupations, cells = list[OccupationLine](), list[ClozeCell]()
    # a change of log-odds or of the margin has its verdict beside it
    expected = {prompt.kind: prompt.expected for prompt in cloze_set.prompts}
    verdicts = {(v.change.name, v.k, v.kind, v.group): v.word for v in scores.verdicts}
    for each in (*scores.measurements, *scores.robustness):
        cell = _Cell(*(each.settings.get(name, "") for name in _Cell._fields))
        if cell.occupation:
            low, high = each.interval or (None, None)
            occupations.append(
                OccupationLine(*cell, each.name, each.value, low, high, each.n, each.reason or None)
            )
            continue
        # the labels stand beside the measurement, once
        plain = {name: value for name, value in each.settings.items() if name not in _Cell._fields}
        word = verdicts.get((each.name, cell.k, cell.kind, cell.group))
        cells.append(
            ClozeCell(
                model=form.model,
                variant=form.variant,
                k=cell.k,
                kind=cell.kind,
                group=cell.group,
                measurement=replace(each, settings=plain),
                verdict=word,
                expected=None if word is None else expected[cell.kind],
            )
        )
    run.file(ANSWERS.of(label), filled_in)
    run.file(OCCUPATIONS.of(label), occupations)
    run.result(Counteracts.forms.of(label), lambda: form)
    run.results(Counteracts.cells.of(label), lambda: cells)
