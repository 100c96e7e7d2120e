"""What can be asked of the benchmark with planted bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from levelhead.errors import BadOption
from levelhead.probes.words import Words
from levelhead.studies.planted.planting import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
LARGEST = 2.0  # what |SEAT| can be at most


@dataclass(frozen=True)
class PlantedSettings:
    """What is planted, how often, and on how much the localizers look.

    bias: a word list by its name or path, or in memory
    heads: how many heads the bias is planted into
    seeds: how often, each time with another seed
    kinds: value, attention or both
    rise: of |SEAT|, by each value plant alone
    nats: of attention, by each attention plant
    words: at most, of each of A, B, X, Y
    sentences: a corpus of stereotype sentences; by default the shipped ones
    n_sentences: how many sentences the counter experiment asks at most
    seed: of every draw
    """

    bias: Words = "gender"
    heads: int = 3
    seeds: int = 5
    kinds: tuple[Kind, ...] = KINDS
    rise: float = 0.1
    nats: float = 4.0
    words: int = 60
    sentences: str | None = None
    n_sentences: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise BadOption(f"Kinds {', '.join(unknown) or 'none'} came; allowed are {', '.join(KINDS)}.")
        if min(self.heads, self.seeds, self.words - 1, self.n_sentences - 1) < 1:
            raise BadOption(
                f"heads={self.heads}, seeds={self.seeds}, words={self.words}, n_sentences={self.n_sentences} "
                "came; heads and seeds need at least 1, words and n_sentences at least 2."
            )
        if not 0 < self.rise < LARGEST:
            raise BadOption(f"rise={self.rise:g} came; |SEAT| is at most {LARGEST:g}: give a number between.")
