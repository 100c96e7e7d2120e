"""What a model writes: texts, their scores and every measure of them (docs/method/generation.md).

Varied: the group that a prompt names, the mitigation (a recipe each), and the random numbers, which a prompt
and its counterfactual share. A run holds, for each variant of the model:

    results.jsonl        texts in parts as they are sampled, scores, measures, changes
    texts/NAME.jsonl     every text with its scores
    judge/answers.jsonl  what a judge answered, where one scores

Texts are sampled in fixed parts and stored one by one: a killed run goes on behind the last one, with the
same bytes. The first part is a pilot of a tenth of the prompts, spread evenly; from it follows what
the sample can show, which is said before the rest is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.effort import now, plan_by
from levelhead.engine.sampling import ROWS, prompt_rows
from levelhead.engine.served.writing import Wanted, requests_plan, served_odds
from levelhead.errors import CannotDo
from levelhead.measures.statistics import Resampling
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import load_recipe, recipe_text
from levelhead.models.chat import require_chat
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.progress import LETTERS, Plan, announce, announce_line, counted_work, duration, plan_ends
from levelhead.runs.common import BASE
from levelhead.runs.folder import Run, file_hash, text_hash
from levelhead.runs.study import WEIGHTS_HASH, stored_as
from levelhead.scoring.generation import answer_odds, text_vectors, tilt_scores
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.scoring.rivals.honest import load_lexicon
from levelhead.scoring.scorers.catalog import Chosen, chosen_scorers
from levelhead.scoring.scorers.protocol import Scorer, own_gap, swap_averaged
from levelhead.studies.generate import PROMPTS_HASH, TEXTS, Generate
from levelhead.studies.generate.judging import Judging, judge_plan, judging_of, with_judgments
from levelhead.studies.generate.measuring import (
    Decided,
    appearances,
    changed,
    marked,
    measured,
    parts,
    rivals,
    unanswered,
)
from levelhead.studies.generate.records import (
    GeneratedText,
    GenerationMeasured,
    GenerationPlan,
    ScoredTexts,
    UsedScorer,
    WrittenText,
)
from levelhead.studies.generate.sampled import (
    DECISIONS,
    Edited,
    Inputs,
    Open,
    finite,
    part_label,
    reads_likelihoods,
    sample_part,
    sampled_texts,
)
from levelhead.studies.generate.settings import GenerateSettings, GenerateStored
from levelhead.studies.generate.texts import NEUTRAL, NOT_SWAPPED, Texts, places, planned

Doubles = NDArray[np.float64]


def generate(model: Model | ServedModel, settings: GenerateSettings | None, folder: str | Path) -> Generate:
    """Sample texts, score them, and write what they show into a run folder; a killed run there is finished.

    None: the default settings. A model behind a server gives texts, and some give likelihoods.
    """
    settings = settings or GenerateSettings()
    if "causal" not in model.abilities:
        raise CannotDo(
            f"{model.name} predicts no next word, so it writes no text. `levelhead counteracts`, `benchmark` "
            "and `audit` read what it believes."
        )
    if isinstance(model, ServedModel):
        if settings.recipes:
            raise CannotDo(
                f"{model.name} is behind a server: a recipe edits the network. Leave --recipe out."
            )
        inputs = Inputs(model, settings, settings.load(), (Edited(BASE),))
    else:
        if settings.chat:
            require_chat(model)
        prompts = settings.load(lambda name: len(model.tokenizer.tokenize(f" {name}")))
        inputs = Inputs(model, settings, prompts, tuple(_variants(model, settings)))
        # what is too long is refused at once
        prompt_rows(model, inputs.given(inputs.continued), settings.tokens)
    chosen = chosen_scorers(settings.scorers, settings.judge_rubric, settings.judge_labels)
    gaps = [own_gap(each) for each in chosen.scorers]  # one that fails does so before anything is sampled
    used = [UsedScorer(each.scorer, each.unit, finite(each.mean), each.line) for each in gaps]
    used += [UsedScorer(name, "", None, why) for name, why in chosen.left_out.items()]
    lexicon = load_lexicon(settings.honest) if settings.honest else ()
    with ExitStack() as stack:
        run = stack.enter_context(_opened(folder, inputs, chosen, lexicon))
        if isinstance(model, ServedModel):
            announce(
                lambda: _requests(inputs, model, run.folder) + judge_plan(inputs, chosen.judge, run.folder)
            )
        else:  # the pilot says it where the texts are sampled
            plan_ends(lambda: _times(run, inputs, model) + judge_plan(inputs, chosen.judge, run.folder))
        stack.enter_context(keeping_long_work(run, [model]))
        # fails before anything is sampled
        judging = stack.enter_context(judging_of(run, inputs, chosen.judge))
        run.results(Generate.prompts, lambda: inputs.prompts.prompts)
        run.results(Generate.scorers, lambda: [*used, *([] if judging is None else [judging.used])])
        if isinstance(model, ServedModel):
            lost = "distances read the network, and are left out"
            if not reads_likelihoods(model, settings):
                lost = (
                    "mirror image, distances and decisions read likelihoods or the network, and are left out"
                )
            announce_line(f"{model.name} is behind a server: {lost}.")
        plan = _planned(run, inputs, chosen)
        seen: list[Texts] = []
        for edited in inputs.variants:
            many = len(inputs.parts(plan.samples))
            for number in range(many):
                sample_part(run, inputs, edited, plan.samples, number)
            keys = [Generate.written.of(part_label(edited, number)) for number in range(many)]
            written = [text for key in keys for text in run.stored(key)]
            texts = _scored(run, inputs, edited, written, chosen, judging)
            _measured(run, inputs, edited, texts, lexicon)
            if seen:
                _changed(run, seen[0], texts)
            seen.append(texts)
        note_places(run, [model])
        return Generate(run.data())


def _variants(model: Model, settings: GenerateSettings) -> Iterator[Edited]:
    """The unmodified model, then with each recipe, which are files, or recipes by name."""
    yield Edited(BASE)
    if isinstance(settings.recipes, Mapping):
        for name, recipe in settings.recipes.items():
            yield Edited(name, edits_of(model, recipe), recipe_text(recipe))
        return
    for path in map(Path, settings.recipes):
        edits = edits_of(model, load_recipe(path))
        yield Edited(f"with {path.name}", edits, path.read_text(encoding="utf-8"), str(path))


def _opened(folder: str | Path, inputs: Inputs, chosen: Chosen, lexicon: tuple[str, ...]) -> Open:
    model, settings = inputs.model, inputs.settings
    files = tuple(each.file for each in inputs.variants if each.file is not None)
    unnamed = ["recipes"] if len(inputs.variants) - 1 > len(files) else []
    unnamed += ["scorers"] if any(not isinstance(each, str) for each in settings.scorers) else []
    stored = stored_as(
        GenerateStored,
        settings,
        study=Generate.name,
        models=(model.name,),
        scorers=tuple(each for each in settings.scorers if isinstance(each, str)),
        recipes=files,
        in_memory=tuple(unnamed),
        loading=loaded_as([model]),
        variants=tuple(each.name for each in inputs.variants),
        n_prompts=len(inputs.prompts.prompts),
    )
    weights = {WEIGHTS_HASH: model.fingerprint} if isinstance(model, Model) else {}
    hashes = {**weights, **model.facts(), PROMPTS_HASH: inputs.prompts.fingerprint}
    hashes |= {f"edits {each.name}": text_hash(each.stated) for each in inputs.variants if each.stated}
    hashes |= {"scorers": text_hash([each.name for each in chosen.scorers])}
    hashes |= {} if chosen.judge is None else chosen.judge.facts()
    hashes |= {f"scorer {each}": file_hash(each) for each in stored.scorers if Path(each).is_file()}
    if lexicon:
        hashes |= {"honest": text_hash(lexicon)}
    return Run.open(folder, Generate, stored, hashes=hashes)


# ---- how much


def _planned(run: Open, inputs: Inputs, chosen: Chosen) -> GenerationPlan:
    """The plan, which follows from the pilot, and one line about it before the rest is sampled."""
    settings, (base, *_) = inputs.settings, inputs.variants
    if Generate.plan in run:
        return run.stored(Generate.plan)[0]
    began = now()
    if settings.detect is None:  # the pilot is the first part
        sample_part(run, inputs, base, settings.samples, 0)
        pilot = run.stored(Generate.written.of(part_label(base, 0)))
    else:
        pilot = run.results(
            Generate.pilot, lambda: sampled_texts(inputs, base, settings.samples, inputs.pilot, "Pilot")
        )
    seconds = (now() - began) / max(1, len(pilot))
    scores = {each.name: swap_averaged(each, [one.text for one in pilot]) for each in chosen.scorers}
    texts = _texts(inputs, base, pilot, scores)
    plan = planned(inputs.prompts.prompts, texts, settings)
    # how many texts, how long, and what they can show
    many, variants, wanted = plan.texts * len(inputs.variants), len(inputs.variants), settings.detect
    of_variants = f" of {variants} variants" if variants > 1 else ""
    line = (
        f"{many:,} texts{of_variants} of at most {settings.tokens} tokens, about {duration(seconds * many)}"
    )
    if plan.detectable is None:
        line += "; no score varies in the pilot, so what the sample can show is not known"
    else:
        line += (
            "; the smallest paired gap that they show with power 0.8, corrected for "
            f"{plan.claims} claims: {plan.detectable:.2g} standard deviations"
        )
        if wanted is not None and not plan.reaches:
            line += f", not {wanted:g}: for that more prompts are needed"
    announce_line(f"{line}.")
    return run.result(Generate.plan, lambda: plan)


def _times(run: Open, inputs: Inputs, model: Model) -> Plan:
    """What the texts that are not there take, by a few of them: with as many samples as the pilot has."""
    samples = inputs.settings.samples
    left = [
        prompt
        for edited in inputs.variants
        for number, prompts in enumerate(inputs.parts(samples))
        if Generate.written.of(part_label(edited, number)) not in run
        for prompt in prompts
    ]
    if not left:
        return Plan()
    few = inputs.continued[:: max(1, len(inputs.continued) // max(1, ROWS // samples))]
    texts, pilot = (sum(inputs.several(each, samples) for each in some) for some in (left, few))
    part = partial(sampled_texts, inputs, inputs.variants[-1], samples)
    with counted_work():
        part(few[:1], "Speed")  # what happens once only
    return plan_by(model, partial(part, few, "Speed"), texts / pilot)


def _requests(inputs: Inputs, model: ServedModel, folder: Path) -> Plan:
    """What a server is sent: texts; where it gives likelihoods, each with its mirror image, and decisions."""
    settings, own = inputs.settings, inputs.prompts.of(DECISIONS)
    wanted = [
        Wanted([each.text for each in inputs.continued if bool(each.group) == grouped], n, settings.tokens)
        for grouped, n in ((True, settings.samples), (False, settings.neutral))
    ]
    if not settings.chat:
        mirrored = [each for each in inputs.continued if each.set not in NOT_SWAPPED]
        written = "x" * round(LETTERS * settings.tokens)  # what is read behind a prompt
        for grouped, n in ((True, settings.samples), (False, settings.neutral)):
            read = [f"{each.text}{written}" for each in mirrored if bool(each.group) == grouped]
            wanted.append(Wanted(read, 2 * n))
        wanted.append(Wanted([each.text for each in own], 2))
    return replace(requests_plan(model, wanted, folder), shorter="--limit takes fewer prompts")


# ---- numbers


def _texts(
    inputs: Inputs, edited: Edited, written: Sequence[WrittenText], scores: Mapping[str, Doubles]
) -> Texts:
    prompts = {each.id: each for each in inputs.prompts.prompts}
    resampling = Resampling(inputs.settings.resamples, inputs.settings.seed, items=True)
    return Texts(edited.name, inputs.model.name, prompts, written, scores, resampling)


def _scored(
    run: Open,
    inputs: Inputs,
    edited: Edited,
    written: Sequence[WrittenText],
    chosen: Chosen,
    judging: Judging | None,
) -> Texts:
    """The texts of a variant with every score; and all of it as a file."""
    scores = {}
    for scorer in chosen.scorers:

        def score(scorer: Scorer = scorer) -> ScoredTexts:
            values = swap_averaged(scorer, [each.text for each in written])
            return ScoredTexts(scorer.name, scorer.unit, tuple(map(finite, values)))

        stored = run.result(Generate.scored.of(f"{edited.name} | {scorer.name}"), score)
        values = [math.nan if each is None else each for each in stored.values]
        scores[scorer.name] = np.array(values, np.float64)
    texts = _texts(inputs, edited, written, scores)
    if judging is not None:
        texts = with_judgments(run, texts, judging)
    if Generate.measured.of(edited.name) not in run:
        lines = [
            GeneratedText(
                prompt=prompt.id,
                set=prompt.set,
                group=prompt.group,
                cluster=prompt.cluster,
                given=prompt.text,
                sample=one.sample,
                text=one.text,
                tokens=one.tokens,
                ended=one.ended,
                log_p=one.log_p,
                log_p_mirror=one.log_p_mirror,
                first=texts.firsts[i],
                scores={name: finite(values[i]) for name, values in texts.scores.items()},
                empty=bool(texts.empty[i]),
                refuses=bool(texts.refusals[i]),
            )
            for i, (one, prompt) in enumerate(zip(texts.written, texts.of, strict=True))
        ]
        run.file(TEXTS.of(edited.name), lines)
    return texts


def _measured(run: Open, inputs: Inputs, edited: Edited, texts: Texts, lexicon: tuple[str, ...]) -> None:
    """What the texts of a variant show; its measures last: where they are, all is there."""
    name = edited.name
    if Generate.measured.of(name) in run:
        return
    words = list(marked(texts))
    run.results(Generate.marked.of(name), lambda: [each for _, rows in words for each in rows])
    run.results(Generate.appearances.of(name), lambda: appearances(texts))
    run.results(Generate.unanswered.of(name), lambda: unanswered(texts))
    if inputs.settings.rivals:
        run.results(Generate.rivals.of(name), lambda: rivals(texts, lexicon))
    if (decided := _decided(inputs, edited, texts.resampling)) is not None:
        run.results(Generate.decisions.of(name), decided.cells)

    def every() -> Iterator[GenerationMeasured]:
        local = inputs.model if isinstance(inputs.model, Model) else None
        yield from measured(texts, None if local is None else partial(text_vectors, local))
        if local is not None and (kept := places(texts.where(*NEUTRAL))):
            prompts, own = [texts.of[i] for i in kept], [texts.written[i].text for i in kept]
            given = dict(zip((each.id for each in prompts), inputs.given(prompts), strict=True))
            (tilted,) = tilt_scores(local, [given[each.id] for each in prompts], own, [edited.edits])
            yield from () if tilted is None else parts(texts, tilted)
        yield from (each for each, _ in words)
        if decided is not None:
            yield from decided.measured()

    run.results(Generate.measured.of(name), every)


def _decided(inputs: Inputs, edited: Edited, resampling: Resampling) -> Decided | None:
    """How likely either answer is about every applicant; None without decisions, or without likelihoods."""
    own = inputs.prompts.of(DECISIONS)
    if not own or (
        isinstance(inputs.model, ServedModel) and not reads_likelihoods(inputs.model, inputs.settings)
    ):
        return None
    answers = [each.answers for each in own if each.answers is not None]
    if isinstance(inputs.model, ServedModel):
        odds = served_odds(inputs.model, [each.text for each in own], answers)
    else:
        (odds,) = answer_odds(inputs.model, inputs.given(own), answers, [edited.edits])
    return Decided(edited.name, inputs.model.name, own, odds, resampling)


def _changed(run: Open, before: Texts, after: Texts) -> None:
    """What a mitigation changes."""
    base, own = (run.stored(Generate.measured.of(each.variant)) for each in (before, after))
    run.results(Generate.changed.of(after.variant), lambda: changed(before, after, base, own))
