"""What the page says about projections: whether one lowers the bias on items that it was not chosen on, and
whether that is more than flatter outputs (docs/method.md, Choosing a projection)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from levelhead.inference.claims import Claim, p_text, valued
from levelhead.measures.catalog import CATALOG
from levelhead.measures.fairness import ALWAYS_NEUTRAL, P_RIGHT
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import SPREAD
from levelhead.measures.stereoset import SCALE_FREE
from levelhead.measures.viability import viable, viable_ratio
from levelhead.results import layout
from levelhead.results.records.audit import ProjectionCandidate
from levelhead.results.records.common import SAME_ITEMS
from levelhead.results.runs import AuditRun

Measurements = Mapping[str, Measurement]  # by measure
_SHARES = ("lms", "nsp_accuracy", "ability")  # abilities that are shares of right answers
FLUENCY_CHANGE = "fluency change"
_PREFERENCE = "preference"
_RATIO = "perplexity ratio"
_NOT_TRIED = (
    'No projection was tried: {} has no pairs to fit one on. Write pairs = [["a", "b"], ...] into the list.'
)
_CLEARLY = 0.99  # a companion below so much of what it was has fallen


# ---- what a change cost


@dataclass(frozen=True)
class Ability:
    """An ability before and after a change, and whether it is kept."""

    name: str
    before: float  # 1 for a ratio
    after: float
    kept: bool

    @property
    def in_words(self) -> str:
        """`language sense 0.80 → 0.79`, `perplexity +2.3 %`."""
        if self.name == _RATIO:
            return f"perplexity {100 * (self.after - 1):+.1f} %".replace("-", "−")
        title = CATALOG.info(self.name).title.partition(" (")[0]
        return f"{title[0].lower()}{title[1:]} {self.before:.2f} → {self.after:.2f}"


def abilities(before: Measurements, after: Measurements) -> list[Ability]:
    """Every ability that was measured on the same items before and after; perplexity as a ratio."""
    pairs = {
        name: (before[name].value, after[name].value) for name in _SHARES if name in before and name in after
    }
    if "ability" in pairs:
        sure = (before["ability"].details.get(P_RIGHT), after["ability"].details.get(P_RIGHT))
        pairs["p of the right label"] = sure
    known = [
        Ability(name, old, new, viable(new, old) is True)
        for name, (old, new) in pairs.items()
        if old is not None and new is not None
    ]
    cost = after.get(FLUENCY_CHANGE)
    if cost is not None and cost.value is not None:
        known.append(Ability(_RATIO, 1.0, cost.value, viable_ratio(cost.value) is True))
    return known


def abilities_text(known: Sequence[Ability]) -> str:
    """Abilities before and after, in a line."""
    return ", ".join(each.in_words for each in known)


# ---- claims


@dataclass(frozen=True)
class _Aim:
    """What a projection is chosen by, in words."""

    does: str
    doing: str
    items: str
    sign: int  # of a change for the better


_AIMS = {
    "strength": _Aim("lowers Strength", "lower Strength", "triples", -1),
    "fairness": _Aim("raises fairness", "raise fairness", "occupations", 1),
    "seat": _Aim("lowers |SEAT|", "lower |SEAT|", "words", -1),
}


@dataclass(frozen=True)
class _Projection:
    """A projection that was chosen, and the numbers on items that it was not chosen on."""

    name: str
    tried: str
    measure: str
    before: Measurements
    after: Measurements

    @property
    def aim(self) -> _Aim:
        """What it was chosen by."""
        return _AIMS[self.measure]

    @property
    def change(self) -> Measurement | None:
        """The paired change of the bias, if it was measured."""
        change = self.after.get(f"{self.measure} change")
        return None if change is None or change.value is None else change

    @property
    def relative(self) -> tuple[float, float] | None:
        """The bias relative to the scale of the outputs, before and after; None where it has no scale."""
        return self._companion(self.measure)

    @property
    def preferred(self) -> tuple[float, float] | None:
        """The preference relative to the scale of the logits, which halved logits leave as it was."""
        return self._companion(_PREFERENCE)

    def _companion(self, name: str) -> tuple[float, float] | None:
        values = [_detail(side.get(name), SCALE_FREE) for side in (self.before, self.after)]
        return None if values[0] is None or values[1] is None else (abs(values[0]), abs(values[1]))

    @property
    def better(self) -> bool:
        """Whether the bias changed for the better at all."""
        change = self.change
        return change is not None and change.value is not None and change.value * self.aim.sign > 0

    @property
    def only_flattens(self) -> bool:
        """Whether the bias falls, but not relative to the scale of the outputs.

        The companion of a measure of probabilities moves a little when all logits are multiplied by one
        number, that of the preference does not. So both must fall, where both are known.
        """
        known = [pair for pair in (self.relative, self.preferred) if pair is not None]
        falls = all(after < _CLEARLY * before for before, after in known)
        return self.better and self.relative is not None and not falls

    def scale(self) -> str:
        """What the reader must know of the scale, or of the floor, of the measure."""
        if self.relative is not None:
            text = f"; relative to the scale of the outputs {self.relative[0]:.2f} → {self.relative[1]:.2f}"
            if self.preferred is not None:
                text += f" (preference {self.preferred[0]:.2f} → {self.preferred[1]:.2f})"
            return text
        spreads = [_detail(side.get(self.measure), SPREAD) for side in (self.before, self.after)]
        if spreads[0] is not None and spreads[1] is not None:
            return f"; standard deviation of the associations {spreads[0]:.3f} → {spreads[1]:.3f}"
        neutral = _detail(self.after.get("ability"), ALWAYS_NEUTRAL)
        if neutral is not None:
            return f"; always answering neutral would have fairness 1 and ability {neutral:.2f}"
        return ""


def projection_claims(run: AuditRun, measured: Mapping[str, Measurements]) -> dict[str, Claim]:
    """That the chosen projection of the model, and of the classifier beside it, helps on other items."""
    return {
        f"{prefix}projection": _claim(projection, change)
        for prefix, projection in _projections(run, measured)
        if (change := projection.change) is not None
    }


def _claim(projection: _Projection, change: Measurement) -> Claim:
    aim = projection.aim
    known = abilities(projection.before, projection.after)
    lost = [each for each in known if not each.kept]
    p = None if change.null is None else change.null.p_value
    reached = projection.after.get(projection.measure)
    to = "" if reached is None or reached.value is None else f", to {valued(reached)}"
    numbers = f"paired change {valued(change)}{to}, p {p_text(p)}{projection.scale()}"
    numbers += f"; {abilities_text(known)}." if known else "."
    start = f"Of {projection.tried}, {projection.name}"
    where = f"on {aim.items} that it was not chosen on"
    beyond = change.beyond(0.0) and projection.better
    silent = f"{start} is not shown to {aim.doing} {where}: {numbers}"
    if projection.only_flattens:
        silent = f"{start} only flattens the outputs: {numbers}"
    elif beyond and lost:
        silent = f"{start} loses too much ability {where}: {numbers}"
    helps = beyond and not projection.only_flattens and not lost
    return Claim(p, helps, f"{start} {aim.does} {where}: {numbers}", silent)


def unclaimed_projections(run: AuditRun, measured: Mapping[str, Measurements]) -> list[str]:
    """Sentences about projections that claim nothing: none helped, or the chosen one has no change."""
    texts = [_NOT_TRIED.format(run.bias)] if _has_nothing_to_fit_on(run) else []
    for _, tried, candidates in _tried(run):
        if not any(each.chosen for each in candidates):
            name = _AIMS[_measure(candidates)].doing
            flat = " in itself and relative to the scale of the outputs" if candidates[0].scale_free else ""
            texts.append(f"None of {tried} is shown to {name}{flat} without losing too much ability.")
    for _, projection in _projections(run, measured):
        change = projection.after.get(f"{projection.measure} change")
        if projection.change is None:
            why = "it was not verified" if change is None else change.reason
            texts.append(f"Of {projection.tried}, {projection.name} was chosen; no change is shown: {why}.")
    return texts


def _has_nothing_to_fit_on(run: AuditRun) -> bool:
    """Whether no projection was tried because the word list states no counterparts."""
    words = None if run.heads is None else layout.WORD_LIST.read(run.heads.folder)
    tried = layout.CANDIDATES not in run.data or bool(run.candidates)
    return not tried and words is not None and not words.pairs


def _projections(run: AuditRun, measured: Mapping[str, Measurements]) -> Iterator[tuple[str, _Projection]]:
    before = measured.get(SAME_ITEMS, {})
    for prefix, tried, candidates in _tried(run):
        for each in candidates:
            if each.chosen:
                after = measured.get(f"{prefix}{each.variant}", {})
                yield prefix, _Projection(each.variant, tried, _measure(candidates), before, after)


def _tried(run: AuditRun) -> Iterator[tuple[str, str, Sequence[ProjectionCandidate]]]:
    """The prefix of variants' names, how many were tried, and they themselves, the unmodified model first."""
    for prefix, whose, candidates in (
        ("", "", run.candidates),
        ("nli ", " of the classifier", run.nli_candidates),
    ):
        if candidates:
            yield prefix, f"{len(candidates) - 1} projections{whose}", candidates


def _measure(candidates: Sequence[ProjectionCandidate]) -> str:
    return candidates[0].bias.name.strip("|")


def _detail(measurement: Measurement | None, name: str) -> float | None:
    return None if measurement is None else measurement.details.get(name)
