"""Words of several tokens in a blank, for masked models, which are asked for one token at a time."""

from __future__ import annotations

import string

import numpy as np

from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text, mask_id
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.candidates import TOO_LONG, Part, row_of

BLANK = "BLANK"
CUT = "a candidate's subword tokens cannot be written one after the other"


def filled_blank(context: str, sentence: str, whole: bool) -> tuple[str, str, str] | None:
    """What stands before the blank, in it, and behind it.

    whole: all words that fill it. Else, as published, the one word at its place without punctuation.
    """
    before, after = context.split(BLANK)
    if whole and sentence.startswith(before) and sentence.endswith(after):
        word = sentence[len(before) : len(sentence) - len(after)].strip()
        return (before, word, after) if word else None
    place = next(i for i, word in enumerate(context.split(" ")) if BLANK in word)
    words = sentence.split(" ")
    word = words[place].strip(string.punctuation) if place < len(words) else ""
    return (before, word, after) if word else None


def grown_parts(model: Model, before: str, word: str, after: str, _: bool) -> list[Part] | str:
    """The word grown token by token; of each text the last token is scored."""
    whole = row_of(model, Text(f"{before}{word}{after}"))
    if whole is None:
        return TOO_LONG
    start = len(before)
    tokens = whole.tokens_of((start, start + len(word)))
    parts = []
    for token in tokens:
        end = int(whole.offsets[token, 1])
        text = Text(f"{before}{word[: end - start]}{after}")
        row = row_of(model, text)
        if row is None or len(row.ids) <= token or row.ids[token] != whole.ids[token]:
            return CUT
        parts.append(Part(text, positions=(int(token),)))
    return parts or CUT


def masked_parts(model: Model, before: str, word: str, after: str, bare: bool) -> list[Part] | str:
    """As published: the tokens of the word so far, then one mask token, at which the next one is asked for.

    bare: the word is tokenized without the space that stands before it.
    """
    mask, written = mask_id(model), str(model.tokenizer.mask_token)
    whole = row_of(model, Text(f"{before}{word}{after}"))
    if whole is None:
        return TOO_LONG
    ids = [int(i) for i in whole.ids[whole.tokens_of((len(before), len(before) + len(word)))]]
    if bare:
        with TOKENIZING:
            ids = list(model.tokenizer(word, add_special_tokens=False)["input_ids"])
    parts = []
    for place, token in enumerate(ids):
        so_far = model.tokenizer.decode(ids[:place]).strip() if place else ""
        text = Text(f"{before}{so_far}{written}{after}")
        row = row_of(model, text)
        masks = [] if row is None else [int(p) for p in np.flatnonzero(row.ids == mask)]
        if len(masks) != 1:
            return CUT
        parts.append(Part(text, positions=(masks[0],), instead=(token,)))
    return parts or CUT
