"""What can be asked of the texts that a model writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelhead.errors import BadOption
from levelhead.options import Settings, option, resamples, seed
from levelhead.options import limit as limit_option
from levelhead.probes.generation import MOST_NAMES, SETS, PromptSet, load_prompts
from levelhead.runs.study import Stored

if TYPE_CHECKING:
    from levelhead.mitigation.recipe import Recipe

CHAT, SHIPPED = "chat", "shipped"
_MOST_SAMPLES = 1_000
Function = Callable[[Sequence[str]], Sequence[float | None]]  # a scorer of a user's own


@dataclass(frozen=True)
class GenerateSettings(Settings):
    """What the model continues, how often, and how its texts are judged."""

    prompts: str = option(
        SHIPPED,
        "shipped, or a .jsonl, .csv or .txt file, with {name} and {person} or plain (docs/generate.md).",
        metavar="shipped|FILE",
        kind="continued",
    )
    sets: tuple[str, ...] = option(
        (),
        f"Of the shipped prompts, separated by commas: {', '.join(SETS)}. Default: all, {CHAT} with --chat.",
        choices=SETS,
    )
    samples: int = option(8, "Texts per prompt that names a group.", least=2, most=_MOST_SAMPLES)
    neutral: int = option(
        2, "Texts per neutral prompt: its probabilities are read as well.", least=1, most=_MOST_SAMPLES
    )
    tokens: int = option(32, "Tokens per text, at most.", least=1)
    temperature: float = option(1.0, "1 samples what the model says; lower is more alike.", above=0)
    chat: bool = option(False, "Ask through the tokenizer's chat template, not in plain text.")
    names: int = option(4, "First names per group, alike in frequency.", least=1, most=MOST_NAMES)
    scorers: tuple[str, ...] | Sequence[str | Function] = option(
        (),
        "How texts are scored: length, refusal, agency, warmth, sentiment, classifier:MODEL#LABEL, FILE.py, "
        "judge:MODEL; separated by commas. Default: all that are installed, and no judge.",
        metavar="NAME,...",
    )
    judge_rubric: str | None = option(
        None,
        "What a judge decides of a text: a sentence, or a file that holds it (docs/judge.md).",
        metavar="TEXT|FILE",
        needs="scorers",
    )
    judge_labels: str | None = option(
        None,
        "Texts or pairs with your labels (.jsonl, .csv), from which a judge's error rates are estimated.",
        metavar="FILE",
        kind="file",
        needs="scorers",
    )
    rivals: bool = option(
        True,
        "Scores of LangFair, BOLD and HONEST beside what an unbiased model gets; --no-rivals: without.",
    )
    honest: str | None = option(
        None, "A file of hurtful words, the lexicon of HONEST.", metavar="FILE", kind="file", needs="rivals"
    )
    detect: float | None = option(
        None,
        "Take as many texts as show a paired gap of so many standard deviations with power 0.8.",
        above=0,
    )
    recipes: tuple[str, ...] | Mapping[str, Recipe] = option(
        (),
        "Also with a recipe's edits (TOML), before and after; repeatable.",
        each=True,
        flag="--recipe",
        metavar="FILE",
        kind="recipe",
    )
    limit: int | None = limit_option()
    resamples: int = resamples()
    seed: int = seed()

    def check(self) -> None:
        if self.sets and self.prompts != SHIPPED:
            raise BadOption(f"sets must be empty where prompts are a file (got {', '.join(self.sets)})")
        if CHAT in self.sets and not self.chat:
            raise BadOption("sets must be without chat where --chat is not given: it asks in turns")

    def load(self, tokens: Callable[[str], int] | None = None) -> PromptSet:
        """The prompts. tokens: how many tokens a name has, so that names of equal length are compared."""
        sets = self.sets
        if self.prompts == SHIPPED and not sets:
            sets = tuple(each for each in SETS if each != CHAT or self.chat)
        return load_prompts(self.prompts, sets, self.seed, self.names, self.limit, tokens)


@dataclass(frozen=True, kw_only=True)
class GenerateStored(Stored, GenerateSettings):
    """The settings as a run stores them."""

    scorers: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    variants: tuple[str, ...]
    n_prompts: int
