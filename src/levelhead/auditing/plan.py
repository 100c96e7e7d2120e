"""How much work an audit is, before it begins: tokens through all blocks, stage by stage (work.py).

A token has 4.6 letters, and a text three more tokens. Null models are planned up to the last look but one,
where most audits stop. Factors of what changed models share are those of lh:bert-mini (docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from levelhead.auditing.arena import CONTEXTS
from levelhead.measures.rounds import looks
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import DEFAULT_BACKGROUNDS
from levelhead.probes.words import load_words
from levelhead.results.presets import ASSOCIATION
from levelhead.scoring.battery import Battery
from levelhead.scoring.changes import main_bias
from levelhead.scoring.seat import SINGLY
from levelhead.scoring.word_table import word_table
from levelhead.studies.extent import Extent
from levelhead.work import BACK, Stage

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
_SENTENCE = 32.0  # of a sentence and its counter-stereotype
_LETTERS = 4.6  # of a token


def audit_plan(
    extent: Extent, battery: Battery, models: Sequence[Model], *, looks: bool
) -> dict[Stage, float]:
    """The stages of an audit of a model, and of a classifier beside it, with their work.

    looks: it begins with a first look.
    """
    plan = {**_words(extent, battery), **_questions(extent, battery, models)}
    if not extent.settings.quick:
        plan |= _changes(extent, battery, models, plan)
    if looks and (first := extent.first_look) is not None:
        look = Extent(first, extent.model)
        inside = audit_plan(look, look.battery(), models, looks=False)
        plan |= {name: max(0.0, plan[name] - inside[name]) for name in _SHARED if name in inside}
        plan = {Stage.LOOK: sum(inside.values()), **plan}
    return plan


def _words(extent: Extent, battery: Battery) -> dict[Stage, float]:
    """The association, its null models, and heads."""
    sizes, settings = extent.sizes, extent.heads
    table = word_table(battery.test, battery.contexts)
    first = _texts(context.text for context in table.first_contexts(1).contexts)
    each = len(table.contexts) / len(table.words)
    fit = (1 + BACK * sizes.splits + sizes.splits) * first if sizes.splits else 0.0
    twin = min(2.0, max(1.0, each // 2)) * first
    scores = settings.score_contexts_per_word(battery.test)
    scored = table.first_contexts(scores).contexts
    plan = {
        Stage.WORDS: _texts(context.text for context in table.contexts),
        Stage.NULLS: _likely(sizes.null) * twin + (_likely(sizes.scored_heads) + 1) * fit,
    }
    if settings.experiments != (ASSOCIATION,):
        asked_again = max(0.0, 1 - SINGLY / scores)  # the vectors of first contexts are there already
        plan[Stage.HEADS] = (1 + asked_again + BACK) * _texts(context.text for context in scored)
    if "counter" in settings.experiments:
        plan[Stage.ATTENTION] = _SENTENCE * sizes.counter_sentences
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
        asked = 2 * _texts(f"{t.context} {getattr(t, kind)}" for t in pairs for kind in kinds)
        plan[Stage.SENTENCES] = asked * _times(battery, models)
    if "nli" in able:
        fair = [f"{pair.premise} {pair.hypothesis}" for pair in (battery.probe.pairs if ours else ())]
        ordinary = [f"{pair.premise} {pair.hypothesis}" for pair in battery.ability.pairs]
        plan[Stage.INFERENCES] = _texts([*fair, *ordinary])
    if able & {"mlm", "causal"}:
        turns = [len(text) // 5 if "mlm" in able else 1 for text in battery.sentences]
        plan[Stage.TEXT] = sum(
            turn * _texts([text]) for turn, text in zip(turns, battery.sentences, strict=True)
        )
        plan[Stage.PROMPTS] = _PROMPTS * _prompts(extent) if ours else 0.0
    return plan


def _times(battery: Battery, models: Sequence[Model]) -> float:
    """How often next sentences are asked: of the model, and without unrelated ones of null models."""
    unrelated = any("nsp" in model.abilities for model in models)
    return 1 + _likely(battery.null) * (2 / 3 if unrelated else 1)


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
    own = ((7 if backgrounds else 1) + 3 * backgrounds) / 10 * (1 if extent.settings.quick else _CHANGED)
    return own + _likely(sizes.asked_prompts)


def _likely(null: int) -> int:
    """How many of so many null models are asked, most likely: up to the last look but one."""
    return looks(null)[-2] if len(looks(null)) > 1 else null


def _texts(texts: Iterable[str]) -> float:
    return sum(len(text) / _LETTERS + 3 for text in texts)
