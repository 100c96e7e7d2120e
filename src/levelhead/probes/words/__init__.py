"""Word lists of an association test: two sets of attribute words, two sets of target words.

Shipped, written by us: gender, race, career, math, science. Yours: a TOML file (docs/own-words.md):

    name = "religion"                                  # optional; the file's name otherwise
    labels = ["Muslim", "Christian", "threat", "peace"]  # optional; names of A, B, X, Y in reports
    axis = "religion"                                  # optional; what A and B differ in (probes/bias.py)
    not_covered = "Jews, Hindus, no religion"          # optional; whom the list says nothing about
    pairs = [["mosque", "church"], ["imam", "pastor"]]   # A and B at once, counterparts side by side
    X = ["violent", "hostile"]                           # stereotyped with A
    Y = ["peaceful", "friendly"]                         # stereotyped with B
    [parts]                                              # optional, last: kinds of targets
    traits = ["violent", "peaceful", "hostile", "friendly"]

A and B can be lists of their own instead; pairs are then optional. In memory the same is a dict of lists.
Published lists load as they are: a folder with female.txt, male.txt and stereotype.txt; a .json of race
attributes; a SEAT .jsonl.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from levelhead.errors import BadProbe
from levelhead.probes import DATA
from levelhead.probes.files import Place, check_length, is_whole, parse_json, read_text
from levelhead.probes.words.file import GROUPS, WordLists, checked_words, read_word_file

SHIPPED = DATA / "words"
GENDER_FILES = ("female.txt", "male.txt", "stereotype.txt")


@dataclass(frozen=True)
class WordTest:
    """Attribute words A and B, target words X (stereotyped with A) and Y (stereotyped with B).

    A word that a list repeats counts as often as it is listed; its vector is computed once.
    """

    name: str
    A: tuple[str, ...]
    B: tuple[str, ...]
    X: tuple[str, ...]
    Y: tuple[str, ...]
    labels: tuple[str, str, str, str] = GROUPS  # what A, B, X, Y are called in reports
    pairs: tuple[tuple[str, str], ...] = ()  # attribute counterparts (a, b)
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()  # kinds of targets: name, words of X and Y
    axis: str = ""  # what A and B differ in, where the list declares it: gender, race, ...
    not_covered: str = ""  # who and what the list says nothing about, in its author's words

    def __post_init__(self) -> None:
        for group, members in self.groups().items():
            if not members:
                raise BadProbe(f"{self.name}: the list {group} is empty; give it at least one word.")
        for one, other in (("A", "B"), ("X", "Y")):
            both = {w.casefold() for w in self.groups()[one]} & {w.casefold() for w in self.groups()[other]}
            if both:
                words = ", ".join(f'"{word}"' for word in sorted(both))
                raise BadProbe(f"{self.name}: {words} in {one} and in {other}; keep each in one of them.")

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The four sets by their letter."""
        return {"A": self.A, "B": self.B, "X": self.X, "Y": self.Y}

    def counterparts(self) -> dict[str, tuple[str, ...]]:
        """Counterparts of every attribute word, both ways: "her" -> ("him", "his"), "him" -> ("her",)."""
        if not self.pairs:
            raise BadProbe(
                f"{self.name}: no pairs are given and |A| = {len(self.A)}, |B| = {len(self.B)}; "
                'swapping words needs pairs = [["a", "b"], …] in the word list.'
            )
        counterparts: dict[str, tuple[str, ...]] = {}
        for a, b in self.pairs:
            for word, other in ((a, b), (b, a)):
                known = counterparts.get(word, ())
                counterparts[word] = known if other in known else (*known, other)
        return counterparts

    def trimmed(self) -> WordTest:
        """The same test with X and Y of one size: the longer of the two loses its last words."""
        size = min(len(self.X), len(self.Y))
        return replace(self, X=self.X[:size], Y=self.Y[:size])

    def by_part(self) -> dict[str, WordTest]:
        """The test of each kind of targets by its name; a kind needs two words of X and two of Y."""
        tests = {}
        for name, words in self.parts:
            x, y = (tuple(word for word in side if word in words) for side in (self.X, self.Y))
            if min(len(x), len(y)) >= 2:
                tests[name] = replace(self, X=x, Y=y, parts=())
        return tests

    def of(self, words: Collection[str]) -> WordTest:
        """The test of some of its words; a pair stays where both of its words do."""
        a, b, x, y = (tuple(word for word in side if word in words) for side in self.groups().values())
        pairs = tuple(pair for pair in self.pairs if pair[0] in words and pair[1] in words)
        return replace(self, A=a, B=b, X=x, Y=y, pairs=pairs)

    def fingerprint(self) -> str:
        """A hash of the words, their order, pairs and parts; what else the list says does not count."""
        return _hash([self.A, self.B, self.X, self.Y, self.pairs, *([self.parts] if self.parts else [])])


@dataclass(frozen=True)
class SentenceTest:
    """A sentence-level association test: targets X, Y and attributes A, B are whole sentences.

    Reference: May et al. 2019, whose files this holds as they are. How a sentence becomes one vector is the
    scorer's choice (docs/method.md, SEAT): the paper took each encoder's own way, [CLS] for BERT.
    """

    name: str
    A: tuple[str, ...]
    B: tuple[str, ...]
    X: tuple[str, ...]
    Y: tuple[str, ...]
    labels: tuple[str, str, str, str] = GROUPS

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The four sets by their letter."""
        return {"A": self.A, "B": self.B, "X": self.X, "Y": self.Y}

    def fingerprint(self) -> str:
        """A hash of the sentences and their order."""
        return _hash([self.A, self.B, self.X, self.Y])


def shipped_words() -> tuple[str, ...]:
    """Names of the word lists that come with levelhead."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


Words = str | Path | WordTest | Mapping[str, object]  # a list by name or path, or in memory


def load_words(words: Words, trim: bool = False) -> WordTest:
    """A shipped word list by its name, a user's TOML file or a published list by its path, or in memory:
    {"name": "religion", "pairs": [("mosque", "church")], "X": ["violent"], "Y": ["peaceful"]}.

    trim: cut X and Y to equal size; without it they stay as they are.
    """
    if isinstance(words, WordTest):
        test = words
    else:
        test = _test(checked_words(words)) if isinstance(words, Mapping) else _load(words)
    return test.trimmed() if trim else test


def words_name(words: Words) -> str:
    """How settings name a word list: as it was given, or by the name of one in memory."""
    return load_words(words).name if isinstance(words, WordTest | Mapping) else str(words)


def in_memory(words: Words) -> bool:
    """Whether a word list was made in Python, so that no name or path leads to it."""
    if not isinstance(words, WordTest | Mapping):
        return False
    test = load_words(words)
    return test.name not in shipped_words() or test != load_words(test.name)


def _test(lists: WordLists) -> WordTest:
    sets = (lists.A, lists.B, lists.X, lists.Y)
    return WordTest(lists.name, *sets, lists.labels, lists.pairs, lists.parts, lists.axis, lists.not_covered)


def _load(name_or_path: str | Path) -> WordTest:
    if str(name_or_path) in shipped_words():
        return _shipped(SHIPPED / f"{name_or_path}.toml")
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return load_published_gender(path)
    if not path.is_file():
        near = difflib.get_close_matches(str(name_or_path), shipped_words(), 1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise BadProbe(
            f'No word list "{name_or_path}": neither a file nor one of {", ".join(shipped_words())}.{hint} '
            "Your own list is a .toml file; see docs/own-words.md."
        )
    if path.suffix == ".json":
        return load_published_race(path)
    if path.suffix == ".jsonl":
        return _words_of(load_seat_test(path))
    if path.suffix != ".toml":
        allowed = ".toml, .json (race attributes), .jsonl (SEAT) or a folder"
        raise BadProbe(f"{path.name}: not a word list; those are {allowed}.")
    return _test(read_word_file(path))


@cache  # a function that is asked with many coins names its list each time
def _shipped(path: Path) -> WordTest:
    return _test(read_word_file(path))


def _words_of(test: SentenceTest) -> WordTest:
    """A WEAT file read as words. It states no counterparts, so there are no pairs."""
    for group, examples in test.groups().items():
        for example in examples:
            if example.endswith(".") and " " in example:
                advice = "sentence tests run with `levelhead seat MODEL FILE`"
                raise BadProbe(
                    f'{test.name}.jsonl: "{example}" in {group} is a sentence, not a word; {advice}.'
                )
    return WordTest(test.name, test.A, test.B, test.X, test.Y, test.labels)


def load_published_gender(folder: str | Path) -> WordTest:
    """The lists of Zhao et al. 2018 and Kaneko and Bollegala 2019.

    female.txt and male.txt pair up line by line; stereotype.txt alternates female- and male-stereotyped
    words. Read as they are, repeats and joined words ("hair_salon") included; two words are attribute and
    target at once.
    """
    folder = Path(folder)
    missing = [name for name in GENDER_FILES if not (folder / name).is_file()]
    if missing:
        raise BadProbe(
            f"{folder}: {', '.join(missing)} not found; a folder of words holds {', '.join(GENDER_FILES)}."
        )
    female, male, stereotype = (_lines(folder / name) for name in GENDER_FILES)
    if len(female) != len(male):
        counts = f"{len(female)} words in female.txt, {len(male)} in male.txt"
        raise BadProbe(f"{folder}: {counts}; they pair up line by line.")
    labels = ("feminine", "masculine", "female-stereotyped", "male-stereotyped")
    targets = (tuple(stereotype[0::2]), tuple(stereotype[1::2]))
    pairs = tuple(zip(female, male, strict=True))
    return WordTest("published-gender", tuple(female), tuple(male), *targets, labels, pairs, axis="gender")


def load_published_race(path: str | Path) -> WordTest:
    """The race attributes of Manzini et al. 2019: the first two columns of its first three sets, and roles.

    The other three sets name continents; the paper that we follow (Yang et al.) has three pairs. Roles are 5
    and 6; trimmed, they are that paper's 10 targets.
    """
    path = Path(path)
    data = _json(path)
    try:
        pairs = tuple((str(words[0]), str(words[1])) for words in data["definite_sets"][:3])
        roles = data["analogy_templates"]["role"]
        targets = (tuple(map(str, roles["black"])), tuple(map(str, roles["caucasian"])))
    except (KeyError, IndexError, TypeError) as error:
        raise BadProbe(
            f"{path.name}: no race attributes ({error!r}); expected definite_sets and analogy_templates.role "
            "with black and caucasian."
        ) from None
    if not all(map(is_whole, (*(word for pair in pairs for word in pair), *targets[0], *targets[1]))):
        raise BadProbe(f"{path.name}: a word has half a character (a lone surrogate); write it whole.")
    labels = ("African American", "Caucasian", "stereotyped as Black", "stereotyped as white")
    A, B = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return WordTest("published-race", A, B, *targets, labels, pairs, axis="race")


def load_seat_test(path: str | Path) -> SentenceTest:
    """A SEAT or WEAT file: targ1, targ2, attr1, attr2 become X, Y, A, B, with their categories as labels."""
    path = Path(path)
    data = _json(path)
    (a, A), (b, B), (x, X), (y, Y) = (
        _seat_set(path, data, key) for key in ("attr1", "attr2", "targ1", "targ2")
    )
    return SentenceTest(path.stem, A, B, X, Y, (a, b, x, y))


def _seat_set(path: Path, data: Any, key: str) -> tuple[str, tuple[str, ...]]:
    part = data.get(key) if isinstance(data, dict) else None
    examples = part.get("examples") if isinstance(part, dict) else None
    texts = examples if isinstance(examples, list) else []
    if not texts or not all(isinstance(text, str) and text.strip() and is_whole(text) for text in texts):
        needed = "a list of texts, examples; a SEAT file has targ1, targ2, attr1 and attr2"
        raise BadProbe(f"{path.name}: {key} must hold {needed}.")
    return str(part.get("category", key)) if isinstance(part, dict) else key, tuple(texts)


def _lines(path: Path) -> list[str]:
    text = read_text(path, "Name a text file in UTF-8.")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        check_length(line, Place(path.name, number))
    return lines


def _json(path: Path) -> Any:
    value, reason, line = parse_json(read_text(path, "Name a JSON file in UTF-8."))
    if reason:
        raise BadProbe(f"{path.name} line {line}: {reason}.")
    check_length(value, Place(path.name, 1))
    return value


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:16]
