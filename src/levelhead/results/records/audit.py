"""Records of an audit: ways out, how they were chosen, and what is said."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.results.codec import Record, StoredHead


@dataclass(frozen=True)
class NamedValue(Record):
    """A measure's name and value, without its uncertainty."""

    name: str
    value: float | None


@dataclass(frozen=True)
class ProjectionCandidate(Record):
    """A projection that was tried: what it bought and what it cost on the data it was chosen on.

    A smaller difference counts if it is also smaller relative to the scale of the outputs, and if the outputs
    still tell right from wrong as surely as before.
    """

    variant: str
    level: str
    code: str
    bias: NamedValue
    ability: NamedValue
    viable: bool
    gain: float  # larger is fairer
    recipe: str  # TOML; "" for the unmodified model
    chosen: bool
    scale_free: NamedValue | None = None  # the bias relative to the scale of outputs; None: it has no scale
    sureness: NamedValue | None = None  # an ability that sees the scale of outputs; None: the first one does


@dataclass(frozen=True)
class Mitigation(Record):
    """A way out that is verified."""

    variant: str
    what: str  # in a sentence
    heads: tuple[StoredHead, ...]  # that are closed; none for a projection
    recipe: str  # TOML
    chosen: bool


@dataclass(frozen=True)
class Headline(Record):
    """What an audit says first, and its findings one by one."""

    text: str
    findings: tuple[str, ...]
