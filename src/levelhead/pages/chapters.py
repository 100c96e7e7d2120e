"""The chapters of pages by their ids: what links, tables of contents and sentences name them by."""

from __future__ import annotations

from enum import StrEnum


class Chapter(StrEnum):
    """The id of a chapter that is no study's, which is also its anchor; a study's is the study's name."""

    NOW = "now"  # the box of an audit: answers, picture, what to do
    MEASURED = "measured"
    CHANGES = "changes"
    DIFFERENCES = "differences"
    STEPS = "steps"
    FAILURES = "failures"
    COMPARED = "compared"
    ABOUT = "about"  # what must be documented
    LIMITS = "limits"
    AGAIN = "again"  # how to get the numbers again
    GLOSSARY = "glossary"
    APPENDIX = "appendix"  # what paper leaves out


# what the answers of an audit rest on: all that its report prints
BASIS = frozenset({"mitigate", Chapter.MEASURED, Chapter.CHANGES, Chapter.LIMITS, Chapter.AGAIN})
