"""What a mitigation is: from a model and the items that it may use to candidates.

A mitigation of a user's own is one object with these three members, registered by `register_mitigation` or
named by an installed package under the entry point `levelhead.mitigations` (docs/mitigate.md). One that takes
long says so by `quick = False`: it runs where it is named, or where all are. Where a budget is given, the one
with the smallest `cost` comes first: passes over the items, fitting and evaluating together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from levelhead.edits.sites import Variant
from levelhead.errors import BadOption
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.plugins import Check, Plugin, Registry, a_reason, behind_guard, expected

ALL = "all"  # stands for every mitigation that is registered
QUICKEST = "quickest"  # stands for this one, which a minute is enough for
_QUICKEST = ("symmetrized",)
_UNKNOWN_COST = 100.0  # passes


@dataclass(frozen=True)
class Candidate:
    """One change of a model: how it is called, how strong it is, and what is done."""

    name: str
    method: str
    strength: float  # of the method's own parameter: heads, dimensions, a share
    edits: Variant
    recipe: Recipe | None = None  # as `levelhead debias` takes it; None: it has none


@runtime_checkable
class Mitigation(Protocol):
    """A way to make candidates."""

    @property
    def name(self) -> str: ...

    def why_not(self, model: Model, fit: Battery) -> str:
        """Why it cannot run on this model and bias; empty where it can."""
        ...

    def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
        """The candidates, fitted on part A of the items and on nothing else, weakest first."""
        ...


def _candidates(about: Plugin, made: Any, _: tuple[Any, ...]) -> Sequence[Candidate]:
    what = "a list of Candidate, each with its edits as a tuple"
    for each in expected(about, "candidates", made, list | tuple, what):
        expected(about, "candidates", each, Candidate, what)
        expected(about, "candidates", each.edits, tuple, what)
        if not math.isfinite(each.strength):
            raise about.error(f"gave {each.name!r} the strength {each.strength}; it must be a finite number")
    return cast("Sequence[Candidate]", made)


_CHECKS: Mapping[str, Check] = {
    "why_not": a_reason,
    "candidates": _candidates,
    "with_means": lambda about, method, _: behind_guard(method, about, _CHECKS),
}
MITIGATIONS: Registry[Mitigation] = Registry(
    "mitigation", Mitigation, "name, why_not(model, fit) and candidates(model, fit)", _CHECKS
)


def register_mitigation(mitigation: Mitigation) -> None:
    """Let `levelhead mitigate` try a mitigation too. A name is taken once."""
    MITIGATIONS.register(mitigation)


def mitigations(names: Sequence[str] = ()) -> tuple[Mitigation, ...]:
    """Those of these names, in their order; without names the quick ones, by the name "all" every one, and by
    the name "quickest" one."""
    known = MITIGATIONS.known()
    names = _QUICKEST if tuple(names) == (QUICKEST,) else names
    if not names:
        return tuple(each for each in known.values() if getattr(each, "quick", True))
    if tuple(names) == (ALL,):
        return tuple(known.values())
    if unknown := [name for name in names if name not in known]:
        raise BadOption(f"No mitigation is called {unknown[0]!r}. There are: {', '.join(sorted(known))}.")
    return tuple(known[name] for name in names)


def cost_of(mitigation: Mitigation) -> float:
    """Passes over the items that a mitigation takes, as it says itself."""
    return float(getattr(mitigation, "cost", _UNKNOWN_COST))
