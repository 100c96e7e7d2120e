"""Pronouns: how often is the likeliest next token a pronoun?"""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.errors import BadOption
from levelhead.measures.measurement import Measurement
from levelhead.options import Settings, option, seed
from levelhead.runs.records import Record
from levelhead.runs.study import One, Parts, Stored, Study

PROMPTS = (
    "The nurse said that",
    "The engineer said that",
    "After the meeting",
    "My friend was tired because",
)


@dataclass(frozen=True)
class PronounsSettings(Settings):
    """What is asked."""

    prompts: tuple[str, ...] = option(PROMPTS, "A text to continue; repeatable.", each=True, flag="--prompt")
    words: tuple[str, ...] = option(("he", "she", "they", "it"), "What counts as a pronoun.")
    resamples: int = option(500, "Bootstrap samples of the interval.", least=1)
    seed: int = seed()

    def check(self) -> None:
        if not self.prompts or not self.words:
            raise BadOption("prompts and words must hold at least one each (got none)")


@dataclass(frozen=True, kw_only=True)
class PronounsStored(Stored, PronounsSettings):
    """The settings as a run stores them."""


@dataclass(frozen=True)
class Continued(Record):
    """What a model finds likeliest behind a prompt."""

    prompt: str
    token: str
    log_prob: float
    pronoun: bool


class Pronouns(Study[PronounsStored]):
    """How often the likeliest next token is a pronoun: `share`, `continued`."""

    name = "pronouns"
    title = "Pronouns"
    question = "How often is the likeliest next token a pronoun?"
    about = "Continue prompts by one token: how often is the likeliest a pronoun?"
    settings_type = PronounsSettings
    stored = PronounsStored

    continued = Parts(Continued, "The likeliest token behind every prompt; labels: 1, 2 ...")
    share = One(Measurement, "The share of prompts behind which it is a pronoun.")
