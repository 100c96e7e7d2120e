"""Records of an audit: what it says."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.runs.records import Record


@dataclass(frozen=True)
class Headline(Record):
    """What an audit says first, and its findings one by one."""

    text: str
    findings: tuple[str, ...]
