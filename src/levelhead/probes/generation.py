"""Prompts that a model continues: those that ship, and a user's own.

A *frame* is a text whose prompts differ in their group alone: "My sister started a new job in March, and she"
and "My brother ... he". Frames are what is paired. A *cluster* is what is resampled: an occupation with all
of its frames, or a frame with all of the names that fill it. Neutral prompts state no group.

First names come in pairs of the table that the swap exchanges (data/swap/names.tsv), so that the swap turns a
prompt with a name into its counterpart exactly. Names are compared only with names about as frequent.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import OURS, shipped_toml
from levelhead.probes.benchmark_files import Reader, Row, Source, json_rows, table_rows, text_lines
from levelhead.probes.slots import SLOT, filled
from levelhead.probes.swap import stated_genders, swap_text
from levelhead.probes.swap.gendered import read_table

SETS = ("occupations", "situations", "gender", "names", "age", "religion", "origin", "chat", "decisions")
OWN = "own"  # the set of a user's prompts
FEMININE, MASCULINE = "feminine", "masculine"
SEXES = (FEMININE, MASCULINE)
MOST_NAMES = 8  # per group; pools of rarer origins have no more that are alike in frequency
_POOL = 5  # times as many common names: templates take turns
_PRONOUNS = {
    "they": ("she", "he"),
    "them": ("her", "him"),
    "their": ("her", "his"),
    "themself": ("herself", "himself"),
}
_KINDS = (".jsonl", ".csv", ".tsv", ".txt")
_EXAMPLE = "Write one text per line with {name} or {person}, or one like 'My sister said that'."


@dataclass(frozen=True)
class Prompt:
    """One text that a model continues."""

    id: str  # stable and unique: "occupations/nurse/1"
    set: str  # one of SETS, or "own"
    text: str  # what the model is given; the user's message in a chat
    frame: str  # prompts of one frame differ in their group alone; a neutral one is a frame of its own
    cluster: str  # what is resampled
    group: str = ""  # feminine, masculine, older, muslim ...; empty where it is neutral
    about: str = ""  # the occupation of a neutral prompt
    name: str = ""  # the first name in it
    origin: str = ""  # of that name
    answers: tuple[str, str] | None = None  # of a decision, the favorable one first
    kind: str = ""  # of a decision: hire, lend, admit, diagnose
    exact: bool = True  # whether the swap turns it into its counterpart, a neutral one into itself


@dataclass(frozen=True)
class PromptSet:
    """The prompts of a run, and what a user's file had beside them."""

    prompts: tuple[Prompt, ...]
    name: str  # "shipped", or the user's file
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> how many lines

    @property
    def fingerprint(self) -> str:
        content = json.dumps([asdict(prompt) for prompt in self.prompts], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()

    def of(self, *sets: str) -> tuple[Prompt, ...]:
        return tuple(prompt for prompt in self.prompts if prompt.set in sets)

    def frames(self) -> dict[str, tuple[Prompt, ...]]:
        """The prompts of every frame, in their order."""
        found: dict[str, list[Prompt]] = {}
        for prompt in self.prompts:
            found.setdefault(prompt.frame, []).append(prompt)
        return {frame: tuple(prompts) for frame, prompts in found.items()}


# ---- occupations and names


@dataclass(frozen=True)
class OccupationFacts:
    """What is said of an occupation, and what is so."""

    name: str
    label: int  # of stereotypes: +1 feminine, -1 masculine, 0 neither
    women: float  # the real share of women among those who work in it, 0 to 1
    row: str  # of the published table, that the share stands in
    source: str
    year: int


@cache
def occupation_facts() -> Mapping[str, OccupationFacts]:
    """Every shipped occupation with its label and its share of women (data/generation/occupations.toml)."""
    table = shipped_toml("generation/occupations")
    return {
        name: OccupationFacts(name, label, women / 100, row, table["source"], table["year"])
        for name, label, women, row in table["occupations"]
    }


@dataclass(frozen=True)
class NamePair:
    """Two first names of one origin that the swap exchanges, with their Zipf frequencies."""

    feminine: str
    masculine: str
    origin: str
    feminine_zipf: float
    masculine_zipf: float

    @property
    def names(self) -> tuple[str, str]:
        return self.feminine, self.masculine

    @property
    def zipf(self) -> float:
        return (self.feminine_zipf + self.masculine_zipf) / 2

    @property
    def unequal(self) -> float:
        """How much more frequent one of the two is; 1 is ten times."""
        return abs(self.feminine_zipf - self.masculine_zipf)


@cache
def name_pools() -> Mapping[str, tuple[NamePair, ...]]:
    """Pairs of first names by origin, as they stand in the table of the swap."""
    pools: dict[str, list[NamePair]] = {}
    for line in read_table("names.tsv"):
        pair = NamePair(
            line["feminine"],
            line["masculine"],
            line["origin"],
            float(line["feminine_zipf"]),
            float(line["masculine_zipf"]),
        )
        pools.setdefault(pair.origin, []).append(pair)
    return {origin: tuple(pairs) for origin, pairs in pools.items()}


@dataclass(frozen=True)
class _Names:
    """Names for prompts: so many pairs per origin, drawn by a seed from those most alike in frequency.

    tokens: how many tokens a name has, where a tokenizer is at hand; pairs of equal length go first.
    """

    pairs: int
    seed: int
    tokens: Callable[[str], int] | None = None

    @cached_property
    def common(self) -> tuple[NamePair, ...]:
        """English names that every model has read often."""
        bounds = shipped_toml("generation/names")["common"]
        known = (pair for pair in name_pools()[bounds["origin"]] if pair.names[0] not in bounds["words"])
        frequent = (pair for pair in known if pair.zipf >= bounds["zipf"])
        alike = [pair for pair in frequent if pair.unequal <= bounds["unequal"]]
        return self._drawn(alike, "common", _POOL * self.pairs)

    def of(self, place: int) -> Iterator[NamePair]:
        """The common names of one template, which share few others: what is claimed of a group has to hold
        for names that were not asked for, so there must be many of them, each in other company."""
        pool, places = self.common, [i * (i + 1) // 2 for i in range(self.pairs)]
        if places[-1] >= len(pool):  # too few to vary their company
            places = list(range(self.pairs))
        return (pool[(place + each) % len(pool)] for each in places)

    def by_origin(self) -> dict[str, tuple[NamePair, ...]]:
        """Names of every origin that is compared, alike in frequency between origins and sexes."""
        bounds = shipped_toml("generation/names")["origins"]
        drawn = {}
        for origin in bounds["compared"]:
            near = sorted(
                name_pools()[origin], key=lambda pair: abs(pair.zipf - bounds["zipf"]) + pair.unequal
            )
            drawn[origin] = self._drawn(near[:MOST_NAMES], origin, self.pairs)
        return drawn

    def _drawn(self, pairs: Sequence[NamePair], what: str, number: int) -> tuple[NamePair, ...]:
        if (tokens := self.tokens) is not None:
            equal = [pair for pair in pairs if tokens(pair.feminine) == tokens(pair.masculine)]
            pairs = equal if len(equal) >= self.pairs else pairs
        return tuple(random.Random(f"{self.seed}/{what}").sample(list(pairs), min(number, len(pairs))))


# ---- the prompts that ship


def load_prompts(
    source: str | Path = OURS,
    sets: Sequence[str] = (),
    seed: int = 0,
    names_per_group: int = 4,
    limit: int | None = None,
    tokens: Callable[[str], int] | None = None,
) -> PromptSet:
    """The shipped prompts, or those of a user's file (.jsonl, .csv, .tsv, .txt).

    sets: of the shipped ones; none: all. names_per_group: how many first names stand for each group; seed:
    which. limit: at most so many clusters of each set, evenly spread. tokens: how many tokens a name has.
    """
    if unknown := [name for name in sets if name not in SETS]:
        raise BadOption(f"sets must be among {', '.join(SETS)} (got {unknown[0]!r})")
    if not 1 <= names_per_group <= MOST_NAMES:
        raise BadOption(f"names must be 1 to {MOST_NAMES} per group (got {names_per_group})")
    if limit is not None and limit < 1:
        raise BadOption(f"limit must be at least 1 (got {limit})")
    names = _Names(names_per_group, seed, tokens)
    if str(source) != OURS:
        if sets:
            raise BadOption(f"sets must be left out with prompts of your own (got {sets[0]!r})")
        own = _own_prompts(Path(source).expanduser(), names)
        return PromptSet(tuple(_limited(own.prompts, limit)), own.name, own.left_out)
    chosen = [name for name in SETS if name in sets or not sets]
    prompts = [prompt for name in chosen for prompt in _limited(list(_SHIPPED[name](names)), limit)]
    return PromptSet(tuple(prompts), OURS)


def _limited(prompts: Sequence[Prompt], limit: int | None) -> Iterator[Prompt]:
    clusters = list(dict.fromkeys(prompt.cluster for prompt in prompts))
    if limit is not None and limit < len(clusters):
        clusters = [clusters[i * len(clusters) // limit] for i in range(limit)]
    kept = set(clusters)
    return (prompt for prompt in prompts if prompt.cluster in kept)


def _occupations(_: _Names) -> Iterator[Prompt]:
    frames = shipped_toml("generation/occupations")["frames"]
    for place, about in enumerate(occupation_facts()):
        for number in sorted({place % len(frames), (place + len(frames) // 2) % len(frames)}):
            name = f"occupations/{about}/{number + 1}"
            text = filled(frames[number], {"occupation": about})[0]
            yield Prompt(name, "occupations", text, name, about, about=about)


def _situations(_: _Names) -> Iterator[Prompt]:
    for number, text in enumerate(shipped_toml("generation/prompts")["situations"], start=1):
        name = f"situations/{number}"
        yield Prompt(name, "situations", text, name, name)


def _gender(_: _Names) -> Iterator[Prompt]:
    for number, texts in enumerate(shipped_toml("generation/prompts")["gender"], start=1):
        yield from _sexes("gender", f"gender/{number}", texts)


def _sexes(set_: str, frame: str, texts: Sequence[str], cluster: str = "", **others: Any) -> Iterator[Prompt]:
    """The feminine and the masculine prompt of one frame; others: of both."""
    exact = _exchanged(*texts)
    for group, text in zip(SEXES, texts, strict=True):
        yield Prompt(f"{frame}/{group}", set_, text, frame, cluster or frame, group, exact=exact, **others)


def _exchanged(one: str, other: str) -> bool:
    """Whether the swap turns each of two texts into the other."""
    return swap_text(one, names=True) == other and swap_text(other, names=True) == one


def _named(set_: str, cluster: str, template: str, pair: NamePair, **others: Any) -> Iterator[Prompt]:
    """The prompts with the two names of a pair, which are a frame, and the pronouns that go with each."""
    texts = []
    for which, name in enumerate(pair.names):
        pronouns = {slot: words[which] for slot, words in _PRONOUNS.items()}
        titled = {slot.capitalize(): word.capitalize() for slot, word in pronouns.items()}
        texts.append(filled(template, {**pronouns, **titled, "name": name})[0])
    frame = f"{cluster}/{pair.feminine}-{pair.masculine}"
    for prompt, name in zip(_sexes(set_, frame, texts, cluster), pair.names, strict=True):
        given = {**asdict(prompt), "id": f"{cluster}/{prompt.group}/{name}", "name": name}
        yield Prompt(**{**given, "origin": pair.origin, **others})


def _names(names: _Names) -> Iterator[Prompt]:
    for number, template in enumerate(shipped_toml("generation/prompts")["names"], start=1):
        for pair in names.of(number):
            yield from _named("names", f"names/{number}", template, pair)


def _chat(names: _Names) -> Iterator[Prompt]:
    """Requests whose user has another name: as many pairs as asked for, of one origin after the other."""
    by_origin = list(names.by_origin().values())
    for number, template in enumerate(shipped_toml("generation/prompts")["chat"], start=1):
        for i in range(names.pairs):
            pair = by_origin[(number + i) % len(by_origin)][i]
            yield from _named("chat", f"chat/{number}", template, pair)


def _groups(set_: str) -> Callable[[_Names], Iterator[Prompt]]:
    """The prompts of a set whose groups are told by words: age, religion, origin."""

    def prompts(_: _Names) -> Iterator[Prompt]:
        table = shipped_toml("generation/prompts")[set_]
        for number, template in enumerate(table["frames"], start=1):
            frame = f"{set_}/{number}"
            for group, words in table["groups"].items():
                text = filled(template, words)[0]
                yield Prompt(f"{frame}/{group}", set_, text, frame, frame, group, exact=False)

    return prompts


def _decisions(names: _Names) -> Iterator[Prompt]:
    """Profiles with names of every origin and both sexes.

    A profile has half of the names of each origin, the next one those that follow, so that a kind of decision
    has them all equally often.
    """
    table = shipped_toml("generation/decisions")
    by_origin = names.by_origin()
    each = max(1, names.pairs // 2)
    for kind, texts in table["kinds"].items():
        for number, profile in enumerate(texts["profiles"], start=1):
            template = table["form"].replace("{profile}", profile).replace("{question}", texts["question"])
            frame = f"decisions/{kind}/{number}"
            same = {"frame": frame, "kind": kind, "answers": tuple(table["answers"])}
            for pairs in by_origin.values():
                for i in range(each):
                    pair = pairs[((number - 1) * each + i) % len(pairs)]
                    yield from _named("decisions", frame, template, pair, **same)


_SHIPPED: Mapping[str, Callable[[_Names], Iterator[Prompt]]] = {
    "occupations": _occupations,
    "situations": _situations,
    "gender": _gender,
    "names": _names,
    "age": _groups("age"),
    "religion": _groups("religion"),
    "origin": _groups("origin"),
    "chat": _chat,
    "decisions": _decisions,
}


# ---- a user's own


def _own_prompts(path: Path, names: _Names) -> PromptSet:
    """The prompts of a user's file; lines that cannot be used are counted by their reason."""
    if path.suffix.lower() not in _KINDS:
        raise BadProbe(f"prompts must be 'shipped' or a {', '.join(_KINDS)} file (got {str(path)!r})")
    match path.suffix.lower():
        case ".jsonl":
            rows = json_rows(path)
        case ".txt":
            rows = [Row(place, {"prompt": line}) for place, line in text_lines(path)]
        case _:
            rows = table_rows(path, ("prompt",))
    if not rows:
        raise BadProbe(f"{path.name} must have a prompt (got an empty file). {_EXAMPLE}")
    reader = Reader(Source(str(path), "your prompts", (path.name,)))
    read = _OwnPrompts(names)
    found = [prompt for prompts in reader.read(rows, read.of_row) for prompt in prompts]
    firsts = [rows[0] for rows in read.pairs.values()]
    found += [prompt for prompts in reader.read(firsts, read.of_pair) for prompt in prompts]
    if not found:
        raise BadProbe(f"{reader.nothing_left('prompt')} {_EXAMPLE}")
    return PromptSet(tuple(found), path.name, dict(reader.unscored.most_common()))


class _OwnPrompts:
    """Rows of a user's file as prompts: each gives a frame, or is part of a pair that the user wrote."""

    def __init__(self, names: _Names) -> None:
        self.names = names
        self.persons = [tuple(words) for words in shipped_toml("generation/prompts")["person"]["words"]]
        self.pairs: dict[str, list[Row]] = {}
        self.texts: set[str] = set()
        self.frames: set[str] = set()

    def of_row(self, row: Row) -> list[Prompt]:
        text, pair, about = row.text("prompt"), _cell(row, "pair"), _cell(row, "about")
        if pair:
            self.pairs.setdefault(pair, []).append(row)
            return []
        if group := _cell(row, "group"):
            complaint = f"group must come with a pair (got group {group!r} alone)."
            raise row.unusable("a group without a pair", complaint)
        slots = set(SLOT.findall(text))
        if unknown := sorted(slots - {"name", "person"}):
            complaint = f"a slot must be {{name}} or {{person}} (got {{{unknown[0]}}})."
            raise row.unusable("an unknown slot", complaint)
        frame = self._frame(row, _cell(row, "id") or f"{OWN}/{row.place.unit} {row.place.number}")
        if slots:
            return self._new(row, self._filled(row, frame, text))
        if not about:
            return self._new(row, _turned(row, frame, text))
        if said := stated_genders(text, names=True):
            complaint = f"a prompt about an occupation must state no gender (got {said[0].word!r})."
            raise row.unusable("about, and a word for a gender", complaint)
        return self._new(row, [Prompt(frame, OWN, text, frame, about, about=about)])

    def of_pair(self, row: Row) -> list[Prompt]:
        """The prompts of the pair whose first row this is, one for each group."""
        pair = _cell(row, "pair")
        rows = self.pairs[pair]
        by_group = {_cell(each, "group"): each.text("prompt") for each in rows}
        if "" in by_group or len(by_group) < 2 or len(by_group) < len(rows):
            complaint = (
                f"pair {pair!r} must have a line for each of at least two groups (got groups "
                f"{', '.join(_cell(each, 'group') or 'none' for each in rows)})."
            )
            raise row.unusable("a pair without two groups", complaint)
        frame = self._frame(row, f"{OWN}/pair {pair}")
        exact = len(by_group) == 2 and _exchanged(*by_group.values())
        prompts = [
            Prompt(f"{frame}/{group}", OWN, text, frame, frame, group, _cell(row, "about"), exact=exact)
            for group, text in by_group.items()
        ]
        return self._new(row, prompts)

    def _filled(self, row: Row, frame: str, template: str) -> list[Prompt]:
        """A template with several names, several nouns, or both. What else says a gender follows them."""
        slots = SLOT.findall(template)
        prompts: list[Prompt] = []
        names = self.names.of(len(self.frames))
        for i, pair in enumerate(names if "name" in slots else self.persons):
            person = self.persons[i % len(self.persons)]
            named = pair if isinstance(pair, NamePair) else None
            words = [{"person": word} for word in person]
            if named:
                words = [{**each, "name": name} for each, name in zip(words, named.names, strict=True)]
            texts = [filled(template, each)[0] for each in words]
            # where the template has gendered words of its own, one text is the other's counterpart
            said = {word.gender for word in stated_genders(SLOT.sub("X", template))}
            if len(said) > 1:
                complaint = f"a prompt with a slot must state one gender at most (got {template[:60]!r})."
                raise row.unusable("words for both genders beside a slot", complaint)
            if said:
                which = 0 if said == {"F"} else 1
                texts[1 - which] = swap_text(texts[which], names=True)
            inner = f"{frame}/{'-'.join(named.names if named else person)}"
            for prompt, which in zip(_sexes(OWN, inner, texts, frame), (0, 1), strict=True):
                about_name = {"name": named.names[which], "origin": named.origin} if named else {}
                prompts.append(Prompt(**{**asdict(prompt), **about_name}))
        return prompts

    def _frame(self, row: Row, frame: str) -> str:
        if frame in self.frames:
            raise row.unusable("an id twice", f"id must be unique (got {frame!r} again).")
        self.frames.add(frame)
        return frame

    def _new(self, row: Row, prompts: list[Prompt]) -> list[Prompt]:
        """These prompts, unless the file has one of them already, as itself or as a counterpart."""
        texts = {prompt.text for prompt in prompts}
        if not texts.isdisjoint(self.texts):
            again = min(texts & self.texts)
            raise row.unusable("a prompt twice", f"prompt must be new (got {again[:60]!r} again).")
        self.texts |= texts
        return prompts


def _cell(row: Row, name: str) -> str:
    """A cell that may be empty or missing."""
    value = row.cell(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return "" if value is None or value == "" else row.text(name)


def _turned(row: Row, frame: str, text: str) -> list[Prompt]:
    """A plain text and what the swap makes of it."""
    said = stated_genders(text, names=True)
    other = swap_text(text, names=True)
    if not said:
        complaint = (
            f"prompt must have {{name}}, {{person}} or a word for a gender (got {text[:60]!r}); a neutral "
            "one needs the column about."
        )
        raise row.unusable("no slot and no word for a gender", complaint)
    if other == text:
        complaint = f"prompt must have a gendered word with a counterpart (got {said[0].word!r})."
        raise row.unusable("a word without a counterpart", complaint)
    texts = (text, other) if said[0].gender == "F" else (other, text)
    return list(_sexes(OWN, frame, texts))
