"""Directions of the MLP's outputs that go along with a stereotype projected out of its weights (DAMA).

    W_down <- (I − P) W_down        in the upper half of the layers

P projects on the directions that partial least squares finds between the MLP's outputs at the blanks of part
A's prompts and the share of the first group there. A bias of the down projection is projected too.
Limisiewicz et al. 2024 fit on values that they optimize for single tokens; ours are the outputs themselves.
"""

from __future__ import annotations

import numpy as np
import torch

from levelhead.edits.sites import Edit, Site
from levelhead.edits.steering import partial_least_squares
from levelhead.edits.subspace import Projection
from levelhead.engine.readings import States, blanks
from levelhead.engine.run import read
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.log_odds import group_log_odds
from levelhead.models.model import Model
from levelhead.probes.cloze import ClozeSet
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import log_odds_question
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

_RANKS = (1, 2, 4)


class Dama:
    """Projections of so many directions, at every layer of the upper half."""

    name = "DAMA"
    cost = 4.0

    def why_not(self, model: Model, fit: Battery) -> str:
        try:
            _ = model.neurons
        except CannotDo as error:
            return str(error)
        if fit.prompts is None:
            return f"no prompts ship for {fit.test.name}"
        return "" if model.abilities & {"mlm", "causal"} else f"{model.name} predicts no words"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        if fit.prompts is None:
            return []
        made = []
        for rank in _RANKS:
            try:
                edits = projections(model, fit.prompts, rank)
            except BadProbe:  # fewer directions than that
                break
            named = f"DAMA, {rank} direction{'s' * (rank > 1)}"
            made.append(Candidate(named, self.name, float(rank), edits))
        return made


def projections(model: Model, prompts: ClozeSet, rank: int) -> tuple[Edit, ...]:
    """The projections of a rank, fitted on prompts without knowledge."""
    question, codes = log_odds_question(model, prompts)
    places = [[position] for _, position in blanks(model, question.texts)]
    layers = range(model.layers // 2, model.layers)
    outputs = [States(question.texts, Site(layer, "mlp"), places) for layer in layers]
    answers = read(model, [question, *outputs], label="MLP outputs")
    share = 1 / (1 + np.exp(-group_log_odds(answers[question][0], codes)))
    known = np.isfinite(share)
    made = []
    for reading in outputs:
        states = np.concatenate(answers[reading][0])[known]
        basis = torch.from_numpy(partial_least_squares(states, share[known], rank)).float()
        made.append(Projection(reading.site, basis, torch.ones(rank)))
    return tuple(made)


register_mitigation(Dama())
