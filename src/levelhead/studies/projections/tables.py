"""Tables 5, 6 and 7 of the projective paper, its section 5, and the trade of bias for ability, from the
outcomes of a run (docs/method/projections.md, Sweep)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.mitigation.recipe import Step
from levelhead.studies.projections.grid import LEVELS, Setting
from levelhead.studies.projections.records import (
    SETTING_MEASURES,
    FrontierLine,
    Observation,
    SettingMeasured,
    Table5Line,
    Table6Line,
    Table7Line,
)


@dataclass(frozen=True)
class Outcome:
    """One setting with all that was measured of it."""

    setting: Setting
    line: Table7Line

    @classmethod
    def of(cls, setting: Setting, layers: int, records: Iterable[SettingMeasured]) -> Outcome:
        """From the records of a run, those of other settings among them; layers: of the classifier."""
        name = setting.name
        own = [record for record in records if record.variant == name]
        values = {record.measurement.name: record.measurement.value for record in own}
        viable = next((record.viable for record in own if record.viable is not None), None)
        return cls.measured(setting, layers, values, viable)

    @classmethod
    def measured(
        cls, setting: Setting, layers: int, values: Mapping[str, float | None], viable: bool | None
    ) -> Outcome:
        """From values by the names of their measures; a measure without a value was not measured."""
        columns = {name: values.get(name) for name in SETTING_MEASURES}
        line = Table7Line(
            level=setting.level_name(layers),
            setting=setting.name,
            code=setting.code,
            **columns,
            viable=viable,
        )
        return cls(setting, line)


# ---- the paper's tables


def table5(outcomes: Sequence[Outcome]) -> list[Table5Line]:
    """The best setting of each level: lowest Strength, lowest Distance, highest fairness among the viable."""
    table = []
    for level in ("base", "baseline", *LEVELS):
        lines = [o.line for o in outcomes if o.setting.level == level]
        viable = [line for line in lines if line.viable]
        found: dict[str, Any] = {}
        fairest = None
        for measure, among, sign in (
            ("strength", lines, -1),
            ("distance", lines, -1),
            ("fairness", viable, 1),
        ):
            measured = [line for line in among if getattr(line, measure) is not None]
            # of equal ones the first; nothing where none was measured
            best = max(measured, key=lambda line: sign * getattr(line, measure), default=None)
            found[measure] = getattr(best, measure, None)
            found[f"{measure}_setting"] = None if best is None else best.setting
            found[f"{measure}_code"] = None if best is None else best.code
            fairest = best
        if lines:
            ability = None if fairest is None else fairest.ability
            kept = f"{len(viable)} of {len(lines)}"
            table.append(Table5Line(lines[0].level, **found, ability=ability, viable=kept))
    return table


def table6(outcomes: Sequence[Outcome]) -> list[Table6Line]:
    """Mean ability without and with weighting at SENT, and the increase with its standard deviation
    (ddof = 1)."""
    pairs, lines = _sent_pairs(outcomes), []
    for level in (*dict.fromkeys(hard.line.level for hard, _ in pairs), "all"):
        own = [pair for pair in pairs if level in ("all", pair[0].line.level)]
        if own:
            hard, soft = (np.asarray([_known(pair[side].line.ability) for pair in own]) for side in (0, 1))
            sd = float((soft - hard).std(ddof=1)) if len(own) > 1 else None
            means = (float(hard.mean()), float(soft.mean()), float((soft - hard).mean()))
            lines.append(Table6Line(level, len(own), *means, sd))
    return lines


def strength_and_fairness(outcomes: Sequence[Outcome]) -> Measurement:
    """Spearman's correlation of intrinsic bias with downstream fairness over the settings; negative: they
    agree.

    The paper prints +0.040 for its 76 models, which is the correlation with −S.
    """
    both = [(o.line.strength, o.line.fairness) for o in outcomes]
    known = [(s, f) for s, f in both if s is not None and f is not None]
    correlation = spearman([s for s, _ in known], [f for _, f in known])
    return replace(correlation, name="strength and fairness")


# ---- section 5: true or false for this model?


def observations(outcomes: Sequence[Outcome]) -> list[Observation]:
    """The paper's observations, counted on this model. `holds` only if all cases agree, None if there is no
    case.

    The paper states all of them without exception; for the viable settings its Table 7 has one, (1, 0, 1, 1,
    0). The last entry is the same count in that table.
    """
    at = {level: [o for o in outcomes if o.setting.level == level] for level in LEVELS}

    def plane(step: Step | None) -> bool:
        """Whether a step takes two dimensions out, unweighted."""
        return step is not None and step.dimensions == 2 and not step.soft

    def falls(one: Outcome, other: Outcome) -> bool:
        return _known(other.line.strength) < _known(one.line.strength)

    ability = [_known(soft.line.ability) > _known(hard.line.ability) for hard, soft in _sent_pairs(outcomes)]
    soft = [o.setting.sent.soft for level in ("tokens", "attention") for o in at[level] if o.line.viable]
    plain = {o.setting.sent: o for o in at["sent"]}
    last = [falls(plain[o.setting.sent], o) != plane(o.setting.at("cls")) for o in at["cls"]]
    # groups of token projections that differ in nothing else
    groups: dict[tuple[Step | None, Step], list[Outcome]] = {}
    for o in at["tokens"]:
        groups.setdefault((o.setting.at("cls"), o.setting.sent), []).append(o)
    known = [[o for o in group if o.line.strength is not None] for group in groups.values()]
    worst = [max(group, key=lambda o: _known(o.line.strength), default=None) for group in known]
    tokens = [o is not None and plane(o.setting.at("tokens")) for o in worst]
    # the same settings with attention projected too
    added = {o.setting.steps[3:]: o for o in at["attention"]}
    lowers, raises = (
        [
            falls(o, added[o.setting.steps]) != flat
            for o in at["tokens"]
            if plane(o.setting.at("tokens")) == flat
        ]
        for flat in (False, True)
    )
    counted = (
        ("Weighting at SENT raises ability", ability, "37 of 37"),
        ("Every viable setting at the token levels has weighting at SENT", soft, "13 of 14"),
        ("From SENT to the last layer Strength falls, except with 2-d unweighted", last, "8 of 8"),
        ("2-d unweighted tokens have the worst Strength, all else equal", tokens, "8 of 8"),
        ("Attention lowers Strength where tokens are not 2-d unweighted", lowers, "24 of 24"),
        ("Attention does not lower Strength where tokens are 2-d unweighted", raises, "8 of 8"),
    )
    return [
        Observation(claim, all(cases) if cases else None, sum(cases), len(cases), paper)
        for claim, cases, paper in counted
    ]


# ---- what bias costs


def frontier(outcomes: Sequence[Outcome]) -> list[FrontierLine]:
    """Bias against ability on both tasks; on the frontier: no other point is better in one and as good in the
    other."""
    nsp = _undominated([(-_known(o.line.strength), _known(o.line.lms)) for o in outcomes])
    nli = _undominated([(_known(o.line.fairness), _known(o.line.ability)) for o in outcomes])
    return [
        FrontierLine(
            level=o.line.level,
            setting=o.line.setting,
            strength=o.line.strength,
            lms=o.line.lms,
            nsp_frontier=i in nsp,
            fairness=o.line.fairness,
            ability=o.line.ability,
            nli_frontier=i in nli,
        )
        for i, o in enumerate(outcomes)
    ]


def _undominated(points: Sequence[tuple[float, float]]) -> set[int]:
    """Numbers of the points that no other point beats; larger is better in both coordinates."""
    known = {i: point for i, point in enumerate(points) if not np.isnan(point).any()}
    return {
        i
        for i, (x, y) in known.items()
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in known.values())
    }


def _sent_pairs(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """(without weighting at SENT, with it), all else equal."""
    groups: dict[tuple[str, tuple[Step, ...]], dict[bool, Outcome]] = {}
    for o in (o for o in outcomes if o.setting.level in LEVELS):
        groups.setdefault((o.setting.level, o.setting.steps[:-1]), {})[o.setting.sent.soft] = o
    return [(group[False], group[True]) for group in groups.values() if len(group) == 2]


def _known(value: float | None) -> float:
    """A value for a comparison; NaN, which compares as false, where there is none."""
    return math.nan if value is None else value
