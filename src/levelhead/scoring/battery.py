"""Everything that a model can be asked, the same before and after a mitigation; what it cannot do is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from levelhead.edits.sites import Variant
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.nli import AbilitySet, NliProbe, ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import WordTest
from levelhead.results.folder import text_hash
from levelhead.scoring.fluency import ask_fluency, ask_fluency_change
from levelhead.scoring.lpbs import ask_lpbs_tests
from levelhead.scoring.pairs import ask_ability, ask_likelihood_triples, ask_nli, ask_nsp
from levelhead.scoring.seat import ask_seat

Answers = list[list[Measurement]]  # [variant][measure]
NSP_MEASURES = ("ss", "ss_swapped", "lms", "icat", "strength", "distance")
NLI_MEASURES = ("accuracy", "parity", "strict_parity", "fairness", "ability")


@dataclass(frozen=True)
class Battery:
    """What is asked: all probes with their sizes."""

    test: WordTest
    contexts: tuple[Context, ...]
    triples: TripleSet = field(default_factory=load_triples)
    probe: NliProbe = field(default_factory=nli_probe)
    ability: AbilitySet = field(default_factory=ability_pairs)
    sentences: tuple[str, ...] = field(default_factory=fluency_sentences)
    resampling: Resampling = field(default_factory=Resampling)

    @property
    def groups(self) -> dict[str, Callable[[Model, Sequence[Variant]], Answers]]:
        """Measures that are asked together, by the name of the group."""
        return {
            "seat": self._seat,
            "lpbs": self._lpbs,
            "triples": self._triples,
            "inference": self._inference,
            "fluency": self._fluency,
        }

    def hashes(self) -> dict[str, str]:
        """Of all data."""
        return {
            "words": self.test.fingerprint(),
            "triples": self.triples.fingerprint,
            "inference": self.probe.fingerprint,
            "ability": self.ability.fingerprint,
            "text": text_hash(self.sentences),
        }

    def _seat(self, model: Model, variants: Sequence[Variant]) -> Answers:
        found = ask_seat(
            model, self.test, self.contexts, variants, resampling=self.resampling, intervals=True
        )
        return [[one] for one in found]

    def _lpbs(self, model: Model, variants: Sequence[Variant]) -> Answers:
        return ask_lpbs_tests(model, variants, self.resampling)

    def _triples(self, model: Model, variants: Sequence[Variant]) -> Answers:
        if "nsp" in model.abilities:
            found = ask_nsp(model, self.triples, variants, self.resampling)
        elif "causal" in model.abilities:
            found = ask_likelihood_triples(model, self.triples, variants, self.resampling)
        else:
            reason = f"{model.name} has neither a next-sentence head nor a causal one"
            return _missing(NSP_MEASURES, reason, len(variants))
        return [list(row.values()) for row in found]

    def _inference(self, model: Model, variants: Sequence[Variant]) -> Answers:
        if "nli" not in model.abilities:
            reason = f"{model.name} is no NLI classifier; give one that was fine-tuned from it with --nli"
            return _missing(NLI_MEASURES, reason, len(variants))
        fair = ask_nli(model, self.probe, variants, resampling=self.resampling)
        able = ask_ability(model, self.ability, variants)
        return [
            [*row.values(), replace(ability, name="ability")] for row, ability in zip(fair, able, strict=True)
        ]

    def _fluency(self, model: Model, variants: Sequence[Variant]) -> Answers:
        """Of an edited model, what the edit costs: the ratio of perplexities is far sharper than their
        difference."""
        if any(variants):
            return [[one] for one in ask_fluency_change(model, self.sentences, variants, self.resampling)]
        found = ask_fluency(model, self.sentences, variants, resampling=self.resampling)
        return [[replace(one, name="fluency", settings={**one.settings, "kind": one.name})] for one in found]


def _missing(names: Sequence[str], reason: str, variants: int) -> Answers:
    return [[Measurement.missing(name, reason) for name in names] for _ in range(variants)]
