"""A small calibration: pages about null models claim no more than chance allows, and one about a
planted association speaks. The large one is `make calibrate` (docs/method/null-models.md, False alarms and
power)."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from benchmarks.plants import planted_null_model
from scipy import stats

from levelhead.inference.headline import headline_claims
from levelhead.measures.exchange import Exchange, held_fixed
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import NliProbe, nli_probe
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import ALL_WORDS, load_words
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.scoring.battery import Battery, triples_question
from levelhead.studies.audit import Audit
from levelhead.studies.heads.null_models import ask_seat_rows
from tests.report.test_headline import SETTINGS
from tests.word_lists import gender_toml

MODELS = 12
TEMPLATES = 2
TRIPLES = 23  # one in so many is asked


@cache
def shipped() -> tuple[TripleSet, NliProbe]:
    """What is asked of every model: swapping the words of all triples takes longer than asking some."""
    return load_triples().every(TRIPLES), nli_probe(limit=(1, 1))


def association(model: Model, folder: Path, seed: int, null_models: int) -> list[Measurement]:
    """SEAT against null models of the model itself."""
    test = load_words(gender_toml(folder))
    contexts = tuple(template_contexts(test, TEMPLATES))
    drawn = (draw_null_model(model, null_model_seed(seed, number)) for number in range(null_models))
    return [ask_seat_rows(model, test, contexts, drawn).rows[ALL_WORDS]]


def preference(model: Model, folder: Path, null_models: int) -> list[Measurement]:
    """Next sentences against null models of the model itself."""
    triples, probe = shipped()
    battery = Battery(load_words(gender_toml(folder)), (), triples, probe, null=null_models)
    return list(triples_question(model, [()], battery)[0])


def claims(folder: Path, measured: list[Measurement]) -> dict[str, bool]:
    """The claims of a page that has these measures."""
    with Run.open(folder / "run", Audit, SETTINGS) as run:
        run.results(
            Audit.measured.of("all"), [MeasuredVariant(BASE, "null_model", each) for each in measured].copy
        )
    return {name: holds for name, _, holds in headline_claims(Audit.open(folder / "run"))}


@pytest.mark.nightly
def test_no_claim_is_made_of_models_without_meaning_more_often_than_chance_allows(
    bert: Model, tmp_path: Path
) -> None:
    made: Counter[str] = Counter()
    for number in range(MODELS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with as_null_model(bert, draw_null_model(bert, 900 + number)):
            measured = association(bert, folder, number, null_models=7) + preference(
                bert, folder, null_models=7
            )
        spoken = claims(folder, measured)
        assert {"association", "preference", "ss_paired", "strength"} <= spoken.keys()
        made.update({**spoken, "any": any(spoken.values())})
    assert max(made.values()) <= stats.binom.ppf(0.999, MODELS, 0.05)


@pytest.mark.nightly
def test_a_planted_association_stands_out_from_null_models_but_five_pairs_speak_for_no_groups(
    bert: Model, tmp_path: Path
) -> None:
    planted = planted_null_model(bert, 4, 1.0, gender_toml(tmp_path))
    measured = association(planted, tmp_path, 0, null_models=19)
    null, exchanged = held_fixed(measured[0]), Exchange.of(measured[0])
    assert null is not None
    assert exchanged is not None
    assert null.p_value < 0.0375
    assert (exchanged.families, exchanged.least) == (5, 2 / 32)
    assert not claims(tmp_path, measured)["association"]
