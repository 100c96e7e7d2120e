"""Word lists of an association test: two sets of attribute words, two sets of target words.

Shipped, written by us: gender, race, career, math, science. Yours: a TOML file (docs/own-words.md), or a dict
of lists. Published lists load as they are: a folder with female.txt, male.txt and stereotype.txt; a .json of
race attributes; a SEAT .jsonl.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from levelhead.errors import BadProbe
from levelhead.probes import DATA, json_hash
from levelhead.probes.files import Place, check_length, is_whole, read_json, read_text
from levelhead.probes.words.file import GROUPS, checked_words, read_word_file

SHIPPED = DATA / "words"
GENDER_FILES = ("female.txt", "male.txt", "stereotype.txt")
ALL_WORDS, MATCHED, ONE_TOKEN = "all words", "matched by tokens", "one token"  # rows by number of tokens
Pair = tuple[str, str]
_SHORT = 3  # letters of a stem that both words of two pairs have: man in chairman, woman in chairwoman
_LONG = 5  # letters of a stem that one of the words has: Christian in Christianity
_SINGULAR = (  # endings of one word, to begin with: women and woman, wives and wife
    (re.compile(r"men$"), "man"),
    (re.compile(r"ves$"), "fe"),
    (re.compile(r"ies$"), "y"),
    (re.compile(r"(?<=s)es$"), ""),
    (re.compile(r"(?<=[^s])s$"), ""),
)


@dataclass(frozen=True)
class _Sets:
    name: str
    A: tuple[str, ...]
    B: tuple[str, ...]
    X: tuple[str, ...]
    Y: tuple[str, ...]
    labels: tuple[str, str, str, str] = GROUPS  # what A, B, X, Y are called in reports

    def groups(self) -> dict[str, tuple[str, ...]]:
        return {"A": self.A, "B": self.B, "X": self.X, "Y": self.Y}

    def fingerprint(self) -> str:
        """A hash of the words or sentences and their order."""
        return json_hash([self.A, self.B, self.X, self.Y])[:16]


@dataclass(frozen=True)
class WordTest(_Sets):
    """Attribute words A and B, target words X (stereotyped with A) and Y (stereotyped with B).

    A word that a list repeats counts as often as it is listed; its vector is computed once.
    """

    pairs: tuple[tuple[str, str], ...] = ()  # attribute counterparts (a, b)
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()  # kinds of targets: name, words of X and Y
    axis: str = ""  # what A and B differ in, where the list declares it: gender, race, ...
    not_covered: str = ""  # who and what the list says nothing about, in its author's words
    # counterparts that texts are exchanged by, a word per group, as many groups as there are; (): the pairs
    exchanged: tuple[tuple[str, ...], ...] = ()

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """What an exchange of the groups in a text puts in place of each other."""
        return self.exchanged or tuple(dict.fromkeys(self.pairs))

    def __post_init__(self) -> None:
        for group, members in self.groups().items():
            if not members:
                raise BadProbe(f"{self.name}: the list {group} is empty; give it at least one word.")
        for one, other in (("A", "B"), ("X", "Y")):
            both = {w.casefold() for w in self.groups()[one]} & {w.casefold() for w in self.groups()[other]}
            if both:
                words = ", ".join(f'"{word}"' for word in sorted(both))
                raise BadProbe(f"{self.name}: {words} in {one} and in {other}; keep each in one of them.")

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

    def by_part(self) -> dict[str, WordTest]:
        """The test of each kind of targets by its name; a kind needs two words of X and two of Y."""
        tests = {}
        for name, words in self.parts:
            x, y = (tuple(word for word in side if word in words) for side in (self.X, self.Y))
            if min(len(x), len(y)) >= 2:
                tests[name] = replace(self, X=x, Y=y, parts=())
        return tests

    def of(self, words: Collection[str]) -> WordTest:
        """The test of some of its words; a pair stays where both of its words do. Texts are exchanged by all
        rows of the whole, as a recipe that names the list has it."""
        a, b, x, y = (tuple(word for word in side if word in words) for side in self.groups().values())
        pairs = tuple(pair for pair in self.pairs if pair[0] in words and pair[1] in words)
        return replace(self, A=a, B=b, X=x, Y=y, pairs=pairs, exchanged=self.rows)

    def fingerprint(self) -> str:
        """A hash of the words, their order, pairs and parts; what else the list says does not count."""
        parts = [self.parts] if self.parts else []
        return json_hash([self.A, self.B, self.X, self.Y, self.pairs, *parts])[:16]


@dataclass(frozen=True)
class SentenceTest(_Sets):
    """A sentence-level association test: targets X, Y and attributes A, B are whole sentences.

    Reference: May et al. 2019, whose files this holds as they are. How a sentence becomes one vector is the
    scorer's choice (docs/method/words.md, SEAT): the paper took each encoder's own way, [CLS] for BERT.
    """


def shipped_words() -> tuple[str, ...]:
    """Names of the word lists that come with levelhead."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


Words = str | Path | WordTest | Mapping[str, object]  # a list by name or path, or in memory


def load_words(words: Words, trim: bool = False) -> WordTest:
    """A shipped word list by its name, a user's TOML file or a published list by its path, or in memory:
    {"name": "religion", "pairs": [("mosque", "church")], "X": ["violent"], "Y": ["peaceful"]}.

    trim: X and Y get one size, the longer of the two loses its last words; without it they stay as they are.
    """
    path = Path() if isinstance(words, WordTest | Mapping) else Path(words).expanduser()
    if isinstance(words, WordTest):
        test = words
    elif isinstance(words, Mapping):
        test = WordTest(*checked_words(words))
    elif str(words) in shipped_words():
        test = _shipped(SHIPPED / f"{words}.toml")
    elif path.is_dir():
        test = load_published_gender(path)
    elif not path.is_file():
        near = difflib.get_close_matches(str(words), shipped_words(), 1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise BadProbe(
            f'No word list "{words}": neither a file nor one of {", ".join(shipped_words())}.{hint} '
            "Your own list is a .toml file; see docs/own-words.md."
        )
    elif path.suffix == ".json":
        test = load_published_race(path)
    elif path.suffix == ".toml":
        test = WordTest(*read_word_file(path))
    elif path.suffix == ".jsonl":
        weat = load_seat_test(path)
        for group, examples in weat.groups().items():
            for example in examples:
                if example.endswith(".") and " " in example:
                    advice = "sentence tests run with `levelhead seat MODEL FILE`"
                    raise BadProbe(
                        f'{weat.name}.jsonl: "{example}" in {group} is a sentence, not a word; {advice}.'
                    )
        # It states no counterparts, so there are no pairs.
        test = WordTest(weat.name, weat.A, weat.B, weat.X, weat.Y, weat.labels)
    else:
        allowed = ".toml, .json (race attributes), .jsonl (SEAT) or a folder"
        raise BadProbe(f"{path.name}: not a word list; those are {allowed}.")
    size = min(len(test.X), len(test.Y))
    return replace(test, X=test.X[:size], Y=test.Y[:size]) if trim else test


@cache  # a function that is called with many coins names its list each time
def _shipped(path: Path) -> WordTest:
    return WordTest(*read_word_file(path))


def words_name(words: Words) -> str:
    """How settings name a word list: as it was given, or by the name of one in memory."""
    return load_words(words).name if isinstance(words, WordTest | Mapping) else str(words)


def in_memory(words: Words) -> bool:
    """Whether a word list was made in Python, so that no name or path leads to it."""
    if not isinstance(words, WordTest | Mapping):
        return False
    test = load_words(words)
    return test.name not in shipped_words() or test != load_words(test.name)


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
    columns = []
    for name in GENDER_FILES:
        text = read_text(folder / name, "Name a text file in UTF-8.")
        columns.append([line.strip() for line in text.splitlines() if line.strip()])
        for number, line in enumerate(columns[-1], start=1):
            check_length(line, Place(name, number))
    female, male, stereotype = columns
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
    data = read_json(path, "Name a JSON file in UTF-8.")
    check_length(data, Place(path.name, 1))
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
    data = read_json(path, "Name a JSON file in UTF-8.")
    check_length(data, Place(path.name, 1))
    sets: list[tuple[str, ...]] = []
    labels: list[str] = []
    for key in ("attr1", "attr2", "targ1", "targ2"):
        part = data.get(key) if isinstance(data, dict) else None
        examples = part.get("examples") if isinstance(part, dict) else None
        texts = examples if isinstance(examples, list) else []
        if not texts or not all(isinstance(text, str) and text.strip() and is_whole(text) for text in texts):
            needed = "a list of texts, examples; a SEAT file has targ1, targ2, attr1 and attr2"
            raise BadProbe(f"{path.name}: {key} must hold {needed}.")
        sets.append(tuple(texts))
        labels.append(str(part.get("category", key)) if isinstance(part, dict) else key)
    A, B, X, Y = sets
    return SentenceTest(path.stem, A, B, X, Y, (labels[0], labels[1], labels[2], labels[3]))


# ---- parts of a test


def rows_by_token_count(test: WordTest, tokens: Mapping[str, int]) -> dict[str, WordTest]:
    """One test three times, by the number of tokens that a tokenizer makes of each word, the row with the
    most words first; without rows in which fewer than two words of a set are left.

    A tokenizer that cuts feminine words into more tokens than masculine ones, and female-stereotyped words
    into more than male-stereotyped ones, gives even a null model an association between them. Words of one
    token, or of equally many, have none of that. Which row is sound for a model is what its null says
    (measures/null.py, sound_choice).

    One token: pairs of two one-token words, targets of one token. Matched: pairs of two words with equally
    many tokens; of each number of tokens as many X as Y, those listed first. A and B without pairs are
    matched as X and Y are.
    """
    unknown = [word for words in test.groups().values() for word in words if word not in tokens]
    if unknown:
        raise BadProbe(
            f"{test.name}: the number of tokens of {unknown[0]!r} is missing; give it for every word."
        )
    single = {word for word, number in tokens.items() if number == 1}
    ones = [tuple(word for word in words if word in single) for words in test.groups().values()]
    alike: list[tuple[str, ...]] = []
    for first, second in ((test.A, test.B), (test.X, test.Y)):
        kept: tuple[list[str], list[str]] = ([], [])
        for number in sorted({tokens[word] for word in (*first, *second)}):
            both = [[word for word in words if tokens[word] == number] for words in (first, second)]
            for side, words in zip(kept, both, strict=True):
                side.extend(words[: min(map(len, both))])
        alike += map(tuple, kept)

    def row(groups: Sequence[tuple[str, ...]], pairs: Sequence[Pair]) -> WordTest | None:
        a, b, x, y = groups
        if test.pairs:  # then A and B are those of the pairs that are left
            a, b = tuple(first for first, _ in pairs), tuple(second for _, second in pairs)
        if min(map(len, (a, b, x, y))) < 2:
            return None
        return replace(test, A=a, B=b, X=x, Y=y, pairs=tuple(pairs))

    rows = {
        ALL_WORDS: test,
        MATCHED: row(alike, [pair for pair in test.pairs if tokens[pair[0]] == tokens[pair[1]]]),
        ONE_TOKEN: row(ones, [pair for pair in test.pairs if single.issuperset(pair)]),
    }
    return {name: each for name, each in rows.items() if each is not None}


def pair_families(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """The family of every pair, numbered in the order of their first pairs.

    Pairs of one family say the same thing again: mother/father, motherly/fatherly, motherhood/fatherhood.
    Where group words are a sample, a family is drawn, or exchanged, as a whole (docs/method/words.md,
    Exchanged pairs). Two pairs are of one family if they share a word, or a stem: if both words of the one
    have 3 letters or more in common with those of the other, at the same end (chairwoman/chairman and
    woman/man), or one of them 5 or more. Families of families are one, so a family can hold pairs that share
    nothing. Which word of a pair stands first does not matter: exchanged pairs have the same families.
    """
    return _families(tuple((min(pair), max(pair)) for pair in pairs))


@lru_cache(maxsize=64)  # every variant of a model, and every exchanged list, has the same pairs
def _families(pairs: tuple[Pair, ...]) -> tuple[int, ...]:
    family, stems = list(range(len(pairs))), [(_stem(one), _stem(other)) for one, other in pairs]
    for later, (one, other) in enumerate(stems):
        for earlier in range(later):
            old, new = family[later], family[earlier]
            known = stems[earlier]
            if old != new and (_related(known, (one, other)) or _related(known, (other, one))):
                family = [new if each == old else each for each in family]
    number = {each: i for i, each in enumerate(dict.fromkeys(family))}
    return tuple(number[each] for each in family)


def _related(one: Pair, other: Pair) -> bool:
    """Whether two pairs share a word or a stem.

    A stem is shared if one word begins or ends with the other (girlhood, schoolgirl), or if the two differ in
    their endings alone, by a quarter of the shorter one at most (femininity).
    """
    shared = []
    for words in zip(one, other, strict=True):
        short, long = sorted(words, key=len)
        if long.startswith(short) or long.endswith(short):
            shared.append(len(short))
            continue
        common = next((i for i, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), 0)
        shared.append(common if common >= _LONG and 4 * common >= 3 * len(short) else 0)
    same = one[0] == other[0] or one[1] == other[1]
    return same or min(shared) >= _SHORT or max(shared) >= _LONG


def _stem(word: str) -> str:
    """A word in small letters and the singular."""
    stem = word.casefold()
    for ending, one in _SINGULAR:
        if len(stem) > _SHORT and ending.search(stem):
            return ending.sub(one, stem)
    return stem
