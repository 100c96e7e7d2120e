"""What mitigations an audit tries, and on which items: those of the audit itself, as far as it has time."""

from __future__ import annotations

from dataclasses import replace

from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.sentences import sense_items
from levelhead.scoring.battery import Battery
from levelhead.scoring.pairs import next_sentence_reading
from levelhead.scoring.seat import word_table
from levelhead.studies.audit.extent import Extent
from levelhead.studies.mitigate.head_ablation import HeadAblation
from levelhead.studies.mitigate.projective_setting import ProjectiveSetting
from levelhead.studies.mitigate.protocol import QUICKEST, Mitigation, mitigations
from levelhead.studies.mitigate.token_projection import TokenProjection

SENSE_EVERY = 3  # one of so many contexts of language sense
_NULLS = 5  # null models: Student's p allows for so few
_CONTEXTS = 2  # per word, of the association that mitigations are certified by
_JOB_CONTEXTS = 4  # per occupation, of inferences
_FEWEST = 8  # items of a kind, which fall into three parts


def certified_nulls(extent: Extent) -> int:
    """How many null models a bias must stand out from."""
    return min(extent.sizes.null, _NULLS)


def can_be_certified(items: Battery, *, beside: bool) -> bool:
    """Whether there are enough items for three parts. beside: of a classifier beside the model, which
    inferences about gender alone judge."""
    if beside:
        enough = min(len(items.probe.occupations), len(items.ability.pairs)) >= _FEWEST
        return enough and about_gender(items.test)
    return min(len(items.sentences), len(items.triples.pairs)) >= _FEWEST


def certified_items(battery: Battery) -> Battery:
    """The items of an audit that mitigations are fitted, ordered and tested on."""
    words = word_table(battery.test, battery.contexts).first_contexts(_CONTEXTS)
    jobs = battery.probe.occupations
    probe = battery.probe.about(jobs, (len(jobs), _JOB_CONTEXTS))
    return replace(battery, contexts=words.contexts, probe=probe, null=0, sense_every=SENSE_EVERY)


def sense_reading(model: Model, items: Battery) -> Pooled | TokenLikelihoods:
    """What is read of the contexts of language sense that mitigations are tested on."""
    sense = sense_items(items.sense_every)
    return next_sentence_reading(model, [(item.context, item.related, item.unrelated) for item in sense])


def tried_methods(model: Model, top: int) -> tuple[Mitigation, ...]:
    """The mitigations that an audit has time for."""
    methods = (*mitigations((QUICKEST,)), HeadAblation(counts=(top,)), TokenProjection(depths=(1,)))
    return (*methods, ProjectiveSetting()) if "nli" in model.abilities else methods
