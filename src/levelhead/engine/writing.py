"""Texts that a model writes for several who ask at once, each with random numbers and an end of its own.

What is drawn is what sampling.py draws from the same seed. There all texts of a batch are known beforehand;
here a text may join while others are being written, and leaves when it has ended. Every prompt is read
without padding, and its keys and values are padded on the left to the length of those that it joins. A model
whose cache cannot be joined so (a sliding window, a state), or whose answers change by it, writes texts of
prompts of one length together, and takes others when these have ended: `joins` tries it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from levelhead.edits.output import Symmetrized, edit_of, weights_of
from levelhead.edits.sites import Variant, inside
from levelhead.engine.own_forward import Ids
from levelhead.engine.readings import (
    Predictions,
    RowLikelihoods,
    RowPredictions,
    TextPredictions,
    TokenLikelihoods,
    TokenLogProbs,
)
from levelhead.engine.run import read, read_one
from levelhead.engine.sampling import ends_of, inverse_cdf, prompt_rows, uniforms
from levelhead.errors import BadProbe
from levelhead.models.concurrency import TOKENIZING, asking
from levelhead.models.encoding import Ints, Text, TokenRow, encode
from levelhead.models.hooks import at_rest
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model

_TRIED = (3, 7)  # tokens of the two prompts of the trial
_ROUNDING = {torch.float32: 1e-3}  # of the spread of the logits; a wrong mask changes them by more than half
_COARSE = 0.1
_FLOATS = 1 << 26  # log-probabilities held at once for each orientation of a symmetrized model


@dataclass(frozen=True, eq=False)
class Wish:
    """One text that is wanted: the tokens that it begins with, and how it is drawn."""

    ids: Ints
    tokens: int  # at most
    seed: int
    temperature: float = 1.0  # 0: the likeliest token
    top_p: float = 1.0  # the likeliest tokens that have so much probability together
    top: int | None = None  # also log-probabilities, of so many of the likeliest tokens


@dataclass(frozen=True)
class Token:
    """A token that was written. Log-probabilities are the model's own, whatever the temperature."""

    id: int
    log_prob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    last: bool = False  # the text has ended, by an end-of-text token or at its limit


@dataclass(eq=False)
class _Row:
    """A text that is being written."""

    wish: Wish
    random: NDArray[np.float64] = field(init=False)
    written: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = uniforms(self.wish.seed, 1 + self.wish.tokens)[1:]

    @property
    def length(self) -> int:
        return len(self.wish.ids) + len(self.written)


class Writer:
    """Texts that are being written together: at most `most` of them."""

    def __init__(self, model: Model, variant: Variant, most: int) -> None:
        self.model, self.most = model, most
        self._edits = (*inside(variant), *weights_of(variant))
        self._ends = ends_of(model)
        self._rows: list[_Row] = []
        self._past: Any = None
        self._padded: list[int] = []  # of each row: how many tokens of the cache are none of its own

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The network as it writes: edited, without dropout, and nobody else's meanwhile."""
        with (
            asking(self.model.hf),
            self.model.edited(*self._edits),
            at_rest(self.model.hf),
            torch.inference_mode(),
        ):
            yield

    @property
    def wishes(self) -> list[Wish]:
        return [row.wish for row in self._rows]

    def fitting(self, waiting: Sequence[Wish]) -> list[Wish]:
        """Those that can begin now, in their order."""
        room = self.most - len(self._rows)
        if joins(self.model):
            return list(waiting[:room])
        if self._rows or not waiting:
            return []
        return [wish for wish in waiting if len(wish.ids) == len(waiting[0].ids)][:room]

    def begin(self, wishes: Sequence[Wish]) -> list[tuple[Wish, Token]]:
        """Read prompts, and write their first tokens."""
        first: list[tuple[Wish, Token]] = []
        by_length: dict[int, list[Wish]] = {}
        for wish in wishes:
            by_length.setdefault(len(wish.ids), []).append(wish)
        for some in by_length.values():
            place = {wish.ids.tobytes(): 0 for wish in some}
            place = {ids: number for number, ids in enumerate(place)}
            prompts = np.stack([np.frombuffer(ids, some[0].ids.dtype) for ids in place]).astype(np.int64)
            copies = torch.tensor([place[wish.ids.tobytes()] for wish in some], device=self.model.device)
            logits, past = _read(self.model, prompts, None)
            logits = logits[copies.to(logits.device)]
            if past is not None and copies.tolist() != list(range(len(place))):
                past.reorder_cache(copies)
            rows = [_Row(wish) for wish in some]
            first += self._advanced(rows, logits)
            self._join(rows, past)
        self.leave([row.wish for row in self._rows if self._has_ended(row)])
        return first

    def step(self) -> list[tuple[Wish, Token]]:
        """The next token of every text."""
        if self._past is None:  # a network without a cache gets whole rows again
            every = np.stack([np.concatenate([row.wish.ids, row.written]) for row in self._rows])
            logits, _ = _read(self.model, every.astype(np.int64), None)
        else:
            last = np.array([[row.written[-1]] for row in self._rows], np.int64)
            logits, self._past = _read(self.model, last, self._past, self._padded)
        written = self._advanced(self._rows, logits)
        self.leave([row.wish for row in self._rows if self._has_ended(row)])
        return written

    def _has_ended(self, row: _Row) -> bool:
        return len(row.written) == row.wish.tokens or row.written[-1] in self._ends

    def _advanced(self, rows: Sequence[_Row], logits: Tensor) -> list[tuple[Wish, Token]]:
        """One token more for each row, from its logits [row, token]."""
        chosen = self._chosen(rows, logits)
        numbers = chosen.tolist()
        # of each row, the log-probability of its token and the likeliest tokens with theirs
        likely: list[tuple[float, tuple[tuple[int, float], ...]]] = []
        if wanted := [row.wish.top for row in rows if row.wish.top is not None]:
            logs = logits.float().log_softmax(-1)
            own = logs.gather(1, chosen[:, None].to(logs.device))[:, 0].tolist()
            likeliest = logs.topk(max(1, *wanted), dim=-1)
            ids, values = likeliest.indices.tolist(), likeliest.values.tolist()
            likely = [
                (value, tuple(zip(i[: row.wish.top or 0], v[: row.wish.top or 0], strict=True)))
                for row, value, i, v in zip(rows, own, ids, values, strict=True)
            ]
        found = []
        for place, (row, number) in enumerate(zip(rows, numbers, strict=True)):
            row.written.append(number)
            log_prob, top = likely[place] if row.wish.top is not None else (None, ())
            found.append((row.wish, Token(number, log_prob, top, self._has_ended(row))))
        return found

    def _chosen(self, rows: Sequence[_Row], logits: Tensor) -> Tensor:
        heat = [row.wish.temperature for row in rows]
        if not any(heat):
            return logits.argmax(-1)
        at = torch.tensor([row.random[len(row.written)] for row in rows], dtype=torch.float64)
        warm = [each or 1.0 for each in heat]
        # one number for all rows rounds as the local sampler's does
        temperature = warm[0] if len(set(warm)) == 1 else logits.new_tensor(warm)[:, None].float()
        top_p = [row.wish.top_p for row in rows]
        kept = logits if min(top_p) >= 1 else nucleus(logits, temperature, logits.new_tensor(top_p))
        drawn = inverse_cdf(kept, temperature, at)
        if all(heat):
            return drawn
        return torch.where(logits.new_tensor(heat) == 0, logits.argmax(-1), drawn)

    def _join(self, rows: Sequence[_Row], past: Any) -> None:
        """Go on with these rows too."""
        if not self._rows:
            self._rows, self._past, self._padded = list(rows), past, [0] * len(rows)
            return
        missing = self._past.get_seq_length() - past.get_seq_length()
        for mine, theirs in zip(self._past.layers, past.layers, strict=True):
            _pad(mine, max(0, -missing))
            _pad(theirs, max(0, missing))
            mine.keys = torch.cat([mine.keys, theirs.keys])
            mine.values = torch.cat([mine.values, theirs.values])
        self._padded = [pad + max(0, -missing) for pad in self._padded] + [max(0, missing)] * len(rows)
        self._rows += rows

    def leave(self, wishes: Sequence[Wish]) -> None:
        """Write these no further: without their rows, and without padding that no row is left to need."""
        gone = {id(wish) for wish in wishes}
        kept = [place for place, row in enumerate(self._rows) if id(row.wish) not in gone]
        if len(kept) == len(self._rows):
            return
        self._rows = [self._rows[place] for place in kept]
        self._padded = [self._padded[place] for place in kept]
        if not kept:
            self._past = None
        if self._past is None:
            return
        # as for the copies of a prompt: every kind of cache can do it
        self._past.reorder_cache(torch.tensor(kept, device=self.model.device))
        if spare := min(self._padded):
            for layer in self._past.layers:
                layer.keys, layer.values = layer.keys[..., spare:, :], layer.values[..., spare:, :]
            self._padded = [pad - spare for pad in self._padded]


def nucleus(logits: Tensor, temperature: float | Tensor, top_p: Tensor) -> Tensor:
    """Logits [row, token] without the tokens beyond the likeliest that have probability top_p together."""
    p, order = torch.sort((logits.float() / temperature).softmax(-1), dim=-1, descending=True, stable=True)
    beyond = p.cumsum(-1) - p >= top_p[:, None].to(p)
    beyond[:, 0] = False
    return logits.float().masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -torch.inf)


# ---- the network


def _read(model: Model, ids: Ids, past: Any, padded: Sequence[int] = ()) -> tuple[Tensor, Any]:
    """Logits behind the last token of each row [row, token], and the cache."""
    accepted = _accepted(model)
    given: dict[str, Any] = {} if past is None else {"past_key_values": past}
    if past is None and "logits_to_keep" in accepted:
        given["logits_to_keep"] = 1  # of long prompts the logits would fill the memory
    if any(padded):
        end = past.get_seq_length() + 1
        before = torch.tensor(padded, device=model.device)[:, None]
        given["attention_mask"] = (torch.arange(end, device=model.device)[None] >= before).long()
        if "position_ids" in accepted:
            given["position_ids"] = end - 1 - before
    hf: Any = model.hf
    answer = hf(input_ids=torch.from_numpy(ids).to(model.device), use_cache=True, **given)
    return answer.logits[:, -1], getattr(answer, "past_key_values", None)


@once_a_model
def _accepted(model: Model) -> frozenset[str]:
    """What the network may be told beside its tokens."""
    return frozenset(inspect.signature(model.hf.forward).parameters)


def _pad(layer: Any, tokens: int) -> None:
    """Keys and values [row, head, token, dim] with so many zeros before them."""
    if tokens:
        pad = (0, 0, tokens, 0)
        layer.keys = torch.nn.functional.pad(layer.keys, pad)
        layer.values = torch.nn.functional.pad(layer.values, pad)


@once_a_model
def joins(model: Model) -> bool:
    """Whether prompts of different lengths can be written behind together: tried on two of them."""
    writer = Writer(model, (), len(_TRIED))
    vocabulary = int(model.config.vocab_size)
    prompts = [np.arange(3, 3 + length)[None] % vocabulary for length in _TRIED]
    with writer.at_work():
        try:
            alone = []
            for prompt in prompts:
                _, past = _read(model, prompt, None)
                alone.append(_read(model, prompt[:, :1], past)[0])
            caches = [_read(model, prompt, None)[1] for prompt in prompts]
            plain = all(
                type(past) is DynamicCache and all(type(layer) is DynamicLayer for layer in past.layers)
                for past in caches
            )
            if not plain:
                return False
            for prompt, past in zip(prompts, caches, strict=True):
                writer._join([_Row(Wish(prompt[0], 1, 0))], past)
            last = np.concatenate([prompt[:, :1] for prompt in prompts])
            together, _ = _read(model, last, writer._past, writer._padded)
        except Exception:  # a network raises anything at a mask that it does not know
            return False
    separate = torch.cat(alone).float()
    off = (together.float() - separate).abs().max() / separate.std()
    return bool(off < _ROUNDING.get(model.hf.dtype, _COARSE))


# ---- prompts


@dataclass(frozen=True, eq=False)
class Prompt:
    """What a text begins with: its tokens, and which of them are its own, not put there as an opening.

    text: None where tokens were given."""

    ids: Ints
    own: NDArray[np.bool_]
    text: Text | None

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which tokens have a probability: their own ones, with something before them."""
        return self.own & (np.arange(len(self.ids)) > 0)


def prompt_of(model: Model, given: Text | Sequence[int], tokens: int, as_text: bool) -> Prompt:
    """A prompt that so many tokens can follow. as_text: tokens must be those of a text."""
    if isinstance(given, Text):
        (row,) = encode(model, [given])
        (ids,) = prompt_rows(model, [given], tokens).values()
        return Prompt(ids, row.part[: len(ids)] != -1 if not given.whole else np.ones(len(ids), bool), given)
    ids, vocabulary = np.asarray(given, np.int64), int(model.config.vocab_size)
    if (ids >= vocabulary).any():
        raise BadProbe(
            f"Tokens must be below {vocabulary}, the vocabulary of {model.name} (got {ids.max()})."
        )
    if model.max_tokens is not None and len(ids) + tokens > model.max_tokens:
        raise BadProbe(
            f"A prompt of {len(ids)} tokens and {tokens} more do not fit into the {model.max_tokens} "
            f"positions of {model.name}. Ask for fewer tokens, or shorten it."
        )
    ids = ids.astype(np.int32)
    text = None
    if as_text:
        text = Text(decoded(model, ids, special=False))
        found = prompt_of(model, text, tokens, False) if text.first.strip() else None
        if found is None or not np.array_equal(found.ids, ids):
            raise BadProbe(
                f"A symmetrized model reads texts, and these tokens are not those of one as {model.name} "
                f"reads it (texts open with {model.opening.written}). Send the text itself."
            )
    return Prompt(ids, np.ones(len(ids), bool), text)


def decoded(model: Model, ids: Iterable[int], special: bool = True) -> str:
    """Tokens as text. special: with special tokens."""
    given, how = [int(each) for each in ids], {"clean_up_tokenization_spaces": False}
    with TOKENIZING:
        return str(model.tokenizer.decode(given, skip_special_tokens=not special, **how))


Scored = tuple[list[float | None], list[tuple[tuple[int, float], ...]]]  # of each token of a prompt


def prompt_scores(model: Model, prompts: Sequence[Prompt], variant: Variant, top: int) -> list[Scored]:
    """Log-probabilities of the tokens of prompts, None of the first, and of the likeliest tokens there."""
    if edit_of(Symmetrized, variant) is not None:
        found: list[Scored] = []
        for some in _fitting_together(model, prompts, top):
            read_anew = _along(model, [prompt.text or Text("") for prompt in some], variant, top)
            for prompt, (row, by_place) in zip(some, read_anew, strict=True):
                tokens = [by_place.get(place, Token(0)) for place in range(len(row.ids))][: len(prompt.ids)]
                found.append(([each.log_prob for each in tokens], [each.top for each in tokens]))
        return found
    rows = [prompt.ids for prompt in prompts]
    likelihoods, likeliest = RowLikelihoods(rows), RowPredictions(rows, max(1, top))
    answers = read(model, [likelihoods, *([likeliest] if top else [])], [variant], label="Prompts")
    own = [[None, *map(float, values)] for values in answers[likelihoods].values[0]]
    if not top:
        return [(values, [()] * len(values)) for values in own]
    flat = iter(
        zip(answers[likeliest].ids[0].tolist(), answers[likeliest].log_probs[0].tolist(), strict=True)
    )
    return [(values, [(), *(tuple(zip(*next(flat), strict=True)) for _ in values[1:])]) for values in own]


def text_scores(
    model: Model, prompt: Text, text: str, ended: int | None, variant: Variant, top: int
) -> list[Token]:
    """The tokens of a text behind a prompt, as the model reads both together, with log-probabilities under a
    variant. ended: the end-of-text token that came behind it."""
    whole = replace(prompt, first=prompt.first + text)
    ((row, by_place),) = _along(model, [whole], variant, top)
    found = [each for place, each in by_place.items() if row.offsets[place][1] > len(prompt.first)]
    if ended is None:
        return found
    end = read_one(model, TokenLogProbs([whole], [ended]), [variant], label="Texts")
    likeliest = read_one(model, Predictions([whole], max(1, top)), [variant], label="Texts")
    pairs = zip(likeliest.ids[0, 0].tolist(), likeliest.log_probs[0, 0].tolist(), strict=True)
    return [*found, Token(ended, float(end[0, 0, 0]), tuple(pairs) if top else ())]


def _along(
    model: Model, texts: Sequence[Text], variant: Variant, top: int
) -> list[tuple[TokenRow, dict[int, Token]]]:
    """Each text's row, and its scored tokens by their places, with the likeliest ones there.

    A token among the likeliest has its own log-probability there too, which follows from the whole text.
    """
    likelihoods, likeliest = TokenLikelihoods(texts), TextPredictions(texts, max(1, top))
    answers = read(model, [likelihoods, *([likeliest] if top else [])], [variant], label="Texts")
    scores, place_of_all, found = answers[likelihoods], 0, []
    for row, places, values in zip(scores.rows, scores.positions, scores.values[0], strict=True):
        by_place = {}
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            own = int(row.ids[place])
            others: tuple[tuple[int, float], ...] = ()
            if top:
                ids, logs = answers[likeliest].ids[0], answers[likeliest].log_probs[0]
                pairs = zip(ids[place_of_all].tolist(), logs[place_of_all].tolist(), strict=True)
                near = [(i, value if i == own else log) for i, log in pairs if i >= 0]
                others = tuple(sorted(near, key=lambda each: -each[1]))
            by_place[place] = Token(own, value, others)
            place_of_all += 1
        found.append((row, by_place))
    return found


def _fitting_together(model: Model, prompts: Sequence[Prompt], top: int) -> Iterator[Sequence[Prompt]]:
    """Prompts whose log-probabilities of the whole vocabulary are held at once; all where none are."""
    room, some = _FLOATS // int(model.config.vocab_size), list[Prompt]()
    for prompt in prompts:
        if top and len(prompt.ids) > 4 * room:
            raise BadProbe(
                f"logprobs of a symmetrized model must be 0 for a prompt of more than {4 * room:,} tokens "
                f"(got {len(prompt.ids):,}): all words at every token do not fit into the memory."
            )
        if top and some and sum(len(each.ids) for each in some) + len(prompt.ids) > room:
            yield some
            some = []
        some.append(prompt)
    yield some


# ---- as text


class Pieces:
    """The text of tokens, in pieces as they come: together they are the whole text.

    Tokens are decoded beside those before them, since alone they may lose a space; what may be the first part
    of a character waits for the rest of it.
    """

    _BESIDE = 6

    def __init__(self, model: Model, prompt: Ints) -> None:
        self._model = model
        self._ids = [int(each) for each in prompt[-self._BESIDE :]]
        self._from, self._done = 0, len(self._ids)

    def add(self, token: int, last: bool = False) -> str:
        """The text that is new with a token."""
        self._ids.append(token)
        return self.rest() if last else self._new()

    def rest(self) -> str:
        """What has waited."""
        return self._new(whole=True)

    def _new(self, whole: bool = False) -> str:
        places = (self._ids[self._from : self._done], self._ids[self._from :])
        before, text = (decoded(self._model, ids, special=False) for ids in places)
        new = text[len(before) :]
        if (text.endswith("\ufffd") and not whole) or not new:
            return ""
        self._from, self._done = self._done, len(self._ids)
        return new
