"""The paper's projections of a classifier: of its 74 settings the fairest that keeps its ability, on part A.

A setting keeps its ability where neither the share of right labels nor the mean p of the right label falls by
more than 5 points (docs/method/projections.md, Choosing a projection). One setting is chosen, so that one is
tested.
"""

from __future__ import annotations

from levelhead.errors import CannotDo
from levelhead.measures.fairness import P_RIGHT, viable
from levelhead.mitigation.fitting import pairs_about
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.scoring.battery import Battery
from levelhead.scoring.pairs import ask_ability, ask_nli
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation
from levelhead.studies.projections.grid import paper_settings, variants_of


class ProjectiveSetting:
    """The fairest viable of the paper's 74 settings."""

    name = "projective setting"
    quick = False
    cost = 1.5  # the settings act in few layers, on part A alone

    def why_not(self, model: Model, fit: Battery) -> str:
        if "nli" not in model.abilities:
            return f"{model.name} is no NLI classifier, by whose inferences a setting is chosen"
        if model.layers < 2:
            return f"{model.name} has one layer, and the settings need two"
        return "" if about_gender(fit.test) else f"inferences ship for gender, not for {fit.test.name}"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        settings = [each for each in paper_settings() if each.level not in ("base", "baseline")]
        fitted = variants_of(model, settings, pairs_about(model, fit.test))
        fair = [measured["fairness"].value or 0.0 for measured in ask_nli(model, fit.probe, [(), *fitted])]
        able = ask_ability(model, fit.ability, [(), *fitted])
        better = [
            number
            for number, own in enumerate(able)
            if fair[number] > fair[0]
            and viable(own.value, able[0].value) is True
            and viable(own.details[P_RIGHT], able[0].details[P_RIGHT]) is True
        ]
        if not better:
            raise CannotDo(f"None of its {len(settings)} settings is fairer on part A and keeps the ability.")
        chosen = max(better, key=lambda number: fair[number])
        setting, edits = settings[chosen - 1], fitted[chosen - 1]
        named = f"projections at {setting.name}"
        return [Candidate(named, self.name, 1.0, edits, setting.recipe(model))]


register_mitigation(ProjectiveSetting())
