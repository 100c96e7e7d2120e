"""All that a page of `levelhead explore` shows, as one value, which links and requests hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from urllib.parse import quote

from levelhead.errors import BadOption
from levelhead.runs.records import Record, StoredHead, StoredNeuron

LONGEST = 20_000  # characters of a sentence
_GATES = (-4.0, 4.0)  # the least and the largest gate that a page may ask for
_STEERING = 100.0  # times the difference of means, at most
_SWITCHES = 1000  # gates at most
_SEEDS = 1 << 32


@dataclass(frozen=True)
class PageState(Record):
    """What was typed and switched. counterfactual: None where the sentence is swapped by levelhead."""

    sentence: str = ""
    counterfactual: str | None = None
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
    of_counterfactual: bool = False  # whether "why" is about the counterfactual
    names: bool = True  # whether first names are exchanged and state a gender
    seed: int = 0  # of the texts that the model writes

    def __post_init__(self) -> None:
        for text in (self.sentence, self.counterfactual or ""):
            if len(text) > LONGEST:
                raise BadOption(f"a sentence must have at most {LONGEST} characters (got {len(text)})")
        least, largest = _GATES
        for name, value in (*self.gates.items(), *self.neurons.items()):
            if not least <= value <= largest:
                raise BadOption(f"gate of {name} must be {least} to {largest} (got {value})")
        if (switched := len(self.gates) + len(self.neurons)) > _SWITCHES:
            raise BadOption(f"gates must be at most {_SWITCHES} (got {switched}). Put them into a recipe.")
        if not abs(self.steering) <= _STEERING:
            raise BadOption(f"steering must be -{_STEERING} to {_STEERING} (got {self.steering})")
        if not (math.isfinite(self.strength) and 0 <= self.strength <= 2):
            raise BadOption(f"strength must be 0 to 2 (got {self.strength})")
        if not 0 <= self.seed < _SEEDS:
            raise BadOption(f"seed must be 0 to {_SEEDS - 1} (got {self.seed})")

    def to_fragment(self) -> str:
        """The state as the part of a link behind #: what differs from an empty page."""
        plain, changed = self.to_json(), {}
        for each in fields(self):
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if getattr(self, each.name) != default:
                changed[each.name] = plain[each.name]
        return quote(json.dumps(changed, ensure_ascii=False, separators=(",", ":")), safe="")
