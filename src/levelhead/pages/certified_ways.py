"""What an audit's own run of mitigations makes of "What should I do?"."""

from __future__ import annotations

import shlex

from levelhead.inference.contents import Contents
from levelhead.inference.mitigating import best, costs, missed_text, reached
from levelhead.pages.blocks import Code, WayOut
from levelhead.pages.tables import words
from levelhead.results.records.mitigating import CandidateTested
from levelhead.results.runs import MitigateRun

_FOLDER = "mitigated"  # where the command writes to


def certified_way(contents: Contents, called_for: bool) -> WayOut | None:
    """The certified mitigation of an audit, else the first that was tested, as a way out.

    called_for: whether the audit shows a bias; only then is anything recommended.
    """
    run = contents.mitigations
    chosen = None if run is None else best(run)
    if run is None or chosen is None:
        return None
    tested, recommended = chosen.certificate, chosen.certificate.certified and called_for
    said = "certified on held-out items" if tested.certified else _missed(chosen)
    command = Code(f"Certify it: {chosen.name}", _command(run, chosen), folded=not recommended)
    return WayOut(
        name=chosen.name,
        buys=words(f"{tested.bias} {reached(tested)} on held-out items"),
        costs=words(costs(chosen)),
        verdict=f"recommended: {said}" if recommended else said,
        recommended=recommended,
        command=command,
    )


def uncertified_text(contents: Contents) -> str:
    """Which margin each mitigation missed, and how more of them are tried; "" where none was tried."""
    run = contents.mitigations
    if run is None or run.certified or not run.candidates:
        return ""
    if run.detected is not None and run.detected.why_not:
        why = run.detected.why_not
    elif run.detected is not None and not run.detected.detected:
        why = f"the bias in {run.detected.bias} does not stand out from its null models"
    else:
        why = "; ".join(f"{each.name}: {_missed(each)}" for each in run.candidates)
    more = shlex.join(["levelhead", "mitigate", run.model, "-o", _FOLDER])
    return f"Not certified: {why}. To try more mitigations: {more}."


def _missed(each: CandidateTested) -> str:
    return f"{each.certificate.verdict}, {missed_text(each.certificate)}"


def _command(run: MitigateRun, chosen: CandidateTested) -> str:
    return shlex.join(["levelhead", "mitigate", run.model, "--methods", chosen.method, "-o", _FOLDER])
