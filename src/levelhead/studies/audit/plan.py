"""How much work an audit is, before it begins: tokens through all blocks, stage by stage.

Everything is counted on the readings that the audit will make. Null models are planned up to the last interim
look but one (measures/null.py), where most audits stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from levelhead.engine.effort import askable_tokens
from levelhead.engine.sampling import Sampling
from levelhead.measures.null import likely
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.progress import Stage
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import cloze_tokens
from levelhead.scoring.fluency import fluency_reading, why_no_fluency
from levelhead.scoring.lpbs import LpbsQuestion, lpbs_tests
from levelhead.scoring.natural import judges
from levelhead.scoring.pairs import next_sentence_reading, nli_reading, related_reading, triple_rows
from levelhead.scoring.seat import word_table
from levelhead.scoring.writing import tokens_written
from levelhead.studies.audit.arena import (
    can_be_certified,
    certified_items,
    certified_nulls,
    sense_reading,
    tried_methods,
)
from levelhead.studies.audit.extent import Extent
from levelhead.studies.heads.plan import heads_plan
from levelhead.studies.mitigate.budgeting import audited_tokens
from levelhead.studies.mitigate.parts import parts, quickly_ordered, with_writing
from levelhead.studies.mitigate.protocol import cost_of
from levelhead.studies.mitigate.symmetrization import Symmetrization

STAGES: Mapping[str, Stage] = {  # of the questions that ship
    "seat": Stage.WORDS,
    "lpbs": Stage.BLANKS,
    "triples": Stage.SENTENCES,
    "inference": Stage.INFERENCES,
    "fluency": Stage.TEXT,
}
_SHARED = (Stage.NULLS, *STAGES.values())  # what a first look evaluates of them is not evaluated again


def audit_plan(
    extent: Extent, battery: Battery, models: Sequence[Model], *, first_look: bool
) -> dict[Stage, float]:
    """The stages of an audit of a model, and of a classifier beside it, with their work.

    first_look: it begins with one, whose answers are not evaluated again.
    """
    plan = {
        **heads_plan(models[0], extent.heads, battery.test, battery.contexts),
        **questions_plan(extent, battery, models),
    }
    if extent.settings.generate:
        texts = extent.generate
        prompts = [prompt for prompt in texts.load().prompts if not prompt.kind]
        plan[Stage.WRITING] = tokens_written(prompts, Sampling(texts.samples, texts.tokens))
    if not extent.settings.quick:
        plan[Stage.CERTIFIED] = sum(
            certified_plan(extent, battery, model, beside=number > 0) for number, model in enumerate(models)
        )
        # most of what the recommended one is asked then it was asked when it was certified
        plan[Stage.VERIFIED] = plan.get(Stage.BLANKS, 0.0)
    if first_look and (settings := extent.first_look) is not None:
        small = Extent(settings, extent.model)
        inside = audit_plan(small, small.battery(), models, first_look=False)
        plan |= {name: max(0.0, plan[name] - inside[name]) for name in _SHARED if name in inside}
        plan = {Stage.LOOK: sum(inside.values()), **plan}
    return plan


def questions_plan(extent: Extent, battery: Battery, models: Sequence[Model]) -> dict[Stage, float]:
    """The work of the questions beside the association, and of prompts."""
    model, ours = models[0], about_gender(battery.test)  # what ships for gender alone
    plan: dict[Stage, float] = {}
    tests = lpbs_tests().values() if ours else [battery.test]
    blanks = [LpbsQuestion.of(model, test) for test in tests]
    if able := [question for question in blanks if not question.why_not(model)]:
        plan[Stage.BLANKS] = sum(askable_tokens(model, each) for own in able for each in own.readings(model))
    if ours and judges(model):
        triples = battery.triples
        plan[Stage.SENTENCES] = askable_tokens(model, next_sentence_reading(model, triple_rows(triples)))
        if nulls := likely(battery.null):
            plan[Stage.SENTENCES] += nulls * askable_tokens(model, related_reading(model, triples))
    for judge in (each for each in models if "nli" in each.abilities):
        fair = askable_tokens(judge, nli_reading(battery.probe.pairs)) if ours else 0.0
        plan[Stage.INFERENCES] = fair + askable_tokens(judge, nli_reading(battery.ability.pairs))
    if not why_no_fluency(model):
        plan[Stage.TEXT] = askable_tokens(model, fluency_reading(model, battery.sentences))
        if ours:
            settings = extent.counteracts
            few = replace(settings, per_background=1).load()
            nulls = 0 if model.opening.doubt else settings.null
            plan[Stage.PROMPTS] = cloze_tokens(model, settings.load(), few, nulls)
    return plan


def certified_plan(extent: Extent, battery: Battery, model: Model, *, beside: bool) -> float:
    """The work of mitigations, where a bias is claimed. beside: of a classifier beside the model."""
    items = certified_items(battery)
    if not can_be_certified(items, beside=beside):
        return 0.0
    split = parts(items, extent.settings.seed)
    if extent.settings.generate and "causal" in model.abilities:
        split = with_writing(split, "", extent.settings.seed)
    methods = [m for m in tried_methods(model, extent.settings.top) if not m.why_not(model, split.fit)]
    # one orientation of a symmetrized model is the unmodified model, whose answers are kept
    costs = {each.name: cost_of(each) - isinstance(each, Symmetrization) for each in methods}
    asked, tried = audited_tokens(model, quickly_ordered(split), costs, certified_nulls(extent))
    if beside:  # whether its bias stands out, so that anything is tried, is as likely as not
        table = word_table(items.test, items.contexts)
        return asked + askable_tokens(model, table.each()) + tried / 2
    return asked + (askable_tokens(model, sense_reading(model, items)) if judges(model) else 0.0) + tried
