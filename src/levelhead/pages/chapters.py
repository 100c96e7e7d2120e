"""The chapters of pages by their ids: what links, tables of contents and sentences name them by."""

from __future__ import annotations

from enum import StrEnum


class Chapter(StrEnum):
    """The id of a chapter, which is also its anchor."""

    NOW = "now"  # the box of an audit: answers, picture, what to do
    MITIGATE = "mitigate"
    ATLAS = "atlas"
    PLANTED = "planted"
    MEASURED = "measured"
    BENCHMARK = "benchmark"
    HEADS = "heads"
    KNOWLEDGE = "knowledge"
    SWEEP = "sweep"
    CHANGES = "changes"
    GLUE = "glue"
    RANKING = "ranking"
    DIFFERENCES = "differences"
    STEPS = "steps"
    FAILURES = "failures"
    COMPARED = "compared"
    ABOUT = "about"  # what must be documented
    LIMITS = "limits"
    REPRODUCE = "reproduce"
    GLOSSARY = "glossary"
    APPENDIX = "appendix"  # what paper leaves out


# what the answers of an audit rest on: all that its report prints
BASIS = frozenset({Chapter.MITIGATE, Chapter.MEASURED, Chapter.CHANGES, Chapter.LIMITS, Chapter.REPRODUCE})
