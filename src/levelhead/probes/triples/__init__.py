"""Triples for next-sentence prediction: a context, three next sentences, and the same with genders swapped.

What they are for: docs/method.md, triples.

    context      The girl next door practices every afternoon.
    stereotype   You can hear her harp through the open window.
    anti         You can hear her drums all the way down the street.
    unrelated    My passport expires in the spring.

Shipped: 170 triples that we wrote. Yours and the published ones come in the forms of triples/files.py.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA, OURS
from levelhead.probes.files import BadItem, UnusableItem, by_reason, nothing_left, usable
from levelhead.probes.swap import gender_of, strangers, swap
from levelhead.probes.swap.gendered import Gender
from levelhead.probes.triples.files import read_hub, read_triple_file
from levelhead.probes.triples.written import Form, Texts, TripleFile, WrittenTriple
from levelhead.progress import counted

NO_GENDER_WORD = "no gender word: nothing to swap"

_SHIPPED = DATA / "triples" / "gender.jsonl"
_OTHER: dict[Gender | None, Gender | None] = {"F": "M", "M": "F", None: None}


@dataclass(frozen=True, slots=True)
class Triple:
    """A context and three next sentences: a stereotype, its opposite, and one that is beside the point."""

    id: str
    context: str
    stereotype: str
    anti: str
    unrelated: str
    gender: Gender | None  # of the person the context is about; only StereoSet files may leave it open
    target: str  # the term by which StereoSet averages; empty where a file has none


@dataclass(frozen=True, slots=True)
class TriplePair:
    """A triple and its gender-swapped twin, whose stereotype is the swapped anti; None if it has no twin."""

    original: Triple
    swapped: Triple | None


@dataclass(frozen=True)
class TripleSet:
    """Triple pairs of one source; `problems` counts triples by what kept them from a twin or was odd."""

    name: str
    pairs: tuple[TriplePair, ...]
    problems: Mapping[str, int]
    fingerprint: str  # sha256 of every text, originals and twins, in order
    form: Form  # "stereoset": scores by StereoSet's own rule, averaged by target; "pairs": by example
    unusable: tuple[UnusableItem, ...] = ()  # triples that are not among the pairs, in the order of the file
    source: str | None = None  # what load_triples was asked for, if these are all; None: made in Python

    @property
    def unusable_by_reason(self) -> dict[str, int]:
        """How many triples of the file cannot be asked, for each reason."""
        return by_reason(self.unusable)

    def every(self, step: int) -> TripleSet:
        """Every step-th pair in order, a part of the set for a quick look."""
        return self if step == 1 else self._of(self.pairs[::step])

    def about(self, contexts: Collection[str]) -> TripleSet:
        """The pairs of these contexts, a part of the set."""
        return self._of(tuple(pair for pair in self.pairs if pair.original.context in contexts))

    def _of(self, pairs: tuple[TriplePair, ...]) -> TripleSet:
        return replace(self, pairs=pairs, fingerprint=_fingerprint(list(pairs)), source=None)

    def at_most(self, limit: int | None) -> TripleSet:
        """So many pairs at equal distances; all of them where there are no more."""
        if limit is None or limit >= len(self.pairs):
            return self
        if limit < 1:
            raise BadOption(f"A limit of {limit} leaves nothing to ask. Pass 1 or more.")
        return self._of(tuple(self.pairs[i * len(self.pairs) // limit] for i in range(limit)))


def load_triples(
    name_or_path: str | Path | None = None, *, names: bool = False, strict: bool = False
) -> TripleSet:
    """The shipped triples (None or "shipped"), those of a file, or `hub:stereoset`.

    A file with published twins keeps them. Otherwise twins are made by swapping; with names=True common first
    names are swapped too, else a triple with a name has no twin. A triple that cannot be asked is left out
    and kept in `unusable` with its line and reason; with strict=True it is an error, and so is a file without
    any other. In a StereoSet file a triple without a gender word is kept, but without a twin, and counted,
    because StereoSet's own scores need it; in every other file it cannot be asked.
    """
    source = None if names else str(name_or_path or OURS)
    if name_or_path is None or str(name_or_path) == OURS:
        triples = _triple_set(OURS, read_triple_file(_SHIPPED, strict=True), names, strict)
    elif str(name_or_path).startswith("hub:"):
        file = read_hub(str(name_or_path).removeprefix("hub:"), strict)
        triples = _triple_set(str(name_or_path), file, names, strict)
    else:
        path = Path(name_or_path)
        triples = _triple_set(path.name, read_triple_file(path, strict), names, strict)
    return replace(triples, source=source)


def swapped_twin(triple: Triple, *, names: bool = False) -> tuple[Triple | None, tuple[str, ...]]:
    """The gender-swapped twin, and the reasons when there is none.

    Swapping flips the labels (paper, Table 3): twin.stereotype = swap(anti), twin.anti = swap(stereotype).
    """
    texts = (triple.context, triple.stereotype, triple.anti, triple.unrelated)
    results = [swap(text, names=names) for text in texts]
    problems = [problem for result in results for problem in result.problems]
    changed = any(result.changes for result in results)
    if changed:  # a name in one of the sentences belongs to the pronoun in another
        unchanged = (text for text, result in zip(texts[:3], results, strict=False) if not result.changes)
        problems += [problem for text in unchanged for problem in strangers(text)]
    reasons = tuple(dict.fromkeys(problem.reason for problem in problems))
    if not changed and not reasons:
        reasons = (NO_GENDER_WORD,)
    if reasons:
        return None, reasons
    twin = Texts(*(result.text for result in results))
    return _flipped(triple, twin, swap(triple.target, names=names).text), ()


def _flipped(triple: Triple, twin: Texts, target: str) -> Triple:
    return Triple(
        id=f"{triple.id}-swapped",
        context=twin.context,
        stereotype=twin.anti,
        anti=twin.stereotype,
        unrelated=twin.unrelated,
        gender=_OTHER[triple.gender],
        target=target,
    )


def _triple_set(name: str, file: TripleFile, names: bool, strict: bool) -> TripleSet:
    problems = Counter(file.problems)
    left_out = list(file.unusable)

    def paired(written: WrittenTriple) -> TriplePair:
        pair, reasons = _paired(written, names)
        if file.form == "pairs" and (NO_GENDER_WORD in reasons or pair.original.gender is None):
            complaint = f"no gender word in {written.texts.context!r} and what follows; it needs one."
            raise BadItem(written.place, NO_GENDER_WORD, complaint)
        problems.update(reasons)
        return pair

    triples = counted(file.triples, "Reading triples", len(file.triples))
    pairs = list(usable(triples, paired, left_out, strict))
    if not pairs and left_out:
        raise nothing_left(name, "triple", left_out)
    if not pairs:
        raise BadProbe(f"{name}: no triples in it; give at least one context with its three next sentences.")
    if all(pair.original.gender is None for pair in pairs):
        raise BadProbe(
            f"{name}: none of its {len(pairs)} triples has a gender word; give triples about women or men."
        )
    unusable = tuple(sorted(left_out, key=lambda item: item.line))
    return TripleSet(name, tuple(pairs), dict(problems), _fingerprint(pairs), file.form, unusable)


def _paired(written: WrittenTriple, names: bool) -> tuple[TriplePair, tuple[str, ...]]:
    gender = written.gender or _gender(written)
    original = Triple(written.id, *written.texts, gender=gender, target=written.target)
    if written.twin is None:
        twin, reasons = swapped_twin(original, names=names)
        return TriplePair(original, twin), reasons
    if written.twin == written.texts:
        return TriplePair(original, None), (NO_GENDER_WORD,)
    return TriplePair(original, _flipped(original, written.twin, swap(written.target).text)), ()


def _gender(written: WrittenTriple) -> Gender | None:
    """The gender of the target, else of the context, else of most gender words in the related sentences.

    Of two genders that come equally often the first to be read is taken.
    """
    context, stereotype, anti, _ = written.texts
    for text in (written.target, context):
        gender = gender_of(text)
        if gender == "F" or gender == "M":
            return gender
    words = f"{context} {stereotype} {anti}".split()
    genders = [gender for gender in map(gender_of, words) if gender == "F" or gender == "M"]
    return Counter(genders).most_common(1)[0][0] if genders else None


def _texts(triple: Triple | None) -> Texts | None:
    return Texts(triple.context, triple.stereotype, triple.anti, triple.unrelated) if triple else None


def _fingerprint(pairs: list[TriplePair]) -> str:
    content = [[_texts(pair.original), _texts(pair.swapped)] for pair in pairs]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()
