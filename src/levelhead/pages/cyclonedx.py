"""A run as a CycloneDX 1.6 bill of materials: the model as a component with a `modelCard`.

Every measurement of the unmodified model, and of each variant, is a performance metric with its interval; the
scenarios that the user documented (pages/about.py) are fairness assessments. Reference: the JSON schema of
CycloneDX 1.6 (ECMA-424), `modelCard`.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from levelhead.escaping import escaped
from levelhead.inference.contents import Contents, Reported, measurements, variants
from levelhead.inference.verdicts import info_of, verdict_of
from levelhead.pages.about import about_of
from levelhead.pages.presented import summary
from levelhead.pages.sections.closing import limits
from levelhead.runs.again import command
from levelhead.runs.common import BASE

MARK = '"bomFormat": "CycloneDX"'  # by which a file of ours is known
_SPEC = "1.6"
_REF = "model"


def bill_of_materials(contents: Contents) -> str:
    """The JSON text of the bill; the same run gives the same text."""
    data, first, weights = contents.run.data, summary(contents), contents.run.weights or ""
    version = data.versions.get("levelhead", "")
    metrics = [
        _metric(contents, each)
        for variant in dict.fromkeys((BASE, *variants(contents)))
        for each in measurements(contents, variant)
        if each.measurement.value is not None
    ]
    considerations: dict[str, Any] = {
        "technicalLimitations": limits(contents),
        "ethicalConsiderations": [{"name": first.text}, *({"name": each.text} for each in first.findings)],
    }
    if (about := about_of(contents)) is not None:
        # what the user stated; a field that is empty is left out, as nobody stated it
        if about.intended_purpose:
            considerations["useCases"] = [about.intended_purpose]
        if about.residual_risk:
            considerations["performanceTradeoffs"] = [about.residual_risk]
        if about.scenarios:
            considerations["fairnessAssessments"] = assessments = []
        for each in about.scenarios:
            strategy = {
                "Mitigation": each.mitigation,
                "Measure": each.measure,
                "Threshold": each.threshold,
                "Review": each.review_date,
            }
            said = "; ".join(f"{name}: {text}" for name, text in strategy.items() if text)
            known = {"groupAtRisk": each.group, "harms": each.hazard, "mitigationStrategy": said}
            assessments.append({name: text for name, text in known.items() if text})
    component: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": _REF,
        "name": contents.model,
        "modelCard": {
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": considerations,
            "properties": [
                {"name": "levelhead:study", "value": contents.study},
                {"name": "levelhead:command", "value": command(contents.run)},
                *({"name": f"levelhead:hash:{name}", "value": value} for name, value in data.hashes.items()),
            ],
        },
    }
    if re.fullmatch("[0-9a-f]{64}", weights):
        component["hashes"] = [{"alg": "SHA-256", "content": weights}]
    identity = json.dumps([contents.model, contents.study, data.hashes, metrics], sort_keys=True)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "levelhead", "version": version}]},
            "component": component,
        },
    }
    return escaped(json.dumps(bill, indent=2, ensure_ascii=False)) + "\n"


def _metric(contents: Contents, each: Reported) -> dict[str, Any]:
    """A measurement; its slice says on what it was evaluated, in words."""
    measurement, info = each.measurement, info_of(contents, each.name)
    variant = "unmodified model" if each.variant == BASE else each.variant
    parts = [info.title, variant, f"n = {measurement.n}"]
    if measurement.neutral is not None:
        parts.append(f"neutral {measurement.neutral:g}")
    if measurement.null is not None:
        parts.append(f"mean of null models {measurement.null.floor:.4g}")
    if measurement.p_value is not None:
        parts.append(f"p {measurement.p_value:.2g}")
    if verdict := verdict_of(contents, each):
        parts.append(verdict)
    metric: dict[str, Any] = {
        "type": each.name,
        "value": repr(measurement.value),
        "slice": "; ".join(parts),
    }
    if measurement.interval is not None:
        lower, upper = measurement.interval
        metric["confidenceInterval"] = {"lowerBound": repr(lower), "upperBound": repr(upper)}
    return metric
