"""The paper's Tables 5, 6 and 7, its section 5 and the trade of bias for ability, from the outcomes of a
sweep."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.studies.projections.settings import LEVELS, Setting, level_name

Row = dict[str, Any]
NSP_MEASURES = ("strength", "distance", "ss", "ss_swapped", "lms", "icat")
NLI_MEASURES = ("parity", "strict_parity", "accuracy", "fairness", "ability")


@dataclass(frozen=True)
class Outcome:
    """What one setting measured. A value is None where nothing could be measured."""

    setting: Setting
    values: Mapping[str, float | None]
    viable: bool | None = None

    def __getitem__(self, measure: str) -> float:
        """A value that is needed for a comparison; NaN, which compares as false, where there is none."""
        value = self.values.get(measure)
        return float("nan") if value is None else value


def table7(outcomes: Sequence[Outcome], layers: int) -> list[Row]:
    """Every setting with every measure."""
    return [
        {
            "level": o.setting.level_name(layers),
            "setting": o.setting.name,
            "code": o.setting.code,
            **{name: o.values.get(name) for name in (*NSP_MEASURES, *NLI_MEASURES)},
            "viable": o.viable,
        }
        for o in outcomes
    ]


def table5(outcomes: Sequence[Outcome], layers: int) -> list[Row]:
    """The best setting of each level: lowest Strength, lowest Distance, highest fairness among the viable."""
    rows = []
    for level in ("base", "baseline", *LEVELS):
        own = [o for o in outcomes if o.setting.level == level]
        if not own:
            continue
        row: Row = {"level": own[0].setting.level_name(layers)}
        for measure in ("strength", "distance"):
            row |= _named(measure, min(_measured(own, measure), key=lambda o: o[measure], default=None))
        able = [o for o in own if o.viable]
        best = max(_measured(able, "fairness"), key=lambda o: o["fairness"], default=None)
        row |= _named("fairness", best)
        row["ability"] = best.values.get("ability") if best else None
        row["viable"] = f"{len(able)} of {len(own)}"
        rows.append(row)
    return rows


def table6(outcomes: Sequence[Outcome], layers: int) -> list[Row]:
    """Mean ability without and with weighting at SENT, and the increase with its standard deviation (ddof =
    1)."""
    rows = []
    pairs = _sent_pairs(outcomes)
    for level in (*LEVELS, None):
        own = [(hard, soft) for hard, soft in pairs if level in (None, hard.setting.level)]
        if not own:
            continue
        hard, soft = (np.asarray([pair[side]["ability"] for pair in own]) for side in (0, 1))
        gain = soft - hard
        rows.append(
            {
                "level": "all" if level is None else level_name(level, layers),
                "pairs": len(own),
                "ability_hard": float(hard.mean()),
                "ability_soft": float(soft.mean()),
                "increase": float(gain.mean()),
                "sd": float(gain.std(ddof=1)) if len(own) > 1 else None,
            }
        )
    return rows


def strength_and_fairness(outcomes: Sequence[Outcome]) -> Measurement:
    """Spearman's correlation of intrinsic bias with downstream fairness over the settings; negative: they
    agree.

    The paper prints +0.040 for its 76 models, which is the correlation with -S.
    """
    both = _measured(_measured(outcomes, "strength"), "fairness")
    return spearman([o["strength"] for o in both], [o["fairness"] for o in both])


# ---- section 5: true or false for this model?


def observations(outcomes: Sequence[Outcome]) -> list[Row]:
    """The paper's observations, counted on this model. `holds` only if all cases agree, None if there is no
    case.

    The paper states all of them without exception; for the viable settings its Table 7 has one, (1, 0, 1, 1,
    0).
    """
    counted: dict[str, tuple[list[bool], str]] = {  # claim -> cases here, and in the paper's own Table 7
        "Weighting at SENT raises ability": (_sent_keeps_ability(outcomes), "37 of 37"),
        "Every viable setting at the token levels has weighting at SENT": (
            _viable_are_soft(outcomes),
            "13 of 14",
        ),
        "From SENT to the last layer Strength falls, except with 2-d unweighted": (
            _last_layer(outcomes),
            "8 of 8",
        ),
        "2-d unweighted tokens have the worst Strength, all else equal": (_worst_tokens(outcomes), "8 of 8"),
        "Attention lowers Strength where tokens are not 2-d unweighted": (
            _attention(outcomes, False),
            "24 of 24",
        ),
        "Attention does not lower Strength where tokens are 2-d unweighted": (
            _attention(outcomes, True),
            "8 of 8",
        ),
    }
    return [
        {
            "observation": claim,
            "holds": all(cases) if cases else None,
            "agree": sum(cases),
            "cases": len(cases),
            "paper": paper,
        }
        for claim, (cases, paper) in counted.items()
    ]


def _sent_keeps_ability(outcomes: Sequence[Outcome]) -> list[bool]:
    return [soft["ability"] > hard["ability"] for hard, soft in _sent_pairs(outcomes)]


def _viable_are_soft(outcomes: Sequence[Outcome]) -> list[bool]:
    inner = [o for o in outcomes if o.setting.level in ("tokens", "attention") and o.viable]
    return [o.setting.sent.soft for o in inner]


def _last_layer(outcomes: Sequence[Outcome]) -> list[bool]:
    plain = {o.setting.sent: o for o in outcomes if o.setting.level == "sent"}
    cases = []
    for o in (o for o in outcomes if o.setting.level == "cls"):
        lower = o["strength"] < plain[o.setting.sent]["strength"]
        cases.append(lower != _unweighted_plane(o, "cls"))
    return cases


def _worst_tokens(outcomes: Sequence[Outcome]) -> list[bool]:
    groups: dict[Any, list[Outcome]] = {}
    for o in (o for o in outcomes if o.setting.level == "tokens"):
        groups.setdefault((o.setting.cls, o.setting.sent), []).append(o)
    worst = [
        max(_measured(group, "strength"), key=lambda o: o["strength"], default=None)
        for group in groups.values()
    ]
    return [o is not None and _unweighted_plane(o, "tokens") for o in worst]


def _attention(outcomes: Sequence[Outcome], plane: bool) -> list[bool]:
    """Of the settings at the token level: does adding attention lower Strength (plane: does it not)?"""
    added = {o.setting.steps[3:]: o for o in outcomes if o.setting.level == "attention"}
    cases = []
    for o in (o for o in outcomes if o.setting.level == "tokens"):
        if _unweighted_plane(o, "tokens") == plane:
            lower = added[o.setting.steps]["strength"] < o["strength"]
            cases.append(lower != plane)
    return cases


def _unweighted_plane(outcome: Outcome, location: str) -> bool:
    one = outcome.setting.tokens if location == "tokens" else outcome.setting.cls
    return one is not None and one.dimensions == 2 and not one.soft


# ---- what bias costs


def frontier(outcomes: Sequence[Outcome], layers: int) -> list[Row]:
    """Bias against ability on both tasks; on the frontier: no other point is better in one and as good in the
    other."""
    nsp = _undominated(outcomes, lambda o: (-o["strength"], o["lms"]))
    nli = _undominated(outcomes, lambda o: (o["fairness"], o["ability"]))
    return [
        {
            "level": o.setting.level_name(layers),
            "setting": o.setting.name,
            "strength": o.values.get("strength"),
            "lms": o.values.get("lms"),
            "nsp_frontier": i in nsp,
            "fairness": o.values.get("fairness"),
            "ability": o.values.get("ability"),
            "nli_frontier": i in nli,
        }
        for i, o in enumerate(outcomes)
    ]


def fairest_viable(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The viable setting with the highest fairness; the untouched model and the baseline are none."""
    able = [o for o in outcomes if o.viable and o.setting.level not in ("base", "baseline")]
    return max(_measured(able, "fairness"), key=lambda o: o["fairness"], default=None)


def write_csv(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], None]:
    """A writer for Run.artifact; None is an empty cell."""

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
            table.writeheader()
            table.writerows(rows)

    return write


def _undominated(outcomes: Sequence[Outcome], good: Callable[[Outcome], tuple[float, float]]) -> set[int]:
    points = {i: good(o) for i, o in enumerate(outcomes) if not np.isnan(good(o)).any()}
    return {
        i
        for i, (x, y) in points.items()
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points.values())
    }


def _sent_pairs(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """(without weighting at SENT, with it), all else equal."""
    groups: dict[Any, dict[bool, Outcome]] = {}
    for o in (o for o in outcomes if o.setting.level in LEVELS):
        groups.setdefault((o.setting.level, o.setting.steps[:-1]), {})[o.setting.sent.soft] = o
    return [(group[False], group[True]) for group in groups.values() if len(group) == 2]


def _measured(outcomes: Sequence[Outcome], measure: str) -> list[Outcome]:
    return [o for o in outcomes if o.values.get(measure) is not None]


def _named(measure: str, outcome: Outcome | None) -> Row:
    if outcome is None:
        return {measure: None, f"{measure}_setting": None, f"{measure}_code": None}
    setting = outcome.setting
    return {measure: outcome[measure], f"{measure}_setting": setting.name, f"{measure}_code": setting.code}
