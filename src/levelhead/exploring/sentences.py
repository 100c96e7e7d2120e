"""A typed sentence as a model reads it: the blank, the swapped twin, and the words whose odds are asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from levelhead.errors import BadProbe
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Span, token_id
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.probes.bias import about_gender, swap_for
from levelhead.probes.swap import swap
from levelhead.probes.words import WordTest
from levelhead.results.codec import Record

BLANK = "___"
_BLANKS = r"_{2,}|\[MASK\]|<mask>"
Pair = tuple[str, str]


@dataclass(frozen=True)
class Mark(Record):
    """A word of a text, by its characters, and what is to be said about it."""

    start: int
    end: int
    note: str


@dataclass(frozen=True)
class Twin(Record):
    """A sentence with its groups exchanged. problems: words of the sentence that could not be exchanged."""

    text: str
    changed: tuple[Mark, ...] = ()  # in the twin; the note is the word that stood there
    problems: tuple[Mark, ...] = ()
    traits: tuple[str, ...] = ()  # kept on purpose


def twin_of(sentence: str, test: WordTest) -> Twin:
    """The swapped sentence: gender by grammar, other biases by the pairs of their list."""
    if not sentence.strip() or not test.pairs:
        return Twin(sentence)
    turned = swap_for(test)(sentence)
    changed = tuple(Mark(*after, sentence[slice(*before)]) for before, after in turned.changes)
    if not about_gender(test):
        return Twin(turned.text, changed)
    swapped = swap(sentence)
    problems = (Mark(start, start + len(word), reason) for word, start, reason in swapped.problems)
    return Twin(turned.text, changed, tuple(problems), swapped.traits)


@dataclass(frozen=True)
class Question:
    """One text to one model: what it reads, which tokens stand for the pair, and from where it looks."""

    text: str
    tokens: tuple[int, int]
    blank: Span  # the mask token, or the last word of a causal text


def question(model: Model, sentence: str, pair: Pair) -> Question:
    """The question about one sentence: at its blank, or behind the text of a causal model."""
    before, after = _around_blank(model, sentence, pair)
    opens = not before.strip()
    if "causal" in model.abilities:
        text = before.rstrip()
        if not text:
            raise BadProbe(f"{model.name} says the next word: write something before {BLANK}.")
        last = re.search(r"\S+$", text)
        span = (last.start(), last.end()) if last else (0, len(text))
        return Question(text, _tokens(model, pair, False), span)
    model.require("mlm", "words at a blank")
    mask = str(model.tokenizer.mask_token)
    blank = (len(before), len(before) + len(mask))
    return Question(f"{before}{mask}{after}", _tokens(model, pair, opens), blank)


def _around_blank(model: Model, sentence: str, pair: Pair) -> tuple[str, str]:
    """What stands before and behind the blank. Without one: the first word of the pair is taken out, and a
    causal model goes on behind the text."""
    if not sentence.strip():
        raise BadProbe(f"Type a sentence, with {BLANK} where a word is to be filled in.")
    own = model.tokenizer.mask_token
    written = f"{_BLANKS}|{re.escape(own)}" if own else _BLANKS
    places = [found.span() for found in re.finditer(written, sentence)]
    if len(places) > 1:
        raise BadProbe(f"{len(places)} blanks came; write {BLANK} once.")
    if not places and "causal" in model.abilities:
        return sentence, ""
    if not places:
        words = "|".join(map(re.escape, pair))
        found = re.search(rf"(?<!\w)(?:{words})(?!\w)", sentence, re.IGNORECASE)
        if found is None:
            raise BadProbe(f"Write {BLANK} where {model.name} is to fill in a word.")
        places = [found.span()]
    ((start, end),) = places
    return sentence[:start], sentence[end:]


def _tokens(model: Model, pair: Pair, opens: bool) -> tuple[int, int]:
    first, second = (_token(model, word, opens) for word in pair)
    if first is None or second is None:
        split = pair[0] if first is None else pair[1]
        raise BadProbe(f'"{split}" is more than one subword token of {model.name}: choose another pair.')
    return first, second


def _token(model: Model, word: str, opens: bool) -> int | None:
    """The one token of a word inside a text, or with a capital as its first word."""
    if not opens:
        return token_id(model, word)
    with TOKENIZING:
        tokens = model.tokenizer(word.capitalize(), add_special_tokens=False)["input_ids"]
    return int(tokens[0]) if len(tokens) == 1 and tokens[0] != model.tokenizer.unk_token_id else None


@once_a_model
def askable_pairs(model: Model, test: WordTest) -> tuple[Pair, ...]:
    """The pairs of a bias whose words are one token each, in the order of the list."""
    return tuple(
        (a, b)
        for a, b in dict.fromkeys(test.pairs)
        if token_id(model, a) is not None and token_id(model, b) is not None
    )


@dataclass(frozen=True)
class Words:
    """The words of a text by their characters."""

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, text: str, mask: str | None) -> Words:
        """Every run of letters and figures, and the mask token as one."""
        pattern = rf"{re.escape(mask)}|[\w’']+" if mask else r"[\w’']+"
        return cls(tuple(m.span() for m in re.finditer(pattern, text)))

    def at(self, character: int | None, default: Span) -> Span:
        """The word at a character; the default where none stands there."""
        inside = (span for span in self.spans if character is not None and span[0] <= character < span[1])
        return next(inside, default)
