"""Which setting of a sweep is the fairest of those that are still of use."""

from __future__ import annotations

from collections.abc import Iterable

from levelhead.results.records.projections import BASE_LEVEL, BASELINE_LEVEL, DEPTH_LEVEL, Table7Line


def fairest_viable(lines: Iterable[Table7Line]) -> Table7Line | None:
    """The viable setting with the highest fairness; the unmodified model and the baseline do not count."""
    changed = [each for each in lines if each.level not in (BASE_LEVEL, BASELINE_LEVEL)]
    fair = [each for each in changed if each.viable and each.fairness is not None]
    return max(fair, key=lambda each: each.fairness or 0.0, default=None)


def of_the_paper(lines: Iterable[Table7Line]) -> list[Table7Line]:
    """The paper's settings, without those of a search over layers."""
    return [each for each in lines if each.level != DEPTH_LEVEL]
