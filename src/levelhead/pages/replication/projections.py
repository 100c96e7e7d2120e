"""A run of the sweep beside the projective paper: Tables 1 and 3 to 7, and section 5."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from levelhead.measures.measurement import Measurement
from levelhead.pages.replication.printed import Printed
from levelhead.probes.published import DebiasedModel, PublishedProjections, published_projections
from levelhead.results import layout
from levelhead.results.records.projections import Table5Line
from levelhead.results.records.reproduction import ReproducedCell, Reproduction, SetUpDifference
from levelhead.results.runs import SweepRun

_BERT = "bert-base-uncased"
_UNFINISHED = "the run is not finished"
_NOT_PUBLISHED = (
    "a sentence of the paper's data: levelhead nsp --triples FILE --csv FILE gives its probabilities"
)
_ROUNDING = 0.002  # of a product of two printed numbers
_MEASURES = ("strength", "distance", "parity", "accuracy", "fairness", "ability")  # columns of Table 7

_Level = str  # as Table 7 prints it
_Measured = dict[tuple[_Level, str, str], Measurement]  # (level, the paper's tuple, measure)


def sweep_reproduction(run: SweepRun) -> Reproduction:
    """Every number of the paper beside those of a run."""
    paper = published_projections()
    measured = _measured(run)
    cells = [
        *_example_cells(paper),
        *_table5_cells(run, paper, measured),
        *_table6_cells(run, paper),
        *(cell for model in paper.models for cell in _table7_cells(model, measured)),
        *_section5_cells(run, paper),
    ]
    return Reproduction(
        paper=run.settings.study,
        title=paper.title,
        run=str(run.folder),
        model=run.model,
        same_model=_same_model(run),
        differences=tuple(_differences(run)),
        cells=tuple(cells),
    )


def _same_model(run: SweepRun) -> bool:
    return run.model.rpartition("/")[2] == _BERT


def _measured(run: SweepRun) -> _Measured:
    """Measurements of the paper's settings, under the names that Table 7 has for its levels."""
    return {
        (_printed_level(each.level, each.code), each.code, each.measurement.name): each.measurement
        for each in run.measured
        if each.level != "depth"
    }


def _printed_level(level: str, code: str) -> _Level:
    """Levels are named after a model's own layers; the paper's name follows from the length of the tuple."""
    if level.endswith("+ attn"):
        return "+ attn"
    names = {"base": "Base", "sent-debias": "Sent-debias", "SENT": "SENT"}
    return names.get(level) or ("Layer 12" if len(code.split(",")) == 3 else "Layer 11")


def _example_cells(paper: PublishedProjections) -> Iterator[ReproducedCell]:
    """Examples from StereoSet, whose sentences do not ship."""
    examples: tuple[tuple[str, list[dict[str, float]]], ...] = (
        ("Table 1", [asdict(paper.triple_example)]),
        ("Table 3", [asdict(line) for line in paper.strength_examples]),
        ("Table 4", [asdict(line) for line in paper.distance_examples]),
    )
    for table, lines in examples:
        for letter, line in zip("ab", lines, strict=False):
            for name, value in line.items():
                yield Printed(table, f"({letter}) {name}", value).missing(_NOT_PUBLISHED)


# ---- tables


def _table5_cells(
    run: SweepRun, paper: PublishedProjections, measured: _Measured
) -> Iterator[ReproducedCell]:
    lines = layout.TABLE5.read(run.folder)
    for position, best in enumerate(paper.best):
        own = lines[position] if position < len(lines) else None
        numbers = (
            ("strength", best.strength, best.strength_settings),
            ("distance", best.distance, best.distance_settings),
            ("fairness", best.fairness, best.fairness_settings),
            ("ability", best.ability, best.fairness_settings),
        )
        for measure, value, settings in numbers:
            printed = Printed("Table 5", f"{best.level}: {measure} {settings}".rstrip(), value)
            code = None if own is None else _best_code(own, measure)
            if own is None or code is None:
                yield printed.missing("no viable setting of this level" if own else _UNFINISHED)
                continue
            level = _printed_level(own.level, code)
            note = f"best here: {code}" if code else ""
            yield printed.beside(measured.get((level, code, measure)), _UNFINISHED, note)


def _best_code(line: Table5Line, measure: str) -> str | None:
    """The tuple of the best setting by a measure; None where none was measured."""
    best = {
        "strength": (line.strength, line.strength_code),
        "distance": (line.distance, line.distance_code),
        "fairness": (line.fairness, line.fairness_code),
        "ability": (line.ability, line.fairness_code),
    }
    value, code = best[measure]
    return None if value is None else code or ""


def _table6_cells(run: SweepRun, paper: PublishedProjections) -> Iterator[ReproducedCell]:
    lines = layout.TABLE6.read(run.folder)
    for position, line in enumerate(paper.weighting):
        own = lines[position] if position < len(lines) else None
        columns = (
            ("without weighting", line.hard, None if own is None else own.ability_hard),
            ("with weighting", line.soft, None if own is None else own.ability_soft),
            ("increase", line.increase, None if own is None else own.increase),
            ("sd of the increase", line.sd, None if own is None else own.sd),
        )
        for name, value, here in columns:
            if value is not None:
                printed = Printed("Table 6", f"{line.level} ({line.pairs} pairs): {name}", value)
                yield printed.beside_value(here, _UNFINISHED)


def _table7_cells(model: DebiasedModel, measured: _Measured) -> Iterator[ReproducedCell]:
    name = f"{model.level} {model.settings}".rstrip()
    for measure in _MEASURES:
        printed = Printed("Table 7", f"{name}: {measure}", getattr(model, measure))
        own = measured.get((model.level, model.settings, measure))
        yield printed.beside(own, _UNFINISHED, _erratum(model) if measure == "fairness" else "")


def _erratum(model: DebiasedModel) -> str:
    """What the paper's own parity and accuracy give, where it prints another fairness."""
    product = model.parity * model.accuracy
    if abs(product - model.fairness) < _ROUNDING:
        return ""
    return f"the paper's own parity x accuracy of {model.level} ({model.settings}) is {product:.4f}"


def _section5_cells(run: SweepRun, paper: PublishedProjections) -> Iterator[ReproducedCell]:
    printed = Printed(
        "Section 5", "Spearman's rho of Strength with fairness", -paper.spearman, f"{paper.spearman:g}"
    )
    note = "the paper prints the correlation with −S; its sign is turned here"
    yield printed.beside(run.correlation, _UNFINISHED, note)
    for observed in run.observations:
        printed = Printed("Section 5", observed.observation, words=observed.paper)
        share = (
            Measurement("share of cases", observed.agree / observed.cases, n=observed.cases)
            if observed.cases
            else None
        )
        if share is None or observed.holds is None:
            yield printed.missing("no case on these models")
        else:
            yield printed.judged(observed.holds, share, f"{observed.agree} of {observed.cases} here")


# ---- what differed


def _differences(run: SweepRun) -> Iterable[SetUpDifference]:
    settings = run.settings
    if not _same_model(run):
        yield SetUpDifference("weights", "BERT-base", settings.model)
    yield SetUpDifference("NLI classifier", "BERT-base fine-tuned on SNLI, not published", settings.nli_model)
    yield SetUpDifference("triples", "234 pairs of StereoSet, screened and swapped", settings.triples)
    size = settings.occupations * settings.contexts * len(settings.words)
    yield SetUpDifference("occupations", "10,824 pairs of Dev et al. 2020", f"{size:,} pairs of ours")
    yield SetUpDifference("ability", "SNLI test set", settings.ability)
    yield SetUpDifference(
        "pairs that subspaces are fitted on",
        "not published",
        f"{settings.form}; classifier: {settings.pairs}",
    )
