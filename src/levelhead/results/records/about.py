"""What those who must document a model write about its evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.results.codec import Record


@dataclass(frozen=True)
class About(Record):
    """The fields of a documentation; an empty one was not filled in."""

    intended_purpose: str
    groups_covered: str
    groups_not_covered: str
    data_provenance: str
    date: str
    responsible: str
    residual_risk: str
