"""Finished runs of `levelhead mitigate` as one table in Markdown, unfavorable rows included.

    levelhead mitigate lh:bert-mini --methods all -o runs/bert
    levelhead mitigate lh:gpt-mini --methods all -o runs/gpt
    python -m benchmarks.arena runs/bert runs/gpt > table.md

Of each method the strength stands there that comes first in the order of part B, which no held-out item has
decided; with --every all strengths.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from levelhead.api.results import open_mitigate
from levelhead.pages.mitigating import costs, reached
from levelhead.results.records.mitigating import CandidateTested
from levelhead.results.runs import MitigateRun

_HEADER = "| model | mitigation | bias on held-out items | cost | verdict |\n|---|---|---|---|---|"


def rows(run: MitigateRun, every: bool) -> Iterator[str]:
    """The lines of one model, in the order of the tests; then what could not run."""
    seen: set[str] = set()
    for each in run.candidates:
        if every or each.method not in seen:
            yield _row(run.model, each)
        seen.add(each.method)
    for left_out in run.left_out:
        yield f"| {run.model} | {left_out.method} | | | not tried: {left_out.reason} |"


def _row(model: str, each: CandidateTested) -> str:
    tested = each.certificate
    missed = f": misses {', '.join(tested.missed)}" if tested.missed else ""
    verdict = f"**{tested.verdict}**" if tested.certified else f"{tested.verdict}{missed}"
    return f"| {model} | {each.name} | {tested.bias} {reached(tested)} | {costs(tested)} | {verdict} |"


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--every", action="store_true", help="all strengths, not the first of each method")
    asked = parser.parse_args(given)
    print(_HEADER)
    for folder in asked.runs:
        for row in rows(open_mitigate(folder), asked.every):
            print(row)


if __name__ == "__main__":
    main()
