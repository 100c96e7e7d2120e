"""A run of the atlas."""

from __future__ import annotations

from levelhead.results import layout
from levelhead.results.records.localizing import (
    MapAgreement,
    MappedHead,
    MappedObjective,
    ObjectiveLeftOut,
    ObjectiveMap,
    TopOfAll,
    TransferCell,
)
from levelhead.results.runs.study import StudyRun
from levelhead.results.settings import AtlasRunSettings


class AtlasRun(StudyRun[AtlasRunSettings]):
    """Which heads carry each of several objectives, and whether they are the same."""

    LAYOUT = layout.ATLAS

    @property
    def model(self) -> str:
        """The model that was mapped."""
        return self.settings.model

    @property
    def objectives(self) -> tuple[MappedObjective, ...]:
        """Every objective with its value and how far its map holds."""
        return self.data.records(layout.MAPPED_OBJECTIVES)

    @property
    def maps(self) -> tuple[ObjectiveMap, ...]:
        """The map of every objective, in the model and in its null models."""
        parts = self.data.family(layout.OBJECTIVE_MAPS).values()
        return tuple(each for part in parts for each in part)

    @property
    def heads(self) -> tuple[MappedHead, ...]:
        """Every head in every map."""
        return self.data.records(layout.MAPPED_HEADS)

    @property
    def significant(self) -> tuple[MappedHead, ...]:
        """Heads that hold on other items, farther than any head does in null models."""
        return tuple(each for each in self.heads if each.significant and not self.doubts)

    @property
    def agreements(self) -> tuple[MapAgreement, ...]:
        """Every two maps."""
        return self.data.records(layout.MAP_AGREEMENTS)

    @property
    def top(self) -> TopOfAll | None:
        """The heads at the top of all maps; None: there is one map."""
        return self.data.single(layout.TOP_OF_ALL)

    @property
    def transfer(self) -> tuple[TransferCell, ...]:
        """What ablating the highest heads of each objective does to every measure."""
        return self.data.records(layout.TRANSFER)

    @property
    def left_out(self) -> tuple[ObjectiveLeftOut, ...]:
        """Objectives that the model cannot be mapped for."""
        return self.data.records(layout.OBJECTIVES_LEFT_OUT)
