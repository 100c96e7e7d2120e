"""What a mitigation is: from a model and the items that it may look at to candidates.

A mitigation of a user's own is one object with these three members, registered by `register_mitigation` or
named by an installed package under the entry point `levelhead.mitigations` (docs/mitigate.md). One that takes
long says so by `quick = False`: it runs where it is named, or where all are. Where a budget is given, the one
with the smallest `cost` comes first: passes over the items, fitting and asking together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

from levelhead.edits.sites import Variant
from levelhead.errors import BadOption
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.plugins import load_installed

ENTRY_POINTS = "levelhead.mitigations"
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


_REGISTERED: dict[str, Mitigation] = {}


def register_mitigation(mitigation: Mitigation) -> None:
    """Let `levelhead mitigate` try a mitigation too. A name is taken once."""
    if not isinstance(mitigation, Mitigation):
        raise BadOption(
            f"{type(mitigation).__name__} is no mitigation: it needs name, why_not(model, fit) and "
            "candidates(model, fit)."
        )
    known = _REGISTERED.get(mitigation.name)
    if known is not None and type(known) is not type(mitigation):
        raise BadOption(f"Two mitigations are called {mitigation.name!r}. Rename one of them.")
    _REGISTERED[mitigation.name] = mitigation


def mitigations(names: Sequence[str] = ()) -> tuple[Mitigation, ...]:
    """Those of these names, in their order; without names the quick ones, by the name "all" every one, and by
    the name "quickest" one."""
    _load_installed()
    names = _QUICKEST if tuple(names) == (QUICKEST,) else names
    if not names:
        return tuple(each for each in _REGISTERED.values() if getattr(each, "quick", True))
    if tuple(names) == (ALL,):
        return tuple(_REGISTERED.values())
    if unknown := [name for name in names if name not in _REGISTERED]:
        raise BadOption(
            f"No mitigation is called {unknown[0]!r}. There are: {', '.join(sorted(_REGISTERED))}."
        )
    return tuple(_REGISTERED[name] for name in names)


def cost_of(mitigation: Mitigation) -> float:
    """Passes over the items that a mitigation takes, as it says itself."""
    return float(getattr(mitigation, "cost", _UNKNOWN_COST))


@cache
def _load_installed() -> None:
    load_installed(ENTRY_POINTS)
