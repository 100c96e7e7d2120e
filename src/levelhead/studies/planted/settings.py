"""Settings of the benchmark with planted bias."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.errors import BadOption
from levelhead.options import Settings, bias, option, seed, stereotype_sentences
from levelhead.probes.words import Words
from levelhead.runs.study import Stored

KINDS = ("value", "attention")
LARGEST = 2.0  # what |SEAT| can be at most


@dataclass(frozen=True)
class PlantedSettings(Settings):
    """What is planted, how often, and on how much the localizers search."""

    bias: Words = bias(help="gender, or a word list with --sentences.")
    heads: int = option(3, "How many heads to plant into.", least=1, old=("--plants",))
    seeds: int = option(5, "Repetitions, each with other heads.", least=1)
    kinds: tuple[str, ...] = option(KINDS, "Of value, attention; separated by commas.", choices=KINDS)
    rise: float = option(0.1, "By how much each value plant alone raises |SEAT|.", above=0)
    nats: float = option(4.0, "Of attention, by each attention plant.")
    words: int = option(60, "At most, of each of A, B, X, Y.", least=2)
    sentences: str | None = stereotype_sentences()
    n_sentences: int = option(100, "How many sentences the counter-stereotype test takes at most.", least=2)
    seed: int = seed("The first seed.")

    def check(self) -> None:
        if not self.kinds:
            raise BadOption(f"kinds must be of {', '.join(KINDS)} (got none)")
        if self.rise >= LARGEST:
            raise BadOption(f"rise must be below {LARGEST:g}, the largest |SEAT| (got {self.rise:g})")


@dataclass(frozen=True, kw_only=True)
class PlantedStored(Stored, PlantedSettings):
    """The settings as a run stores them."""

    bias: str = "gender"
    layers: int
    heads_in_all: int
