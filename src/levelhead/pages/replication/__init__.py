"""What a paper prints beside what a run measured, cell by cell: read from run folders, never from a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.measures.measurement import Measurement
from levelhead.probes.cloze import load_cloze
from levelhead.probes.published import (
    ModelSeat,
    PublishedCounteracts,
    PublishedHeads,
    PublishedProjections,
    published_counteracts,
    published_heads,
    published_projections,
)
from levelhead.runs.common import BASE
from levelhead.runs.study import AnyRun
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.records import ClozeCell
from levelhead.studies.glue import Glue
from levelhead.studies.heads import WORD_LIST, Heads
from levelhead.studies.heads.records import RandomMeasured, StrategyMeasured
from levelhead.studies.projections import TABLE5, TABLE6, Projections
from levelhead.studies.reproduce.records import Agreement, ReproducedCell, Reproduction, SetUpDifference

_BERT, _GPT = "BERT-base", "GPT-2 small"
_NO_DEBIAS = "the run has no debias experiment: --experiments debias"
_NO_COUNTER = "the run has no counter experiment: --experiments counter"
_UNFINISHED = "the run is not finished"
_MASKED_HEADS = 3  # of the paper's Top-3, Bottom-3 and Random-3
_MATCHED = "matched accuracy"  # of MNLI; our runs are evaluated on the matched part and call it accuracy
_FIGURES = {3: "Figure 2", 5: "Figure 3", 10: "Figure 4"}  # k -> its figure
_MARGIN, _CHANGE = "margin", "margin change"
_CONTINUED = ("continuation", "chat")  # the forms of a question to a causal model
_Cells = dict[tuple[str, int, str], ClozeCell]  # (measure, k, kind) of one model, over all occupations
_NOT_PUBLISHED = (
    "a sentence of the paper's data: levelhead nsp --triples FILE --csv FILE gives its probabilities"
)
_ROUNDING = 0.002  # of a product of two printed numbers
_MEASURES = ("strength", "distance", "parity", "accuracy", "fairness", "ability")  # columns of Table 7
_Level = str  # as Table 7 prints it
_Measured = dict[tuple[_Level, str, str], Measurement]  # (level, the paper's tuple, measure)


@dataclass(frozen=True)
class Printed:
    """A number of a paper, or words in its place, and where they stand."""

    table: str
    cell: str
    value: float | None = None
    words: str = ""  # what is printed, where that is no number

    def beside(
        self, measured: Measurement | float | None, otherwise: str, note: str = "", why_not: str = ""
    ) -> ReproducedCell:
        """Ours beside the paper's number; a plain number has no interval.

        otherwise: the reason where there is none of ours. why_not: why this run can have none.
        """
        if why_not or measured is None:
            return self.missing(why_not or otherwise)
        if not isinstance(measured, Measurement):
            value, interval = measured, None
        elif measured.value is None:
            return self.missing(measured.reason)
        else:
            value, interval = measured.value, measured.interval
        agreement: Agreement
        if self.value is None:
            agreement = "no number"
        elif interval is None:
            agreement = "equal" if value == self.value else "no interval"
        else:
            agreement = "within" if interval[0] <= self.value <= interval[1] else "outside"
        low, high = interval or (None, None)
        cell, text = self.cell, self._text
        return ReproducedCell(self.table, cell, text, self.value, value, low, high, agreement, note)

    def judged(self, holds: bool, measured: Measurement, note: str) -> ReproducedCell:
        """Ours beside a sentence of the paper that holds here, or does not."""
        agreement: Agreement = "as printed" if holds else "not as printed"
        low, high = measured.interval or (None, None)
        return ReproducedCell(
            self.table, self.cell, self.words, self.value, measured.value, low, high, agreement, note
        )

    def missing(self, reason: str) -> ReproducedCell:
        """The paper's number alone, with the reason why there is none of ours."""
        here = (None, None, None)
        return ReproducedCell(self.table, self.cell, self._text, self.value, *here, "not measured", reason)

    @property
    def _text(self) -> str:
        return self.words or ("" if self.value is None else f"{self.value:g}")


def reproduction(
    run: AnyRun,
    title: str,
    same_model: bool,
    differences: Iterable[SetUpDifference],
    cells: Iterable[ReproducedCell],
) -> Reproduction:
    """A paper's title and numbers beside those of a run."""
    study, folder = run.settings.study, str(run.folder)
    return Reproduction(study, title, folder, run.model, same_model, tuple(differences), tuple(cells))


def beside_paper(run: AnyRun, glue: Glue | None = None) -> Reproduction:
    """A run beside the paper that its study follows; glue: a run of `levelhead glue`, for Table 2."""
    match run:
        case Heads():
            return heads_reproduction(run, glue)
        case Projections():
            return projections_reproduction(run)
        case Counteracts():
            return counteracts_reproduction(run)
    raise BadRun(f"{run.folder} is a run of {run.name}; heads, counteracts and projections follow a paper.")


@dataclass(frozen=True)
class _Subject:
    """The run, and the model of the paper that its model is, or stands in for."""

    run: Heads
    published: ModelSeat
    bias: str  # gender, race or another list

    def why_not(self, model: str, bias: str = "gender") -> str:
        """Why a cell about a model and a bias has no number in this run; empty where it can have one."""
        if model != self.published.model:
            return f"about {model}; this run evaluated {self.run.model}, beside {self.published.model}"
        if bias != self.bias:
            return f"about {bias}; this run evaluated {self.bias}"
        return ""


def heads_reproduction(run: Heads, glue: Glue | None = None) -> Reproduction:
    """Every number of the paper beside those of a run; glue: a run of `levelhead glue` for Table 2."""
    paper, hub_name = published_heads(), run.model.rpartition("/")[2]
    # the paper's model of the same name; else BERT-base, or GPT-2 for a causal model
    causal = any("perplexity" in each.measurement.settings.values() for each in run.strategies)
    stand_in = next(model for model in paper.models if model.model == (_GPT if causal else _BERT))
    published = {model.hub: model for model in paper.models}.get(hub_name, stand_in)
    # the paper's bias that a word list is named after, unless its axis is another one; else its name
    name = run.settings.bias if run.words is None else run.words.test
    words = WORD_LIST.read(run.folder)
    axis = "" if words is None else words.axis
    named = set(re.split(r"[\W_]+", name.casefold()))
    bias = next((bias for bias in ("gender", "race") if bias in named and axis in ("", bias)), name)
    subject, same_model = _Subject(run, published, bias), hub_name == published.hub
    cells = [*_figure_cells(subject, paper), *_table_cells(subject, paper, glue)]
    differences = [] if same_model else [SetUpDifference("weights", published.model, run.model)]
    if run.words is not None and not run.words.test.startswith("published"):
        sizes = ", ".join(f"{name} {size}" for name, size in run.words.sizes.items())
        ours = f"{run.words.test}: {sizes}"
        differences.append(SetUpDifference("word list", "222 attribute pairs, 84 target words", ours))
    sentences = run.settings.sentences or "shipped, or those of --contexts"
    differences += [
        SetUpDifference("contexts of words", "News-Commentary v15", run.settings.contexts),
        SetUpDifference("counter-stereotypes", "/r/TheRedPill", sentences),
        SetUpDifference("text for PPPL", "WikiText-2 raw, test split", run.settings.text or "our sentences"),
        SetUpDifference("LPBS templates", "Kurita et al. 2019", "ours"),
        SetUpDifference("random heads", "not stated", "mean over seeds"),
    ]
    return reproduction(run, paper.title, same_model, differences, cells)


# ---- sections and figures


def _figure_cells(subject: _Subject, paper: PublishedHeads) -> Iterator[ReproducedCell]:
    """Sections 5.1 and 7, Appendix A, and the figures; of those without numbers, where ours are."""
    seat = None if subject.run.seat is None else subject.run.seat.measurement
    for each in paper.models:
        printed = Printed("Sections 5.1 and 7", f"{each.model}: SEAT", each.seat)
        yield printed.beside(seat, _UNFINISHED, why_not=subject.why_not(each.model))
    biased = next(
        line.heads for line in paper.debiasing if line.strategy == "top" and line.heads > _MASKED_HEADS
    )
    printed = Printed("Appendix A", f"{_BERT}: heads with b > 0", float(biased))
    scores = subject.run.scores
    counted = float(sum(score.biased for score in scores)) if scores else None
    note = f"of {len(scores)} heads here, of 144 in the paper"
    yield printed.beside(counted, _UNFINISHED, note, subject.why_not(_BERT))

    highest = max((score.score for score in subject.run.scores), default=None)
    shows = (("Figure 1", "distribution of head scores"), ("Figure 2", "heat map of head scores"))
    for figure, shown in shows:
        for model, bias in ((_BERT, "gender"), (_GPT, "gender"), (_BERT, "race")):
            printed = Printed(figure, f"{model}, {bias}: {shown}")
            note = "the highest score here; all are in head_scores.csv and figures/"
            yield printed.beside(highest, "no scores", note, subject.why_not(model, bias))
    other = "debiased models: hold several runs against each other with levelhead compare-heads"
    yield Printed("Figure 5", "heads of debiased models").missing(other)
    for figure, model in (("Figure 6", "LLaMA-2 7B"), ("Figure 7", "LLaMA-2-Chat 7B")):
        printed = Printed(figure, f"{model}, gender: heat map of head scores")
        yield printed.beside(highest, "no scores", "the highest score", subject.why_not(model))

    example: dict[str, float | None] = {
        shown.version: shown.attention for shown in subject.run.example if shown.group == "biased"
    }
    for version, value in zip(("original", "counter"), paper.running_example, strict=True):
        printed = Printed("Figure 3", f"{_BERT}: attention in a biased head, {version}", value)
        note = "another sentence than the paper's"
        yield printed.beside(example.get(version), _NO_COUNTER, note, subject.why_not(_BERT))
    tests = {test.group: test.measurement for test in subject.run.counter if not test.side}
    for result in paper.counter_stereotypes:
        name = f"{result.model}, {result.bias}, {result.heads} heads: t (N = {result.n})"
        printed = Printed("Figure 4", name, result.t, f"{result.t:g} (p {result.p_value})")
        test = tests.get(result.heads)
        if test is not None and test.value:
            # a mean difference as its t, the interval on the same scale: t = difference / error
            t, difference, ends = test.details["t"], test.value, test.interval
            if t is None:
                test = Measurement.missing("t", "attention does not differ at all", n=test.n)
            else:
                ends = None if ends is None else (ends[0] * t / difference, ends[1] * t / difference)
                test = replace(test, value=t, interval=ends)
        note = "" if test is None else f"N = {test.n} here; t grows with the root of N"
        yield printed.beside(test, _NO_COUNTER, note, subject.why_not(result.model, result.bias))


# ---- tables


def _table_cells(subject: _Subject, paper: PublishedHeads, glue: Glue | None) -> Iterator[ReproducedCell]:
    """Tables 1 to 3: heads removed by rank or at random, GLUE without them, and LPBS without the top k."""
    run, why_not = subject.run, subject.why_not(_BERT)
    tried: tuple[StrategyMeasured | RandomMeasured, ...] = (*run.strategies, *run.random_strategies)
    for masking in paper.debiasing:
        if masking.strategy == "none":
            name = BASE
        elif masking.heads == _MASKED_HEADS:
            name = f"{masking.strategy}-{masking.heads}"
        else:
            name = "all" if masking.strategy == "top" else "random-all"
        why = why_not
        if not why and run.settings.top != _MASKED_HEADS:
            why = f"the run removed {run.settings.top} heads, the paper {_MASKED_HEADS}"
        measured = {each.measurement.name: each.measurement for each in tried if each.strategy == name}
        label = f"{name} ({masking.heads} of 144 heads)"
        for measure, shown, value in (("seat", "SEAT", masking.seat), ("fluency", "PPPL", masking.pppl)):
            printed = Printed("Table 1", f"{label}: {shown}", value)
            yield printed.beside(measured.get(measure), _NO_DEBIAS, why_not=why)

    top = {score.head for score in run.ranked[:_MASKED_HEADS]}
    biased = {score.head for score in run.scores if score.biased}
    for result in paper.glue:
        # no head, the top 3 and all biased heads removed
        columns: tuple[tuple[str, float, set[Head]], ...] = (
            ("0 (full)", result.full, set()),
            ("top-3", result.top_3, top),
            ("all", result.every, biased),
        )
        task = result.task.replace("-", "").casefold()
        metric = "accuracy" if result.metric == _MATCHED else result.metric
        for column, value, closed in columns:
            printed = Printed("Table 2", f"{result.task}, {result.metric}, {column}", value)
            if why_not or glue is None:
                yield printed.missing(why_not or "give a run of levelhead glue with --glue RUN")
                continue
            recipes = [recipe.name for recipe in glue.recipes if set(recipe.closed) == closed]
            cells = [
                cell.measurement
                for cell in glue.cells
                if (cell.task.replace("-", "").casefold(), cell.metric) == (task, metric)
                and cell.recipe in recipes
            ]
            absent = f"the GLUE run has no {result.task}, {metric}"
            if not recipes:
                absent = "the GLUE run did not close these heads"
            yield printed.beside(cells[0] if cells else None, absent)

    swept = {(len(each.heads), each.measurement.name): each.measurement for each in run.top_sweep}
    why = why_not or ("" if run.top_sweep else _NO_DEBIAS)
    for line in paper.lpbs:
        scores = (("career", line.career), ("math", line.math), ("science", line.science))
        for test, value in scores:
            printed = Printed("Table 3", f"top {line.heads} masked: LPBS {test}", value)
            absent = f"{line.heads} heads were not tried; this model has {len(biased)} with b > 0"
            yield printed.beside(swept.get((line.heads, f"lpbs {test}")), absent, why_not=why)


def counteracts_reproduction(run: Counteracts) -> Reproduction:
    """Every number, figure and claim of the paper beside those of a run."""
    paper = published_counteracts()
    prompt_set = load_cloze(
        run.settings.prompts, run.settings.seed, run.settings.per_background, run.settings.verbalizer
    )
    # the size of the data, and Table 1
    split = f"{run.settings.per_background} backgrounds per occupation; the paper's split is not published"
    prompts = Printed("Dataset", "prompts", float(paper.prompts))
    words = Printed("Verbalizer", "words", float(paper.verbalizer_words))
    unpublished = "the paper does not publish its words"
    cells = [
        prompts.beside(float(run.settings.n_prompts), "", split),
        words.beside(float(len(prompt_set.verbalizer.words)), "", unpublished),
    ]
    shares = {occupation.name.casefold(): occupation.share for occupation in prompt_set.occupations}
    for occupation in paper.occupations:
        printed = Printed("Table 1", f"{occupation.name}: percent of women", occupation.women)
        # plural entries of the table are run in the singular
        share = shares.get(occupation.name, shares.get(occupation.name.removesuffix("s")))
        cells.append(printed.beside(share, "not among the words of this set"))
    known = {model.name for model in paper.models}
    here = {model.rpartition("/")[2] for model in run.settings.models}
    for absent in (model for model in paper.models if model.name not in here):
        for figure in _FIGURES.values():
            printed = Printed(figure, f"{absent.name}: female and male mass")
            cells.append(printed.missing(f"this run evaluated {run.model}"))
    for model in run.settings.models:
        whole = (cell for cell in run.cells_of(model) if not cell.group)
        own = {(cell.name, cell.k, cell.kind): cell for cell in whole}
        # the masses of every kind of knowledge: the paper prints bars without numbers
        for (name, k, kind), cell in own.items():
            if k in _FIGURES and name.endswith("mass"):
                printed = Printed(_FIGURES[k], f"{model}, {kind}: {name}")
                cells.append(printed.beside(cell.measurement, ""))
        cells += _claim_cells(run, model, own, paper)
    differences = []
    others = [model for model in run.settings.models if model.rpartition("/")[2] not in known]
    if others:
        theirs = ", ".join(model.name for model in paper.models)
        differences.append(SetUpDifference("weights", theirs, ", ".join(others)))
    drawn = f"{run.settings.n_prompts:,}, {run.settings.per_background} backgrounds per occupation"
    verbalizer = run.settings.verbalizer or "ours"
    differences += [
        SetUpDifference("prompts", f"{paper.prompts:,}, split not published", drawn),
        SetUpDifference("verbalizer", f"{paper.verbalizer_words} words, not published", verbalizer),
    ]
    return reproduction(run, paper.title, not others, differences, cells)


# ---- answers


def _claim_cells(
    run: Counteracts, model: str, cells: _Cells, paper: PublishedCounteracts
) -> Iterator[ReproducedCell]:
    """What the text says of a family of models, judged at the k that stands for all."""
    # another model than the paper's stands beside GPT-2 or BERT, by the form of its questions
    forms = {form.model: form.form for form in run.forms}
    stand_in = "GPT-2" if forms.get(model) in _CONTINUED else "BERT"
    family = {each.name: each.family for each in paper.models}.get(model.rpartition("/")[2], stand_in)
    k = run.settings.shown_k
    for claim in paper.claims:
        if claim.family != family:
            continue
        printed = Printed("Results", f"{model}, {claim.kind}: margin, top {k}", words=claim.claim)
        places = ((_MARGIN, k, BASE), (_MARGIN, k, claim.kind), (_CHANGE, k, claim.kind))
        measured = [None if (cell := cells.get(place)) is None else cell.measurement for place in places]
        base, reached, change = (None if each is None else each.value for each in measured)
        difference = measured[-1]
        if base is None or reached is None or change is None or difference is None:
            yield printed.missing("the margin was not measured for this kind")
            continue
        low, high = difference.interval or (change, change)
        grows = (low, high) if base > 0 else (-high, -low)  # of the preference that the base shows
        holds = {
            "same": base * reached > 0,
            "overturns": base * reached < 0,
            "strengthens": grows[0] > 0,
            "weakens": grows[1] < 0,
        }
        yield printed.judged(holds[claim.claim], difference, f"margin {base:+.3f} → {reached:+.3f}")


def projections_reproduction(run: Projections) -> Reproduction:
    """Every number of the paper beside those of a run."""
    paper = published_projections()
    # measurements of the paper's settings, under the names that Table 7 has for its levels
    measured: _Measured = {
        (_printed_level(each.level, each.code), each.code, each.measurement.name): each.measurement
        for each in run.measured
        if each.level != "depth"
    }
    # examples from StereoSet, whose sentences do not ship
    examples = (
        ("Table 1", paper.triple_examples),
        ("Table 3", paper.strength_examples),
        ("Table 4", paper.distance_examples),
    )
    cells = [
        Printed(table, f"({letter}) {name}", value).missing(_NOT_PUBLISHED)
        for table, lines in examples
        for letter, line in zip("ab", lines, strict=False)
        for name, value in line.items()
    ]
    cells += _measured_cells(run, paper, measured)
    same_model, settings = run.model.rpartition("/")[2] == "bert-base-uncased", run.settings
    size = settings.occupations * settings.contexts * len(settings.words)
    nli = "BERT-base fine-tuned on SNLI, not published"
    pairs = f"{settings.form}; classifier: {settings.pairs}"
    differences = [
        *([] if same_model else [SetUpDifference("weights", "BERT-base", settings.model)]),
        SetUpDifference("NLI classifier", nli, settings.nli or ""),
        SetUpDifference("triples", "234 pairs of StereoSet, screened and swapped", settings.triples_name),
        SetUpDifference("occupations", "10,824 pairs of Dev et al. 2020", f"{size:,} pairs of ours"),
        SetUpDifference("ability", "SNLI test set", settings.ability_name),
        SetUpDifference("pairs that subspaces are fitted on", "not published", pairs),
    ]
    return reproduction(run, paper.title, same_model, differences, cells)


def _printed_level(level: str, code: str) -> _Level:
    """Levels are named after a model's own layers; the paper's name follows from the length of the tuple."""
    if level.endswith("+ attn"):
        return "+ attn"
    names = {"base": "Base", "sent-debias": "Sent-debias", "SENT": "SENT"}
    return names.get(level) or ("Layer 12" if len(code.split(",")) == 3 else "Layer 11")


def _measured_cells(
    run: Projections, paper: PublishedProjections, measured: _Measured
) -> Iterator[ReproducedCell]:
    """Tables 5 to 7, and section 5."""
    lines = TABLE5.read(run.folder)
    for position, best in enumerate(paper.best):
        own = lines[position] if position < len(lines) else None
        for measure in ("strength", "distance", "fairness", "ability"):
            by = "fairness" if measure == "ability" else measure  # the ability of the fairest settings
            name = f"{best.level}: {measure} {getattr(best, f'{by}_settings')}".rstrip()
            printed = Printed("Table 5", name, getattr(best, measure))
            reached, code = getattr(own, measure, None), getattr(own, f"{by}_code", None)
            if own is None or reached is None:
                yield printed.missing("no viable setting of this level" if own else _UNFINISHED)
                continue
            level, code = _printed_level(own.level, code or ""), code or ""
            note = f"best here: {code}" if code else ""
            yield printed.beside(measured.get((level, code, measure)), _UNFINISHED, note)

    weighted = TABLE6.read(run.folder)
    for position, line in enumerate(paper.weighting):
        here = weighted[position] if position < len(weighted) else None
        columns = (
            ("without weighting", line.hard, None if here is None else here.ability_hard),
            ("with weighting", line.soft, None if here is None else here.ability_soft),
            ("increase", line.increase, None if here is None else here.increase),
            ("sd of the increase", line.sd, None if here is None else here.sd),
        )
        for column, theirs, ours in columns:
            if theirs is not None:
                printed = Printed("Table 6", f"{line.level} ({line.pairs} pairs): {column}", theirs)
                yield printed.beside(ours, _UNFINISHED)

    for model in paper.models:
        name = f"{model.level} {model.settings}".rstrip()
        # what the paper's own parity and accuracy give, where it prints another fairness
        product, erratum = model.parity * model.accuracy, ""
        if abs(product - model.fairness) >= _ROUNDING:
            erratum = (
                f"the paper's own parity x accuracy of {model.level} ({model.settings}) is {product:.4f}"
            )
        for measure in _MEASURES:
            printed = Printed("Table 7", f"{name}: {measure}", getattr(model, measure))
            reached_here = measured.get((model.level, model.settings, measure))
            yield printed.beside(reached_here, _UNFINISHED, erratum if measure == "fairness" else "")

    printed = Printed(
        "Section 5", "Spearman's rho of Strength with fairness", -paper.spearman, f"{paper.spearman:g}"
    )
    note = "the paper prints the correlation with −S; its sign is reversed here"
    yield printed.beside(run.correlation, _UNFINISHED, note)
    for observed in run.observations:
        printed = Printed("Section 5", observed.observation, words=observed.paper)
        if not observed.cases or observed.holds is None:
            yield printed.missing("no case on these models")
        else:
            share = Measurement("share of cases", observed.agree / observed.cases, n=observed.cases)
            yield printed.judged(observed.holds, share, f"{observed.agree} of {observed.cases} here")
