"""StereoSet, inside a sentence and between sentences: language sense, stereotype score, ICAT."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.measures.choices import ANTI, STEREOTYPE, UNRELATED, ChoiceLogs, Score, stereoset_scores
from levelhead.measures.statistics import FloatArray
from levelhead.models.chat import require_chat
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text, mask_id
from levelhead.models.model import Model
from levelhead.probes.benchmark_files import Row, Source, hub_rows, table_rows
from levelhead.probes.files import Place, finite, read_json
from levelhead.probes.triples.files import LABELS, labeled_sentences
from levelhead.scoring.benchmarks.choices import (
    TOO_LONG,
    Answered,
    Candidates,
    ChoiceBenchmark,
    Part,
    continuations,
    row_of,
)
from levelhead.scoring.benchmarks.protocol import Item, Items, benchmark_info
from levelhead.scoring.objective import Objective

BLANK = "BLANK"
CUT = "a candidate's subword tokens cannot be written one after the other"
LEVELHEAD, ORIGINAL, BIAS_BENCH = "levelhead", "original", "bias-bench"
NO_BLANK, NOT_ALIGNED = "not one BLANK in the context", "a sentence is not its context with BLANK filled in"
NO_PREDICTION = "no prediction for one of its sentences"
_TABLE = {label: f"{label.capitalize()} Sentence" for label in ("stereotype", "anti-stereotype", "unrelated")}


@dataclass(frozen=True)
class Triple(Item):
    """A context and three candidates; its cluster is the target term by which scores are averaged."""

    context: str
    sentences: tuple[str, str, str]  # in the order of LABELS
    ids: tuple[str, str, str] = ("", "", "")


class StereoSet(ChoiceBenchmark):
    """What both tasks of StereoSet have in common."""

    choices = 3
    natural_per_token = True
    roles_of_choices = (STEREOTYPE, ANTI, UNRELATED)
    task: str
    has_blank = False  # in the context, which is to be filled

    def rows(self, source: Source) -> Iterator[Row]:
        if source.is_hub:
            yield from hub_rows(source, "validation")
            return
        for file in source.files():
            if file.suffix == ".json":  # holds all items
                yield from task_rows(file, "data", self.task)
                return
            yield from table_rows(file, ("Domain", "Target", "Context", *_TABLE.values()))

    def item(self, row: Row) -> Triple:
        numbers: dict[str, str] = {}
        if row.cell("Context") is not None:
            names = ("Domain", "Target", "Context")
            by_label = {label: row.text(column) for label, column in _TABLE.items()}
        else:
            names = ("bias_type", "target", "context")
            given = row.cell("sentences")
            pairs = list(labeled_sentences(row.place, given))
            if sorted(label for label, _ in pairs) != sorted(LABELS):
                raise row.unusable("not one sentence of each label", "each label needs one sentence.")
            by_label, records = dict(pairs), given if isinstance(given, list) else [{}] * len(pairs)
            ids = [str(Row(row.place, record).cell("id") or "") for record in records]
            numbers = {label: number for (label, _), number in zip(pairs, ids, strict=True)}
        category, target, context = (" ".join(row.text(name).split()) for name in names)
        first, second, third = (" ".join(by_label[label].split()) for label in LABELS)
        if not (first and second and third):
            raise row.unusable("a sentence is empty", "each label needs a sentence.")
        if self.has_blank and context.count(BLANK) != 1:
            raise row.unusable(NO_BLANK, f"{context[:60]!r} needs one BLANK.")
        one, two, three = (numbers.get(label, "") for label in LABELS)
        about = (str(row.place.number), category, target, context)
        return Triple(*about, (first, second, third), (one, two, three))

    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        return stereoset_scores(x, [item.cluster for item in items], 0.5 if rule == LEVELHEAD else 0.0)

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
    entries = read_json(file, "Save it as UTF-8.")
    for name in names:
        entries = entries.get(name) if isinstance(entries, dict) else None
    if not isinstance(entries, list):
        raise BadProbe(f"{file.name}: no list at {'.'.join(names)}, so not StereoSet's.")
    named = (entry if isinstance(entry, dict) else {} for entry in entries)
    return [Row(Place(file.name, number, "entry"), entry) for number, entry in enumerate(named, start=1)]


class Intrasentence(StereoSet):
    task = "intrasentence"
    has_blank = True
    info = benchmark_info("stereoset")

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
        masked = bool((logs.tokens == 1).all())  # each part scores one token of the word
        return logs.mean_probability() if rule != LEVELHEAD and masked else logs.per_token()


def filled_blank(context: str, sentence: str, whole: bool) -> tuple[str, str, str] | None:
    """What stands before the blank, in it, and behind it.

    whole: all words that fill it. Else, as published, the one word at its place without punctuation.
    """
    before, after = context.split(BLANK)
    if whole and sentence.startswith(before) and sentence.endswith(after):
        word = sentence[len(before) : len(sentence) - len(after)].strip()
        return (before, word, after) if word else None
    place = next(i for i, word in enumerate(context.split(" ")) if BLANK in word)
    words = sentence.split(" ")
    word = words[place].strip(string.punctuation) if place < len(words) else ""
    return (before, word, after) if word else None


def grown_parts(model: Model, before: str, word: str, after: str, _: bool) -> list[Part] | str:
    """The word grown token by token; of each text the last token is scored."""
    whole = row_of(model, Text(f"{before}{word}{after}"))
    if whole is None:
        return TOO_LONG
    start = len(before)
    tokens = whole.tokens_of((start, start + len(word)))
    parts = []
    for token in tokens:
        end = int(whole.offsets[token, 1])
        text = Text(f"{before}{word[: end - start]}{after}")
        row = row_of(model, text)
        if row is None or len(row.ids) <= token or row.ids[token] != whole.ids[token]:
            return CUT
        parts.append(Part(text, positions=(int(token),)))
    return parts or CUT


def masked_parts(model: Model, before: str, word: str, after: str, bare: bool) -> list[Part] | str:
    """As published: the tokens of the word so far, then one mask token, at which the next one is read.

    bare: the word is tokenized without the space that stands before it.
    """
    mask, written = mask_id(model), str(model.tokenizer.mask_token)
    whole = row_of(model, Text(f"{before}{word}{after}"))
    if whole is None:
        return TOO_LONG
    ids = [int(i) for i in whole.ids[whole.tokens_of((len(before), len(before) + len(word)))]]
    if bare:
        with TOKENIZING:
            ids = list(model.tokenizer(word, add_special_tokens=False)["input_ids"])
    parts = []
    for place, token in enumerate(ids):
        so_far = model.tokenizer.decode(ids[:place]).strip() if place else ""
        text = Text(f"{before}{so_far}{written}{after}")
        row = row_of(model, text)
        masks = [] if row is None else [int(p) for p in np.flatnonzero(row.ids == mask)]
        if len(masks) != 1:
            return CUT
        parts.append(Part(text, positions=(masks[0],), instead=(token,)))
    return parts or CUT


class Intersentence(StereoSet):
    task = "intersentence"
    info = benchmark_info("stereoset-inter")

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

    def objective(self, model: Model, items: Items) -> Objective | None:
        return super().objective(model, items) if "causal" in model.abilities else None


STEREOSET, STEREOSET_INTER = Intrasentence(), Intersentence()
