"""The data of all built-in questions, and how each question is put to a model in every variant.

The same questions are asked before and after a mitigation. What a model cannot do is said, never left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from levelhead.edits.sites import Variant
from levelhead.engine.served.writing import Wanted
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.probes.bias import about_gender, data_hash, none_ships
from levelhead.probes.cloze import ClozeSet
from levelhead.probes.contexts import Context
from levelhead.probes.nli import AbilitySet, NliProbe, ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import WordTest
from levelhead.runs.folder import text_hash
from levelhead.scoring.fluency import ask_fluency, ask_fluency_and_change, ask_served_fluency
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests
from levelhead.scoring.objective import Objective
from levelhead.scoring.pairs import (
    ask_ability,
    ask_nli,
    compared_with_null_models,
    head_answers,
    likelihood_answers,
    served_likelihood_answers,
    triple_measures,
    triple_rows,
)
from levelhead.scoring.seat import ask_seat

Answers = list[list[Measurement]]  # [variant][measure]
TRIPLE_MEASURES: tuple[str, ...] = (
    *("ss", "ss_swapped", "ss_paired", "preference", "strength", "distance"),
    *("lms", "icat", "nsp_accuracy", "separation"),
)
INFERENCE_MEASURES: tuple[str, ...] = ("accuracy", "parity", "strict_parity", "fairness", "ability")
FLUENCY = "fluency"
FLUENCY_MEASURES: tuple[str, ...] = (FLUENCY, f"{FLUENCY} change")


@dataclass(frozen=True)
class Battery:
    """All probes, in their sizes."""

    test: WordTest
    contexts: tuple[Context, ...]
    triples: TripleSet = field(default_factory=load_triples)
    probe: NliProbe = field(default_factory=nli_probe)
    ability: AbilitySet = field(default_factory=ability_pairs)
    sentences: tuple[str, ...] = field(default_factory=fluency_sentences)
    resampling: Resampling = field(default_factory=Resampling)
    prompts: ClozeSet | None = None  # prompts without knowledge, where a mitigation may be fitted on them
    target: Objective | None = None  # a benchmark's, where a mitigation may be fitted by it
    null: int = 0  # null models that next sentences of the unmodified model are compared with
    sense_every: int = 1  # one of so many contexts of language sense is scored, where a mitigation is tested

    def hashes(self) -> dict[str, str]:
        """Hashes of all data that are scored: triples and inferences belong to the bias they ship for."""
        shipped = {"triples": self.triples.fingerprint, "inference": self.probe.fingerprint}
        return {
            "words": data_hash(self.test),
            **(shipped if about_gender(self.test) else {}),
            "ability": self.ability.fingerprint,
            "text": text_hash(self.sentences),
        }


# ---- questions


def seat_question(model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
    """Word association, with intervals over contexts."""
    seats = ask_seat(
        model, battery.test, battery.contexts, variants, resampling=battery.resampling, intervals=True
    )
    return [[seat] for seat in seats]


def lpbs_question(model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
    """Fill-in association on the three shipped tests; for another bias on the words of its own list."""
    if about_gender(battery.test):
        return ask_lpbs_tests(model, variants, battery.resampling)
    own = ask_lpbs(model, battery.test, variants, resampling=battery.resampling)
    return [[replace(measured, name=f"{measured.name} {battery.test.name}")] for measured in own]


def triples_question(model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
    """Next sentences, by the next-sentence head or, of a causal model, by likelihood.

    The unmodified model is compared with null models. No next sentences ship for another bias.
    """
    if not about_gender(battery.test):
        return _missing(TRIPLE_MEASURES, none_ships("next sentences", battery.test), len(variants))
    if not model.abilities & {"nsp", "causal"}:
        reason = f"{model.name} has neither a next-sentence head nor a causal one"
        return _missing(TRIPLE_MEASURES, reason, len(variants))
    triples, resampling = battery.triples, battery.resampling
    read = head_answers if "nsp" in model.abilities else likelihood_answers
    answers = []
    for of_variant, edits in zip(read(model, triples, variants), variants, strict=True):
        measured = triple_measures(triples, of_variant, resampling)
        if not edits:
            measured = compared_with_null_models(model, triples, measured, battery.null, resampling.seed)
        answers.append(list(measured.values()))
    return answers


def served_triples(model: ServedModel, battery: Battery) -> list[Measurement]:
    """Next sentences by the likelihoods that a server gives; there are no null models of it."""
    if not about_gender(battery.test):
        return _missing(TRIPLE_MEASURES, none_ships("next sentences", battery.test), 1)[0]
    measured = triple_measures(
        battery.triples, served_likelihood_answers(model, battery.triples), battery.resampling
    )
    return list(measured.values())


def wanted_triples(model: ServedModel, battery: Battery) -> list[Wanted]:
    """What next sentences take of a server."""
    rows = triple_rows(battery.triples) if about_gender(battery.test) else []
    return [Wanted([f"{context} {each}" for context, *sentences in rows for each in sentences])]


def wanted_texts(model: ServedModel, battery: Battery) -> list[Wanted]:
    """What perplexity takes of a server."""
    return [Wanted(battery.sentences)]


def served_fluency(model: ServedModel, battery: Battery) -> list[Measurement]:
    """Perplexity by the likelihoods that a server gives."""
    measured = ask_served_fluency(model, battery.sentences, battery.resampling)
    return [replace(measured, name=FLUENCY, settings={**measured.settings, "kind": measured.name})]


def inference_question(model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
    """Inferences from occupations, and ability on ordinary ones; another bias has the ordinary ones alone."""
    *of_bias, _ = INFERENCE_MEASURES
    if "nli" not in model.abilities:
        reason = f"{model.name} is no NLI classifier; give one that was fine-tuned from it with --nli"
        return _missing(INFERENCE_MEASURES, reason, len(variants))
    if about_gender(battery.test):
        answers = ask_nli(model, battery.probe, variants, resampling=battery.resampling)
        fair = [list(measured.values()) for measured in answers]
    else:
        fair = _missing(of_bias, none_ships("inferences", battery.test), len(variants))
    able = ask_ability(model, battery.ability, variants)
    return [[*measured, ability] for measured, ability in zip(fair, able, strict=True)]


def fluency_question(model: Model, variants: Sequence[Variant], battery: Battery) -> Answers:
    """Perplexity; of edited models also what the edit costs, because the ratio of perplexities is far
    sharper than their difference."""
    if any(variants):
        pairs = ask_fluency_and_change(model, battery.sentences, variants, battery.resampling)
        return [list(pair) if edits else [pair[0]] for pair, edits in zip(pairs, variants, strict=True)]
    measured = ask_fluency(model, battery.sentences, variants, resampling=battery.resampling)
    return [[replace(m, name=FLUENCY, settings={**m.settings, "kind": m.name})] for m in measured]


def _missing(names: Sequence[str], reason: str, variants: int) -> Answers:
    return [[Measurement.missing(name, reason) for name in names] for _ in range(variants)]
