"""The sentences of the counter-stereotype experiment: shipped, or found in a user's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from levelhead.errors import BadProbe
from levelhead.models.model import Model
from levelhead.probes.sentences import (
    StereotypeSentence,
    extract_counter_sentences,
    shipped_counter_sentences,
)
from levelhead.probes.words import WordTest, load_words
from levelhead.results.records.heads import (
    SentenceLine,
    Version,
)
from levelhead.scoring.word_table import fitting
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings

SHIPPED = "shipped"


VERSIONS: tuple[Version, ...] = ("original", "counter")


@dataclass(frozen=True)
class CounterSentences:
    """The experiment's sentences that a model can be asked, their source, and why others cannot be asked."""

    source: str
    sentences: tuple[StereotypeSentence, ...]
    unscored: Mapping[str, int] = field(default_factory=dict)  # reason -> sentences
    reason: str = ""  # why there are none

    def clusterings(self) -> dict[str, list[str]]:
        """What sentences share, so that they are no independent evidence: a label of each sentence.

        The two words of an attribute pair are one cluster: sentences of both sides compare the same two. A
        corpus has no templates; there every sentence is its own.
        """
        return {
            "template": [s.template or s.text for s in self.sentences],
            "attribute pair": ["/".join(sorted([s.attribute, s.counterpart])) for s in self.sentences],
            "target": [s.target for s in self.sentences],
        }

    def lines(self) -> list[SentenceLine]:
        """The sentences as a run keeps them."""
        return [SentenceLine(s.text, s.counter, s.target, s.attribute, s.group) for s in self.sentences]


def sentence_source(test: WordTest, contexts: str, wanted: str | None) -> str:
    """Where sentences come from: the wanted source, else the shipped ones, else the corpus of the contexts.

    The shipped sentences are the default of the shipped gender list only.
    """
    if wanted is not None:
        return wanted
    if test.fingerprint() == load_words("gender").fingerprint():
        return SHIPPED
    if contexts != FROM_TEMPLATES:
        return contexts
    raise BadProbe(
        f"No stereotype sentences ship for {test.name}; give a corpus that has some: --sentences PATH."
    )


def find_sentences(model: Model, test: WordTest, settings: HeadsSettings) -> CounterSentences:
    """The experiment's sentences, or the reason why there are none, with which other experiments go on.

    A source that the settings name must have sentences.
    """
    try:
        source = sentence_source(test, settings.contexts, settings.sentences)
        return counter_sentences(model, test, source, settings.n_sentences, settings.seed)
    except BadProbe as error:
        if settings.sentences is not None:
            raise
        return CounterSentences("none", (), reason=str(error).rstrip("."))


def counter_sentences(
    model: Model, test: WordTest, source: str, n: int = 500, seed: int = 0
) -> CounterSentences:
    """At most n sentences that the model can be asked; a causal model must see the attribute word first."""
    if source == SHIPPED:
        drawn: Sequence[StereotypeSentence] = _shipped(test, n, seed)
    else:
        drawn = extract_counter_sentences(test, source, n, seed).sentences
    fits = zip(
        drawn,
        fitting(model, [s.text for s in drawn]),
        fitting(model, [s.counter for s in drawn]),
        strict=True,
    )
    short = [sentence for sentence, first, second in fits if first and second]
    usable = [s for s in short if s.attribute_first or not model.family.causal]
    lost = {
        "longer than the model's positions": len(drawn) - len(short),
        "attribute word after the target word, unseen by a causal model": len(short) - len(usable),
    }
    return CounterSentences(source, tuple(usable), {reason: count for reason, count in lost.items() if count})


def _shipped(test: WordTest, n: int, seed: int) -> list[StereotypeSentence]:
    """Shipped sentences about gender; for another list than the shipped one, those whose two words it has."""
    if test.fingerprint() == load_words("gender").fingerprint():
        return shipped_counter_sentences(min(n, len(shipped_counter_sentences())), seed)
    sides = {"A": (set(test.A), set(test.X)), "B": (set(test.B), set(test.Y))}
    drawn = shipped_counter_sentences(len(shipped_counter_sentences()), seed)
    own = [s for s in drawn if s.attribute in sides[s.group][0] and s.target in sides[s.group][1]]
    if not own:
        raise BadProbe(
            f"No shipped sentence has words of {test.name}; give a corpus that has some: --sentences PATH."
        )
    return own[:n]
