"""An audit in a cell of a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from levelhead.escaping import escaped
from levelhead.inference.claims import valued
from levelhead.inference.head_claims import Measured
from levelhead.results.records.common import BASE


def notebook_html(text: str, findings: Sequence[str], measurements: Measured) -> str:
    """An audit as a small table, for notebooks."""
    lines = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(name)}</th>"
        f"<td>{escape(valued(measurement, 3))}</td><td>{measurement.n}</td></tr>"
        for name, measurement in measurements.get(BASE, {}).items()
    )
    points = "".join(f"<li>{escape(finding)}</li>" for finding in findings)
    head = "<tr><th>measure</th><th>value [95 % interval]</th><th>n</th></tr>"
    return escaped(f"<p><b>{escape(text)}</b></p><ul>{points}</ul><table>{head}{lines}</table>")
