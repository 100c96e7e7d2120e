"""What can be done about a bias: every way out that an audit verified, beside leaving the model as it is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelhead.inference.contents import Contents, changes
from levelhead.inference.headline import headline_claims
from levelhead.inference.heads_in_words import untested_heads_text
from levelhead.inference.infos import info_of
from levelhead.inference.sizes import SHOWN, Size
from levelhead.inference.ways_out import Ability, abilities
from levelhead.pages.blocks import Code, WayOut
from levelhead.pages.certified_ways import certified_way
from levelhead.pages.names import NLI, names_of
from levelhead.pages.tables import Cell, Part, shown, words
from levelhead.results.records.audit import Mitigation
from levelhead.results.records.common import SAME_ITEMS
from levelhead.results.records.heads import CHANGE_ON_OTHER_WORDS
from levelhead.results.runs import AuditRun

_LEAVE = "leave it as it is"
_FOLDER = "debiased-model"  # where the command writes to
_GONE = "RECIPE.toml"  # a recipe whose file somebody deleted


@dataclass(frozen=True)
class _Tried:
    """A way out that was verified: what the page says of it, and what it buys."""

    mitigation: Mitigation
    helps: bool  # claimed by the page
    measure: str  # of the bias that it changes
    change: Cell
    gain: float  # larger is better
    known: Sequence[Ability]
    untested: str = ""  # why it was not tested whether it helps

    @property
    def kept(self) -> bool:
        """Whether abilities were measured and all are kept."""
        return bool(self.known) and all(each.kept for each in self.known)

    def verdict(self, called_for: bool) -> str:
        """What the page says, in a few words; called_for: whether there is a bias to be lowered."""
        if self.untested and (self.kept or not self.known):
            return self.untested
        if not self.helps:
            return "not shown to help" if self.kept or not self.known else "loses too much ability"
        if not self.kept:
            return "helps, but loses too much ability" if self.known else "helps; its cost was not measured"
        return "helps and keeps every ability" if called_for else "helps, but no bias was shown"


def possible_ways(contents: Contents, sizes: Mapping[str, Size]) -> list[WayOut]:
    """The ways out of an audit, the recommended first, and to leave the model as it is.

    sizes: of the unmodified model's bias, by measure. At most one way is recommended for a model; to leave it
    as it is never where a bias is shown.
    """
    audit = contents.audit
    if audit is None:
        return []
    tried = [_tried(contents, audit, each) for each in audit.mitigations]
    certified = certified_way(contents, any(size in SHOWN for size in sizes.values()))
    best = {id(each) for each in _best(tried, sizes)}
    if certified is not None and certified.recommended:  # one way for a model
        best = {id(each) for each in tried if id(each) in best and each.mitigation.variant.startswith(NLI)}
    ways = [] if certified is None else [certified]
    ways += [_way(contents, audit, each, sizes, id(each) in best) for each in tried]
    ways.sort(key=lambda way: not way.recommended)
    verdict, recommended = _left(any(way.recommended for way in ways), list(sizes.values()))
    leave = WayOut(_LEAVE, words("nothing"), words("nothing"), verdict, recommended, None)
    return [leave, *ways] if recommended else [*ways, leave]


def _left(better: bool, sizes: Sequence[Size]) -> tuple[str, bool]:
    """What leaving the model as it is means, and whether that is recommended: only where no bias is shown."""
    if better:
        return "the bias stays", False
    if any(size in SHOWN for size in sizes):
        return "the bias stands: not for decisions about people; no tried change is shown to help", False
    if all(size == "untested" for size in sizes):
        return "not tested: no recommendation", False
    return "recommended: nothing here calls for a change", True


def _best(tried: Sequence[_Tried], sizes: Mapping[str, Size]) -> list[_Tried]:
    """For the model, and for the classifier beside it, the way that helps most and keeps every ability."""
    usable = [each for each in tried if each.helps and each.kept and _called_for(each, sizes)]
    subjects = {each.mitigation.variant.startswith(NLI) for each in usable}
    return [
        max(
            (each for each in usable if each.mitigation.variant.startswith(NLI) == beside),
            key=lambda each: each.gain,
        )
        for beside in sorted(subjects)
    ]


def _called_for(tried: _Tried, sizes: Mapping[str, Size]) -> bool:
    """Whether the page shows a bias at all, and not none in the measure that the way changes."""
    return any(size in SHOWN for size in sizes.values()) and sizes.get(tried.measure) != "none shown"


def _tried(contents: Contents, audit: AuditRun, mitigation: Mitigation) -> _Tried:
    holds = {name: ok for name, _, ok in headline_claims(audit)}
    measured = audit.by_variant()
    known = abilities(measured.get(SAME_ITEMS, {}), measured.get(mitigation.variant, {}))
    if mitigation.heads:
        claim, (measure, change, gain) = "removal", _removal(contents)
    else:
        prefix = NLI if mitigation.variant.startswith(NLI) else ""
        claim, (measure, change, gain) = f"{prefix}projection", _projection(contents, mitigation.variant)
    heads = contents.heads if mitigation.heads else None
    untested = "" if heads is None else untested_heads_text(heads)
    return _Tried(mitigation, holds.get(claim, False), measure, change, gain, known, untested)


def _removal(contents: Contents) -> tuple[str, Cell, float]:
    """What closing heads does to |SEAT| on words that they were not chosen on."""
    fitted = () if contents.heads is None else contents.heads.cross_fit
    for each in fitted:
        if each.name == CHANGE_ON_OTHER_WORDS and each.value is not None:
            sign = "+" if each.value > 0 else ""
            value = Part(shown(each.value, 2), contents.address(each))
            parts = (Part(f"|SEAT| {sign}"), value, Part(" on other words"))
            return "seat", Cell(parts), -each.value
    return "seat", words("not measured"), 0.0


def _projection(contents: Contents, variant: str) -> tuple[str, Cell, float]:
    """The paired change of the bias that a projection was chosen by, on items that it was not chosen on."""
    for name, each in changes(contents, variant).items():
        change = each.measurement
        if name != "fluency" and change.value is not None:
            title = info_of(contents, name).title
            sign = "+" if change.value > 0 else ""
            value = Part(shown(change.value, 2), each.address)
            parts = (Part(f"{title} {sign}"), value, Part(" on other items"))
            return name, Cell(parts), abs(change.value)
    return "", words("not measured"), 0.0


def _way(contents: Contents, audit: AuditRun, tried: _Tried, sizes: Mapping[str, Size], best: bool) -> WayOut:
    name = names_of(contents).short(tried.mitigation.variant)
    verdict = tried.verdict(_called_for(tried, sizes))
    return WayOut(
        name=tried.mitigation.variant,
        buys=tried.change,
        costs=_costs(tried.known),
        verdict=f"recommended: {verdict}" if best else verdict,
        recommended=best,
        command=Code(f"Write the model: {name}", _command(audit, tried.mitigation), folded=not best),
    )


def _costs(known: Sequence[Ability]) -> Cell:
    """What became of every ability that was measured on the same items."""
    costs = (f"{each.in_words}{'' if each.kept else ' (too much)'}" for each in known)
    return words("; ".join(costs) or "not measured")


def _command(audit: AuditRun, mitigation: Mitigation) -> str:
    """The command that writes the changed model, for the shell."""
    beside = mitigation.variant.startswith(NLI) and audit.settings.nli is not None
    model = str(audit.settings.nli) if beside else audit.model
    if mitigation.heads:
        change = ["--heads", ",".join(map(str, mitigation.heads))]
    else:
        change = ["--recipe", _recipe_file(audit, mitigation)]
    return shlex.join(["levelhead", "debias", model, *change, "-o", _FOLDER])


def _recipe_file(audit: AuditRun, mitigation: Mitigation) -> str:
    """The file of the run folder that holds this recipe.

    One that was deleted is given a name only: its text stands on the page, to be saved under it.
    """
    holding = (str(path) for path, text in audit.recipe_texts.items() if text == mitigation.recipe)
    return next(holding, _GONE)
