"""A sweep of three settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from levelhead.runs.common import BASE
from levelhead.runs.files import TextFile
from levelhead.runs.folder import Run
from levelhead.runs.study import RECIPES
from levelhead.studies.projections import Projections
from levelhead.studies.projections.records import Observation, PredictedLabels, SettingMeasured
from levelhead.studies.projections.settings import ProjectionsStored
from tests.report.synthetic.measurements import WEIGHTS, measured

OCCUPATIONS, CONTEXTS = 6, 4
SETTINGS = ((BASE, BASE, ""), ("sent: hard", "SENT", "0"), ("sent: soft", "SENT", "1"))  # name, level, code


def write_sweep(folder: Path, flips: int = 0, model: str = "lh:tiny") -> Path:
    """A sweep; `flips` occupations get another answer about women than about men."""
    labels = np.ones((OCCUPATIONS, CONTEXTS, 2), int)
    labels[:flips, :, 0] = 0
    digits = "".join(map(str, labels.ravel()))
    parts = {"1-24": digits[:24], "25-48": digits[24:]}
    hashes = {"model": WEIGHTS, "nli_model": WEIGHTS, "probe": "ef" * 8}
    with Run.open(folder, Projections, _settings(model), hashes=hashes) as run:
        nsp = [each for i in range(3) for each in _measured(model, i, {"strength": 0.4 - i / 10, "lms": 0.8})]
        run.results(Projections.next_sentences, nsp.copy)
        for part, answers in parts.items():
            predicted = [PredictedLabels(answers)] * len(SETTINGS)
            run.results(Projections.inference_answers.of(part), predicted.copy)
        nli = [
            each
            for i in range(3)
            for each in _measured(model, i, {"fairness": 0.5 + i / 10, "ability": 0.7}, i < 2)
        ]
        run.results(Projections.inferences, nli.copy)
        observation = Observation("Weighting at SENT raises ability", True, 1, 1, "37 of 37")
        run.results(Projections.observations, lambda: [observation])
        rho = measured("strength and fairness", -0.4, 0.3, 3, details={"p_value": 0.2})
        run.result(Projections.correlation, lambda: rho)
        run.file(TextFile(f"{RECIPES}/01-a.toml"), 'title = "sent: hard"\n')
    return folder


def _settings(model: str) -> ProjectionsStored:
    return ProjectionsStored(
        study=Projections.name,
        seed=0,
        models=(model,),
        nli="lh:tiny-nli",
        fit="base",
        depth=False,
        labels=None,
        triples_name="ours",
        ability_name="ours",
        occupations=OCCUPATIONS,
        contexts=CONTEXTS,
        words=("woman", "man"),
        resamples=200,
        pairs="shipped",
        form="pairs",
        nli_form="pairs",
    )


def _measured(
    model: str, number: int, values: Mapping[str, float], viable: bool | None = None
) -> list[SettingMeasured]:
    name, level, code = SETTINGS[number]
    return [
        SettingMeasured(name, level, code, model, measured(measure, value), viable)
        for measure, value in values.items()
    ]
