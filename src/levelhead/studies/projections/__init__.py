"""Projections: what do 76 ways to project gender out of two models buy, and what do they cost?"""

from __future__ import annotations

from levelhead.measures.measurement import Measurement
from levelhead.probes.files import left_out_lines
from levelhead.runs.files import CsvFile
from levelhead.runs.study import Many, One, Parts, Study
from levelhead.studies.projections.records import (
    DEPTH_LEVEL,
    DepthLine,
    FrontierLine,
    Observation,
    PredictedLabels,
    ProjectionsSummary,
    SettingMeasured,
    SubspaceFit,
    Table5Line,
    Table6Line,
    Table7Line,
    fairest_viable,
)
from levelhead.studies.projections.settings import ProjectionsSettings, ProjectionsStored

TABLE5 = CsvFile("tables/table5.csv", Table5Line)
TABLE6 = CsvFile("tables/table6.csv", Table6Line)
TABLE7 = CsvFile("tables/table7.csv", Table7Line)
FRONTIER = CsvFile("tables/frontier.csv", FrontierLine)
OBSERVED = CsvFile("tables/observations.csv", Observation)
DEPTH_TABLE = CsvFile("tables/depth.csv", DepthLine)
PROBE_HASH = "probe"  # the pairs about occupations


class Projections(Study[ProjectionsStored]):
    """Projections of every kind on two models: `measured`, `table7`, `observations`, `correlation` ..."""

    name = "projections"
    title = "Projections"
    question = "What does each way to project gender out buy, and what does it cost?"
    about = "Project gender out of two models in 76 ways: what does each buy, what does it cost?"
    settings_type = ProjectionsSettings
    stored = ProjectionsStored
    order = 65
    document = "projections.md"
    unserved = "it projects directions out of hidden states, which no server shows"
    rows = ("measured",)
    old_name = "sweep"

    subspaces = Many(SubspaceFit, "What was fitted at each location.")
    next_sentences = Many(SettingMeasured, "The next-sentence model's measures of the paper's settings.")
    inferences = Many(SettingMeasured, "The classifier's measures of the paper's settings.")
    depth_next_sentences = Many(SettingMeasured, "The next-sentence model's measures of deeper settings.")
    depth_inferences = Many(SettingMeasured, "The classifier's measures of deeper settings.")
    inference_answers = Parts(PredictedLabels, "The classifier's answers; labels: first-last pair.")
    ability_answers = Many(PredictedLabels, "Its answers to ordinary pairs.")
    depth_inference_answers = Parts(PredictedLabels, "The same for deeper settings.")
    depth_ability_answers = Many(PredictedLabels, "The same for deeper settings.")
    depth_screen = Parts(SettingMeasured, "Deeper settings on few items; labels: the first layer, from 1.")
    observations = Many(Observation, "The paper's observations on these models.")
    correlation = One(Measurement, "Strength with fairness over the settings.")

    @property
    def measured(self) -> tuple[SettingMeasured, ...]:
        """Every measure of every setting, deeper ones last."""
        return (*self.next_sentences, *self.inferences, *self.depth_next_sentences, *self.depth_inferences)

    @property
    def answers(self) -> list[tuple[PredictedLabels, ...]]:
        """The classifier's answers, chunk by chunk: each has one record a setting."""
        return list(self.data.labeled("inference_answers").values())

    @property
    def table7(self) -> list[Table7Line]:
        """Every setting as a line of the paper's Table 7, deeper ones last."""
        return TABLE7.read(self.folder)

    @property
    def summary(self) -> ProjectionsSummary | None:
        """What the run says in all; None while it is not finished."""
        lines, correlation = self.table7, self.correlation
        if correlation is None or not lines:
            return None
        paper = [each for each in lines if each.level != DEPTH_LEVEL]
        return ProjectionsSummary(
            run=str(self.folder),
            settings=tuple(paper),
            correlation=correlation,
            observations=self.observations,
            fairest_viable=fairest_viable(paper),
            depth=tuple(each for each in lines if each not in paper),
            fairest_viable_overall=fairest_viable(lines),
        )

    def stated(self) -> dict[str, object]:
        """What `--json` prints: the summary."""
        return {} if self.summary is None else self.summary.to_json()

    def notes(self) -> list[str]:
        """Where the results are, and the items of files that were left out."""
        unusable = self.part("run").Inputs.of(self.settings).unusable
        return [f"Tables, recipes and all numbers: {self.folder}", *left_out_lines(unusable)]

    @property
    def finished(self) -> bool:
        return self.correlation is not None and bool(self.table7)
