"""A run of the heads study beside "Bias A-head?": its sections, Figures 1 to 7 and Tables 1 to 3."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement
from levelhead.pages.replication.printed import Printed
from levelhead.probes.published import GlueResult, HeadMasking, ModelSeat, PublishedHeads, published_heads
from levelhead.results import layout
from levelhead.results.records.common import BASE
from levelhead.results.records.reproduction import ReproducedCell, Reproduction, SetUpDifference
from levelhead.results.runs import GlueRun, HeadsRun

_BERT, _GPT = "BERT-base", "GPT-2 small"
_NO_DEBIAS = "the run has no debias experiment: --experiments debias"
_NO_COUNTER = "the run has no counter experiment: --experiments counter"
_MASKED_HEADS = 3  # of the paper's Top-3, Bottom-3 and Random-3
_MATCHED = "matched accuracy"  # of MNLI; our runs are evaluated on the matched part and call it accuracy


@dataclass(frozen=True)
class _Subject:
    """The run, and the model of the paper that its model is, or stands in for."""

    run: HeadsRun
    published: ModelSeat
    bias: str  # gender, race or another list

    @property
    def same_model(self) -> bool:
        """Whether the weights are the paper's own, by their name."""
        return self.run.model.rpartition("/")[2] == self.published.hub

    def why_not(self, model: str, bias: str = "gender") -> str:
        """Why a cell about a model and a bias has no number in this run; empty where it can have one."""
        if model != self.published.model:
            return f"about {model}; this run asked {self.run.model}, beside {self.published.model}"
        if bias != self.bias:
            return f"about {bias}; this run asked {self.bias}"
        return ""


def heads_reproduction(run: HeadsRun, glue: GlueRun | None = None) -> Reproduction:
    """Every number of the paper beside those of a run; glue: a run of `levelhead glue` for Table 2."""
    paper = published_heads()
    subject = _Subject(run, _published_model(run, paper), _bias(run))
    cells = [
        *_model_cells(subject, paper),
        *_figure_cells(subject),
        *_counter_cells(subject, paper),
        *(_cell for masking in paper.debiasing for _cell in _masking_cells(subject, masking)),
        *(_cell for result in paper.glue for _cell in _glue_cells(subject, result, glue)),
        *_lpbs_cells(subject, paper),
    ]
    return Reproduction(
        paper=run.settings.study,
        title=paper.title,
        run=str(run.folder),
        model=run.model,
        same_model=subject.same_model,
        differences=tuple(_differences(subject)),
        cells=tuple(cells),
    )


def _published_model(run: HeadsRun, paper: PublishedHeads) -> ModelSeat:
    """The paper's model of the same name; else BERT-base, or GPT-2 for a causal model."""
    by_hub = {model.hub: model for model in paper.models}
    by_name = {model.model: model for model in paper.models}
    causal = any("perplexity" in each.measurement.settings.values() for each in run.strategies)
    stand_in = by_name[_GPT if causal else _BERT]
    return by_hub.get(run.model.rpartition("/")[2], stand_in)


def _bias(run: HeadsRun) -> str:
    """The paper's bias that a word list is named after, unless its axis is another one; else its name."""
    name = run.settings.bias if run.words is None else run.words.test
    words = layout.WORD_LIST.read(run.folder)
    axis = "" if words is None else words.axis
    named = set(re.split(r"[\W_]+", name.casefold()))
    return next((bias for bias in ("gender", "race") if bias in named and axis in ("", bias)), name)


# ---- sections and figures


def _model_cells(subject: _Subject, paper: PublishedHeads) -> Iterator[ReproducedCell]:
    seat = None if subject.run.seat is None else subject.run.seat.measurement
    for model in paper.models:
        printed = Printed("Sections 5.1 and 7", f"{model.model}: SEAT", model.seat)
        why = subject.why_not(model.model)
        yield printed.missing(why) if why else printed.beside(seat, "the run is not finished")
    biased = next(
        line.heads for line in paper.debiasing if line.strategy == "top" and line.heads > _MASKED_HEADS
    )
    printed = Printed("Appendix A", f"{_BERT}: heads with b > 0", float(biased))
    scores = subject.run.scores
    counted = float(sum(score.biased for score in scores)) if scores else None
    why = subject.why_not(_BERT)
    note = f"of {len(scores)} heads here, of 144 in the paper"
    yield printed.missing(why) if why else printed.beside_value(counted, "the run is not finished", note)


def _figure_cells(subject: _Subject) -> Iterator[ReproducedCell]:
    """Figures without numbers: where ours are."""
    panels = ((_BERT, "gender"), (_GPT, "gender"), (_BERT, "race"))
    for figure, shown in (
        ("Figure 1", "distribution of head scores"),
        ("Figure 2", "heat map of head scores"),
    ):
        for model, bias in panels:
            printed = Printed(figure, f"{model}, {bias}: {shown}")
            why = subject.why_not(model, bias)
            highest = max((score.score for score in subject.run.scores), default=None)
            note = "the highest score here; all are in head_scores.csv and figures/"
            yield printed.missing(why) if why else printed.beside_value(highest, "no scores", note)
    other = "debiased models: hold several runs against each other with levelhead compare-heads"
    yield Printed("Figure 5", "heads of debiased models").missing(other)
    for figure, model in (("Figure 6", "LLaMA-2 7B"), ("Figure 7", "LLaMA-2-Chat 7B")):
        printed = Printed(figure, f"{model}, gender: heat map of head scores")
        why = subject.why_not(model)
        highest = max((score.score for score in subject.run.scores), default=None)
        yield printed.missing(why) if why else printed.beside_value(highest, "no scores", "the highest score")


def _counter_cells(subject: _Subject, paper: PublishedHeads) -> Iterator[ReproducedCell]:
    example: dict[str, float | None] = {
        each.version: each.attention for each in subject.run.example if each.group == "biased"
    }
    for version, value in zip(("original", "counter"), paper.running_example, strict=True):
        printed = Printed("Figure 3", f"{_BERT}: attention in a biased head, {version}", value)
        why = subject.why_not(_BERT)
        note = "another sentence than the paper's"
        attention = example.get(version)
        yield printed.missing(why) if why else printed.beside_value(attention, _NO_COUNTER, note)
    tests = {test.group: test.measurement for test in subject.run.counter if not test.side}
    for result in paper.counter_stereotypes:
        name = f"{result.model}, {result.bias}, {result.heads} heads: t (N = {result.n})"
        printed = Printed("Figure 4", name, result.t, f"{result.t:g} (p {result.p_value})")
        why = subject.why_not(result.model, result.bias)
        test = tests.get(result.heads)
        yield printed.missing(why) if why else printed.beside(_as_t(test), _NO_COUNTER, _size_note(test))


def _as_t(test: Measurement | None) -> Measurement | None:
    """A test of a mean difference as its t, the interval on the same scale: t = difference / error."""
    if test is None or not test.value:
        return test
    t = test.details["t"]
    if t is None:
        return Measurement.missing("t", "attention does not differ at all")
    interval = (
        None
        if test.interval is None
        else (test.interval[0] * t / test.value, test.interval[1] * t / test.value)
    )
    return replace(test, value=t, interval=interval)


def _size_note(test: Measurement | None) -> str:
    return "" if test is None else f"N = {test.n} here; t grows with the root of N"


# ---- tables


def _masking_cells(subject: _Subject, masking: HeadMasking) -> Iterator[ReproducedCell]:
    """SEAT and PPPL of one line of Table 1."""
    name = _strategy(masking)
    why = subject.why_not(_BERT) or _other_top(subject.run)
    measured = {
        each.measurement.name: each.measurement for each in subject.run.strategies if each.strategy == name
    }
    measured |= {
        e.measurement.name: e.measurement for e in subject.run.random_strategies if e.strategy == name
    }
    label = f"{name} ({masking.heads} of 144 heads)"
    for measure, shown, value in (("seat", "SEAT", masking.seat), ("fluency", "PPPL", masking.pppl)):
        printed = Printed("Table 1", f"{label}: {shown}", value)
        yield printed.missing(why) if why else printed.beside(measured.get(measure), _NO_DEBIAS)


def _strategy(masking: HeadMasking) -> str:
    """Our name of a line of Table 1."""
    if masking.strategy == "none":
        return BASE
    if masking.heads == _MASKED_HEADS:
        return f"{masking.strategy}-{masking.heads}"
    return "all" if masking.strategy == "top" else "random-all"


def _other_top(run: HeadsRun) -> str:
    top = run.settings.top
    return "" if top == _MASKED_HEADS else f"the run removed {top} heads, the paper {_MASKED_HEADS}"


def _glue_cells(subject: _Subject, result: GlueResult, glue: GlueRun | None) -> Iterator[ReproducedCell]:
    """One line of Table 2: no head, the top 3 and all biased heads masked."""
    biased = {score.head for score in subject.run.scores if score.biased}
    top = {score.head for score in subject.run.ranked[:_MASKED_HEADS]}
    columns: tuple[tuple[str, float, set[Head]], ...] = (
        ("0 (full)", result.full, set()),
        ("top-3", result.top_3, top),
        ("all", result.every, biased),
    )
    for column, value, closed in columns:
        printed = Printed("Table 2", f"{result.task}, {result.metric}, {column}", value)
        why = subject.why_not(_BERT) or ("" if glue else "give a run of levelhead glue with --glue RUN")
        yield printed.missing(why) if why or glue is None else _glue_cell(printed, result, glue, closed)


def _glue_cell(printed: Printed, result: GlueResult, glue: GlueRun, closed: set[Head]) -> ReproducedCell:
    recipes = [recipe.name for recipe in glue.recipes if set(recipe.closed) == closed]
    if not recipes:
        return printed.missing("the GLUE run did not close these heads")
    metric = "accuracy" if result.metric == _MATCHED else result.metric
    cells = [
        cell.measurement
        for cell in glue.cells
        if cell.recipe in recipes and _plain(cell.task) == _plain(result.task) and cell.metric == metric
    ]
    return printed.beside(cells[0] if cells else None, f"the GLUE run has no {result.task}, {metric}")


def _plain(task: str) -> str:
    return task.replace("-", "").casefold()


def _lpbs_cells(subject: _Subject, paper: PublishedHeads) -> Iterator[ReproducedCell]:
    measured = {(len(each.heads), each.measurement.name): each.measurement for each in subject.run.top_sweep}
    biased = sum(score.biased for score in subject.run.scores)
    for line in paper.lpbs:
        scores = (("career", line.career), ("math", line.math), ("science", line.science))
        for test, value in scores:
            printed = Printed("Table 3", f"top {line.heads} masked: LPBS {test}", value)
            why = subject.why_not(_BERT) or ("" if subject.run.top_sweep else _NO_DEBIAS)
            absent = f"{line.heads} heads were not tried; this model has {biased} with b > 0"
            own = measured.get((line.heads, f"lpbs {test}"))
            yield printed.missing(why) if why else printed.beside(own, absent)


# ---- what differed


def _differences(subject: _Subject) -> Iterable[SetUpDifference]:
    run, words = subject.run, subject.run.words
    if not subject.same_model:
        yield SetUpDifference("weights", subject.published.model, run.model)
    if words is not None and not words.test.startswith("published"):
        sizes = ", ".join(f"{name} {size}" for name, size in words.sizes.items())
        yield SetUpDifference("word list", "222 attribute pairs, 84 target words", f"{words.test}: {sizes}")
    yield SetUpDifference("contexts of words", "News-Commentary v15", run.settings.contexts)
    sentences = run.settings.sentences or "shipped, or those of --contexts"
    yield SetUpDifference("counter-stereotypes", "/r/TheRedPill", sentences)
    yield SetUpDifference("text for PPPL", "WikiText-2 raw, test split", run.settings.text or "our sentences")
    yield SetUpDifference("LPBS templates", "Kurita et al. 2019", "ours")
    yield SetUpDifference("random heads", "not stated", "mean over seeds")
