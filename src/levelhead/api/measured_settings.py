"""Settings of single measures; without torch, so that the commands are there at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from levelhead.errors import BadOption
from levelhead.options import (
    Settings,
    ability,
    biases,
    fluency_text,
    labels,
    limit,
    occupations,
    option,
    per_word,
    probe,
    quick,
    resamples,
    seed,
    strict,
    triples,
)
from levelhead.probes.lpbs import LPBS_TESTS, Kind, LpbsTemplates, load_lpbs_templates
from levelhead.probes.nli import AbilitySet, NliProbe, ability_pairs, load_nli_probe, nli_probe
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import SentenceTest, Words
from levelhead.runs.presets import QUICK_CONTEXTS, QUICK_TRIPLES


@dataclass(frozen=True)
class SeatSettings(Settings):
    """Which words, or which sentences, and in how many contexts.

    bias: a word list, or the .jsonl file of a sentence test; sentences: such a test in place of words
    each_word: also give each target word's association
    """

    bias: Words = option(
        "gender",
        "A word list (gender, race, your file), or sentences as May et al. 2019 publish them.",
        argument=True,
        metavar="LIST|TEST.jsonl",
        kind="sentences",
    )
    sentences: SentenceTest | str | Path | None = option(
        None, "A sentence test in place of words: a SEAT .jsonl file.", python_only=True
    )
    pooling: str = option(
        "mean",
        "Of sentences. mean: without special tokens (ours); mean-special: with them (Meade et al. "
        "2022); cls, last: one token (May et al. 2019, BERT and GPT).",
    )
    per_word: int | None = per_word()
    resamples: int = resamples()
    seed: int = seed()
    each_word: bool = option(False, "Also give each target word's association.", python_only=True)
    quick: bool = quick()

    def check(self) -> None:
        about_words = {"per_word": self.per_word, "each_word": self.each_word, "quick": self.quick}
        if self.test is not None and (idle := [name for name, value in about_words.items() if value]):
            raise BadOption(
                f"{' and '.join(idle)} would change nothing without a word list. Add that, or leave it out."
            )

    @property
    def test(self) -> SentenceTest | str | Path | None:
        """The sentences; None: words are evaluated."""
        if self.sentences is not None:
            return self.sentences
        named = isinstance(self.bias, str | Path) and Path(self.bias).suffix == ".jsonl"
        return self.bias if named else None  # type: ignore[return-value]

    @property
    def contexts(self) -> int | None:
        """Contexts per word."""
        return QUICK_CONTEXTS if self.quick and self.per_word is None else self.per_word


@dataclass(frozen=True)
class LpbsSettings(Settings):
    """Which word lists, in which templates."""

    biases: Sequence[Words] = biases(LPBS_TESTS, flag="--bias")
    templates: Kind | LpbsTemplates | str | Path | None = option(
        None,
        "topic, person, trait, words, or your file, one a line (docs/own-words.md). "
        "Default: topic for the first three, else words.",
        kind="templates",
    )
    resamples: int = resamples()
    seed: int = seed()
    strict: bool = strict()

    def check(self) -> None:
        if isinstance(self.biases, str | Path) or not self.biases:
            raise BadOption(f"biases must be a list of word lists, such as ['career'] (got {self.biases!r})")

    def load(self) -> Kind | LpbsTemplates | None:
        """A kind of shipped templates by its name, those of a file, or loaded ones."""
        given = self.templates
        if given is None or isinstance(given, LpbsTemplates) or given in get_args(Kind):
            return cast("Kind | LpbsTemplates | None", given)
        return load_lpbs_templates(given, strict=self.strict)


@dataclass(frozen=True)
class NspSettings(Settings):
    """Which triples, and how they are counted."""

    triples: TripleSet | str | Path | None = triples()
    likelihood: bool = option(
        False, "For causal models: judge sentences by their mean log-likelihood (ours)."
    )
    top: float = option(0.1, "Strength and Distance are means over this share of the pairs, the largest.")
    resamples: int = resamples()
    seed: int = seed()
    chat: bool = option(False, "The context is a user's turn in the chat template.", needs="likelihood")
    limit: int | None = limit()
    quick: bool = quick()
    strict: bool = strict()

    def check(self) -> None:
        if self.chat and not self.likelihood:
            raise BadOption("chat would change nothing without likelihood. Add that, or leave it out.")

    def load(self) -> TripleSet:
        """The triples."""
        given = self.triples
        found = given if isinstance(given, TripleSet) else load_triples(given, strict=self.strict)
        return found.at_most(QUICK_TRIPLES if self.quick and self.limit is None else self.limit)


@dataclass(frozen=True)
class NliSettings(Settings):
    """Which pairs about occupations, and which ordinary ones."""

    probe: NliProbe | str | Path | None = probe()
    ability: AbilitySet | str | Path | None = ability()
    limit: tuple[int, int] | None = occupations()
    labels: str | None = labels()
    resamples: int = resamples()
    seed: int = seed()
    words: tuple[str, str] | None = option(
        None, "The gendered words of the hypotheses. Default: woman man.", metavar="F M"
    )
    strict: bool = strict()

    def check(self) -> None:
        if self.words is not None and self.probe is not None:
            raise BadOption(
                "words and probe exclude each other. Write the words into the file: feminine, masculine."
            )

    def load(self) -> NliProbe:
        """The pairs about occupations: ours, or those of a user's file."""
        if isinstance(self.probe, NliProbe):
            return self.probe
        if self.probe is None:
            own = {} if self.words is None else dict(zip(("feminine", "masculine"), self.words, strict=True))
            return nli_probe(**own, limit=self.limit)
        return load_nli_probe(self.probe, self.limit)

    def load_ability(self) -> AbilitySet:
        """The ordinary pairs."""
        given = self.ability
        return given if isinstance(given, AbilitySet) else ability_pairs(given, strict=self.strict)


@dataclass(frozen=True)
class FluencySettings(Settings):
    """Which text."""

    text: str | Path | Sequence[str] | None = fluency_text()
    limit: int | None = limit(needs="text")
    resamples: int = resamples()
    seed: int = seed()
