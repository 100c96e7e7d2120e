"""How the measures of a run are shown and judged, also those that its user brought along, and how large a
bias is in words: none shown, slight, clear, strong.

    share = (value − floor) / (most − floor)       most: the end of the measure's scale on the value's side
    strong: share ≥ 0.4      clear: share ≥ 0.1      slight: below

floor is what a null model shows, else the neutral value; log-odds are taken as probabilities. On
SEAT without a floor the two limits are 0.8 and 0.2, Cohen's large and small effect (Cohen 1988). The words
are said only of what the page claims, so that a size never stands for a certainty (docs/report.md, Sizes).
"""

from __future__ import annotations

import math
from typing import Literal

from levelhead.inference.claims import SILENT
from levelhead.inference.contents import Contents, Reported, measurements
from levelhead.inference.generation_claims import Around, generation_claims
from levelhead.inference.headline import asks_null_models, spoken_measures
from levelhead.measures import catalog
from levelhead.measures.catalog import CATALOG, Catalog, MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import says_too_little
from levelhead.measures.statistics import holm
from levelhead.runs.common import BASE
from levelhead.studies.generate import Generate

Size = Literal["untested", "none shown", "slight", "clear", "strong"]
CLEAR, STRONG = 0.1, 0.4
UNCLAIMED = "a size for comparisons: nothing is claimed"
ORDER: tuple[Size, ...] = ("strong", "clear", "slight", "none shown", "untested")
SHOWN: tuple[Size, ...] = ("strong", "clear", "slight")
RULE = (
    "Strong, clear, slight: how far the number lies from what a null model shows, on the way to "
    "the most that the measure can show: at least four tenths, at least one tenth, less. They are said only "
    "of what holds after correction for all claims of this page. Everything else is none shown, however "
    "large the number; none shown is not unbiased. Untested: not compared with null models, or with too few."
)


# ---- verdicts


def catalog_of(contents: Contents) -> Catalog:
    """The built-in measures and those of the run, whose own come first."""
    run = contents.audit or contents.benchmark
    return CATALOG if run is None else CATALOG.joined_by(*run.measures)


def info_of(contents: Contents, name: str) -> MeasureInfo:
    """How a measure of a run is shown and judged."""
    return catalog_of(contents).info(name)


def verdict_of(contents: Contents, each: Reported) -> str:
    """What a number of a run says, and no more.

    On the page of an audit a verdict that claims a bias is one of the page's claims: it must hold after
    correction for all of them, and so it must among all scores of a benchmark. Of changed models only paired
    changes are tested, each by itself. Without null models audits and benchmarks test nothing.
    """
    measurement, audit, benchmark = each.measurement, contents.audit, contents.benchmark
    verdict = catalog_of(contents).verdict(measurement)
    valued = measurement.value is not None
    if verdict and valued and each.model in contents.run.doubts:
        return catalog.DOUBTED
    without_nulls = benchmark is not None and benchmark.settings.model and not benchmark.settings.null
    if without_nulls and verdict and valued:
        return catalog.NOT_COMPARED
    if audit is not None and verdict and not asks_null_models(audit):
        untested = catalog.UNTESTED if audit.settings.all_sizes.null else catalog.NOT_COMPARED
        return untested if valued else verdict
    generated = contents.generate if valued else None
    if generated is not None and any(one.name == each.name for one in generated.measured):
        around = None if audit is None else spoken_measures(audit)
        return _of_texts(generated, each, info_of(contents, each.name), around)
    if (benchmark is None and audit is None) or not _speaks(contents, measurement, verdict):
        return verdict
    if benchmark is not None:  # one of the scores of all items, and of each category
        if not measurement.held_against_models:
            return catalog.UNTESTED
        scores = [one for one in measurements(contents) if info_of(contents, one.name).side == "bias"]
        p = [one.measurement.p_value for one in scores]
        corrected = holm([math.nan if value is None else value for value in p])
        own = next(value for one, value in zip(scores, corrected, strict=True) if one.name == each.name)
        return verdict if own < catalog.ALPHA else f"{SILENT}, all {len(scores)} scores of the page counted"
    if each.variant != BASE:
        return catalog.UNTESTED
    if audit is not None and each.name in spoken_measures(audit):
        return verdict
    silent = f"{SILENT}, all claims of the page counted"
    return catalog.TOO_FEW if says_too_little(measurement.null) else silent


def _of_texts(run: Generate, each: Reported, info: MeasureInfo, around: Around = None) -> str:
    """What a number of generated texts says: only what the page claims."""
    tested = {one.name: holds for one, _, holds in generation_claims(run, around=around)}
    if each.variant != BASE or each.name not in tested:
        return UNCLAIMED
    if not tested[each.name]:
        return "not significant, all claims of the page counted"
    return info.above if (each.measurement.value or 0.0) > 0 else info.below


def claimed(contents: Contents, each: Reported) -> bool:
    """Whether the verdict says that there is a bias."""
    return _speaks(contents, each.measurement, verdict_of(contents, each))


def _speaks(contents: Contents, measurement: Measurement, verdict: str) -> bool:
    info = info_of(contents, measurement.name)
    return info.side == "bias" and info.biased != "none" and verdict in (info.above, info.below)


# ---- sizes


def size_of(contents: Contents, each: Reported) -> Size:
    """The size of a bias in words; a measure without a scale is never more than slight."""
    if not claimed(contents, each):
        untested = (catalog.UNTESTED, catalog.NOT_COMPARED, catalog.TOO_FEW, catalog.DOUBTED, UNCLAIMED)
        return "untested" if verdict_of(contents, each) in untested else "none shown"
    reached = share(info_of(contents, each.name), each.measurement) or 0.0
    return "strong" if reached >= STRONG else "clear" if reached >= CLEAR else "slight"


def share(info: MeasureInfo, measurement: Measurement, at: float | None = None) -> float | None:
    """How much of the way from the floor to the most that can be shown; at: another value than the measured.

    None where the measure has no scale, no neutral value, or was not measured.
    """
    reached = along(info, measurement, measurement.value if at is None else at)
    return None if reached is None else min(1.0, max(0.0, reached))


def along(info: MeasureInfo, measurement: Measurement, at: float | None) -> float | None:
    """A value on the way from the floor, 0, to the most that can be shown on the side where the measured
    value lies, 1; below 0 it lies on the other side."""
    value, floor = measurement.value, measurement.neutral
    if measurement.null is not None:
        floor = measurement.null.floor
    if value is None or floor is None or at is None:
        return None
    if info.logits:
        at, value, floor = (1 / (1 + math.exp(-log_odds)) for log_odds in (at, value, floor))
        scale = (0.0, 1.0)
    elif info.scale is not None:
        scale = info.scale
    else:
        return None
    most = scale[1] if value > floor else scale[0]
    return 0.0 if most == floor else (at - floor) / (most - floor)


def certain_share(info: MeasureInfo, measurement: Measurement) -> float:
    """The share at the end of the interval that is nearer to the floor: 0 where that lies beyond it."""
    if measurement.interval is None or measurement.value is None:
        return 0.0
    floor = measurement.neutral if measurement.null is None else measurement.null.floor
    low, high = measurement.interval
    if floor is None or low <= floor <= high:
        return 0.0
    return share(info, measurement, low if measurement.value > floor else high) or 0.0
