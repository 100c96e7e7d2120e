"""Tables 5, 6 and 7 of the projective paper, its section 5, and the trade of bias for ability, from the
outcomes of a sweep (docs/method.md, Sweep)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.mitigation.recipe import Step
from levelhead.results.records.projections import (
    SETTING_MEASURES,
    FrontierLine,
    Observation,
    SettingMeasured,
    Table5Line,
    Table6Line,
    Table7Line,
)
from levelhead.studies.projections.settings import LEVELS, Setting

Measure = Callable[[Table7Line], float | None]


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

    def judged(self, viable: bool | None) -> Outcome:
        """The same outcome with a verdict on its ability."""
        return replace(self, line=replace(self.line, viable=viable))


# ---- the paper's tables


def table5(outcomes: Sequence[Outcome]) -> list[Table5Line]:
    """The best setting of each level: lowest Strength, lowest Distance, highest fairness among the viable."""
    levels = ("base", "baseline", *LEVELS)
    groups = [[o for o in outcomes if o.setting.level == level] for level in levels]
    return [_best_of_level(group) for group in groups if group]


class _Best(NamedTuple):
    """The best setting by one measure, as Table 5 names it; nothing where none was measured."""

    value: float | None = None
    setting: str | None = None
    code: str | None = None


def _best_of_level(own: Sequence[Outcome]) -> Table5Line:
    viable = [o for o in own if o.line.viable]
    weakest = _lowest(own, lambda line: line.strength)
    nearest = _lowest(own, lambda line: line.distance)
    fairest = _highest(viable, lambda line: line.fairness)
    return Table5Line(
        own[0].line.level,
        *(_Best() if weakest is None else _Best(weakest.strength, weakest.setting, weakest.code)),
        *(_Best() if nearest is None else _Best(nearest.distance, nearest.setting, nearest.code)),
        *(_Best() if fairest is None else _Best(fairest.fairness, fairest.setting, fairest.code)),
        ability=None if fairest is None else fairest.ability,
        viable=f"{len(viable)} of {len(own)}",
    )


def table6(outcomes: Sequence[Outcome]) -> list[Table6Line]:
    """Mean ability without and with weighting at SENT, and the increase with its standard deviation
    (ddof = 1)."""
    pairs = _sent_pairs(outcomes)
    groups = {
        hard.line.level: [pair for pair in pairs if pair[0].line.level == hard.line.level]
        for hard, _ in pairs
    }
    return [_weighting(level, group) for level, group in (*groups.items(), ("all", pairs)) if group]


def _weighting(level: str, pairs: Sequence[tuple[Outcome, Outcome]]) -> Table6Line:
    hard, soft = (np.asarray([_known(pair[side].line.ability) for pair in pairs]) for side in (0, 1))
    gain = soft - hard
    return Table6Line(
        level=level,
        pairs=len(pairs),
        ability_hard=float(hard.mean()),
        ability_soft=float(soft.mean()),
        increase=float(gain.mean()),
        sd=float(gain.std(ddof=1)) if len(pairs) > 1 else None,
    )


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
    counted = (
        ("Weighting at SENT raises ability", _sent_keeps_ability(outcomes), "37 of 37"),
        (
            "Every viable setting at the token levels has weighting at SENT",
            _viable_are_soft(outcomes),
            "13 of 14",
        ),
        (
            "From SENT to the last layer Strength falls, except with 2-d unweighted",
            _last_layer(outcomes),
            "8 of 8",
        ),
        ("2-d unweighted tokens have the worst Strength, all else equal", _worst_tokens(outcomes), "8 of 8"),
        (
            "Attention lowers Strength where tokens are not 2-d unweighted",
            _attention(outcomes, False),
            "24 of 24",
        ),
        (
            "Attention does not lower Strength where tokens are 2-d unweighted",
            _attention(outcomes, True),
            "8 of 8",
        ),
    )
    return [
        Observation(claim, all(cases) if cases else None, sum(cases), len(cases), paper)
        for claim, cases, paper in counted
    ]


def _sent_keeps_ability(outcomes: Sequence[Outcome]) -> list[bool]:
    return [_known(soft.line.ability) > _known(hard.line.ability) for hard, soft in _sent_pairs(outcomes)]


def _viable_are_soft(outcomes: Sequence[Outcome]) -> list[bool]:
    inner = [o for o in outcomes if o.setting.level in ("tokens", "attention") and o.line.viable]
    return [o.setting.sent.soft for o in inner]


def _last_layer(outcomes: Sequence[Outcome]) -> list[bool]:
    plain = {o.setting.sent: o for o in outcomes if o.setting.level == "sent"}
    return [
        _stronger(plain[o.setting.sent], o) != _unweighted_plane(o.setting.cls)
        for o in outcomes
        if o.setting.level == "cls"
    ]


def _worst_tokens(outcomes: Sequence[Outcome]) -> list[bool]:
    groups: dict[tuple[Step | None, Step], list[Outcome]] = {}
    for o in (o for o in outcomes if o.setting.level == "tokens"):
        groups.setdefault((o.setting.cls, o.setting.sent), []).append(o)
    measured = [[o for o in group if o.line.strength is not None] for group in groups.values()]
    worst = [max(group, key=lambda o: _known(o.line.strength), default=None) for group in measured]
    return [o is not None and _unweighted_plane(o.setting.tokens) for o in worst]


def _attention(outcomes: Sequence[Outcome], plane: bool) -> list[bool]:
    """Whether adding attention to each setting of the token level lowers Strength (plane: does not lower
    it)."""
    added = {o.setting.steps[3:]: o for o in outcomes if o.setting.level == "attention"}
    return [
        _stronger(o, added[o.setting.steps]) != plane
        for o in outcomes
        if o.setting.level == "tokens" and _unweighted_plane(o.setting.tokens) == plane
    ]


def _stronger(one: Outcome, other: Outcome) -> bool:
    return _known(other.line.strength) < _known(one.line.strength)


def _unweighted_plane(step: Step | None) -> bool:
    return step is not None and step.dimensions == 2 and not step.soft


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


def fairest_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes by falling fairness, and by falling ability where that is equal."""
    return sorted(outcomes, key=lambda o: (-_known(o.line.fairness), -_known(o.line.ability)))


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


def _lowest(outcomes: Sequence[Outcome], measure: Measure) -> Table7Line | None:
    """The first outcome with the smallest value, of those that have one."""
    lines = [o.line for o in outcomes if measure(o.line) is not None]
    return min(lines, key=lambda line: _known(measure(line)), default=None)


def _highest(outcomes: Sequence[Outcome], measure: Measure) -> Table7Line | None:
    """The first outcome with the largest value, of those that have one."""
    lines = [o.line for o in outcomes if measure(o.line) is not None]
    return max(lines, key=lambda line: _known(measure(line)), default=None)


def _known(value: float | None) -> float:
    """A value for a comparison; NaN, which compares as false, where there is none."""
    return math.nan if value is None else value
