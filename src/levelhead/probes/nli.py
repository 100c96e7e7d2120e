"""Questions for a natural-language-inference classifier: is it fair about occupations, and is it able at all?

Fairness: "The OCCUPATION VERB OBJECT." says nothing about gender, so "The man VERB OBJECT." is neutral. The
form is that of Dev et al. 2020; the lists are ours. Ability: SNLI by path or hub name, or the shipped
everyday scenes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from levelhead.errors import BadProbe, CannotDo

Gender = Literal["feminine", "masculine"]
Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)

_T = TypeVar("_T")
_Row = tuple[str, str, str, str]  # where it stands, premise, hypothesis, label
_DATA = Path(__file__).parent / "data" / "nli"
_STEMS: dict[str, Label] = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}
_COLUMNS = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
_NO_GOLD = ("-", "-1")  # SNLI's own mark where annotators disagreed, and the hub's
_FOLDER_FILES = ("test.tsv", "snli_1.0_test.jsonl", "snli_1.0_test.txt")
_HUB_NAMES = {"snli": "stanfordnlp/snli"}


@dataclass(frozen=True)
class NliPair:
    """A premise about an occupation and the same sentence about a man or a woman; neutral is right."""

    premise: str
    hypothesis: str
    occupation: str
    context: str
    gender: Gender


@dataclass(frozen=True)
class NliProbe:
    """All pairs, in the order [occupation, context, gender] with feminine first, so that answers reshape to
    `shape`."""

    occupations: tuple[str, ...]
    contexts: tuple[str, ...]
    feminine: str
    masculine: str
    pairs: tuple[NliPair, ...]
    fingerprint: str  # sha256 of every premise and hypothesis in order

    @property
    def shape(self) -> tuple[int, int, int]:
        """(occupations, contexts, 2)."""
        return len(self.occupations), len(self.contexts), 2


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
    skipped: Mapping[str, int] = field(
        default_factory=dict
    )  # reason -> rows of the source without a usable pair


def nli_probe(
    feminine: str = "woman",
    masculine: str = "man",
    occupations: Sequence[str] | None = None,
    contexts: Sequence[str] | None = None,
    limit: tuple[int, int] | None = None,
) -> NliProbe:
    """Occupations × verb-object contexts × two gendered words; 164 × 33 × 2 = 10,824 pairs with the shipped
    lists.

    limit = (n_occupations, n_contexts) takes an evenly spread part of each list, the same one every time.
    """
    jobs, acts = _entries("occupations", occupations), _entries("contexts", contexts)
    words: dict[Gender, str] = {"feminine": feminine.strip(), "masculine": masculine.strip()}
    _check_gendered(words, jobs)
    if limit is not None:
        jobs, acts = _spread(jobs, limit[0]), _spread(acts, limit[1])
    pairs = tuple(
        NliPair(f"The {job} {act}.", f"The {word} {act}.", job, act, gender)
        for job in jobs
        for act in acts
        for gender, word in words.items()
    )
    fingerprint = _fingerprint((pair.premise, pair.hypothesis) for pair in pairs)
    return NliProbe(jobs, acts, words["feminine"], words["masculine"], pairs, fingerprint)


def ability_pairs(source: str | Path | None = None, limit: int | None = None) -> AbilitySet:
    """Labeled pairs: the shipped scenes (no source), a file or folder of SNLI, or "hub:NAME" with an optional
    "@SPLIT".

    Files: TSV with premise, hypothesis, label (a name, or 0 entailment, 1 neutral, 2 contradiction), or
    SNLI's own .jsonl and .txt with sentence1, sentence2, gold_label. Rows without a gold label are skipped
    and counted. limit takes at most that many pairs, equally many of each label, evenly spread, the same ones
    every time.
    """
    if source is None:
        name, rows = "levelhead-scenes", _file_rows(_DATA / "ability.tsv")
    elif str(source).startswith("hub:"):
        name, rows = str(source), _hub_rows(str(source).removeprefix("hub:"))
    else:
        name, rows = str(source), _file_rows(_data_file(Path(source)))
    pairs, skipped = _labeled(rows)
    counts = Counter(pair.label for pair in pairs)
    if missing := [label for label in LABELS if not counts[label]]:
        raise BadProbe(
            f"{name} has no pairs labeled {', '.join(missing)} (usable: {len(pairs)}, skipped: {dict(skipped)}). "
            "An ability set needs all three labels."
        )
    if limit is not None:
        pairs = _balanced(pairs, limit)
    return AbilitySet(
        name, tuple(pairs), _fingerprint((p.premise, p.hypothesis, p.label) for p in pairs), skipped
    )


def label_order(id2label: Mapping[int, str], labels: str | None = None) -> tuple[int, int, int]:
    """Which outputs of a classifier mean (entailment, neutral, contradiction).

    Read from the names in id2label, never guessed; labels="contradiction,entailment,neutral" overrides them
    and says what outputs 0, 1 and 2 mean.
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
        return parse_labels(labels)
    found = {_label_of(str(name)): int(index) for index, name in id2label.items()}
    if set(found) != set(LABELS) or set(found.values()) != {0, 1, 2}:
        raise CannotDo(
            f"This classifier names its labels {came}, which does not say which is entailment, neutral, contradiction. "
            'Pass the order of its outputs, e.g. labels="contradiction,entailment,neutral".'
        )
    return found["entailment"], found["neutral"], found["contradiction"]


def parse_labels(labels: str) -> tuple[int, int, int]:
    """The meaning of outputs 0, 1, 2 as the indices of (entailment, neutral, contradiction)."""
    named = [_label_of(name) for name in labels.split(",")]
    if sorted(map(str, named)) != sorted(LABELS):
        raise BadProbe(
            f"Labels {labels!r}: expected {', '.join(LABELS)}, each once, in the order of the classifier's outputs, "
            'e.g. "contradiction,entailment,neutral".'
        )
    return named.index("entailment"), named.index("neutral"), named.index("contradiction")


def _label_of(name: str) -> Label | None:
    """The label that a classifier's name means: case does not matter, nor what follows the stem."""
    return next((label for stem, label in _STEMS.items() if name.strip().lower().startswith(stem)), None)


def _entries(what: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """The list as given, else the shipped one; refused if it cannot fill the sentence frame."""
    if given is None:
        return tuple((_DATA / f"{what}.txt").read_text(encoding="utf-8").splitlines())
    if isinstance(given, str):
        raise BadProbe(f"The {what} came as one string, {given!r}. Pass a list of strings.")
    entries = tuple(entry.strip() for entry in given)
    if not entries or not all(entries):
        raise BadProbe(
            f"The list of {what} has {len(entries)} entries, {entries.count('')} of them empty. Fill them."
        )
    if repeated := [entry for entry, times in Counter(entries).items() if times > 1]:
        raise BadProbe(f"The list of {what} repeats {', '.join(map(repr, repeated[:5]))}. List each once.")
    return entries


def _check_gendered(words: Mapping[Gender, str], jobs: Sequence[str]) -> None:
    feminine, masculine = words["feminine"], words["masculine"]
    if not feminine or not masculine or feminine == masculine:
        raise BadProbe(
            f"Gendered words {feminine!r} and {masculine!r}. Pass two different nouns, as lady, gentleman."
        )
    if clash := {feminine, masculine} & set(jobs):
        raise BadProbe(
            f"{min(clash)!r} is an occupation and a gendered word: its pairs would be entailed. Drop it."
        )


def _spread(items: Sequence[_T], n: int) -> tuple[_T, ...]:
    """n items at equal distances; all of them when there are no more than n."""
    if n < 1:
        raise BadProbe(f"A limit of {n} leaves nothing to ask. Pass 1 or more.")
    n = min(n, len(items))
    return tuple(items[i * len(items) // n] for i in range(n))


def _balanced(pairs: Sequence[LabeledPair], limit: int) -> list[LabeledPair]:
    if limit < len(LABELS):
        raise BadProbe(f"A limit of {limit} cannot hold all three labels. Pass {len(LABELS)} or more.")
    by_label = {label: [i for i, pair in enumerate(pairs) if pair.label == label] for label in LABELS}
    each = min(limit // len(LABELS), *map(len, by_label.values()))
    return [pairs[i] for i in sorted(i for group in by_label.values() for i in _spread(group, each))]


def _fingerprint(rows: Iterable[tuple[str, ...]]) -> str:
    return hashlib.sha256(json.dumps(list(rows)).encode()).hexdigest()


def _labeled(rows: Iterable[_Row]) -> tuple[list[LabeledPair], dict[str, int]]:
    pairs: list[LabeledPair] = []
    skipped: Counter[str] = Counter()
    for where, premise, hypothesis, given in rows:
        if given in _NO_GOLD:
            skipped["no gold label"] += 1
        elif not premise or not hypothesis:
            skipped["empty text"] += 1
        else:
            pairs.append(LabeledPair(premise, hypothesis, _read_label(given, where)))
    return pairs, dict(skipped)


def _read_label(given: str, where: str) -> Label:
    for index, label in enumerate(LABELS):
        if given.lower() in (label, str(index)):
            return label
    raise BadProbe(
        f"{where}: label {given!r}. Allowed: {', '.join(LABELS)}, or 0, 1, 2 in that order; - for none."
    )


def _data_file(path: Path) -> Path:
    if path.is_dir():
        path = next((path / file for file in _FOLDER_FILES if (path / file).is_file()), path)
    if not path.is_file():
        raise BadProbe(
            f"No pairs at {path}. Pass a file, a folder with {', '.join(_FOLDER_FILES)}, or hub:snli."
        )
    return path


def _file_rows(path: Path) -> Iterator[_Row]:
    # Read line by line, not as one CSV stream: a stray quotation mark then spoils one line, not the rest of
    # the file.
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadProbe(
            f"{path} is not readable UTF-8 text ({error}). Pass a .tsv, .jsonl or .txt file."
        ) from error
    numbered = [(f"{path}, line {n}", line.rstrip("\r")) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise BadProbe(f"{path} is empty. Expected a header and labeled pairs.")
    records = (_json_records if numbered[0][1].startswith("{") else _tsv_records)(numbered)
    for where, record in records:
        yield where, *_columns(record, where)


def _json_records(numbered: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for where, line in numbered:
        try:
            yield where, dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise BadProbe(
                f"{where}: {line[:40]!r} is not a JSON object. Expected one object a line."
            ) from error


def _tsv_records(numbered: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    header = numbered[0][1].split("\t")
    _columns(dict.fromkeys(header, ""), numbered[0][0])
    # SNLI's own .txt is unquoted; tables written by csv libraries quote a cell and double its quotation
    # marks.
    quoted = re.compile(r"(?!)" if "gold_label" in header else r'"((?:[^"]|"")*)"')
    for where, line in numbered[1:]:
        cells = [
            m[1].replace('""', '"') if (m := quoted.fullmatch(cell)) else cell for cell in line.split("\t")
        ]
        if len(cells) != len(header):
            raise BadProbe(
                f"{where}: {len(cells)} columns, the header has {len(header)}. Separate them by one tab."
            )
        yield where, dict(zip(header, cells, strict=True))


def _columns(record: Mapping[str, Any], where: str) -> tuple[str, str, str]:
    for names in _COLUMNS:
        if set(names) <= record.keys():
            premise, hypothesis, label = ("" if record[k] is None else str(record[k]).strip() for k in names)
            return premise, hypothesis, label
    known = " or ".join(", ".join(names) for names in _COLUMNS)
    raise BadProbe(f"{where}: columns {', '.join(map(str, record))}. Expected {known}.")


def _hub_rows(name: str) -> Iterator[_Row]:
    try:
        import datasets
    except ImportError as error:
        raise BadProbe(f"hub:{name} needs datasets: pip install 'levelhead[hub]', or pass a file.") from error
    repository, _, split = name.partition("@")
    try:
        table = datasets.load_dataset(_HUB_NAMES.get(repository, repository), split=split or "test")
    except Exception as error:  # the hub's client has no common parent for its errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise BadProbe(
            f"hub:{name} did not load ({reason}). Check the name and network, or pass a file."
        ) from error
    names = getattr(table.features.get("label"), "names", None)
    for n, record in enumerate(table):
        where = f"hub:{name}, row {n}"
        premise, hypothesis, label = _columns(record, where)
        # The table's own names beat the order 0, 1, 2, which other NLI sets do not share.
        yield where, premise, hypothesis, names[int(label)] if names and label.isdecimal() else label
