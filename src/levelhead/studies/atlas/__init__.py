"""The atlas: which heads carry each of several bias measures, and are they the same?"""

from __future__ import annotations

from levelhead.runs.files import CsvFile
from levelhead.runs.study import Many, One, Parts, Study
from levelhead.studies.atlas.records import (
    MapAgreement,
    MapLine,
    MappedHead,
    MappedObjective,
    ObjectiveLeftOut,
    ObjectiveMap,
    TopOfAll,
    TransferCell,
)
from levelhead.studies.atlas.settings import AtlasSettings, AtlasStored

MAPS_TABLE = CsvFile("maps.csv", MapLine)


class Atlas(Study[AtlasStored]):
    """The heads behind several objectives: `objectives`, `heads`, `significant`, `agreements`, `top`."""

    name = "atlas"
    title = "Atlas of heads"
    question = "Which heads carry each of several bias measures, and are they the same?"
    about = "Map which heads carry each of several bias measures, and say whether the maps agree."
    settings_type = AtlasSettings
    stored = AtlasStored
    order = 20
    writes_page = True
    document = "atlas.md"
    unserved = "it localizes measures in heads and neurons, which no server shows"
    says = ("sentence", "objectives", "agreements", "top", "significant", "heads", "left_out", "transfer")

    left_out = Many(ObjectiveLeftOut, "Objectives that the model cannot be mapped for.")
    maps = Parts(
        ObjectiveMap, "The map of every objective; labels: objective/model, objective/null model 1 ..."
    )
    objectives = Many(MappedObjective, "Every objective with its value and how far its map holds.")
    heads = Many(MappedHead, "Every head in every map.")
    agreements = Many(MapAgreement, "Every two maps.")
    top = One(TopOfAll, "The heads at the top of all maps; None: there is one map.")
    transfer = Many(TransferCell, "What ablating the highest heads of each objective does to every measure.")

    @property
    def significant(self) -> tuple[MappedHead, ...]:
        """Heads that hold on other items, farther than any head does in null models."""
        return tuple(each for each in self.heads if each.significant and not self.doubts)

    @property
    def sentence(self) -> str:
        """Whether the maps agree beyond null models; with `transfer`, whether one bias falls with another."""
        return str(self.part("chapter").sentence(self))

    @property
    def finished(self) -> bool:
        return bool(self.heads)
