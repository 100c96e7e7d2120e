"""The report's chapters in reading order."""

from __future__ import annotations

from collections.abc import Callable

from levelhead.inference.contents import Contents
from levelhead.pages.blocks import Section
from levelhead.pages.sections.benchmark import benchmark_section
from levelhead.pages.sections.changes import changes_section
from levelhead.pages.sections.closing import about_section, limits_section, reproduce_section
from levelhead.pages.sections.glue import glue_section
from levelhead.pages.sections.heads import heads_section
from levelhead.pages.sections.knowledge import knowledge_section
from levelhead.pages.sections.localizing import atlas_section
from levelhead.pages.sections.measured import measured_section
from levelhead.pages.sections.mitigating import mitigating_section
from levelhead.pages.sections.planted import planted_section
from levelhead.pages.sections.survey import (
    differences_section,
    failures_section,
    ranking_section,
    steps_section,
)
from levelhead.pages.sections.sweep import sweep_section

_WRITERS: tuple[Callable[[Contents], Section | None], ...] = (
    mitigating_section,
    atlas_section,
    planted_section,
    measured_section,
    benchmark_section,
    heads_section,
    knowledge_section,
    sweep_section,
    changes_section,
    glue_section,
    ranking_section,
    differences_section,
    steps_section,
    failures_section,
    about_section,
    limits_section,
    reproduce_section,
)


def sections(contents: Contents) -> list[Section]:
    """Every chapter that the run has results for."""
    return [section for write in _WRITERS if (section := write(contents)) is not None]
