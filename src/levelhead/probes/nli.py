"""Questions for a natural-language-inference classifier: is it fair about occupations, and is it able at all?

Fairness (docs/method/sentences.md, NLI fairness): "The OCCUPATION VERB OBJECT." says nothing about gender, so
"The man VERB OBJECT." is neutral. The form is that of Dev et al. 2020; the lists are ours. A user's own probe
is a TOML file (docs/own-prompts.md); its contexts can also be a table of verbs with their objects.

Ability is measured on SNLI, by path or hub name, or on the shipped everyday scenes. A TSV has premise,
hypothesis, label (a name, or 0 entailment, 1 neutral, 2 contradiction); SNLI's own .jsonl and .txt have
sentence1, sentence2, gold_label; tables of the Hugging Face hub have either.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.probes import DATA, OURS, evenly, json_hash
from levelhead.probes.files import (
    BadItem,
    Checked,
    Place,
    UnusableItem,
    by_reason,
    hub_table,
    is_whole,
    nothing_left,
    parse_json,
    read_checked,
    read_text,
    usable,
)
from levelhead.probes.slots import SLOT, filled

Side = Literal["feminine", "masculine"]
Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)
NEUTRAL = LABELS.index("neutral")  # the right answer where nothing can be inferred

_FRAME = ("The {occupation} {context}.", "The {gender} {context}.")  # premise and hypothesis
_OUR_WORDS: dict[Side, str] = {"feminine": "woman", "masculine": "man"}
_NO_GOLD = ("-", "-1")  # SNLI's own mark where annotators disagreed, and the hub's
_PAGE = "docs/own-prompts.md"
_STEMS: dict[str, Label] = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}
_EXAMPLE = '"contradiction,entailment,neutral"'
_COLUMNS = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
_EXPECTED = " or ".join(", ".join(names) for names in _COLUMNS)
_FOLDER_FILES = ("test.tsv", "snli_1.0_test.jsonl", "snli_1.0_test.txt")
_HUB_NAMES = {"snli": "stanfordnlp/snli"}


@dataclass(frozen=True)
class NliPair:
    """A premise about an occupation and the same sentence about a man or a woman; neutral is right."""

    premise: str
    hypothesis: str
    occupation: str
    context: str
    gender: Side


@dataclass(frozen=True)
class NliProbe:
    """All pairs in the order [occupation, context, gender], feminine first: answers reshape to `shape`."""

    occupations: tuple[str, ...]
    contexts: tuple[str, ...]
    feminine: str
    masculine: str
    pairs: tuple[NliPair, ...]
    fingerprint: str  # sha256 of every premise and hypothesis in order
    name: str = "levelhead-occupations"
    source: str | None = None  # OURS, or a file; None: made in Python

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.occupations), len(self.contexts), 2

    def about(self, occupations: Collection[str], limit: tuple[int, int] | None = None) -> NliProbe:
        """The pairs about these occupations, a part of the probe; limit as for nli_probe."""
        jobs, acts = tuple(job for job in self.occupations if job in occupations), self.contexts
        if limit is not None:
            jobs, acts = evenly(jobs, limit[0]), evenly(acts, limit[1])
        pairs = tuple(pair for pair in self.pairs if pair.occupation in jobs and pair.context in acts)
        fingerprint = json_hash([(pair.premise, pair.hypothesis) for pair in pairs], ascii_only=True)
        part = replace(self, occupations=jobs, contexts=acts, pairs=pairs, fingerprint=fingerprint)
        return replace(part, source=None)


@dataclass(frozen=True)
class LabeledPair:
    """A premise, a hypothesis and what a careful reader concludes."""

    premise: str
    hypothesis: str
    label: Label


@dataclass(frozen=True)
class AbilitySet:
    """Labeled pairs that measure plain ability, and where they came from."""

    name: str  # "levelhead-scenes", a path or a hub name
    pairs: tuple[LabeledPair, ...]
    fingerprint: str  # sha256 of every premise, hypothesis and label in order
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> entries without a usable pair
    unusable: tuple[UnusableItem, ...] = ()  # the same one by one, in the order of the source
    source: str | None = None  # OURS, or what was given; None: made in Python, or a part

    def about(self, premises: Collection[str]) -> AbilitySet:
        """The pairs of these premises, a part of the set."""
        pairs = tuple(pair for pair in self.pairs if pair.premise in premises)
        fingerprint = json_hash([(p.premise, p.hypothesis, p.label) for p in pairs], ascii_only=True)
        return replace(self, pairs=pairs, fingerprint=fingerprint, source=None)


def nli_probe(
    feminine: str = _OUR_WORDS["feminine"],
    masculine: str = _OUR_WORDS["masculine"],
    occupations: Sequence[str] | None = None,
    contexts: Sequence[str] | None = None,
    limit: tuple[int, int] | None = None,
) -> NliProbe:
    """Occupations × verb-object contexts × two gendered words: 164 × 33 × 2 = 10,824 pairs from our lists.

    limit = (n_occupations, n_contexts) takes an evenly spread part of each list, the same one every time.
    """
    jobs, acts = nli_entries("occupations", occupations), nli_entries("contexts", contexts)
    feminine, masculine = feminine.strip(), masculine.strip()
    if not feminine or not masculine or feminine == masculine:
        raise BadOption(
            f"Gendered words {feminine!r} and {masculine!r}. Pass two different nouns, as lady, gentleman."
        )
    if clash := {feminine, masculine} & set(jobs):
        raise BadProbe(
            f"{min(clash)!r} is an occupation and a gendered word: its pairs would be entailed. Drop it."
        )
    if limit is not None:
        jobs, acts = evenly(jobs, limit[0]), evenly(acts, limit[1])
    ours = (occupations, contexts, feminine, masculine) == (None, None, *_OUR_WORDS.values())
    return replace(_probe(_FRAME, jobs, acts, feminine, masculine), source=OURS if ours else None)


def _as_contexts(value: Any) -> Any:
    """A table of verbs with their objects as a list of both."""
    if not isinstance(value, dict):
        return value
    if not all(isinstance(objects, list) for objects in value.values()):
        raise ValueError("a list of contexts, or a table of verbs with lists of objects, is needed")
    return [f"{verb} {thing}" for verb, objects in value.items() for thing in objects]


_Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
_Texts = Annotated[tuple[_Text, ...], Field(min_length=1)]


class NliTemplates(Checked):
    """Two templates and what fills them."""

    name: _Text
    about: str = ""
    premise: _Text
    hypothesis: _Text
    feminine: _Text = "woman"
    masculine: _Text = "man"
    occupations: _Texts
    contexts: Annotated[_Texts, BeforeValidator(_as_contexts)]


def load_nli_probe(path: str | Path, limit: tuple[int, int] | None = None) -> NliProbe:
    """A probe of the user's own: a TOML file with templates, occupations and contexts (docs/own-prompts.md).

    limit as for nli_probe. Every mistake is one line that names its key and line.
    """
    file, source = read_checked(Path(path), NliTemplates, "an NLI probe", _PAGE)
    for key, template, slot in (
        ("premise", file.premise, "occupation"),
        ("hypothesis", file.hypothesis, "gender"),
    ):
        # Each slot once, no other, and a full stop.
        if sorted(SLOT.findall(template)) != sorted((slot, "context")) or "{" in SLOT.sub("", template):
            needed = f"{{{slot}}} and {{context}}"
            raise source.fail(
                (key,), f"{template!r} must have {needed}, each once, and no other. See {_PAGE}."
            )
        if not template.rstrip().endswith((".", "!", "?")):
            raise source.fail((key,), f"{template!r} does not end. Close the sentence with a full stop.")
    for key, entries in (("occupations", file.occupations), ("contexts", file.contexts)):
        if repeated := [entry for entry, times in Counter(entries).items() if times > 1]:
            raise source.fail((key,), f"{repeated[0]!r} stands twice; keep one.")
    if file.feminine == file.masculine:
        raise source.fail(("masculine",), f"{file.masculine!r} is the feminine word too; give two nouns.")
    for key, word in (("feminine", file.feminine), ("masculine", file.masculine)):
        if word in file.occupations:
            raise source.fail((key,), f"{word!r} is an occupation too: its pairs would be entailed. Drop it.")
    jobs, acts = file.occupations, file.contexts
    if limit is not None:
        jobs, acts = evenly(jobs, limit[0]), evenly(acts, limit[1])
    probe = _probe((file.premise, file.hypothesis), jobs, acts, file.feminine, file.masculine)
    return replace(probe, name=file.name, source=str(path))


@lru_cache(maxsize=4)  # every battery holds the shipped pairs
def _probe(
    frame: tuple[str, str], jobs: tuple[str, ...], acts: tuple[str, ...], feminine: str, masculine: str
) -> NliProbe:
    """Every occupation with every context and both words, in these templates of premise and hypothesis."""
    words: dict[Side, str] = {"feminine": feminine, "masculine": masculine}
    pairs = tuple(
        NliPair(
            filled(frame[0], {"occupation": job, "context": act})[0],
            filled(frame[1], {"gender": word, "context": act})[0],
            job,
            act,
            gender,
        )
        for job in jobs
        for act in acts
        for gender, word in words.items()
    )
    fingerprint = json_hash([(pair.premise, pair.hypothesis) for pair in pairs], ascii_only=True)
    return NliProbe(jobs, acts, feminine, masculine, pairs, fingerprint)


def nli_entries(
    what: Literal["occupations", "contexts"], given: Sequence[str] | None = None
) -> tuple[str, ...]:
    """The list as given, else the shipped one; refused if it cannot fill the sentence frame."""
    if given is None:
        return tuple((DATA / "nli" / f"{what}.txt").read_text(encoding="utf-8").splitlines())
    if isinstance(given, str):
        raise BadProbe(f"{what} must be a list of strings (got the string {given!r})")
    entries = tuple(entry.strip() for entry in given)
    if not entries or not all(entries):
        raise BadProbe(
            f"The list of {what} has {len(entries)} entries, {entries.count('')} of them empty. Fill them."
        )
    if repeated := [entry for entry, times in Counter(entries).items() if times > 1]:
        raise BadProbe(f"The list of {what} repeats {', '.join(map(repr, repeated[:5]))}. List each once.")
    return entries


# ---- ability


class WrittenPair(NamedTuple):
    """A premise, a hypothesis and a label as a file writes them, and where they stand in it."""

    place: Place
    premise: str
    hypothesis: str
    label: str


def ability_pairs(
    source: str | Path | None = None, limit: int | None = None, *, strict: bool = False
) -> AbilitySet:
    """Labeled pairs: the shipped scenes (no source), a file or folder of SNLI, hub:NAME or hub:NAME@SPLIT.

    What has no gold label or no text, and what is no pair at all, is left out, counted, and kept with its
    line and reason; with strict=True what is no pair is an error. limit takes at most that many pairs,
    equally many of each label, evenly spread, the same ones every time.
    """
    left_out: list[UnusableItem] = []
    if source is None:
        name, written = "levelhead-scenes", _file_pairs(DATA / "nli" / "ability.tsv", left_out, strict=True)
    elif str(source).startswith("hub:"):
        name, written = str(source), _hub_pairs(str(source).removeprefix("hub:"), left_out, strict)
    else:
        name, written = str(source), _file_pairs(Path(source), left_out, strict)
    pairs: list[LabeledPair] = []
    for pair in written:
        # SNLI itself has pairs without a gold label, so that is no mistake.
        reason = "no gold label" if pair.label in _NO_GOLD else "empty text"
        if pair.label in _NO_GOLD or not pair.premise or not pair.hypothesis:
            left_out.append(UnusableItem(pair.place.number, reason, f"{pair.place}: {reason}"))
        else:
            pairs += usable([pair], _labeled, left_out, strict)
    if not pairs and left_out:
        raise nothing_left(name, "pair", left_out)
    left_out.sort(key=lambda item: item.line)
    counts = Counter(labeled.label for labeled in pairs)
    if missing := [label for label in LABELS if not counts[label]]:
        raise BadProbe(
            f"{name} has no pairs labeled {', '.join(missing)} (usable: {len(pairs)}, "
            f"skipped: {by_reason(left_out)}). An ability set needs all three labels."
        )
    if limit is not None:
        if limit < len(LABELS):
            raise BadOption(f"A limit of {limit} cannot hold all three labels. Pass {len(LABELS)} or more.")
        by_label = {label: [i for i, own in enumerate(pairs) if own.label == label] for label in LABELS}
        each = min(limit // len(LABELS), *map(len, by_label.values()))
        pairs = [pairs[i] for i in sorted(i for group in by_label.values() for i in evenly(group, each))]
    fingerprint = json_hash([(p.premise, p.hypothesis, p.label) for p in pairs], ascii_only=True)
    whole = None if limit is not None else str(source or OURS)
    return AbilitySet(name, tuple(pairs), fingerprint, by_reason(left_out), tuple(left_out), whole)


def _labeled(written: WrittenPair) -> LabeledPair:
    for index, label in enumerate(LABELS):
        if written.label.lower() in (label, str(index)):
            return LabeledPair(written.premise, written.hypothesis, label)
    allowed = f"{', '.join(LABELS)}, or 0, 1, 2 in that order; - for none"
    raise BadItem(written.place, "an unknown label", f"label {written.label[:40]!r}. Allowed: {allowed}.")


def _file_pairs(path: Path, left_out: list[UnusableItem], strict: bool = False) -> Iterator[WrittenPair]:
    """The pairs of a file, or of SNLI's test file in a folder; bad lines go to left_out."""
    if path.is_dir():
        path = next((path / file for file in _FOLDER_FILES if (path / file).is_file()), path)
    if not path.is_file():
        raise BadProbe(
            f"No pairs at {path}. Pass a file, a folder with {', '.join(_FOLDER_FILES)}, or hub:snli."
        )
    # Line by line, not as one CSV stream: a stray quotation mark then spoils one line, not the rest.
    lines = read_text(path, "Pass a .tsv, .jsonl or .txt file in UTF-8.").split("\n")
    numbered = [(Place(str(path), n), line.rstrip("\r")) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise BadProbe(f"{path} is empty. Expected a header and labeled pairs.")
    is_json = numbered[0][1].startswith("{")
    header = [] if is_json else numbered[0][1].split("\t")
    if not is_json:
        _pair(numbered[0][0], dict.fromkeys(header, ""))
    # SNLI's own .txt is unquoted; tables written by csv libraries quote a cell and double its quotes.
    quoted = re.compile(r"(?!)" if "gold_label" in header else r'"((?:[^"]|"")*)"')

    def pair(line: tuple[Place, str]) -> WrittenPair:
        place, text = line
        if is_json:
            record, reason, _ = parse_json(text)
            if reason or not isinstance(record, dict):
                complaint = f"{text[:40]!r} is {reason or 'not a JSON object'}. Expected one object per line."
                raise BadItem(place, "not a JSON object", complaint)
            return _pair(place, record)
        cells = [
            m[1].replace('""', '"') if (m := quoted.fullmatch(cell)) else cell for cell in text.split("\t")
        ]
        if len(cells) != len(header):
            complaint = f"{len(cells)} columns, the header has {len(header)}. Separate them by one tab."
            raise BadItem(place, "another number of columns than the header", complaint)
        return _pair(place, dict(zip(header, cells, strict=True)))

    return usable(numbered if is_json else numbered[1:], pair, left_out, strict)


def _hub_pairs(name: str, left_out: list[UnusableItem], strict: bool = False) -> Iterator[WrittenPair]:
    """The pairs of a table of the Hugging Face hub; `name` is what follows `hub:`."""
    repository, _, split = name.partition("@")
    table = hub_table(f"hub:{name}", "file", _HUB_NAMES.get(repository, repository), split=split or "test")
    names = getattr(table.features.get("label"), "names", None) or ()

    def pair(numbered: tuple[int, Mapping[str, object]]) -> WrittenPair:
        written = _pair(Place(f"hub:{name}", numbered[0], "entry"), numbered[1])
        known = written.label.isdecimal() and int(written.label) < len(names)
        # The table's own names beat the order 0, 1, 2, which other NLI sets do not share.
        return written._replace(label=names[int(written.label)]) if known else written

    return usable(enumerate(table, start=1), pair, left_out, strict)


def _pair(place: Place, record: Mapping[str, object]) -> WrittenPair:
    columns = next((names for names in _COLUMNS if set(names) <= record.keys()), None)
    if columns is None:
        complaint = f"columns {', '.join(map(str, record))[:120]}. Expected {_EXPECTED}."
        raise BadItem(place, "a column is missing", complaint)
    premise, hypothesis, label = ("" if record[k] is None else str(record[k]).strip() for k in columns)
    if not is_whole(premise + hypothesis):
        complaint = "a text has half a character (a lone surrogate, \\ud800 to \\udfff). Write it whole."
        raise BadItem(place, "half a character", complaint)
    return WrittenPair(place, premise, hypothesis, label)


# ---- labels


def label_order(id2label: Mapping[int, str], labels: str | None = None) -> tuple[int, int, int]:
    """Which outputs of a classifier mean (entailment, neutral, contradiction).

    The order is read from the names in id2label and never guessed; labels="contradiction,entailment,neutral"
    overrides them and says what outputs 0, 1 and 2 mean.
    """
    came = ", ".join(
        f"{index}={name!r}" for index, name in sorted((int(i), str(n)) for i, n in id2label.items())
    )
    if len(id2label) != len(LABELS):
        raise CannotDo(
            f"This classifier has {len(id2label)} labels ({came or 'none'}); the NLI measures need three: "
            f"{', '.join(LABELS)}. Use a three-way NLI classifier."
        )
    if labels is not None:
        named = [_label_of(name) for name in labels.split(",")]
        if sorted(map(str, named)) != sorted(LABELS):
            raise BadOption(
                f"Labels {labels!r}: expected {', '.join(LABELS)}, each once, in the order of the "
                f"classifier's outputs, e.g. {_EXAMPLE}."
            )
        return named.index("entailment"), named.index("neutral"), named.index("contradiction")
    outputs = {_label_of(str(name)): int(index) for index, name in id2label.items()}
    if set(outputs) != set(LABELS) or set(outputs.values()) != {0, 1, 2}:
        raise CannotDo(
            f"This classifier names its labels {came}, which does not say which is {', '.join(LABELS)}. "
            f"Pass the order of its outputs, e.g. labels={_EXAMPLE}."
        )
    return outputs["entailment"], outputs["neutral"], outputs["contradiction"]


def _label_of(name: str) -> Label | None:
    """The label that a classifier's name means: case does not matter, nor what follows the stem."""
    return next((label for stem, label in _STEMS.items() if name.strip().lower().startswith(stem)), None)
