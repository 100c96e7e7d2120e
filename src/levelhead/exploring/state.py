"""All that a page of `levelhead explore` shows, as one value, which links and requests hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from urllib.parse import quote, unquote

from levelhead.errors import BadOption
from levelhead.results.codec import Record, StoredHead, StoredNeuron

LONGEST = 20_000  # characters of a sentence
_GATES = (-4.0, 4.0)  # the least and the largest gate that a page may ask for
_STEERING = 100.0  # times the difference of means, at most
_SWITCHES = 1000  # gates at most


@dataclass(frozen=True)
class PageState(Record):
    """What was typed and switched. twin: None where the sentence is swapped by levelhead."""

    sentence: str = ""
    twin: str | None = None
    pair: tuple[str, str] | None = None  # None: the first pair of the bias that the model can be asked for
    gates: Mapping[StoredHead, float] = field(default_factory=dict)  # switched by hand; others are at 1
    neurons: Mapping[StoredNeuron, float] = field(default_factory=dict)  # likewise
    steering: float = 0.0  # times the difference of means; 0 is none
    benchmark: str = ""  # that changes are measured on, by its name; "": the first
    preset: str = ""  # a recipe of the run by its name
    strength: float = 1.0  # of the preset: 0 changes nothing, 1 is the recipe
    symmetrized: bool = False
    head: StoredHead | None = None  # that was chosen on the map
    word: int | None = None  # from whose character attention is shown; None: the blank, or the last word
    of_twin: bool = False  # whether "why" is about the twin
    names: bool = True  # whether first names are exchanged and state a gender

    def __post_init__(self) -> None:
        for text in (self.sentence, self.twin or ""):
            if len(text) > LONGEST:
                raise BadOption(f"A sentence of {len(text)} characters came; at most {LONGEST} are taken.")
        least, largest = _GATES
        for name, value in (*self.gates.items(), *self.neurons.items()):
            if not least <= value <= largest:
                raise BadOption(f"Gate {value} of {name} came; allowed are {least} to {largest}.")
        if len(self.gates) + len(self.neurons) > _SWITCHES:
            raise BadOption(f"More than {_SWITCHES} gates came. Put them into a recipe.")
        if not abs(self.steering) <= _STEERING:
            raise BadOption(f"Steering by {self.steering} came; allowed are -{_STEERING} to {_STEERING}.")
        if not (math.isfinite(self.strength) and 0 <= self.strength <= 2):
            raise BadOption(f"A strength of {self.strength} came; allowed are 0 to 2.")

    def to_fragment(self) -> str:
        """The state as the part of a link behind #: what differs from an empty page."""
        plain = self.to_json()
        changed = {each.name: plain[each.name] for each in fields(self) if not _is_default(self, each.name)}
        return quote(json.dumps(changed, ensure_ascii=False, separators=(",", ":")), safe="")

    @classmethod
    def from_fragment(cls, fragment: str) -> PageState:
        """The state of a link; an empty fragment is an empty page."""
        text = unquote(fragment.removeprefix("#"))
        if not text:
            return cls()
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise BadOption(f"The link holds no state of a page: {str(error)[:80]}. Copy it again.") from None


def _is_default(state: PageState, name: str) -> bool:
    default = next(each for each in fields(PageState) if each.name == name)
    plain = default.default if default.default_factory is MISSING else default.default_factory()
    return bool(getattr(state, name) == plain)
