"""How a tokenizer writes words, and what each token of its vocabulary is: a whole word, the
continuation of one, something else.

Found by writing words and looking at their tokens, so that no table of tokenizers is needed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from levelhead.errors import CannotDo
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.model import Model
from levelhead.models.once import once_a_model

TokenKind = Literal["word", "Word", "continuation", "other"]
_ROUNDS = 30  # of drawing words, until enough are of the right length
_PROBE_WORDS = ("a", "the", "is", "I")  # any word that the tokenizer keeps whole shows how it writes words


@dataclass(frozen=True)
class WordShape:
    """How a tokenizer writes a whole word: what stands before and after its letters, and what never begins
    one."""

    before: str
    after: str
    continuing: str

    def begins_word(self, token: str) -> bool:
        """Whether this token can be a word; one that continues a word cannot."""
        if self.continuing and token.startswith(self.continuing):
            return False
        return token.startswith(self.before) and token.endswith(self.after)


def word_shape(model: Model, after_space: bool = True) -> WordShape:
    """The shape of words inside a text, or of the text's first word."""
    backend = model.tokenizer.backend_tokenizer
    continuing = getattr(backend.model, "continuing_subword_prefix", None) or ""
    for word in _PROBE_WORDS:
        text = f"{word} {word}" if after_space else word
        with TOKENIZING:
            written = backend.encode(text, add_special_tokens=False).tokens
        if len(written) == 1 + after_space and word.casefold() in written[-1].casefold():
            start = written[-1].casefold().index(word.casefold())
            return WordShape(written[-1][:start], written[-1][start + len(word) :], continuing)
    raise CannotDo(
        f"The tokenizer of {model.name} splits even 'a' and 'the', so no token is a word it could fill in."
    )


@once_a_model
def token_kinds(model: Model) -> NDArray[np.str_]:
    """The kind of every row of the embedding matrix: [token]

    word: begins a word and is two or more letters, all small ("nurse", "Ġnurse", the first token "mascul")
    Word: the same with a capital letter
    continuation: two or more letters that continue a word ("##ess"; in BPE also a text's first word, "The")
    other: special and added tokens, single letters, figures, punctuation, parts of characters, padding rows
    """
    backend: Any = model.tokenizer.backend_tokenizer
    shape = word_shape(model)
    added = set(backend.get_added_tokens_decoder()) | set(model.tokenizer.all_special_ids)
    kinds = np.full(int(model.hf.get_input_embeddings().num_embeddings), "other", dtype="<U12")
    for token, number in backend.get_vocab().items():
        if number in added or number >= len(kinds):
            continue
        begins = shape.begins_word(token)
        letters = (
            token[len(shape.before) : len(token) - len(shape.after)]
            if begins
            else token.removeprefix(shape.continuing)
        )
        if len(letters) >= 2 and letters.isalpha():
            kinds[number] = "continuation" if not begins else "word" if letters.islower() else "Word"
    kinds.flags.writeable = False
    return kinds


def token_counts(model: Model, words: list[str]) -> dict[str, int]:
    """How many tokens each word is inside a text."""
    texts = [f"a {word}" for word in words]
    with TOKENIZING:
        encodings = model.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    counts = [sum(end > len("a ") for _, end in spans) for spans in encodings["offset_mapping"]]
    return dict(zip(words, counts, strict=True))


def random_words(model: Model, tokens: int, n: int, seed: int, taken: Collection[str] = ()) -> list[str]:
    """Different words of so many tokens inside a text, drawn from the vocabulary: a word, then continuing
    tokens.

    Most of several tokens are no words of any language ("wanderinges"), like the words of a null twin. They
    are written and read back, so that their number of tokens is sure.
    """
    kinds, rng = token_kinds(model), np.random.default_rng(seed)
    starts, rest = np.flatnonzero(kinds == "word"), np.flatnonzero(kinds == "continuation")
    words: dict[str, None] = {}
    for _ in range(_ROUNDS):
        first, more = rng.choice(starts, (2 * n, 1)), rng.choice(rest, (2 * n, tokens - 1))
        with TOKENIZING:
            written = model.tokenizer.batch_decode(np.hstack([first, more]).tolist())
        candidates = [
            word for word in (text.strip() for text in written) if word.isalpha() and word not in taken
        ]
        counts = token_counts(model, candidates) if candidates else {}
        words |= dict.fromkeys(word for word in candidates if counts[word] == tokens)
        if len(words) >= n:
            return list(words)[:n]
    raise CannotDo(
        f"The vocabulary of {model.name} gave {len(words)} words of {tokens} tokens; {n} are needed."
    )


def vocabulary_parameters(model: Model) -> dict[str, Tensor]:
    """The parameters that have one row per token, by their names: input vectors, and output vectors and bias
    of a model that predicts tokens. Tied ones come once."""
    head = model.hf.get_output_embeddings() if model.abilities & {"mlm", "causal"} else None
    tables = [model.hf.get_input_embeddings().weight]
    tables += [] if head is None else [head.weight, head.bias]
    own = {id(table) for table in tables}
    return {name: weight for name, weight in model.hf.named_parameters() if id(weight) in own}
