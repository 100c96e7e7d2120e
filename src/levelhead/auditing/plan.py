"""How much work an audit is, before it begins: tokens through all blocks, stage by stage (work.py).

Null models are planned up to the last look but one,
where most audits stop. Factors of what changed models share are those of lh:bert-mini (docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelhead.auditing.arena import CONTEXTS
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import DEFAULT_BACKGROUNDS
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.changes import main_bias
from levelhead.studies.extent import Extent
from levelhead.studies.heads.plan import heads_plan, likely
from levelhead.work import Stage, tokens_in

STAGES: Mapping[str, Stage] = {  # of the questions that ship
    "seat": Stage.WORDS,
    "lpbs": Stage.BLANKS,
    "triples": Stage.SENTENCES,
    "inference": Stage.INFERENCES,
    "fluency": Stage.TEXT,
}
_SHARED = (Stage.NULLS, *STAGES.values())  # what a first look asks of them is not asked again
_BLANKS = 8_000.0  # tokens of the fill-in tests that ship
_PROMPTS = 10_400.0  # of the prompts about occupations with one background: 58 x (7 + 3 backgrounds)
_CHANGED = 2.3  # times as much work for the model and its changes as for the model alone
_VERIFIED = 0.85  # the same, for questions on half of the items
_CERTIFIED = 0.9  # the same, for the quickest mitigation and its null models; where a bias is claimed
_PROJECTIONS = 6.5  # times the next sentences, to try them on half of the items


def audit_plan(
    extent: Extent, battery: Battery, models: Sequence[Model], *, looks: bool
) -> dict[Stage, float]:
    """The stages of an audit of a model, and of a classifier beside it, with their work.

    looks: it begins with a first look.
    """
    plan = {**heads_plan(extent.heads, battery.test, battery.contexts), **_questions(extent, battery, models)}
    if not extent.settings.quick:
        plan |= _changes(extent, battery, models, plan)
    if looks and (first := extent.first_look) is not None:
        look = Extent(first, extent.model)
        inside = audit_plan(look, look.battery(), models, looks=False)
        plan |= {name: max(0.0, plan[name] - inside[name]) for name in _SHARED if name in inside}
        plan = {Stage.LOOK: sum(inside.values()), **plan}
    return plan


def _questions(extent: Extent, battery: Battery, models: Sequence[Model]) -> dict[Stage, float]:
    able = frozenset().union(*(model.abilities for model in models))
    ours = about_gender(battery.test)  # what ships for gender alone
    plan: dict[Stage, float] = {}
    if "mlm" in able:
        plan[Stage.BLANKS] = _BLANKS
    if ours and able & {"nsp", "causal"}:
        kinds = ("stereotype", "anti", "unrelated")
        pairs = [pair.original for pair in battery.triples.pairs]
        asked = 2 * tokens_in(f"{t.context} {getattr(t, kind)}" for t in pairs for kind in kinds)
        plan[Stage.SENTENCES] = asked * _times(battery, models)
    if "nli" in able:
        fair = [f"{pair.premise} {pair.hypothesis}" for pair in (battery.probe.pairs if ours else ())]
        ordinary = [f"{pair.premise} {pair.hypothesis}" for pair in battery.ability.pairs]
        plan[Stage.INFERENCES] = tokens_in([*fair, *ordinary])
    if able & {"mlm", "causal"}:
        turns = [len(text) // 5 if "mlm" in able else 1 for text in battery.sentences]
        plan[Stage.TEXT] = sum(
            turn * tokens_in([text]) for turn, text in zip(turns, battery.sentences, strict=True)
        )
        plan[Stage.PROMPTS] = _PROMPTS * _prompts(extent) if ours else 0.0
    return plan


def _times(battery: Battery, models: Sequence[Model]) -> float:
    """How often next sentences are asked: of the model, and without unrelated ones of null models."""
    unrelated = any("nsp" in model.abilities for model in models)
    return 1 + likely(battery.null) * (2 / 3 if unrelated else 1)


def _changes(
    extent: Extent, battery: Battery, models: Sequence[Model], plan: Mapping[Stage, float]
) -> dict[Stage, float]:
    """Projections on half of the items, all questions again on the other half, and the arena's."""
    asked = plan.get(Stage.SENTENCES, 0.0) / _times(battery, models)
    rest = asked + sum(plan.get(name, 0.0) for name in (Stage.BLANKS, Stage.INFERENCES, Stage.TEXT))
    words = plan.get(Stage.WORDS, 0.0)
    certified = min(1.0, CONTEXTS / extent.heads.contexts_per_word)
    return {
        Stage.CHANGES: _PROJECTIONS * asked / extent.sizes.screen_every,
        Stage.VERIFIED: _VERIFIED * (rest + words * _verified_contexts(extent)),
        Stage.CERTIFIED: _CERTIFIED * (rest + words * certified),
    }


def _verified_contexts(extent: Extent) -> float:
    """The share of a word's contexts that changed models are asked."""
    most, all_of_them = extent.sizes.verify_contexts, extent.heads.contexts_per_word
    by_seat = main_bias(extent.model, load_words(extent.settings.bias)) == "seat"
    return 1.0 if most is None or by_seat else min(1.0, most / all_of_them)


def _prompts(extent: Extent) -> float:
    """How often all prompts with one background are asked: of the model, its changes and null models."""
    sizes = extent.sizes
    backgrounds = DEFAULT_BACKGROUNDS if sizes.backgrounds is None else sizes.backgrounds
    share = ((7 if backgrounds else 1) + 3 * backgrounds) / 10
    return share * (1 if extent.settings.quick else _CHANGED) + min(1.0, share) * likely(sizes.asked_prompts)
