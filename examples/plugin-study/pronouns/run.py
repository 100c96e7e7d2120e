"""How pronouns are counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelhead.engine.readings import Predictions
from levelhead.engine.run import read_one
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, mean_interval
from levelhead.models.model import Model
from levelhead.runs.folder import Run
from levelhead.runs.study import stored_as
from levelhead.scoring.placed import loaded_as, note_places
from pronouns import Continued, Pronouns, PronounsSettings, PronounsStored


def pronouns(model: Model, settings: PronounsSettings | None, folder: str | Path) -> Pronouns:
    """Ask a model what follows each prompt; a prompt that a killed run has asked is not asked again."""
    settings = settings or PronounsSettings()
    model.require("causal", "continuing a prompt")
    stored = stored_as(
        PronounsStored, settings, study=Pronouns.name, models=(model.name,), loading=loaded_as([model])
    )
    hashes = {"weights": model.fingerprint, **model.facts()}
    with Run.open(folder, Pronouns, stored, hashes=hashes) as run:
        found = [
            run.result(
                Pronouns.continued.of(str(i)), lambda prompt=prompt: _likeliest(model, prompt, settings)
            )
            for i, prompt in enumerate(settings.prompts, start=1)
        ]
        run.result(Pronouns.share, lambda: _share(found, settings))
        note_places(run, [model])
        return Pronouns(run.data())


def _likeliest(model: Model, prompt: str, settings: PronounsSettings) -> Continued:
    answer = read_one(model, Predictions([prompt], 1))
    token = model.tokenizer.decode([int(answer.ids[0, 0, 0])]).strip()
    return Continued(prompt, token, float(answer.log_probs[0, 0, 0]), token.lower() in settings.words)


def _share(found: list[Continued], settings: PronounsSettings) -> Measurement:
    values = np.array([each.pronoun for each in found], np.float64)
    interval = mean_interval(values, Resampling(settings.resamples, settings.seed))
    return Measurement("pronoun share", float(values.mean()), interval, len(values))
