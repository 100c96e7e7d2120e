"""SEAT on the published sentence files: do sentences about one group lie nearer to one kind of attribute?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from levelhead.edits.sites import Variant
from levelhead.engine.readings import Pooling
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.catalog import EFFECT_INFO
from levelhead.measures.choices import RULE
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.benchmark_files import Reader
from levelhead.probes.words import SentenceTest, load_seat_test
from levelhead.scoring.benchmarks.protocol import Item, Items, Selection, benchmark_info, chosen_items
from levelhead.scoring.items import ItemValues
from levelhead.scoring.objective import Objective
from levelhead.scoring.seat import ask_sentence_seat


@dataclass(frozen=True)
class Association(Item):
    """One published test: four sets of sentences. Its category is its file's name."""

    test: SentenceTest


class SentenceSeat:
    info = benchmark_info("sentence-seat")

    def load(self, data: str | Path, selection: Selection) -> Items:
        reader = Reader(self.info.source_of(data))
        if reader.source.is_hub:
            raise BadProbe(f"{data}: SEAT is read from its published files. Give {self.info.files[0]}.")
        tests = [load_seat_test(file) for file in reader.source.files()]
        items = [Association(test.name, test.name, test.name, test) for test in tests]
        return chosen_items(self.info, reader, items, selection)

    def why_not(self, model: Model, rule: str | None = None) -> str:
        if self.info.rule(rule).name == "cls" and model.family.causal:
            return f"{model.name} is causal: its first token sees nothing of the text"
        return ""

    def ask(
        self,
        model: Model,
        items: Items,
        variants: Sequence[Variant],
        rule: str | None,
        resampling: Resampling,
    ) -> list[list[Measurement]]:
        name = self.info.rule(rule).name
        known = {"benchmark": self.info.name, RULE: name}
        found: list[list[Measurement]] = [[] for _ in variants]
        pooling = cast(Pooling, name)  # the rules are the poolings
        for item in items.items:
            answers = ask_sentence_seat(model, item.test, variants, pooling=pooling, resampling=resampling)
            for own, each in zip(found, answers, strict=True):
                label = f"{self.info.name} {EFFECT_INFO.name}, {item.test.name}"
                own.append(replace(each, name=label, settings={**each.settings, **known}))
        return found

    def natural(self, model: Model, items: Items, variants: Sequence[Variant]) -> ItemValues:
        raise CannotDo("SEAT compares four sets of sentences: no sentence has a bias of its own")

    def objective(self, model: Model, items: Items) -> Objective | None:
        return None


SENTENCE_SEAT = SentenceSeat()
