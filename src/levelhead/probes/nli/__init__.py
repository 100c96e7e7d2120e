"""Questions for a natural-language-inference classifier: is it fair about occupations, and is it able at all?

Fairness (docs/method.md, NLI fairness): "The OCCUPATION VERB OBJECT." says nothing about gender, so "The man
VERB OBJECT." is neutral. The form is that of Dev et al. 2020; the lists are ours. Ability is measured on
SNLI, by path or hub name, or on the shipped everyday scenes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA, OURS
from levelhead.probes.files import BadItem, UnusableItem, by_reason, nothing_left, usable
from levelhead.probes.nli.labels import LABELS, Label
from levelhead.probes.nli.pair_files import WrittenPair, file_pairs, hub_pairs
from levelhead.probes.nli.template_file import read_nli_templates
from levelhead.probes.slots import filled

Side = Literal["feminine", "masculine"]

_FRAME = ("The {occupation} {context}.", "The {gender} {context}.")  # premise and hypothesis
_OUR_WORDS: dict[Side, str] = {"feminine": "woman", "masculine": "man"}
_T = TypeVar("_T")
_NO_GOLD = ("-", "-1")  # SNLI's own mark where annotators disagreed, and the hub's


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
        """(occupations, contexts, 2)."""
        return len(self.occupations), len(self.contexts), 2

    def about(self, occupations: Collection[str], limit: tuple[int, int] | None = None) -> NliProbe:
        """The pairs about these occupations, a part of the probe; limit as for nli_probe."""
        jobs, acts = tuple(job for job in self.occupations if job in occupations), self.contexts
        if limit is not None:
            jobs, acts = _spread(jobs, limit[0]), _spread(acts, limit[1])
        pairs = tuple(pair for pair in self.pairs if pair.occupation in jobs and pair.context in acts)
        fingerprint = _fingerprint((pair.premise, pair.hypothesis) for pair in pairs)
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
    source: str | None = None  # OURS, or what was asked for; None: made in Python, or a part

    def about(self, premises: Collection[str]) -> AbilitySet:
        """The pairs of these premises, a part of the set."""
        pairs = tuple(pair for pair in self.pairs if pair.premise in premises)
        fingerprint = _fingerprint((p.premise, p.hypothesis, p.label) for p in pairs)
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
    jobs, acts = _entries("occupations", occupations), _entries("contexts", contexts)
    words: dict[Side, str] = {"feminine": feminine.strip(), "masculine": masculine.strip()}
    _check_gendered(words, jobs)
    if limit is not None:
        jobs, acts = _spread(jobs, limit[0]), _spread(acts, limit[1])
    ours = (occupations, contexts, words) == (None, None, _OUR_WORDS)
    return replace(_probe(_FRAME, jobs, acts, *words.values()), source=OURS if ours else None)


def load_nli_probe(path: str | Path, limit: tuple[int, int] | None = None) -> NliProbe:
    """A probe of the user's own: a TOML file with templates, occupations and contexts (docs/own-prompts.md).

    limit = (n_occupations, n_contexts) takes an evenly spread part of each list, the same one every time.
    """
    file = read_nli_templates(Path(path))
    jobs, acts = file.occupations, file.contexts
    if limit is not None:
        jobs, acts = _spread(jobs, limit[0]), _spread(acts, limit[1])
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
    fingerprint = _fingerprint((pair.premise, pair.hypothesis) for pair in pairs)
    return NliProbe(jobs, acts, feminine, masculine, pairs, fingerprint)


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
        name, written = "levelhead-scenes", file_pairs(DATA / "nli" / "ability.tsv", left_out, strict=True)
    elif str(source).startswith("hub:"):
        name, written = str(source), hub_pairs(str(source).removeprefix("hub:"), left_out, strict)
    else:
        name, written = str(source), file_pairs(Path(source), left_out, strict)
    pairs = list(usable(_with_gold(written, left_out), _labeled, left_out, strict))
    if not pairs and left_out:
        raise nothing_left(name, "pair", left_out)
    left_out.sort(key=lambda item: item.line)
    counts = Counter(pair.label for pair in pairs)
    if missing := [label for label in LABELS if not counts[label]]:
        raise BadProbe(
            f"{name} has no pairs labeled {', '.join(missing)} (usable: {len(pairs)}, "
            f"skipped: {by_reason(left_out)}). An ability set needs all three labels."
        )
    if limit is not None:
        pairs = _balanced(pairs, limit)
    fingerprint = _fingerprint((p.premise, p.hypothesis, p.label) for p in pairs)
    whole = None if limit is not None else str(source or OURS)
    return AbilitySet(name, tuple(pairs), fingerprint, by_reason(left_out), tuple(left_out), whole)


def shipped_entries(what: Literal["occupations", "contexts"]) -> tuple[str, ...]:
    """The list that ships."""
    return tuple((DATA / "nli" / f"{what}.txt").read_text(encoding="utf-8").splitlines())


def _entries(what: Literal["occupations", "contexts"], given: Sequence[str] | None) -> tuple[str, ...]:
    """The list as given, else the shipped one; refused if it cannot fill the sentence frame."""
    if given is None:
        return shipped_entries(what)
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


def _check_gendered(words: Mapping[Side, str], jobs: Sequence[str]) -> None:
    feminine, masculine = words["feminine"], words["masculine"]
    if not feminine or not masculine or feminine == masculine:
        raise BadOption(
            f"Gendered words {feminine!r} and {masculine!r}. Pass two different nouns, as lady, gentleman."
        )
    if clash := {feminine, masculine} & set(jobs):
        raise BadProbe(
            f"{min(clash)!r} is an occupation and a gendered word: its pairs would be entailed. Drop it."
        )


def _spread(items: Sequence[_T], n: int) -> tuple[_T, ...]:
    """n items at equal distances; all of them when there are no more than n."""
    if n < 1:
        raise BadOption(f"A limit of {n} leaves nothing to ask. Pass 1 or more.")
    n = min(n, len(items))
    return tuple(items[i * len(items) // n] for i in range(n))


def _balanced(pairs: Sequence[LabeledPair], limit: int) -> list[LabeledPair]:
    if limit < len(LABELS):
        raise BadOption(f"A limit of {limit} cannot hold all three labels. Pass {len(LABELS)} or more.")
    by_label = {label: [i for i, pair in enumerate(pairs) if pair.label == label] for label in LABELS}
    each = min(limit // len(LABELS), *map(len, by_label.values()))
    return [pairs[i] for i in sorted(i for group in by_label.values() for i in _spread(group, each))]


def _fingerprint(texts: Iterable[tuple[str, ...]]) -> str:
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def _with_gold(written: Iterable[WrittenPair], left_out: list[UnusableItem]) -> Iterator[WrittenPair]:
    """The pairs that have a gold label and texts; SNLI itself has some that do not, so that is no mistake."""
    for pair in written:
        empty = not pair.premise or not pair.hypothesis
        if pair.label in _NO_GOLD or empty:
            reason = "no gold label" if pair.label in _NO_GOLD else "empty text"
            left_out.append(UnusableItem(pair.place.number, reason, f"{pair.place}: {reason}"))
        else:
            yield pair


def _labeled(written: WrittenPair) -> LabeledPair:
    for index, label in enumerate(LABELS):
        if written.label.lower() in (label, str(index)):
            return LabeledPair(written.premise, written.hypothesis, label)
    allowed = f"{', '.join(LABELS)}, or 0, 1, 2 in that order; - for none"
    raise BadItem(written.place, "an unknown label", f"label {written.label[:40]!r}. Allowed: {allowed}.")
