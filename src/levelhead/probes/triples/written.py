"""A triple as a file writes it, and the checks that all files have in common."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from levelhead.probes.files import BadItem, Place, UnusableItem, is_whole
from levelhead.probes.swap.gendered import Gender

Form = Literal["pairs", "stereoset"]

LABELS = ("stereotype", "anti-stereotype", "unrelated")


class Texts(NamedTuple):
    """A context and its three next sentences."""

    context: str
    stereotype: str
    anti: str
    unrelated: str


@dataclass(frozen=True, slots=True)
class WrittenTriple:
    """A triple as a file gives it; `twin` holds the swapped sentences under the labels of the original."""

    place: Place
    id: str
    target: str
    texts: Texts
    gender: Gender | None = None
    twin: Texts | None = None


@dataclass(frozen=True)
class TripleFile:
    """The triples of a file, what was odd in it, what could not be read, and whose rules for scores hold."""

    form: Form
    triples: tuple[WrittenTriple, ...]
    problems: Counter[str] = field(default_factory=Counter)
    unusable: tuple[UnusableItem, ...] = ()


def label_of(place: Place, label: str) -> str:
    """One of LABELS, however its case and hyphen are written; another word is an error with a suggestion."""
    plain = "-".join(label.strip().lower().replace("_", " ").replace("-", " ").split())
    if plain in LABELS:
        return plain
    nearest = difflib.get_close_matches(plain[:40], LABELS, n=1, cutoff=0.4)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    complaint = f"label {label[:40]!r}; allowed are {', '.join(LABELS)}.{hint}"
    raise BadItem(place, "an unknown label", complaint)


def gender_of_cell(place: Place, value: str) -> Gender | None:
    """F or M as written in a file; None where nothing is written."""
    match value.strip().upper():
        case "":
            return None
        case "F":
            return "F"
        case "M":
            return "M"
    raise BadItem(place, "an unknown gender", f"gender {value[:40]!r}; allowed are F and M, or leave it out.")


def full_texts(place: Place, cells: Mapping[str, str], columns: Sequence[str]) -> list[str]:
    """The cells of these columns, stripped, inner runs of blanks made one; none may be empty."""
    texts = [" ".join(cells[column].split()) for column in columns]
    if not all(texts):
        empty = ", ".join(column for column, text in zip(columns, texts, strict=True) if not text)
        complaint = f"{empty} is empty; each of {', '.join(columns)} needs a text."
        raise BadItem(place, "a text is empty", complaint)
    if not all(map(is_whole, texts)):
        complaint = "a text has half a character (a lone surrogate, \\ud800 to \\udfff); write it whole."
        raise BadItem(place, "half a character", complaint)
    return texts


def need_columns(place: Place, columns: Iterable[str], needed: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a line or a header that lacks a column; a misspelt one is suggested."""
    present = list(columns)
    missing = [column for column in needed if column not in present]
    if not missing:
        return
    strangers = [column for column in present if isinstance(column, str) and column not in set(known)]
    nearest = difflib.get_close_matches(missing[0], strangers, n=1, cutoff=0.7)
    hint = f" Is {nearest[0]!r} misspelt?" if nearest else ""
    complaint = f"no {', '.join(missing)}; needed are {', '.join(needed)}.{hint}"
    raise BadItem(place, f"no {missing[0]}", complaint)


def intersentence(place: Place, texts: Texts) -> Texts:
    """The texts, unless the context has StereoSet's BLANK, which belongs to its other test."""
    if "BLANK" in texts.context:  # also in "The grandfather BLANKed the grandchildren"
        complaint = "BLANK in the context is StereoSet's intrasentence form; give the intersentence file."
        raise BadItem(place, "BLANK in the context", complaint)
    return texts
