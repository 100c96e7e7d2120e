"""Run every benchmark and print its claims; `python -m benchmarks.run engine heads` runs some of them."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.claims import Claim

BENCHMARKS = (
    "engine",
    "heads",
    "objectives",
    "audit_cost",
    "mitigations",
    "symmetrized",
    "projections",
    "counteracts",
    "explore",
    "serving",
    "crew",
    "large",
)


def main(names: list[str]) -> int:
    """Exit 1 when a promise is not kept."""
    table = Table("claim", "measured", "promised", "holds", "on", title=_machine(), title_justify="left")
    claims: list[Claim] = []
    for name in names or BENCHMARKS:
        found = import_module(f"benchmarks.{name}").bench()
        claims += found
        for claim in found:
            sign = "≥" if claim.at_least else "≤"
            promised = "" if claim.bound is None else f"{sign} {claim.bound:g}"
            verdict = "" if claim.bound is None else ("yes" if claim.holds else "NO")
            table.add_row(claim.name, f"{claim.measured:.2f}", promised, verdict, claim.note)
        print(f"{name}: done", file=sys.stderr)
    Console(width=150).print(table)
    return 0 if all(claim.holds for claim in claims) else 1


def _machine() -> str:
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"Ratios measured in one run on {where}, {versions}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
