"""The candidate that the paper's settings give for a classifier: chosen on the items to fit on alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from levelhead.errors import CannotDo
from levelhead.measures.fairness import P_RIGHT, viable
from levelhead.mitigation.fitting import default_pairs
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import nli_probe
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.pairs import ask_ability, ask_nli
from levelhead.studies.mitigate.projective_setting import ProjectiveSetting
from levelhead.studies.projections.grid import paper_settings, variants_of
from tests.studies.projection_cases import ABLE
from tests.tiny import tiny


def battery() -> Battery:
    test = load_words("gender")
    probe = nli_probe(occupations=["nurse", "engineer", "teacher"], contexts=["saw a book", "works"])
    return Battery(test, tuple(template_contexts(test, 1)), probe=probe, ability=ABLE)


def test_the_fairest_setting_that_keeps_its_ability_is_the_candidate() -> None:
    model, fit = tiny("bert", "nli"), battery()
    settings = [each for each in paper_settings() if each.level not in ("base", "baseline")]
    variants = [(), *variants_of(model, settings, default_pairs(model))]
    fair = [measured["fairness"].value or 0.0 for measured in ask_nli(model, fit.probe, variants)]
    able = ask_ability(model, fit.ability, variants)
    kept = [
        number
        for number in range(1, len(variants))
        if viable(able[number].value, able[0].value)
        and viable(able[number].details[P_RIGHT], able[0].details[P_RIGHT])
        and fair[number] > fair[0]
    ]
    if not kept:
        with pytest.raises(CannotDo, match="None of its 74 settings"):
            ProjectiveSetting().candidates(model, fit)
        return
    (made,) = ProjectiveSetting().candidates(model, fit)
    best = settings[max(kept, key=lambda number: fair[number]) - 1]
    assert made.name == f"projections at {best.name}"
    assert isinstance(made.recipe, Recipe)
    assert ask_nli(model, fit.probe, [edits_of(model, made.recipe)]) == ask_nli(
        model, fit.probe, [made.edits]
    )


def test_only_classifiers_with_two_layers_are_projected_and_for_gender_alone() -> None:
    tried, fit = ProjectiveSetting(), battery()
    assert "no NLI classifier" in tried.why_not(tiny("bert", "nsp"), fit)
    assert "one layer" in tried.why_not(tiny("bert", "nli", layers=1), fit)
    assert tried.why_not(tiny("bert", "nli", layers=2), replace(fit, test=load_words("race")))
    assert tried.why_not(tiny("bert", "nli", layers=2), fit) == ""
