"""Which special tokens, or words, open a text: read from the checkpoint, and proved by the model on plain
English.

A causal model that was trained with a token before every document, and is run without it, answers badly
and without a word: Gemma 3 270M needs 8.2 nats for a word of plain English instead of 2.8. So one decision is
made for each model, once, on loading, and every reading's rows begin accordingly (encoding.py).

    stated     what the checkpoint says: add_bos_token of a GGUF file that denies it; the tokens that its
               tokenizer puts first; add_bos_token of a GGUF file or of a tokenizer's configuration; one token
               for both ends of a document (GPT-2)
    tried      what is stated, the bare text, and the text after BOS, in nats for each word of plain English
    used       what is stated and passes; where it fails, or the checkpoint leaves it open, the one that is
               better by a clear margin
    doubted    a model for which plain English is hardly likelier than the same words in another order, or
               absurdly unlikely: no verdict rests on it
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from levelhead.errors import UnknownModel
from levelhead.models.anatomy import Anatomy
from levelhead.models.hooks import at_rest

OPENING, DOUBT = "opening", "doubt"  # by which results name them: layout.OPENING_FACT, layout.DOUBT_FACT
NONE = "none"
DOUBTED = (
    "it does not read plain English in the form in which it was evaluated, so its numbers are no evidence "
    "and get no verdict"
)

# nats for a word, set between what was seen (docs/method.md). Four trained models, run as stated: 2.8 to
# 3.7, shuffled 4.5 to 6.4 more; Gemma without <bos>: 8.2; random: 19 to 20, shuffled at most 0.2 more.
MOST_NATS, LEAST_GAP, CLEAR_MARGIN = 6.5, 1.0, 0.5

_UNSAID, _BOTH_ENDS = "the checkpoint names none", "one token for both ends of a document, as GPT-2 has"
_LEFT_OPEN = (_UNSAID, _BOTH_ENDS)
_IN_GGUF = "add_bos_token of the GGUF file"
_PROMPTS, _TOKENIZER = "config_sentence_transformers.json", "tokenizer_config.json"
_DENIED = "gguf_adds_no_bos"  # in a tokenizer's configuration, which others pass over
_SYMMETRIC = ("query", "document", "passage")  # of prompts for both sides of a search, the one to use first
_GGUF_KEY = "tokenizer.ggml.add_bos_token"
_LOGITS = 1 << 26  # numbers that the proof asks for at a time

PLAIN = (
    "The children walked to the school near the river because the bus was late.",
    "She opened the window and looked at the garden for a long time.",
    "It was raining when we left the house, so we took our coats with us.",
    "He put the book back on the table and went to bed.",
    "There was a small dog in front of the door, and it did not want to go away.",
    "After the game the team went home and had a good night of sleep.",
)
SHUFFLED = (  # first word and end as they were, so that both have the same tokens
    "The walked bus the near was to the river because school children late the.",
    "She garden time opened for at the and long looked the a window.",
    "It took we house, with our so we left when the coats raining was us.",
    "He the the table put bed on and book went to back.",
    "There front door, not want it in dog was go to small away of did a and the.",
    "After the team of night sleep game and had the a home went good.",
)


@dataclass(frozen=True)
class Declared:
    """What the files of a checkpoint say of openings beside its tokenizer."""

    adds_bos: bool | None = None  # add_bos_token of a GGUF file, or of that which a folder was made of
    prefix: str = ""  # words that a sentence encoder expects before a text, such as "query: "


NOTHING_DECLARED = Declared()


@dataclass(frozen=True)
class Opening:
    """What stands before every text of a model."""

    written: str  # as people read it: <bos>, [CLS], "query: ", none
    source: str  # who says so
    tokens: tuple[int, ...] | None = None  # instead of those that the tokenizer puts first; None: its own
    own: int = 0  # how many the tokenizer puts first
    prefix: str = ""  # words before a text
    nats: tuple[float, float] | None = None  # for a word of plain English, and of the same words shuffled

    @property
    def more(self) -> int:
        """How many tokens a text has beyond those that the tokenizer makes of it, prefix included."""
        return 0 if self.tokens is None else len(self.tokens) - self.own

    @property
    def doubt(self) -> str:
        """Why no verdict may rest on the model's numbers; empty where it has read plain English."""
        return "" if self.nats is None or _passes(self.nats) else DOUBTED

    @property
    def warning(self) -> str:
        """The doubt with the figures behind it; empty where there is none."""
        if self.nats is None or not self.doubt:
            return ""
        plain, shuffled = self.nats
        return (
            f"{DOUBTED} ({plain:.1f} nats for a word, {shuffled:.1f} with the words shuffled; texts opened "
            f"with: {self.written})"
        )


# ---- what the files say


def folder_declares(folder: Path) -> Declared:
    """What a folder says: that the GGUF file which it was made of denies BOS, and its prefix.

    The prefix of a sentence encoder is the default prompt, or where none is the default and texts of every
    kind get one (E5: "query: ", "passage: ") that of a query, which is also E5's for comparing like with
    like. A folder whose documents get none is run without.
    """
    file = folder / _TOKENIZER
    said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    adds_bos = False if isinstance(said, dict) and said.get(_DENIED) is True else None
    file = folder / _PROMPTS
    if not file.is_file():
        return Declared(adds_bos)
    said = json.loads(file.read_text(encoding="utf-8"))
    prompts = said.get("prompts") or {} if isinstance(said, dict) else None
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise UnknownModel(f"{file} names no prompts as sentence-transformers does. Repair or remove it.")
    default = said.get("default_prompt_name")
    if default is not None:
        return Declared(adds_bos, str(prompts.get(str(default), "")))
    sides = [str(prompts[name]) for name in _SYMMETRIC if name in prompts]
    return Declared(adds_bos, sides[0] if len(sides) > 1 and all(sides) else "")


def gguf_declares(metadata: Mapping[str, object]) -> Declared:
    """What add_bos_token says in the header of a GGUF file, which transformers does not read."""
    said = metadata.get(_GGUF_KEY)
    return Declared(adds_bos=said if isinstance(said, bool) else None)


def write_opening(opening: Opening, tokenizer: Any, folder: Path) -> None:
    """Say in a folder what opens its texts, where its tokenizer alone does not: others then ask as we do."""
    file, more = folder / _TOKENIZER, {}
    if opening.tokens == (tokenizer.bos_token_id,) and opening.source != _BOTH_ENDS:
        more = {"add_bos_token": True}
    elif opening.source == _IN_GGUF:
        more = {"add_bos_token": False, _DENIED: True}
    if more and file.is_file():
        said = json.loads(file.read_text(encoding="utf-8")) | more
        file.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if opening.prefix:
        prompts = {"prompts": {"default": opening.prefix}, "default_prompt_name": "default"}
        (folder / _PROMPTS).write_text(json.dumps(prompts, indent=2) + "\n", encoding="utf-8")


# ---- the decision


def find_opening(model: Anatomy, tokenizer: Any, declared: Declared, predicts: bool) -> Opening:
    """How texts are opened for a model; predicts: it continues texts, so that it can be tested."""
    # the special tokens that the tokenizer puts before a text by itself
    encoded = tokenizer(["a"])
    count = next((i for i, part in enumerate(encoded.sequence_ids(0)) if part is not None), 0)
    own = tuple(int(number) for number in encoded["input_ids"][0][:count])
    if not model.family.causal:
        if declared.prefix:
            return Opening(f'"{declared.prefix}"', _PROMPTS, own=len(own), prefix=declared.prefix)
        written = "".join(tokenizer.convert_ids_to_tokens(list(own))) or NONE
        return Opening(written, "tokenizer", own=len(own))
    # the tokens that the checkpoint says a text opens with, each once, and where it says so
    bos = tokenizer.bos_token_id
    tokens: tuple[int, ...]
    if declared.adds_bos is False and own in ((), (bos,)):  # whatever transformers made of its tokenizer
        tokens, source = (), _IN_GGUF
    elif own:
        tokens, source = tuple(dict.fromkeys(own)), "tokenizer"
    elif bos is None:
        tokens, source = (), "tokenizer, which has no BOS"
    elif declared.adds_bos or tokenizer.init_kwargs.get("add_bos_token"):
        tokens = (bos,)
        source = _IN_GGUF if declared.adds_bos else "add_bos_token of the tokenizer's configuration"
    elif bos == tokenizer.eos_token_id == model.config.bos_token_id:
        tokens, source = (bos,), _BOTH_ENDS
    else:
        tokens, source = (), _UNSAID
    nats = None
    if predicts:
        candidates = dict.fromkeys([tokens, (), *([(int(bos),)] if bos is not None else [])])
        tried = {each: _nats(model, tokenizer, each) for each in candidates}
        if source in _LEFT_OPEN or not _passes(tried[tokens]):
            best = min(tried, key=lambda each: math.inf if math.isnan(tried[each][0]) else tried[each][0])
            if _passes(tried[best]) and not tried[tokens][0] - CLEAR_MARGIN <= tried[best][0]:
                tokens, source = best, "the likelier one in plain English"
        nats = tried[tokens]
    written = "".join(tokenizer.convert_ids_to_tokens(list(tokens))) or NONE
    if declared.prefix:
        written, source = f'{"" if written == NONE else written}"{declared.prefix}"', _PROMPTS
    return Opening(written, source, None if tokens == own else tokens, len(own), declared.prefix, nats)


# ---- the proof


def _passes(nats: tuple[float, float]) -> bool:
    plain, shuffled = nats
    return plain <= MOST_NATS and shuffled - plain >= LEAST_GAP


@torch.no_grad()
def _nats(model: Anatomy, tokenizer: Any, tokens: tuple[int, ...]) -> tuple[float, float]:
    """Nats for a word behind the first, in plain English and in the same words shuffled."""
    texts = [*PLAIN, *SHUFFLED]
    limit = getattr(model.config, "max_position_embeddings", None)
    written = tokenizer(texts, add_special_tokens=False)["input_ids"]
    rows = [[*tokens, *ids][:limit] for ids in written]
    longest = max(map(len, rows))
    size = max(1, _LOGITS // (longest * int(model.config.vocab_size)))
    losses = []  # of each row on its tokens behind the opening and the first
    with at_rest(model.hf):
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in some], device=model.device)
            mask = torch.tensor(
                [[1] * len(row) + [0] * (longest - len(row)) for row in some], device=model.device
            )
            logits: Tensor = model.hf(input_ids=ids, attention_mask=mask, use_cache=False).logits
            for row, scores in zip(some, logits, strict=True):
                behind = scores[len(tokens) : len(row) - 1].float().log_softmax(-1)
                following = torch.tensor(row[len(tokens) + 1 :], device=behind.device)
                losses.append(-float(behind.gather(-1, following[:, None]).sum()))
    words = sum(len(text.split()) - 1 for text in PLAIN)
    half = len(PLAIN)
    return sum(losses[:half]) / words, sum(losses[half:]) / words
