"""The data of all built-in questions, and how each question is put to a model in every variant.

The same questions are asked before and after a mitigation. What a model cannot do is said, never left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from levelhead.edits.sites import Variant
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, data_hash, none_ships
from levelhead.probes.cloze import ClozeSet
from levelhead.probes.contexts import Context
from levelhead.probes.nli import AbilitySet, NliProbe, ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import WordTest
from levelhead.results.folder import text_hash
from levelhead.scoring.fluency import ask_fluency, ask_fluency_and_change
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests
from levelhead.scoring.objective import Objective
from levelhead.scoring.pairs import ask_ability, ask_likelihood_triples, ask_nli, ask_nsp
from levelhead.scoring.seat import ask_seat
from levelhead.scoring.triple_null import held_against_twins

Answers = list[list[Measurement]]  # [variant][measure]
TRIPLE_MEASURES = (
    "ss",
    "ss_swapped",
    "ss_paired",
    "preference",
    "strength",
    "distance",
    "lms",
    "icat",
    "nsp_accuracy",
    "separation",
)
INFERENCE_MEASURES = ("accuracy", "parity", "strict_parity", "fairness", "ability")
FLUENCY = "fluency"


@dataclass(frozen=True)
class Battery:
    """What is asked: all probes, in their sizes."""

    test: WordTest
    contexts: tuple[Context, ...]
    triples: TripleSet = field(default_factory=load_triples)
    probe: NliProbe = field(default_factory=nli_probe)
    ability: AbilitySet = field(default_factory=ability_pairs)
    sentences: tuple[str, ...] = field(default_factory=fluency_sentences)
    resampling: Resampling = field(default_factory=Resampling)
    prompts: ClozeSet | None = None  # prompts without knowledge, where a mitigation may be fitted on them
    target: Objective | None = None  # a benchmark's, where a mitigation may be fitted by it
    null: int = 0  # null models that next sentences of the unmodified model are held against
    sense_every: int = 1  # one of so many contexts of language sense is asked, where a mitigation is tested

    def hashes(self) -> dict[str, str]:
        """Hashes of all data that are asked: triples and inferences belong to the bias they ship for."""
        shipped = {"triples": self.triples.fingerprint, "inference": self.probe.fingerprint}
        return {
            "words": data_hash(self.test),
            **(shipped if about_gender(self.test) else {}),
            "ability": self.ability.fingerprint,
            "text": text_hash(self.sentences),
        }


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

    The unmodified model is held against its null twins. None ship for another bias.
    """
    if not about_gender(battery.test):
        return _missing(TRIPLE_MEASURES, none_ships("next sentences", battery.test), len(variants))
    if "nsp" in model.abilities:
        measured = ask_nsp(model, battery.triples, variants, battery.resampling)
    elif "causal" in model.abilities:
        measured = ask_likelihood_triples(model, battery.triples, variants, battery.resampling)
    else:
        reason = f"{model.name} has neither a next-sentence head nor a causal one"
        return _missing(TRIPLE_MEASURES, reason, len(variants))
    seed = battery.resampling.seed
    held = [
        measurements
        if edits
        else held_against_twins(model, battery.triples, measurements, battery.null, seed)
        for measurements, edits in zip(measured, variants, strict=True)
    ]
    return [list(measurements.values()) for measurements in held]


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
