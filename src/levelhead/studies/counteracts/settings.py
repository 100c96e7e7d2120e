"""Settings of CounterActs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelhead.edits.sites import Head
from levelhead.errors import BadOption
from levelhead.options import Settings, null_models, option, seed
from levelhead.probes.cloze import ClozeSet, load_cloze
from levelhead.runs.records import StoredHead
from levelhead.runs.study import Stored

if TYPE_CHECKING:
    from levelhead.mitigation.recipe import Recipe


@dataclass(frozen=True)
class CounteractsSettings(Settings):
    """The prompts of the models, bare and after knowledge, and how answers are counted."""

    prompts: str = option(
        "gender-occupation",
        "gender-occupation, age-pastime, or a TOML file.",
        metavar="NAME|FILE",
        old=("--set",),
        kind="prompts",
    )
    verbalizer: str | None = option(None, "A .toml or .tsv file of words that count.", kind="file")
    seed: int = seed()
    per_background: int | None = option(
        None,
        "How many backgrounds a word gets; fewer is faster. 0: no knowledge.",
        least=0,
        old=("--backgrounds",),
    )
    ks: tuple[int, ...] = option((3, 5, 10), "How many of the likeliest tokens count.", least=1, old=("--k",))
    draws: int = option(2000, "Bootstrap samples of every interval.", least=100)
    null: int = null_models(9)
    remove_heads: tuple[Head, ...] = option(
        (), "Also ask without these heads: layer-head, as in 3-5,2-1.", old=("--heads",)
    )
    chat: bool = option(False, "Ask through the tokenizer's chat template, not in plain text.")
    recipes: tuple[str, ...] | Mapping[str, Recipe] = option(
        (),
        "Also ask with a recipe's edits (TOML); repeatable.",
        each=True,
        flag="--recipe",
        metavar="FILE",
        kind="recipe",
    )

    def check(self) -> None:
        if not self.ks or len(set(self.ks)) < len(self.ks):
            given = ", ".join(map(str, self.ks)) or "none"
            raise BadOption(f"ks must be different whole numbers from 1, such as 3, 5, 10 (got {given})")

    def load(self) -> ClozeSet:
        """The prompts."""
        return load_cloze(self.prompts, self.seed, self.per_background, self.verbalizer)


@dataclass(frozen=True, kw_only=True)
class CounteractsStored(Stored, CounteractsSettings):
    """The settings as a run stores them."""

    remove_heads: tuple[StoredHead, ...] = ()
    recipes: tuple[str, ...] = ()
    variants: tuple[str, ...]
    groups: tuple[str, str]
    kinds: tuple[str, ...]
    n_prompts: int

    @property
    def shown_k(self) -> int:
        """The k that stands for all: 5 where it is among them, else the one nearest to it."""
        return min(self.ks, key=lambda k: (abs(k - 5), k))
