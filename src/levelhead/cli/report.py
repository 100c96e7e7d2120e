"""`levelhead report`, `compare`, `check`, `card`: everything that is read from run folders alone."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Force, Json, checked, json_text, print_json, print_table
from levelhead.cli.endings import ending, output_file
from levelhead.cli.terminal import drop_unsent, one_line
from levelhead.errors import BadOption
from levelhead.options import ABOUT, Settings, option
from levelhead.safe_files import write_output

if TYPE_CHECKING:
    from levelhead.inference.check import Plan, Side

_TEXT = "text"  # the form that a terminal shows
FinishedRun = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder that a study wrote: audit, heads ..."),
]
FinishedRuns = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]


@checked
def report(
    runs: FinishedRuns,
    output: Annotated[
        Path | None,
        output_file(
            "Where to write it, default RUN/report.html. The ending decides the form:",
            *(".html", ".md", ".tex", ".csv", ".pdf"),
        ),
    ] = None,
    pdf: Annotated[
        bool,
        typer.Option(
            "--pdf", help="Also print it and its appendix to PDF, with your own Chromium or Chrome."
        ),
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="FORM", help="Print it as text, markdown, latex or csv, or write it to -o."
        ),
    ] = None,
    about: Annotated[Path | None, typer.Option(metavar="FILE", help=ABOUT)] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Rebuild the report of each run: one HTML file that opens offline."""
    from levelhead.pages.about import keep_about, read_about
    from levelhead.pages.page import write_report
    from levelhead.pages.pdf import write_pdfs
    from levelhead.pages.renderers import FORMS, RENDERERS

    if form is not None:
        if form not in (_TEXT, *FORMS.values()):
            raise BadOption(f"--as {form}: allowed are {', '.join((_TEXT, *FORMS.values()))}.")
        if pdf or json:
            raise BadOption("--as with --pdf or --json: it prints one form. Leave those out.")
        if output is not None and FORMS.get(ending(output)) != form:
            raise BadOption(
                f"--as {form} and -o {output} contradict each other: leave --as out, or fix the ending."
            )
    if output is not None and len(runs) > 1:
        raise BadOption(
            f"-o takes one run (got {len(runs)}). Leave -o out, and each gets its own report.html."
        )
    if about is not None:
        stated = read_about(about)
        for run in runs:
            keep_about(run, stated)
    if form is not None and output is None:
        from levelhead.cli.printed import print_run
        from levelhead.inference.contents import open_contents
        from levelhead.pages.presented import presented

        for run in runs:
            if form == _TEXT:
                print_run(run)
            else:
                print(RENDERERS[form](presented(open_contents(run))))
        return
    written = [write_report(run, output, force) for run in runs]
    if pdf:
        written += [printed for page in written for printed in write_pdfs(page, force)]
    if json:
        print_json({"reports": [str(path) for path in written]})
        return
    for path in written:
        print(path)


@checked
def compare(
    runs: FinishedRuns,
    output: Annotated[
        Path | None,
        output_file(
            "Also write the comparison. The ending decides:", ".html", ".md", ".tex", ".csv", ".json"
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Put runs side by side: models, or, with one audit, the model before and after."""
    from levelhead.inference.comparing import compare as put_side_by_side
    from levelhead.pages.page import write_as
    from levelhead.pages.presented import comparison_page

    comparison = put_side_by_side(runs)
    if output is not None and ending(output) == ".json":
        write_output(output, json_text(comparison.to_json()) + "\n", '"runs":', force)
    elif output is not None:
        write_as(output, comparison_page(comparison), force)
    if json:
        print_json(comparison.to_json())
        return
    rows: list[tuple[object, ...]] = []
    for name, compared in comparison.measures.items():
        first, *others = (None if each is None else each.value for each in compared.values)
        for label, value, difference in zip(comparison.runs[1:], others, compared.differences, strict=True):
            if difference is None:
                refused = None not in (first, value)
                rows.append((name, first, label, value, None, "evaluated on other data" if refused else None))
                continue
            text = f"{difference.value:+.3f}"
            if difference.interval is not None:
                text += f" [{difference.interval[0]:+.3f}, {difference.interval[1]:+.3f}]"
            rows.append((name, first, label, value, text, "paired" if difference.paired else "unpaired"))
    columns = ("measure", comparison.runs[0], "against", "value", "difference", "")
    print_table("Side by side", columns, rows, "Differences from the first, with 95 % intervals.")
    for label, heads in zip(comparison.runs[1:], comparison.heads, strict=True):
        if heads is not None and heads.rank_correlation.value is not None:
            print(
                f"{label}: head scores agree with rho {heads.rank_correlation.value:.3f}; "
                f"{heads.became_biased} of {heads.heads} heads became biased, "
                f"{heads.left_biased} ceased to be"
            )
    if output is not None:
        print(f"Written: {output}")


@dataclass(frozen=True)
class Thresholds(Settings):
    """What a run must keep to."""

    most: tuple[str, ...] = option(
        (), "At most; |value| where both signs are bias.", each=True, flag="--max", metavar="NAME=NUMBER"
    )
    least: tuple[str, ...] = option((), "At least.", each=True, flag="--min", metavar="NAME=NUMBER")
    baseline: Path | None = option(
        None, "An earlier run: no bias may be surely worse than there.", metavar="RUN"
    )
    increase: tuple[str, ...] = option(
        (), "May rise so much since the baseline.", each=True, flag="--max-increase", metavar="NAME=NUMBER"
    )
    decrease: tuple[str, ...] = option(
        (), "May fall so much since the baseline.", each=True, flag="--max-decrease", metavar="NAME=NUMBER"
    )
    thresholds: Path | None = option(None, "A TOML file with tables max and min (docs/check.md).")
    bound: bool = option(False, "Judge the interval's worse bound, not the value.")
    variant: str | None = option(None, "A changed model of the run. Default: the unmodified one.")

    def plan(self) -> Plan:
        """The thresholds of a file and of the options, the file's first."""
        from levelhead.inference.check import Plan, read_plan, threshold

        plan = Plan(()) if self.thresholds is None else read_plan(self.thresholds)
        sides: dict[Side, tuple[str, ...]] = {"max": self.most, "min": self.least}
        sides |= {"increase": self.increase, "decrease": self.decrease}
        given = [threshold(text, side) for side, texts in sides.items() for text in texts]
        return Plan((*plan.thresholds, *given), self.bound or plan.bound, self.variant or plan.variant)


@checked
def check(
    run: FinishedRun,
    limits: Thresholds,
    junit: Annotated[Path | None, output_file("Also write JUnit:", ".xml", names=("--junit",))] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Check a run against thresholds. Exit 0: all hold. 1: one fails. 3: one or all not measured."""
    from levelhead.inference import check as checking
    from levelhead.inference.contents import open_contents

    plan, contents = limits.plan(), open_contents(run)  # wrong options are refused before anything is read
    baseline = None if limits.baseline is None else open_contents(limits.baseline)
    checked = checking.Checked.of(contents, plan, baseline)
    if junit is not None:
        write_output(junit, checking.junit(checked.thresholds, contents), checking.SUITE, force)
    with suppress(BrokenPipeError):  # a reader that has gone changes no verdict
        for each in checked.thresholds:
            if each.warning:
                print(f"levelhead: {one_line(each.warning)}", file=sys.stderr)
        if json:
            print_json(checked.to_json())
        else:
            print(checked)
    drop_unsent(BrokenPipeError)
    raise typer.Exit(checked.exit)


@checked
def card(
    run: FinishedRun,
    output: Annotated[
        Path | None, output_file("Write it to a file; .json is CycloneDX 1.6:", ".md", ".json")
    ] = None,
    index: Annotated[
        bool,
        typer.Option("--model-index", help="Begin with Hugging Face's metadata, which the hub shows."),
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            "--eval-results", metavar="FOLDER", help="Also write FOLDER/.eval_results/*.yaml, for the hub."
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """A model card's section on bias in Markdown, with intervals, limits and how to get the numbers again."""
    from levelhead.inference.contents import open_contents
    from levelhead.pages.card import EVALUATED_MARK as EVALUATED
    from levelhead.pages.card import HEADING, INDEX_MARK, eval_results, model_index
    from levelhead.pages.card import card as card_text
    from levelhead.pages.cyclonedx import MARK, bill_of_materials

    contents = open_contents(run)
    text = (f"{model_index(contents)}\n" if index else "") + card_text(contents)
    if results is not None:
        place, scores = eval_results(contents)
        write_output(results / place, scores, EVALUATED, force)
    if output is not None and ending(output) == ".json":
        if index:
            raise BadOption("--model-index is metadata of a Markdown card: give -o a name that ends in .md.")
        write_output(output, bill_of_materials(contents), MARK, force)
    elif output is not None:
        write_output(output, text, INDEX_MARK if index else HEADING, force)
    if json:
        print_json({"run": str(run), "markdown": text})
    elif output is None:
        print(text, end="")
    else:
        print(output)
