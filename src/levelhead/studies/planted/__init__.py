"""Planted bias: which localizer finds the heads that a bias was planted into?"""

from __future__ import annotations

from levelhead.runs.study import Many, One, Parts, Study
from levelhead.studies.planted.records import PlantedBase, PlantSummary, PlantTrial
from levelhead.studies.planted.settings import PlantedSettings, PlantedStored


class Planted(Study[PlantedStored]):
    """Which localizers find planted heads: `summary`, `trials`, `base`."""

    name = "planted"
    title = "Planted bias"
    question = "Can a localizer find the heads into which a bias was planted?"
    about = "Plant a bias into known heads of a copy of the model, and see which localizer finds them."
    settings_type = PlantedSettings
    stored = PlantedStored
    order = 30
    document = "planted.md"
    unserved = "it trains copies of the network"
    rows = ("summary",)
    says = ("settings", "summary")

    base = One(PlantedBase, "The unmodified model.")
    trials = Parts(PlantTrial, "Every localizer on every planted copy; labels: kind/seed.")
    summary = Many(PlantSummary, "Means over seeds.")
