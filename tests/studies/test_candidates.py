"""Which projection is chosen: the fairest viable one that is fairer than the unmodified model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.measures import viability
from levelhead.measures.fairness import P_RIGHT
from levelhead.measures.stereoset import SCALE_FREE
from levelhead.measures.viability import viable
from levelhead.mitigation.fitting import default_pairs
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import nli_probe
from levelhead.probes.words import load_words
from levelhead.results.records.audit import NamedValue, ProjectionCandidate
from levelhead.scoring.battery import Battery
from levelhead.scoring.fluency import ask_fluency_change
from levelhead.scoring.pairs import ask_ability, ask_nli, ask_nsp
from levelhead.scoring.seat import ask_seat
from levelhead.studies.projections import settings as projection_settings
from levelhead.studies.projections.candidates import Projections, best, candidates, settings_for
from levelhead.studies.projections.settings import paper_settings, variants_of
from tests.studies.projection_cases import ABLE, FEW, SINGLE, small_triples
from tests.tiny import tiny


@pytest.fixture(autouse=True)
def _small_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped sentences are longer than the tiny models' positions under a character-like tokenizer."""
    monkeypatch.setattr(projection_settings, "baseline_pairs", lambda: SINGLE[:4])


@pytest.fixture
def battery(tmp_path: Path) -> Battery:
    test = load_words("career")
    return Battery(
        test,
        tuple(template_contexts(test, 2)),
        triples=small_triples(tmp_path),
        probe=nli_probe(occupations=["nurse", "engineer", "teacher"], contexts=["saw a book", "works"]),
        ability=ABLE,
        sentences=("The nurse said that she was tired.", "Who knows?", "He gave her a book."),
        resampling=FEW,
    )


def trial(gain: float, is_viable: bool) -> ProjectionCandidate:
    value = NamedValue("fairness", gain)
    return ProjectionCandidate("some", "SENT", "0", value, value, is_viable, gain, "", chosen=False)


def test_the_fairest_viable_one_is_chosen_only_if_it_beats_the_untouched_model() -> None:
    base, unable, fair, fairer = trial(0.3, True), trial(0.9, False), trial(0.4, True), trial(0.5, True)
    assert best([base, unable, fair, fairer]) is fairer
    assert best([base, unable, trial(0.3, True), trial(0.2, True)]) is None
    assert best([base, unable]) is None


def test_a_candidate_that_only_flattens_the_outputs_is_not_chosen() -> None:
    def scaled(gain: float, relative: float) -> ProjectionCandidate:
        return replace(trial(gain, True), scale_free=NamedValue(SCALE_FREE, relative))

    base, flat, fairer = scaled(-0.4, 2.0), scaled(-0.1, 2.0), scaled(-0.3, 1.5)
    assert best([base, flat]) is None
    assert best([base, flat, fairer]) is fairer


def test_a_model_with_a_sentence_vector_tries_the_papers_settings_and_deeper_ones() -> None:
    nsp, mlm, gender = tiny("bert", "nsp", layers=4), tiny("bert", "mlm", layers=4), load_words("gender")
    assert settings_for(nsp, gender, 0) == list(paper_settings())
    deep = settings_for(nsp, gender, 2)[76:]
    assert [(s.steps[0].layer, s.steps[0].dimensions, s.steps[0].soft) for s in deep] == [
        (first, dimensions, soft) for first in (0, 2) for dimensions in (1, 2) for soft in (False, True)
    ]
    assert settings_for(mlm, gender, 0)[0].level == "base"
    assert [s.steps[0].layer for s in settings_for(mlm, gender, 2)[1::4]] == [0, 3]  # all tokens are read


def test_a_classifier_is_judged_by_fairness_and_ability(battery: Battery) -> None:
    model = tiny("bert", "nli")
    trials = candidates(Projections(model, battery.test, 1), battery)
    assert [t.variant for t in trials] == [s.name for s in settings_for(model, battery.test, 1)]
    assert trials[0].recipe == ""
    number = 7
    variants = variants_of(
        model, [settings_for(model, battery.test, 1)[i] for i in (0, number)], default_pairs(model)
    )
    fair = [measured["fairness"].value for measured in ask_nli(model, battery.probe, variants)]
    able = [measured.value for measured in ask_ability(model, battery.ability, variants)]
    assert trials[number].bias == NamedValue("fairness", fair[1])
    assert trials[number].ability == NamedValue("ability", able[1])
    sure = [measured.details[P_RIGHT] for measured in ask_ability(model, battery.ability, variants)]
    named = trials[number].sureness
    assert named is not None
    assert named.name == P_RIGHT
    assert named.value == pytest.approx(sure[1], abs=1e-6)
    kept = viable(able[1], able[0]) and viable(sure[1], sure[0])
    assert (trials[number].gain, trials[number].viable) == (fair[1], kept)
    assert 'location = "cls"' in trials[number].recipe
    assert [t for t in trials if t.chosen] == [replace(t, chosen=True) for t in [best(trials)] if t]


def test_a_next_sentence_model_is_judged_by_strength_lms_and_balanced_accuracy(battery: Battery) -> None:
    model = tiny("bert", "nsp")
    trials = candidates(Projections(model, battery.test, 0), battery)
    setting = paper_settings()[40]
    variants = variants_of(model, [setting], default_pairs(model))
    measured = ask_nsp(model, battery.triples, variants)[0]
    strength = measured["strength"].value
    assert strength is not None
    assert trials[40].bias.value == pytest.approx(strength, abs=1e-5)
    assert trials[40].gain == pytest.approx(-strength, abs=1e-5)
    assert trials[40].ability == NamedValue("lms", measured["lms"].value)
    accuracy, relative = measured["nsp_accuracy"].value, measured["strength"].details[SCALE_FREE]
    assert trials[40].sureness == NamedValue("nsp_accuracy", accuracy)
    assert trials[40].scale_free is not None
    assert trials[40].scale_free.value == pytest.approx(relative, abs=1e-4)
    first = trials[0].sureness
    assert first is not None
    lms = viable(trials[40].ability.value, trials[0].ability.value)
    assert trials[40].viable == (lms and viable(accuracy, first.value))


def test_any_other_model_is_judged_by_seat_and_perplexity(
    battery: Battery, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert", "mlm")
    variants = variants_of(model, settings_for(model, battery.test, 1), default_pairs(model))
    seats = ask_seat(model, battery.test, battery.contexts, variants, intervals=False)
    costs = [change.value or 0.0 for change in ask_fluency_change(model, battery.sentences, variants, FEW)]
    between = sorted(costs)[2] + 1e-6  # random weights cost little: a bound that some of them keep
    monkeypatch.setattr(viability, "RATIO", between)
    trials = candidates(Projections(model, battery.test, 1), battery)
    assert [t.gain for t in trials] == pytest.approx([-abs(seat.value or 0) for seat in seats], abs=1e-5)
    assert [t.ability.value for t in trials] == pytest.approx(costs, abs=1e-5)
    assert [t.viable for t in trials] == [cost <= between for cost in costs]
    assert sum(t.viable for t in trials) == 3
    assert sum(t.chosen for t in trials) <= 1
