"""What a model writes: who appears in its texts, and what changes with the group that a prompt names."""

from __future__ import annotations

from functools import cached_property

from levelhead.probes.generation import Prompt
from levelhead.runs.common import BASE
from levelhead.runs.files import JsonLines
from levelhead.runs.folder import RESULTS
from levelhead.runs.study import Many, One, Parts, Study
from levelhead.studies.generate.records import (
    Appearance,
    DecisionCell,
    GeneratedText,
    GenerationMeasured,
    GenerationPlan,
    JudgedTexts,
    MarkedWord,
    RivalScore,
    ScoredTexts,
    Unanswered,
    UsedScorer,
    WrittenText,
)
from levelhead.studies.generate.settings import GenerateSettings, GenerateStored

TEXTS = JsonLines("texts/{}.jsonl", GeneratedText)
PROMPTS_HASH = "prompts"


class Generate(Study[GenerateStored]):
    """Texts and what is measured of them: `measured`, `texts()`, `appearances`, `marked`, `decisions`."""

    name = "generate"
    title = "What the model writes"
    question = "Do its texts differ with the group that a prompt names, and who appears where none is named?"
    about = "Let the model write: who appears in its texts, and what changes with the group of a prompt?"
    settings_type = GenerateSettings
    stored = GenerateStored
    order = 45
    writes_page = True
    brief = True
    document = "generate.md"
    unserved = ""
    says = ("plan", "scorers", "measured", "decisions", "rivals")

    prompts = Many(Prompt, "Every prompt.")
    plan = One(GenerationPlan, "How many texts were sampled, and the smallest difference that they can show.")
    pilot = Many(WrittenText, "Texts of a pilot that only planned, with `detect`.")
    written = Parts(WrittenText, "Texts; labels: variant | part.")
    scorers = Many(UsedScorer, "How texts were scored, and what each scorer does by itself.")
    scored = Parts(ScoredTexts, "Scores of all texts; labels: variant | scorer.")
    judged = Parts(JudgedTexts, "What a judge answered; labels: labels | variant.")
    measured = Parts(GenerationMeasured, "Every measure; labels: variant.")
    changed = Parts(GenerationMeasured, "Paired changes from the unmodified model; labels: variant.")
    appearances = Parts(Appearance, "Who appears, by occupation; labels: variant.")
    marked = Parts(MarkedWord, "Words that mark a group's texts; labels: variant.")
    decisions = Parts(DecisionCell, "Selection rates and impact ratios; labels: variant.")
    rivals = Parts(RivalScore, "Scores of other tools on the same texts; labels: variant.")
    unanswered = Parts(Unanswered, "Empty texts, refusals and texts that cannot be scored; labels: variant.")

    def texts(self, variant: str = BASE) -> list[GeneratedText]:
        """Every text of a variant, with its scores; the file is read once."""
        if variant not in self._texts:
            self._texts[variant] = TEXTS.of(variant).read(self.folder)
        return self._texts[variant]

    @cached_property
    def _texts(self) -> dict[str, list[GeneratedText]]:
        return {}

    @property
    def finished(self) -> bool:
        """Whether every result of the settings is there."""
        return all(Generate.measured.of(each).name in self.data.results for each in self.settings.variants)

    def notes(self) -> list[str]:
        """Where the numbers and the texts are."""
        files = ", ".join(str(self.folder / TEXTS.of(each).name) for each in self.settings.variants)
        return [f"All numbers: {self.folder / RESULTS}. Texts: {files}."]
