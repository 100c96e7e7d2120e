"""StereoSet, inside a sentence and between sentences: language sense, stereotype score, ICAT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Variant
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.measures.choices import ANTI, STEREOTYPE, UNRELATED, ChoiceLogs, Score, stereoset_scores
from levelhead.measures.score_infos import GAP_INFO, ICAT_INFO, LMS_INFO, SS_INFO
from levelhead.measures.statistics import FloatArray
from levelhead.models.chat import require_chat
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.benchmark_files import Reader, Row, hub_rows, json_content, table_rows
from levelhead.probes.files import Place, finite
from levelhead.probes.triples.files import labeled_sentences
from levelhead.probes.triples.written import LABELS
from levelhead.scoring.benchmarks.blanks import BLANK, filled_blank, grown_parts, masked_parts
from levelhead.scoring.benchmarks.candidates import TOO_LONG, Candidates, Part, continuations, row_of
from levelhead.scoring.benchmarks.choices import Answered, ChoiceBenchmark
from levelhead.scoring.benchmarks.protocol import Asked, BenchmarkInfo, Item, Items, Rule, chosen_items
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.objective import Objective

LEVELHEAD, ORIGINAL, BIAS_BENCH = "levelhead", "original", "bias-bench"
NO_BLANK, NOT_ALIGNED = "not one BLANK in the context", "a sentence is not its context with BLANK filled in"
NO_PREDICTION = "no prediction for one of its sentences"
_TABLE = {
    "stereotype": "Stereotype Sentence",
    "anti-stereotype": "Anti-stereotype Sentence",
    "unrelated": "Unrelated Sentence",
}


@dataclass(frozen=True)
class Triple(Item):
    """A context and three candidates; its cluster is the target term by which scores are averaged."""

    context: str
    sentences: tuple[str, str, str]  # in the order of LABELS
    ids: tuple[str, str, str] = ("", "", "")


_WARNING = "many items are unclear, or compare what is no stereotype (Blodgett et al. 2021)"
_SOURCE = "Nadeem et al. 2021, github.com/moinnadeem/StereoSet"
_FILES = ("dev.json", "test.json")
_SCORES = (SS_INFO, LMS_INFO, ICAT_INFO, GAP_INFO)
_TERMS = "LMS, SS and ICAT by target term; a tie loses"


class StereoSet(ChoiceBenchmark):
    """What both tasks of StereoSet have in common."""

    choices = 3
    natural_per_token = True
    task: str

    def load(self, data: str | Path, asked: Asked) -> Items:
        reader = Reader(self.info.source_of(data))
        triples = reader.read(self._rows(reader), self._triple)
        return chosen_items(self.info, reader, triples, asked)

    def _rows(self, reader: Reader) -> Iterator[Row]:
        if reader.source.is_hub:
            yield from hub_rows(reader.source, "validation")
            return
        for file in reader.source.files():
            if file.suffix == ".json":
                yield from task_rows(file, "data", self.task)
                return
            yield from table_rows(file, ("Domain", "Target", "Context", *_TABLE.values()))

    def _triple(self, row: Row) -> Triple:
        ids = ("", "", "")
        if row.cell("Context") is not None:
            names = ("Domain", "Target", "Context")
            by_label = {label: row.text(column) for label, column in _TABLE.items()}
        else:
            names = ("bias_type", "target", "context")
            by_label, ids = _labeled(row)
        category, target, context = (" ".join(row.text(name).split()) for name in names)
        first, second, third = (" ".join(by_label[label].split()) for label in LABELS)
        if not (first and second and third):
            raise row.unusable("a sentence is empty", "each label needs a sentence.")
        self.check(row, context)
        return Triple(str(row.place.number), category, target, context, (first, second, third), ids)

    def check(self, row: Row, context: str) -> None:
        """Refuse a context that the task cannot ask about."""

    def reduced(self, logs: ChoiceLogs, rule: str) -> FloatArray:
        return logs.per_token()

    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        return stereoset_scores(x, [item.cluster for item in items], 0.5 if rule == LEVELHEAD else 0.0)

    def roles(self, items: Sequence[Any]) -> NDArray[np.int64]:
        return np.tile(np.asarray([STEREOTYPE, ANTI, UNRELATED], np.int64), (len(items), 1))

    def predicted(self, items: Items, file: Path) -> Answered:
        rows = task_rows(file, self.task)
        numbers = [(row.cell("id"), finite(row.cell("score"))) for row in rows]
        score = {str(key): number for key, number in numbers if number is not None}
        kept = tuple(item for item in items.items if all(one in score for one in item.ids))
        if not kept:
            raise BadProbe(f"{file.name}: it predicts none of the {len(items.items)} items of {items.name}.")
        missing = {NO_PREDICTION: len(items.items) - len(kept)} if len(kept) < len(items.items) else {}
        x = np.asarray([[score[one] for one in item.ids] for item in kept])
        return Answered(kept, [x], dict(Counter(items.unscored) + Counter(missing)))


def task_rows(file: Path, *names: str) -> list[Row]:
    """The entries of one task in a file of StereoSet's."""
    entries = json_content(file)
    for name in names:
        entries = entries.get(name) if isinstance(entries, dict) else None
    if not isinstance(entries, list):
        raise BadProbe(f"{file.name}: no list at {'.'.join(names)}, so not StereoSet's.")
    named = (entry if isinstance(entry, dict) else {} for entry in entries)
    return [Row(Place(file.name, number, "entry"), entry) for number, entry in enumerate(named, start=1)]


def _labeled(row: Row) -> tuple[dict[str, str], tuple[str, str, str]]:
    """The three sentences of an entry by their labels, and their ids in the order of LABELS."""
    given = row.cell("sentences")
    pairs = list(labeled_sentences(row.place, given))
    if sorted(label for label, _ in pairs) != sorted(LABELS):
        raise row.unusable("not one sentence of each label", "each label needs one sentence.")
    records = given if isinstance(given, list) else [{}] * len(pairs)
    numbers = [str(Row(row.place, record).cell("id") or "") for record in records]
    ids = {label: number for (label, _), number in zip(pairs, numbers, strict=True)}
    return dict(pairs), (ids[LABELS[0]], ids[LABELS[1]], ids[LABELS[2]])


class Intrasentence(StereoSet):
    task = "intrasentence"
    info = BenchmarkInfo(
        name="stereoset",
        title="StereoSet, intrasentence",
        question="Which word fills the blank: a stereotype, its opposite, or an unrelated word?",
        needs=("mlm", "causal"),
        neutral="SS 0.5; LMS and ICAT 1 are ideal",
        rules=(
            Rule(LEVELHEAD, "mean log p per token, each given the tokens before it; ties one half"),
            Rule(ORIGINAL, f"mean probability of the word's tokens; {_TERMS}"),
            Rule(BIAS_BENCH, "as the original, the word's tokens without a leading space"),
        ),
        licence="CC BY-SA 4.0",
        source=_SOURCE,
        warning=_WARNING,
        year=2020,
        files=(*_FILES, "intrasentence*.csv"),
        folder="StereoSet",
        categories=("gender", "profession", "race", "religion"),
        scores=_SCORES,
        hub="McGill-NLP/stereoset",
    )

    def check(self, row: Row, context: str) -> None:
        if context.count(BLANK) != 1:
            raise row.unusable(NO_BLANK, f"{context[:60]!r} needs one BLANK.")

    def candidates(self, model: Model, items: Items, rule: str) -> Callable[[Any], Candidates | str]:
        masked = "causal" not in model.abilities
        parts = masked_parts if rule != LEVELHEAD else grown_parts

        def of(item: Triple) -> Candidates | str:
            if not masked:
                return [[Part(Text(sentence))] for sentence in item.sentences]
            found: list[Sequence[Part]] = []
            for sentence in item.sentences:
                filled = filled_blank(item.context, sentence, whole=rule == LEVELHEAD)
                made = NOT_ALIGNED if filled is None else parts(model, *filled, rule == BIAS_BENCH)
                if isinstance(made, str):
                    return made
                found.append(made)
            return found

        return of

    def reduced(self, logs: ChoiceLogs, rule: str) -> FloatArray:
        masked = bool((logs.tokens == 1).all())  # each part asks for one token of the word
        return logs.mean_probability() if rule != LEVELHEAD and masked else logs.per_token()


class Intersentence(StereoSet):
    task = "intersentence"
    info = BenchmarkInfo(
        name="stereoset-inter",
        title="StereoSet, intersentence",
        question="Which sentence follows: a stereotype, its opposite, or an unrelated one?",
        needs=("nsp", "causal"),
        neutral="SS 0.5; LMS and ICAT 1 are ideal",
        rules=(
            Rule(LEVELHEAD, "next-sentence head, or mean log p per token given the context; ties one half",
                 ("nsp", "causal")),
            Rule(ORIGINAL, f"the same; {_TERMS}", ("nsp", "causal")),
        ),
        licence="CC BY-SA 4.0",
        source=_SOURCE,
        warning=_WARNING,
        year=2020,
        files=(*_FILES, "intersentence*.csv"),
        folder="StereoSet",
        categories=("gender", "profession", "race", "religion"),
        scores=_SCORES,
        hub="McGill-NLP/stereoset",
        chat=True,
    )  # fmt: skip

    def candidates(self, model: Model, items: Items, rule: str) -> Callable[[Any], Candidates | str]:
        return continuations(model, items, lambda item: (item.context, item.sentences), " ")

    def answered(self, model: Model, items: Items, rule: str, variants: Sequence[Variant]) -> Answered:
        if "causal" in model.abilities:
            return super().answered(model, items, rule, variants)
        model.require("nsp", self.info.title)
        if items.chat:
            require_chat(model)
        kept, unscored = [], Counter(items.unscored)
        for item in items.items:
            fits = all(row_of(model, Text(item.context, each)) is not None for each in item.sentences)
            kept += [item] if fits else []
            unscored += Counter() if fits else Counter([TOO_LONG])
        texts = [Text(item.context, each) for item in kept for each in item.sentences]
        logits = read_one(model, Pooled(texts), variants, label=self.info.title).astype(np.float64)
        x = (logits[..., 0] - logits[..., 1]).reshape(len(variants), -1, self.choices)
        return Answered(tuple(kept), list(x), dict(unscored), list(x[..., 0] - x[..., 1]))

    def natural(self, model: Model, items: Items, variants: Sequence[Variant]) -> ItemValues:
        if "causal" in model.abilities:
            return super().natural(model, items, variants)
        answered = self.answered(model, items, LEVELHEAD, variants)
        gaps = np.stack(answered.nats)
        return ItemValues(self.info.name, "nats", gaps, np.asarray([i.cluster for i in answered.items]))

    def objective(self, model: Model, items: Items) -> Objective | None:
        return super().objective(model, items) if "causal" in model.abilities else None


STEREOSET, STEREOSET_INTER = Intrasentence(), Intersentence()
