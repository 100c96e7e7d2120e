"""How much work an audit is, before it begins: tokens through all blocks, stage by stage.

Null models are planned up to the last interim look but one (measures/null.py), where most audits stop. What
mitigations take is a multiple of the questions, measured on lh:bert-mini (docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelhead.engine.sampling import Sampling
from levelhead.measures.null import likely
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import DEFAULT_BACKGROUNDS
from levelhead.progress import Stage, tokens_in
from levelhead.scoring.battery import Battery
from levelhead.scoring.writing import tokens_written
from levelhead.studies.audit.extent import Extent
from levelhead.studies.heads.prepared import heads_plan

STAGES: Mapping[str, Stage] = {  # of the questions that ship
    "seat": Stage.WORDS,
    "lpbs": Stage.BLANKS,
    "triples": Stage.SENTENCES,
    "inference": Stage.INFERENCES,
    "fluency": Stage.TEXT,
}
CERTIFIED_CONTEXTS = 2  # per word, of the association that mitigations are certified by
_SHARED = (Stage.NULLS, *STAGES.values())  # what a first look evaluates of them is not evaluated again
_BLANKS = 8_000.0  # tokens of the fill-in tests that ship
_PROMPTS = 10_400.0  # of the prompts about occupations with one background: 58 x (7 + 3 backgrounds)
# Times as much work as all questions of the unmodified model, where a bias is claimed:
_CERTIFIED = 2.0  # the mitigations and their null models
_VERIFIED = 1.0  # what is certified, and the unmodified model on the same items


def audit_plan(
    extent: Extent, battery: Battery, models: Sequence[Model], *, first_look: bool
) -> dict[Stage, float]:
    """The stages of an audit of a model, and of a classifier beside it, with their work.

    first_look: it begins with one, whose answers are not evaluated again.
    """
    plan = {
        **heads_plan(extent.heads, battery.test, battery.contexts),
        **questions_plan(extent, battery, models),
    }
    if extent.settings.generate:
        texts = extent.generate
        prompts = [prompt for prompt in texts.load().prompts if not prompt.kind]
        plan[Stage.WRITING] = tokens_written(prompts, Sampling(texts.samples, texts.tokens))
    if not extent.settings.quick:
        # mitigations on parts of the items, and all questions again of the one that is certified
        once = plan.get(Stage.SENTENCES, 0.0) / _times(battery, models)
        rest = once + sum(plan.get(name, 0.0) for name in (Stage.BLANKS, Stage.INFERENCES, Stage.TEXT))
        certified = min(1.0, CERTIFIED_CONTEXTS / extent.heads.contexts_per_word)
        items = rest + plan.get(Stage.WORDS, 0.0) * certified
        plan |= {Stage.CERTIFIED: _CERTIFIED * items, Stage.VERIFIED: _VERIFIED * items}
    if first_look and (settings := extent.first_look) is not None:
        small = Extent(settings, extent.model)
        inside = audit_plan(small, small.battery(), models, first_look=False)
        plan |= {name: max(0.0, plan[name] - inside[name]) for name in _SHARED if name in inside}
        plan = {Stage.LOOK: sum(inside.values()), **plan}
    return plan


def questions_plan(extent: Extent, battery: Battery, models: Sequence[Model]) -> dict[Stage, float]:
    """The work of the questions beside the association, and of prompts."""
    able = frozenset().union(*(model.abilities for model in models))
    ours = about_gender(battery.test)  # what ships for gender alone
    plan: dict[Stage, float] = {}
    if "mlm" in able:
        plan[Stage.BLANKS] = _BLANKS
    if ours and able & {"nsp", "causal"}:
        kinds = ("stereotype", "anti", "unrelated")
        pairs = [pair.original for pair in battery.triples.pairs]
        both = 2 * tokens_in(f"{t.context} {getattr(t, kind)}" for t in pairs for kind in kinds)
        plan[Stage.SENTENCES] = both * _times(battery, models)
    if "nli" in able:
        fair = [f"{pair.premise} {pair.hypothesis}" for pair in (battery.probe.pairs if ours else ())]
        ordinary = [f"{pair.premise} {pair.hypothesis}" for pair in battery.ability.pairs]
        plan[Stage.INFERENCES] = tokens_in([*fair, *ordinary])
    if able & {"mlm", "causal"}:
        # a masked model reads a text once per token, about one in five letters
        plan[Stage.TEXT] = sum(
            (len(text) // 5 if "mlm" in able else 1) * tokens_in([text]) for text in battery.sentences
        )
        # how often all prompts with one background are given to the model, and to null models
        sizes = extent.sizes
        backgrounds = DEFAULT_BACKGROUNDS if sizes.backgrounds is None else sizes.backgrounds
        share = ((7 if backgrounds else 1) + 3 * backgrounds) / 10
        times = share + min(1.0, share) * likely(min(sizes.prompt_nulls, sizes.null))
        plan[Stage.PROMPTS] = _PROMPTS * times if ours else 0.0
    return plan


def _times(battery: Battery, models: Sequence[Model]) -> float:
    """How often next sentences are evaluated: on the model, and without unrelated ones on null models."""
    unrelated = any("nsp" in model.abilities for model in models)
    return 1 + likely(battery.null) * (2 / 3 if unrelated else 1)
