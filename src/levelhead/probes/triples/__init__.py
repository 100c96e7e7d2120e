"""Triples for next-sentence prediction: a context, three next sentences, and the same with genders swapped.

What they are for: docs/method/sentences.md, triples.

    context      The girl next door practices every afternoon.
    stereotype   You can hear her harp through the open window.
    anti         You can hear her drums all the way down the street.
    unrelated    My passport expires in the spring.

Shipped: 170 triples that we wrote. Yours and the published ones come in the forms of triples/files.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from levelhead.errors import BadProbe
from levelhead.probes import DATA, OURS, evenly, json_hash
from levelhead.probes.files import BadItem, UnusableItem, by_reason, nothing_left, usable
from levelhead.probes.swap import gender_of, strangers, swap
from levelhead.probes.swap.gendered import Gender
from levelhead.probes.triples.files import Form, Texts, WrittenTriple, read_triple_file
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
    """A triple and its counterfactual, if it has one, whose stereotype is the swapped anti."""

    original: Triple
    swapped: Triple | None


@dataclass(frozen=True)
class TripleSet:
    """Triple pairs of one source."""

    name: str
    pairs: tuple[TriplePair, ...]
    problems: Mapping[str, int]  # triples by what was odd or kept them from a counterfactual
    fingerprint: str  # sha256 of every text, originals and counterfactuals, in order
    form: Form  # "stereoset": scores by StereoSet's own rule, averaged by target; "pairs": by example
    unusable: tuple[UnusableItem, ...] = ()  # triples that are not among the pairs, in the order of the file
    source: str | None = None  # what load_triples was given, if these are all; None: made in Python

    @property
    def unusable_by_reason(self) -> dict[str, int]:
        """How many triples of the file cannot be evaluated, for each reason."""
        return by_reason(self.unusable)

    def every(self, step: int) -> TripleSet:
        """Every step-th pair in order, a part of the set for a quick run."""
        return self if step == 1 else self._of(self.pairs[::step])

    def about(self, contexts: Collection[str]) -> TripleSet:
        """The pairs of these contexts, a part of the set."""
        return self._of(tuple(pair for pair in self.pairs if pair.original.context in contexts))

    def _of(self, pairs: tuple[TriplePair, ...]) -> TripleSet:
        return replace(self, pairs=pairs, fingerprint=_fingerprint(pairs), source=None)

    def at_most(self, limit: int | None) -> TripleSet:
        """So many pairs at equal distances; all of them where there are no more."""
        all_fit = limit is None or limit >= len(self.pairs)
        return self if limit is None or all_fit else self._of(evenly(self.pairs, limit))


def load_triples(
    name_or_path: str | Path | None = None, *, names: bool = False, strict: bool = False
) -> TripleSet:
    """The shipped triples (None or "shipped"), those of a file, or `hub:stereoset`.

    A file with published counterfactuals keeps them. Otherwise counterfactuals are made by swapping; with
    names=True common first names are swapped too, else a triple with a name has no counterfactual. A triple
    that cannot be evaluated is left out and kept in `unusable` with its line and reason; with strict=True it
    is an error, and so is a file without any other. In a StereoSet file a triple without a gender word is
    kept, but without a counterfactual, and counted, because StereoSet's own scores need it; in every other
    file it cannot be evaluated.
    """
    named = OURS if name_or_path is None else str(name_or_path)
    shipped = named == OURS
    name = named if shipped or named.startswith("hub:") else Path(named).name
    file = read_triple_file(_SHIPPED if shipped else named, strict or shipped)
    problems, left_out = Counter(file.problems), list(file.unusable)

    def paired(written: WrittenTriple) -> TriplePair:
        """A triple with its counterfactual; what kept it from having one is counted."""
        gender = written.gender
        # The gender of the target, else of the context, else of most gender words in the related sentences.
        context, stereotype, anti, _ = written.texts
        for text in (written.target, context):
            stated = gender_of(text) if gender is None else None
            gender = stated if stated == "F" or stated == "M" else gender
        if gender is None:
            words = map(gender_of, f"{context} {stereotype} {anti}".split())
            genders = Counter(word for word in words if word == "F" or word == "M")
            gender = genders.most_common(1)[0][0] if genders else None  # of two equally often the first
        original = Triple(written.id, *written.texts, gender=gender, target=written.target)
        pair, reasons = TriplePair(original, None), tuple[str, ...]()
        if written.counterfactual is None:
            counterfactual, reasons = counterfactual_of(original, names=names)
            pair = TriplePair(original, counterfactual)
        elif written.counterfactual != written.texts:
            target = swap(written.target).text
            pair = TriplePair(original, _flipped(original, written.counterfactual, target))
        else:
            reasons = (NO_GENDER_WORD,)
        if file.form == "pairs" and (NO_GENDER_WORD in reasons or pair.original.gender is None):
            complaint = f"no gender word in {written.texts.context!r} and what follows; it needs one."
            raise BadItem(written.place, NO_GENDER_WORD, complaint)
        problems.update(reasons)
        return pair

    triples = counted(file.triples, "Reading triples", len(file.triples))
    pairs = tuple(usable(triples, paired, left_out, strict))
    if not pairs and left_out:
        raise nothing_left(name, "triple", left_out)
    if not pairs:
        raise BadProbe(f"{name}: no triples in it; give at least one context with its three next sentences.")
    if all(pair.original.gender is None for pair in pairs):
        raise BadProbe(
            f"{name}: none of its {len(pairs)} triples has a gender word; give triples about women or men."
        )
    unusable = tuple(sorted(left_out, key=lambda item: item.line))
    source = None if names else named
    return TripleSet(name, pairs, dict(problems), _fingerprint(pairs), file.form, unusable, source)


def counterfactual_of(triple: Triple, *, names: bool = False) -> tuple[Triple | None, tuple[str, ...]]:
    """The counterfactual, and the reasons when there is none.

    Swapping flips the labels (paper, Table 3): counterfactual.stereotype = swap(anti), counterfactual.anti =
    swap(stereotype).
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
    counterfactual = Texts(*(result.text for result in results))
    return _flipped(triple, counterfactual, swap(triple.target, names=names).text), ()


def _flipped(triple: Triple, counterfactual: Texts, target: str) -> Triple:
    return Triple(
        id=f"{triple.id}-swapped",
        context=counterfactual.context,
        stereotype=counterfactual.anti,
        anti=counterfactual.stereotype,
        unrelated=counterfactual.unrelated,
        gender=_OTHER[triple.gender],
        target=target,
    )


def _fingerprint(pairs: tuple[TriplePair, ...]) -> str:
    content = [
        [[x.context, x.stereotype, x.anti, x.unrelated] if x else None for x in (pair.original, pair.swapped)]
        for pair in pairs
    ]
    return json_hash(content)
