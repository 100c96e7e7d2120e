"""What a report says first: the findings in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelhead.inference.contents import Contents, Reported, main_scores, measurements
from levelhead.inference.doubts import doubt_text
from levelhead.inference.infos import info_of, verdict_of
from levelhead.inference.mitigating import findings as mitigation_findings
from levelhead.inference.mitigating import sentence
from levelhead.pages.localizing import atlas_sentence
from levelhead.pages.sections.measured import in_reading_order
from levelhead.pages.sections.planted import planted_headline
from levelhead.pages.sections.survey import survey_findings, survey_headline
from levelhead.pages.tables import Cell, Part, reported, words
from levelhead.results.runs import GlueRun


@dataclass(frozen=True)
class Opening:
    """One or two sentences, and the findings one by one."""

    text: str
    findings: Sequence[Cell]


def opening(contents: Contents) -> Opening:
    """The audit's own headline, or a sentence for each measure of bias of a single study."""
    if contents.audit is not None and (headline := contents.audit.headline) is not None:
        return Opening(headline.text, [words(finding) for finding in headline.findings])
    return _doubted(_of_study(contents), doubt_text(contents.run))


def _doubted(first: Opening, doubt: str) -> Opening:
    return Opening(f"{first.text}. {doubt}", first.findings) if doubt else first


def _of_study(contents: Contents) -> Opening:
    if contents.survey is not None:
        return Opening(survey_headline(contents.survey), survey_findings(contents.survey))
    known = [each for each in measurements(contents) if each.measurement.value is not None]
    biases = [
        each for each in in_reading_order(contents, known) if info_of(contents, each.name).side == "bias"
    ]
    findings = [_finding(contents, each) for each in biases]
    if contents.audit is not None:
        text = f"The audit of {contents.model} is not finished: run the same command again, it goes on."
        return Opening(text, findings)
    if contents.mitigations is not None:
        run = contents.mitigations
        return Opening(sentence(run), [words(text) for text in mitigation_findings(run)])
    if contents.atlas is not None:
        return Opening(atlas_sentence(contents.atlas), [])
    if contents.glue is not None:
        return Opening(f"What {contents.model} can still learn", _costs(contents.glue))
    planted = contents.planted
    text = f"What was measured on {contents.model}" if planted is None else planted_headline(planted)
    return _of_benchmark(contents, biases) or Opening(text, findings)


def _of_benchmark(contents: Contents, biases: Sequence[Reported]) -> Opening | None:
    """The scores of all items of a benchmark; those of single groups stand in the table."""
    used = None if contents.benchmark is None else contents.benchmark.used
    if used is None:
        return None
    text = f"{contents.model} on {used.title}, rule {used.rule}, {used.items:,} items"
    return Opening(text, [_finding(contents, each) for each in main_scores(biases)])


def _costs(run: GlueRun) -> list[Cell]:
    """The verdict on every recipe and task, by the task's first metric."""
    return [
        words(f"{cost.recipe}, {cost.task}, {cost.metric}: {cost.sentence}.")
        for cost in run.costs
        if (cost.task, cost.metric) in run.first_metrics
    ]


def _finding(contents: Contents, each: Reported) -> Cell:
    info, meaning = info_of(contents, each.name), verdict_of(contents, each)
    whose = f" of {each.model}" if each.model != contents.model else ""
    return Cell(
        (
            Part(f"{info.title}{whose}: "),
            *reported(each, info.digits).parts,
            Part(f" — {meaning}." if meaning else "."),
        )
    )
