"""What an audit may claim, as evidence that a calibration can count: a name, a p, and an interval beyond
the floor.

A new kind of claim is one more function in CLAIMS. Each gets a model and the sizes, and gives evidence for
as many claims as it likes; what the model cannot be asked gives none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from levelhead.measures.cloze.log_odds import lean, lean_change
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin
from levelhead.probes.cloze import load_cloze
from levelhead.probes.triples import load_triples
from levelhead.report.claims import beyond_floor
from levelhead.results.records.heads import CHANGE_ON_OTHER_WORDS
from levelhead.scoring.cloze import prompt_table
from levelhead.scoring.log_odds import ask_log_odds, twin_log_odds
from levelhead.scoring.lpbs import ask_lpbs_tests
from levelhead.scoring.pairs import ask_likelihood_triples, ask_nsp
from levelhead.scoring.piece_rows import ask_seat_rows
from levelhead.scoring.seat import ask_seat, seat_null, twin_seed
from levelhead.studies.heads.crossfit import cross_fits, summaries
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.heads.study import Prepared, prepare


@dataclass(frozen=True)
class Evidence:
    """For one claim: its p before any correction, and whether its interval lies beyond the floor."""

    claim: str
    p: float
    beyond: bool
    on_page: bool = True  # corrected together with the other claims of a page; False: an alternative to one


@dataclass(frozen=True)
class Subject:
    """A model under calibration, and how much is asked of it."""

    model: Model
    bias: str = "gender"
    null: int = 19
    seed: int = 0

    @cached_property
    def prepared(self) -> Prepared:
        """Words and contexts, as the heads study takes them."""
        return prepare(self.model, self.settings)

    @cached_property
    def settings(self) -> HeadsSettings:
        """Those of the heads study."""
        return HeadsSettings(self.bias, null=self.null, seed=self.seed)


Claims = Callable[[Subject], Iterator[Evidence]]


def _from_null(name: str, measured: Measurement, on_page: bool = True) -> Iterator[Evidence]:
    if measured.value is not None and measured.null is not None:
        beyond = beyond_floor(measured, measured.null.floor)
        yield Evidence(name, measured.null.p_value, beyond, on_page)


def association(subject: Subject) -> Iterator[Evidence]:
    """SEAT of all words against null twins."""
    prepared = subject.prepared
    seat = ask_seat(subject.model, prepared.test, prepared.table.contexts, intervals=True)[0]
    null = seat_null(subject.model, prepared.table, subject.null, subject.seed)
    if seat.value is not None and null is not None:
        judged = null.judged(seat.value, "null twins")
        yield Evidence("association", judged.p_value, beyond_floor(seat, judged.floor))


def association_by_pieces(subject: Subject) -> Iterator[Evidence]:
    """SEAT of every row by pieces, and of the row that is called sound."""
    prepared, model = subject.prepared, subject.model
    twins = [draw_twin(model, twin_seed(subject.seed, number)) for number in range(subject.null)]
    found = ask_seat_rows(model, prepared.test, prepared.table.contexts, twins)
    for name, measured in found.rows.items():
        yield from _from_null(f"association, {name}", measured, on_page=False)
    yield from _from_null("association, sound row", found.rows[found.sound], on_page=False)


def heads_hold(subject: Subject) -> Iterator[Evidence]:
    """Heads found on half of the words: do they agree, and does removing them help, on the other half?"""
    settings, prepared = subject.settings, subject.prepared
    sizes = settings.splits, settings.top, settings.null
    for measured in summaries(cross_fits(subject.model, prepared.table, prepared.test, sizes, subject.seed)):
        if measured.value is not None and measured.null is not None:
            above = measured.value > measured.null.floor
            right = not above if measured.name == CHANGE_ON_OTHER_WORDS else above
            yield Evidence(measured.name, measured.null.p_value, right)


def next_sentences(subject: Subject) -> Iterator[Evidence]:
    """Preference, paired score and Strength against sign flips."""
    model = subject.model
    if "nsp" in model.abilities:
        measured = ask_nsp(model, load_triples())[0]
    elif "causal" in model.abilities:
        measured = ask_likelihood_triples(model, load_triples())[0]
    else:
        return
    for name in ("preference", "ss_paired", "strength"):
        yield from _from_null(name, measured[name])


def fill_in(subject: Subject) -> Iterator[Evidence]:
    """LPBS of the three shipped tests, by permutation of their words."""
    for measured in ask_lpbs_tests(subject.model)[0]:
        p = measured.details.get("p_value")
        if measured.value is not None and p is not None:
            yield Evidence(measured.name, p, beyond_floor(measured, 0.0))


def prompts(subject: Subject) -> Iterator[Evidence]:
    """Log-odds of the prompts: the base ones by exchange of occupations, knowledge against twins."""
    model = subject.model
    if not model.abilities & {"mlm", "causal"}:
        return
    cloze_set = load_cloze(per_background=1)
    table = prompt_table(cloze_set)
    values = ask_log_odds(model, cloze_set)[0]
    yield from _from_null("lean", lean(values, table))
    drawn = [draw_twin(model, twin_seed(subject.seed, number)) for number in range(subject.null)]
    twins = twin_log_odds(model, cloze_set, drawn)
    for kind in cloze_set.kinds[1:]:
        yield from _from_null(f"knowledge: {kind}", lean_change(values, table, kind, twins))


CLAIMS: dict[str, Claims] = {
    "association": association,
    "pieces": association_by_pieces,
    "heads": heads_hold,
    "next sentences": next_sentences,
    "fill-in": fill_in,
    "prompts": prompts,
}
