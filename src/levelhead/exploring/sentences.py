"""A typed sentence as a model reads it: the blank, the counterfactual, what the text states, and the words
whose odds are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from levelhead.errors import BadProbe
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Span, token_id
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, swap_for
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.nli import nli_entries
from levelhead.probes.slots import article
from levelhead.probes.swap import GenderedWord, gender_of, stated_genders, swap
from levelhead.probes.words import WordTest, load_words
from levelhead.runs.records import Record

BLANK = "___"
_BLANKS = r"_{2,}|\[MASK\]|<mask>"
Pair = tuple[str, str]
PERSON = "person"  # stands in the neutral reference text
_PER_SIDE = 15  # occupations of either stereotype that a text is compared with
_DETERMINERS = "a|an|the|this|that|my|your|our|their|each|every|some|another"


@dataclass(frozen=True)
class Mark(Record):
    """A word of a text, by its characters, and what is to be said about it."""

    start: int
    end: int
    note: str


@dataclass(frozen=True)
class Counterfactual(Record):
    """A sentence with its groups exchanged. problems: words of the sentence that could not be exchanged."""

    text: str
    changed: tuple[Mark, ...] = ()  # in the counterfactual; the note is what stood there
    problems: tuple[Mark, ...] = ()
    traits: tuple[str, ...] = ()  # kept on purpose


def counterfactual_of(sentence: str, test: WordTest, names: bool = True) -> Counterfactual:
    """The counterfactual: gender swapped by grammar, other biases by the pairs of their list.

    A sentence that states no gender gets one that its occupation is not stereotyped with.
    """
    if not sentence.strip() or not test.pairs:
        return Counterfactual(sentence)
    gender = about_gender(test)
    oriented = (GenderSwap(names) if gender else swap_for(test))(sentence)
    changed = tuple(Mark(*after, sentence[slice(*before)]) for before, after in oriented.changes)
    if not gender:
        return Counterfactual(oriented.text, changed)
    occupation = "" if stated_genders(sentence, names) else occupation_in(sentence)
    found = occupation and re.search(rf"(?<!\w)[Tt]he {re.escape(occupation)}(?![\w'’-])", sentence)
    if found:  # The nurse said ... -> My brother, a nurse, said ...
        feminine, _ = _by_stereotype()
        relative = "brother" if occupation in feminine else "sister"
        after = sentence[found.end() :]
        new = f"{'My' if found[0][0] == 'T' else 'my'} {relative}, {article(occupation)} {occupation}"
        new += "," if re.match(r"\s", after) else ""
        mark = Mark(found.start(), found.start() + len(new), found[0])
        return Counterfactual(f"{sentence[: found.start()]}{new}{after}", (mark,))
    swapped = swap(sentence, names=names)
    problems = (Mark(start, start + len(word), reason) for word, start, reason in swapped.problems)
    return Counterfactual(oriented.text, changed, tuple(problems), swapped.traits)


# ---- what a text states, and other texts to compare it with


@dataclass(frozen=True)
class Stated(Record):
    """Words of a text that state a group. expected: the word of the pair that agrees; "" if both may."""

    words: tuple[str, ...]
    expected: str


def stated(text: str, test: WordTest, pair: Pair, names: bool) -> Stated | None:
    """What a text, as a model reads it, states about the groups of a pair; None: nothing."""
    found = group_words(text, test, names)
    of_group = {gender_of(word): word for word in pair}
    if not about_gender(test):
        of_group = {"F": pair[0], "M": pair[1]}
    groups = {each.gender for each in found}
    expected = of_group.get(min(groups), "") if len(groups) == 1 else ""
    return Stated(tuple(dict.fromkeys(each.word for each in found)), expected) if found else None


def group_words(text: str, test: WordTest, names: bool) -> tuple[GenderedWord, ...]:
    """The words of a text that state a group; F is the first group of a list that is not about gender."""
    if about_gender(test):
        return stated_genders(text, names)
    first = {a.lower() for a, _ in test.pairs}
    words = [(text[start:end], start) for (start, end), _ in swap_for(test)(text).changes]
    return tuple(GenderedWord(word, at, "F" if word.lower() in first else "M") for word, at in words)


@cache
def _by_stereotype() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The occupations of the shipped gender list that are stereotyped as feminine, and as masculine."""
    test = load_words("gender")
    known = next(words for kind, words in test.parts if kind == "occupations")
    return tuple(w for w in test.X if w in known), tuple(w for w in test.Y if w in known)


def occupation_in(text: str) -> str:
    """The first shipped occupation that a text speaks of; "" where it speaks of none."""
    known = {*nli_entries("occupations"), *_by_stereotype()[0], *_by_stereotype()[1]}
    words = "|".join(map(re.escape, sorted(known, key=lambda word: (-len(word), word))))
    # A determiner before it tells the judge from those who judge.
    found = re.search(rf"(?<!\w)(?i:{_DETERMINERS})\s+(?:[\w-]+\s+){{0,2}}?({words})(?![\w-])", text)
    return found[1] if found else ""


def other_occupations(occupation: str) -> tuple[str, ...]:
    """The fixed sample that a text about an occupation is compared with, without itself."""
    sides = ([word for word in side if word != occupation] for side in _by_stereotype())
    return tuple(word for side in sides for word in side[:_PER_SIDE])


def about_instead(text: str, occupation: str, other: str) -> str:
    """The same text about another occupation: "An engineer" becomes "A nurse"."""

    def put(found: re.Match[str]) -> str:
        before = found[1] and (article(other).capitalize() if found[1][0] == "A" else article(other))
        return f"{before or ''}{found[2] or ''}{other}"

    return re.sub(rf"(?<!\w)(?:([Aa]n?)(\s+))?{re.escape(occupation)}(?![\w-])", put, text)


@dataclass(frozen=True)
class Question:
    """One text to one model: what it reads, which tokens stand for the pair, and where the blank is."""

    text: str
    tokens: tuple[int, int]
    blank: Span  # the mask token, or the last word of a causal text


def question(model: Model, sentence: str, pair: Pair) -> Question:
    """The question about one sentence: at its blank, or behind the text of a causal model."""
    if not sentence.strip():
        raise BadProbe(f"Type a sentence, with {BLANK} where a word is to be filled in.")
    own = model.tokenizer.mask_token
    written = f"{_BLANKS}|{re.escape(own)}" if own else _BLANKS
    places = [found.span() for found in re.finditer(written, sentence)]
    if len(places) > 1:
        raise BadProbe(f"a sentence must have one {BLANK} (got {len(places)})")
    causal = "causal" in model.abilities
    if not places and causal:  # it goes on behind the text
        places = [(len(sentence), len(sentence))]
    elif not places:  # the first word of the pair is taken out
        words = "|".join(map(re.escape, pair))
        found = re.search(rf"(?<!\w)(?:{words})(?!\w)", sentence, re.IGNORECASE)
        if found is None:
            raise BadProbe(f"Write {BLANK} where {model.name} is to fill in a word.")
        places = [found.span()]
    ((start, end),) = places
    before, after = sentence[:start], sentence[end:]
    if causal:
        text = before.rstrip()
        if not text:
            raise BadProbe(f"{model.name} says the next word: write something before {BLANK}.")
        last = re.search(r"\S+$", text)
        span = (last.start(), last.end()) if last else (0, len(text))
        return Question(text, _tokens(model, pair, False), span)
    model.require("mlm", "words at a blank")
    mask = str(model.tokenizer.mask_token)
    blank = (len(before), len(before) + len(mask))
    return Question(f"{before}{mask}{after}", _tokens(model, pair, not before.strip()), blank)


def _tokens(model: Model, pair: Pair, opens: bool) -> tuple[int, int]:
    """The one token of each word; as the first word of a text it has a capital."""
    found = []
    for word in pair:
        if not opens:
            found.append(token_id(model, word))
            continue
        with TOKENIZING:
            tokens = model.tokenizer(word.capitalize(), add_special_tokens=False)["input_ids"]
        known = len(tokens) == 1 and tokens[0] != model.tokenizer.unk_token_id
        found.append(int(tokens[0]) if known else None)
    first, second = found
    if first is None or second is None:
        split = pair[0] if first is None else pair[1]
        raise BadProbe(f'"{split}" is more than one subword token of {model.name}: choose another pair.')
    return first, second


@once_a_model
def askable_pairs(model: Model, test: WordTest) -> tuple[Pair, ...]:
    """The pairs of a bias whose words are one token each, in the order of the list."""
    return tuple(
        (a, b)
        for a, b in dict.fromkeys(test.pairs)
        if token_id(model, a) is not None and token_id(model, b) is not None
    )
