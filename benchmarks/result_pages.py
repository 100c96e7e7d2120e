"""Result pages from stored runs: `make results` writes docs/results/ from benchmarks/results/.

    NAME.json   what was found: how it was made (command, models, machine, commit), tables, single figures
    NAME.md     the page around it, in which {made}, {table ...} and {figure} stand in double braces

    python -m benchmarks.result_pages                  # write every page
    python -m benchmarks.result_pages RUN --as NAME    # keep what a run folder found, as NAME.json

So a figure is written once, in the record of its run; a page, the README or a how-to quotes it from there.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from levelhead import __version__
from levelhead.inference.claims import p_text, spread_text, valued
from levelhead.inference.contents import Contents, measurements, open_contents
from levelhead.inference.mitigating import costs, lowered, verdict
from levelhead.inference.verdicts import info_of
from levelhead.pages.names import names_of
from levelhead.pages.what_now import what_now
from levelhead.runs.again import command

STORED = Path(__file__).with_name("results")
PAGES = STORED.parents[1] / "docs" / "results"
FOLDER, WIDTH = "runs/demo", 130  # as the README has them
QUOTED = re.compile(r"\{\{([^{}]+)\}\}")


def written() -> dict[str, str]:
    """Every page by its name, made from its records."""
    return {path.stem: filled(path.stem) for path in sorted(STORED.glob("*.md"))}


def outputs(name: str) -> dict[str, list[str]]:
    """What commands printed, line by line, as a record has it."""
    record: dict[str, Any] = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    printed: dict[str, list[str]] = record["outputs"]
    return printed


def filled(name: str) -> str:
    """A page with the figures of its record in their places; one that the record lacks is an error."""
    record: dict[str, Any] = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    page = (STORED / f"{name}.md").read_text(encoding="utf-8")
    quoted = set(QUOTED.findall(page))
    known = {"made": table([["", ""], ["---", "---"], *record["made"].items()])} if record["made"] else {}
    known |= {f"table {title}": table(rows) for title, rows in record["tables"].items()}
    known |= {title: "\n".join(lines) for title, lines in record.get("outputs", {}).items()}
    known |= record["figures"]
    if quoted != set(known):
        raise SystemExit(f"{name}: quoted but not stored, or the reverse: {sorted(quoted ^ set(known))}")
    return QUOTED.sub(lambda match: known[match[1]], page)


def table(rows: list[Any]) -> str:
    """A table of Markdown; the second row says how columns are aligned."""
    head, aligned, *body = [
        "|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in rows
    ]
    if not any(":" in cell for cell in rows[1]):
        aligned = aligned.replace(" ", "")
    return "\n".join([head, aligned, *body])


# ---- keeping what a run found


def put(file: Path, table_name: str, rows: Sequence[Sequence[str]]) -> None:
    """Write one table of a record anew."""
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    record["tables"][table_name] = rows
    file.write_text(record_text(record), encoding="utf-8")


def record_text(record: Mapping[str, object]) -> str:
    """A record as a file has it: a row of a table on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    rows = re.sub(r'\[\n\s+("(?:[^"\\]|\\.)*"(?:,\n\s+"(?:[^"\\]|\\.)*")*)\n\s+\]', one_line, text)
    return f"{rows}\n"


def record_of(contents: Contents) -> Mapping[str, object]:
    """What a run found, small enough to keep: every value, and tables and answers as pages say them."""
    versions = ", ".join(f"{package} {number}" for package, number in contents.run.data.versions.items())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    tables = {"measures": list(measured_rows(contents)), "mitigations": list(mitigation_rows(contents))}
    return {
        "made": {
            "command": f"`{command(contents.run)}`".replace(str(contents.folder), FOLDER),
            "model": contents.model,
            "machine": f"{platform.system()} on {platform.machine()}; {versions}",
            "commit": f"kept at {commit.stdout.strip()}, levelhead {__version__}",
        },
        "tables": {name: rows for name, rows in tables.items() if len(rows) > 2},
        "figures": {},
        "outputs": {"answers": answers(contents)},
        "values": {
            each.name: [each.measurement.value, each.measurement.interval, each.measurement.p_value]
            for each in measurements(contents)
        },
    }


def measured_rows(contents: Contents) -> Iterator[list[str]]:
    yield from (["measure", "value [95 % interval]", "null models", "p", "n"], ["---", *["---:"] * 4])
    for each in measurements(contents):
        found = each.measurement
        if found.value is not None:
            null = "" if found.null is None else spread_text(found.null)
            p = "" if found.p_value is None else p_text(found.p_value)
            yield [info_of(contents, each.name).title, valued(found), null, p, f"{found.n:,}"]


def mitigation_rows(contents: Contents) -> Iterator[list[str]]:
    yield from (["model", "mitigation", "bias", "costs", "verdict"], ["---"] * 5)
    for run in contents.arenas:
        for each in run.candidates:
            yield [run.model, each.name, lowered(each.certificate), costs(each), verdict(run, each)]


def answers(contents: Contents) -> list[str]:
    """The first lines that `levelhead audit` prints: five answers and the command of what is recommended."""
    box = what_now(contents)
    if box is None:
        return []
    margin = 4 + 2 + max(len(question) for question, _ in box.answers)
    lines = []
    for question, answer in box.answers:
        first = f"    {question}".ljust(margin)
        told = names_of(contents).short(answer)
        lines += textwrap.wrap(told, WIDTH, initial_indent=first, subsequent_indent=" " * margin)
    for each in box.commands:
        lines += ["", f"    {each.label}", f"        {each.text.replace(str(contents.folder), FOLDER)}"]
    return lines


def one_line(rows: re.Match[str]) -> str:
    """A row of a table on one line."""
    row = re.sub(r'",\s+"', '", "', rows[1])
    return f"[{row}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", nargs="?", help="a run folder that is kept")
    parser.add_argument("--as", dest="name", help="the name that it is kept under")
    given = parser.parse_args()
    if given.run is not None:
        text = record_text(record_of(open_contents(given.run)))
        (STORED / f"{given.name}.json").write_text(text, encoding="utf-8")
        return
    for name, text in written().items():
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
