"""A run of CounterActs beside its paper: Tables 1 and 2, Figures 2 to 4, and what the text says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from levelhead.measures.measurement import Measurement
from levelhead.pages.replication.printed import Printed
from levelhead.probes.cloze import ClozeSet, load_cloze
from levelhead.probes.published import (
    KnowledgeClaim,
    PublishedCounteracts,
    PublishedOccupation,
    published_counteracts,
)
from levelhead.results.records.cloze import ClozeCell
from levelhead.results.records.common import BASE
from levelhead.results.records.reproduction import ReproducedCell, Reproduction, SetUpDifference
from levelhead.results.runs import PromptsRun

_FIGURES = {3: "Figure 2", 5: "Figure 3", 10: "Figure 4"}  # k -> its figure
_MASSES = "mass"  # how names of the two measures end that the figures show
_MARGIN, _CHANGE = "margin", "margin change"
_CONTINUED = ("continuation", "chat")  # the forms in which causal models are asked

_Cells = dict[tuple[str, int, str], ClozeCell]  # (measure, k, kind) of one model, over all occupations


def prompts_reproduction(run: PromptsRun) -> Reproduction:
    """Every number, figure and claim of the paper beside those of a run."""
    paper = published_counteracts()
    asked = load_cloze(
        run.settings.prompts, run.settings.seed, run.settings.per_background, run.settings.verbalizer
    )
    cells = [*_set_cells(run, paper, asked), *_absent_cells(run, paper)]
    for model in run.settings.models:
        own = _cells(run, model)
        cells += [*_figure_cells(model, own), *_claim_cells(run, model, own, paper)]
    known = {model.name for model in paper.models}
    return Reproduction(
        paper=run.settings.study,
        title=paper.title,
        run=str(run.folder),
        model=run.model,
        same_model=all(_hub_name(model) in known for model in run.settings.models),
        differences=tuple(_differences(run, paper)),
        cells=tuple(cells),
    )


def _hub_name(model: str) -> str:
    return model.rpartition("/")[2]


def _cells(run: PromptsRun, model: str) -> _Cells:
    cells = run.cells_of(model)
    return {(cell.name, cell.k, cell.kind): cell for cell in cells if not cell.group}


# ---- the prompts


def _set_cells(run: PromptsRun, paper: PublishedCounteracts, asked: ClozeSet) -> Iterator[ReproducedCell]:
    """The size of the data, and Table 1."""
    split = (
        f"{run.settings.per_background} backgrounds an occupation here; the paper's split is not published"
    )
    prompts = Printed("Dataset", "prompts", float(paper.prompts))
    yield prompts.beside_value(float(run.settings.n_prompts), "", split)
    words = Printed("Verbalizer", "words", float(paper.verbalizer_words))
    yield words.beside_value(float(len(asked.verbalizer.words)), "", "the paper does not publish its words")
    shares = {occupation.name.casefold(): occupation.share for occupation in asked.occupations}
    for occupation in paper.occupations:
        printed = Printed("Table 1", f"{occupation.name}: percent of women", occupation.women)
        yield printed.beside_value(_share(occupation, shares), "not among the words of this set")


def _share(occupation: PublishedOccupation, shares: dict[str, float | None]) -> float | None:
    """The share that the set has; plural entries of the table are asked in the singular."""
    return shares.get(occupation.name, shares.get(occupation.name.removesuffix("s")))


# ---- answers


def _absent_cells(run: PromptsRun, paper: PublishedCounteracts) -> Iterator[ReproducedCell]:
    """The paper's models that the run did not ask, a line a figure."""
    here = {_hub_name(model) for model in run.settings.models}
    for model in paper.models:
        if model.name not in here:
            for figure in _FIGURES.values():
                printed = Printed(figure, f"{model.name}: female and male mass")
                yield printed.missing(f"this run asked {run.model}")


def _figure_cells(model: str, cells: _Cells) -> Iterator[ReproducedCell]:
    """Female and male mass of every kind of knowledge: the paper prints bars without numbers."""
    for (name, k, kind), cell in cells.items():
        if k in _FIGURES and name.endswith(_MASSES):
            printed = Printed(_FIGURES[k], f"{model}, {kind}: {name}")
            yield printed.beside(cell.measurement, "")


def _claim_cells(
    run: PromptsRun, model: str, cells: _Cells, paper: PublishedCounteracts
) -> Iterator[ReproducedCell]:
    """What the text says of a family of models, judged at the k that stands for all."""
    family = _family(run, model, paper)
    for claim in paper.claims:
        if claim.family != family:
            continue
        printed = Printed(
            "Results", f"{model}, {claim.kind}: margin, top {run.settings.shown_k}", words=claim.claim
        )
        margins = [cells.get((_MARGIN, run.settings.shown_k, kind)) for kind in (BASE, claim.kind)]
        change = cells.get((_CHANGE, run.settings.shown_k, claim.kind))
        yield _claim_cell(
            printed, claim, [None if cell is None else cell.measurement for cell in (*margins, change)]
        )


def _claim_cell(
    printed: Printed, claim: KnowledgeClaim, measured: list[Measurement | None]
) -> ReproducedCell:
    base, reached, change = (None if each is None else each.value for each in measured)
    difference = measured[-1]
    if base is None or reached is None or change is None or difference is None:
        return printed.missing("the margin was not measured for this kind")
    low, high = difference.interval or (change, change)
    grows = (low, high) if base > 0 else (-high, -low)  # of the preference that the base shows
    holds = {
        "same": base * reached > 0,
        "overturns": base * reached < 0,
        "strengthens": grows[0] > 0,
        "weakens": grows[1] < 0,
    }
    return printed.judged(holds[claim.claim], difference, f"margin {base:+.3f} → {reached:+.3f}")


def _family(run: PromptsRun, model: str, paper: PublishedCounteracts) -> str:
    """The family of one of the paper's models; another model stands beside GPT-2 or BERT, as it is asked."""
    families = {each.name: each.family for each in paper.models}
    forms = {form.model: form.form for form in run.forms}
    stand_in = "GPT-2" if forms.get(model) in _CONTINUED else "BERT"
    return families.get(_hub_name(model), stand_in)


# ---- what differed


def _differences(run: PromptsRun, paper: PublishedCounteracts) -> Iterable[SetUpDifference]:
    known = {model.name for model in paper.models}
    others = [model for model in run.settings.models if _hub_name(model) not in known]
    if others:
        yield SetUpDifference("weights", ", ".join(model.name for model in paper.models), ", ".join(others))
    drawn = f"{run.settings.n_prompts:,}, {run.settings.per_background} backgrounds an occupation"
    yield SetUpDifference("prompts", f"{paper.prompts:,}, split not published", drawn)
    verbalizer = run.settings.verbalizer or "ours"
    yield SetUpDifference("verbalizer", f"{paper.verbalizer_words} words, not published", verbalizer)
