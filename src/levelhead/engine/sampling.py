"""What a causal model writes behind prompts: sampled in fixed batches, with random numbers that have names.

    token j of sample k:   the first v with  Σ_{w ≤ v} p(w | prompt, tokens before)  >  u[stream, k, j]

u comes from the seed and the name of a stream alone. A prompt and its counterfactual have one stream: where a
model continues both alike, their texts are the same, so a difference between them is the model's and not of
the dice (common random numbers). Probabilities are added up as whole numbers of 2^-52, so that the sum is the
same in whatever order a card adds.

Prompts of equal length share a batch, and the samples of one prompt are rows of one batch; nothing is padded.
Batches follow from the prompts alone, never from memory, workers or what was done before.

A symmetrized model is a mixture of sequences, P_s(x y) = (1/k) Σ_t P(σ^t x σ^t y). So a sample is drawn as
the mixture says: an orientation t with probability in proportion to P(σ^t x), what the model itself writes
behind σ^t x, and that text exchanged back. Orientations are in the order of their texts, not of t: then a
prompt and its counterfactual, which have the same ones, draw the same, and their texts mirror each other.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.output import Symmetrized, edit_of, weights_of
from levelhead.edits.sites import Variant, around, inside
from levelhead.engine.batches import Tokens
from levelhead.engine.memory import Fitting, Parcel, Work
from levelhead.engine.own_forward import Ids, lengthened
from levelhead.engine.readings import SpanLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.shards import crew_of
from levelhead.engine.symmetry import believing, oriented_text
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.concurrency import TOKENIZING, asking
from levelhead.models.encoding import Ints, Text, encode
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.probes.group_swap import GroupSwap
from levelhead.progress import steps, worked

ROWS = 128  # of a batch, whatever the machine: what is drawn depends on it
_SCALE = float(1 << 52)
_NONE = -1  # in place of a token: the text has ended


@dataclass(frozen=True)
class Sampling:
    """How texts are drawn: how many behind each prompt, of how many tokens at most, at which temperature."""

    samples: int = 8
    tokens: int = 32
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, number in (("samples", self.samples), ("tokens", self.tokens)):
            if number < 1:
                raise BadOption(f"{name} must be 1 or more (got {number})")
        if not 0 < self.temperature < float("inf"):
            raise BadOption(f"temperature must be above 0 (got {self.temperature})")


@dataclass(frozen=True)
class Continuation:
    """What a model wrote behind a prompt."""

    text: str
    tokens: int
    ended: bool  # by an end-of-text token, not by the limit
    ids: tuple[int, ...] = field(default=(), compare=False)  # the tokens that were drawn
    # of them behind the prompt, at temperature 1; None: not known
    log_p: float | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Start:
    """A prompt as tokens, the stream of its random numbers, and which samples of it are drawn."""

    ids: Ints
    stream: str
    samples: tuple[int, ...]


def continuations(
    model: Model,
    prompts: Sequence[Text | str],
    streams: Sequence[str],
    sampling: Sampling,
    variant: Variant = (),
    label: str = "Texts",
) -> list[list[Continuation]]:
    """What a model writes behind each prompt: [prompt][sample].

    streams: the name of each prompt's random numbers. variant: edits inside the network, other weights, or a
    symmetrization. What a generation_config asks for (top_k, a temperature, a penalty) is ignored.
    """
    if "causal" not in model.abilities:
        raise CannotDo(
            f"{model.name} predicts no next word, so it writes no text. It can do: counteracts, benchmark, "
            "audit."
        )
    if len(prompts) != len(streams):
        raise BadProbe(f"{len(prompts)} prompts need as many streams (got {len(streams)})")
    if reason := why_no_texts(variant):
        raise CannotDo(f"{reason}.")
    given = [Text.of(prompt) for prompt in prompts]
    own: Variant = tuple(edit for edit in variant if not isinstance(edit, Symmetrized))
    with asking(model.hf):
        rows = prompt_rows(model, given, sampling.tokens)
        symmetry = edit_of(Symmetrized, variant)
        if symmetry is None:
            chosen = [[text] * sampling.samples for text in given]
        else:
            swap = believing_prompts(model, symmetry.swap, given)
            turned = orientations(model, swap, given, own)
            drawn = [  # the text that each sample begins with, and its orientation: [prompt][sample]
                [
                    drawn_orientation(each, text_seed(stream, k, sampling.seed))
                    for k in range(sampling.samples)
                ]
                for each, stream in zip(turned, streams, strict=True)
            ]
            chosen = [[text for text, _ in each] for each in drawn]
            turns = [[t for _, t in each] for each in drawn]
            written = [text for texts in chosen for text in dict.fromkeys(texts)]
            rows |= prompt_rows(model, written, sampling.tokens)
        # all that is to be written, each thing once, and where each sample of a text and a stream is found
        wanted: dict[tuple[Text, str], dict[int, None]] = {}
        for own_texts, stream in zip(chosen, streams, strict=True):
            for number, text in enumerate(own_texts):
                wanted.setdefault((text, stream), {})[number] = None
        starts: list[Start] = []
        place: dict[tuple[Text, str, int], tuple[int, int]] = {}
        for (text, stream), numbers in wanted.items():
            every = sorted(numbers)
            for first in range(0, len(every), ROWS):
                some = tuple(every[first : first + ROWS])
                place |= {(text, stream, number): (len(starts), i) for i, number in enumerate(some)}
                starts.append(Start(rows[text], stream, some))
        found = _sampled(model, SampleJob(tuple(starts), sampling, own), label)
        texts = [
            [found[start][of_start] for start, of_start in (place[t, stream, k] for k, t in enumerate(each))]
            for each, stream in zip(chosen, streams, strict=True)
        ]
        if symmetry is None:
            return texts
        rows_of = zip(chosen, turns, texts, strict=True)
        flat = [written for each in rows_of for written in zip(*each, strict=True)]
        back = swapped_back(model, symmetry.swap, flat)
        return [back[i : i + sampling.samples] for i in range(0, len(back), sampling.samples)]


def why_no_texts(variant: Variant) -> str:
    """Why nothing can be written with some edits; empty where it can."""
    for edit in variant:
        if edit in around(variant) and not isinstance(edit, Symmetrized) and edit not in weights_of(variant):
            return (
                f"{type(edit).__name__} cannot write texts. Write with the model itself, edits inside it, "
                "other weights or a symmetrization"
            )
        if edit.site.part in ("cls", "pooled"):
            return f"{type(edit).__name__} at {edit.site.part} changes no word that a model writes"
    return ""


def prompt_rows(model: Model, prompts: Sequence[Text], tokens: int) -> dict[Text, Ints]:
    """The tokens that each prompt begins a text with; refused where too few positions are left.

    A text to be continued must not end with an end-of-text token that the tokenizer has added; a chat brings
    its special tokens along, and may end with one.
    """
    found: dict[Text, Ints] = {}
    for text, row in zip(prompts, encode(model, prompts), strict=True):
        own = np.flatnonzero(row.part != -1)
        ids = row.ids if text.whole or not len(own) else row.ids[: int(own[-1]) + 1]
        if model.max_tokens is not None and len(ids) + tokens > model.max_tokens:
            raise BadProbe(
                f"A prompt of {len(ids)} tokens and {tokens} more do not fit into the {model.max_tokens} "
                f"positions of {model.name}: {text.first[:40]!r}... Ask for fewer tokens, or shorten it."
            )
        found[text] = ids
    return found


def text_seed(stream: str, sample: int, seed: int) -> int:
    """The seed of one sample of a stream: a number that JSON and every client of a server can hold."""
    named = hashlib.sha256(f"{seed} {sample} {stream}".encode()).digest()
    return int.from_bytes(named[:8], "big") >> 11  # 53 bits: exact as a float too


def uniforms(seed: int, count: int) -> NDArray[np.float64]:
    """The random numbers in [0, 1) of one text: its orientation, then its tokens. More begin with fewer."""
    return np.random.default_rng(seed).random(count)


# ---- the model itself


def _sampled(model: Model, job: SampleJob, label: str) -> list[list[Continuation]]:
    """What the model writes, [start][sample]."""
    cut, crew = job.cut(), crew_of(model)
    drawn: dict[int, NDArray[np.float64]] = {}  # [sample, token, (the token, its log p)]
    with steps(label, sum(len(start.samples) for start in job.starts)) as advance:

        def arrived(numbers: Sequence[int], parcels: Sequence[Parcel]) -> None:
            sizes = [len(job.starts[number].samples) for number in numbers]
            written = np.split(parcels[0].values, np.cumsum(sizes)[:-1])
            drawn.update(zip(numbers, written, strict=True))
            worked(int((parcels[0].values[..., 0] != _NONE).sum()))
            advance(sum(sizes))

        if crew is not None:
            for numbers, parcels in crew.work(job, None, cut):
                arrived(numbers, parcels)
        elif cut:
            with job.ready(model):
                for numbers in cut:
                    arrived(numbers, job.parcels(model, None, numbers))
    ends = ends_of(model)
    texts: list[list[Continuation]] = []
    for number, start in enumerate(job.starts):
        texts.append([])
        for row in drawn[number]:
            found = continuation(model, start.ids, row[:, 0].astype(np.int64), ends)
            own = row[: found.tokens]
            ids, log_p = tuple(own[:, 0].astype(int).tolist()), float(own[:, 1].sum())
            texts[-1].append(replace(found, ids=ids, log_p=log_p))
    return texts


def ends_of(model: Model) -> list[int]:
    """The tokens that end a text: the tokenizer's, and those of the checkpoint, as of a turn in a chat."""
    stated = getattr(getattr(model.hf, "generation_config", None), "eos_token_id", None)
    more = stated if isinstance(stated, list) else [stated]
    return sorted({int(end) for end in (model.tokenizer.eos_token_id, *more) if end is not None})


def continuation(model: Model, prompt: Ints, row: Ids, ends: Sequence[int]) -> Continuation:
    """The text of tokens behind a prompt. Decoded with the prompt: alone they may lose a space."""
    own = row[row != _NONE]
    ended = bool(len(own)) and int(own[-1]) in ends
    own = own[: len(own) - ended]
    with TOKENIZING:
        before, whole = (
            str(
                model.tokenizer.decode(
                    some.tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False
                )
            )
            for some in (prompt, np.concatenate([prompt, own]))
        )
    return Continuation(whole.removeprefix(before), len(own), ended)


@dataclass(frozen=True, eq=False)
class SampleJob:
    """What is written in every batch: nothing in it depends on who runs it."""

    starts: tuple[Start, ...]
    sampling: Sampling
    variant: Variant
    work: ClassVar[Work] = "answers"

    @property
    def rows(self) -> Sequence[Tokens]:
        return [Tokens(start.ids, None) for start in self.starts]

    def cut(self) -> list[list[int]]:
        """Batches of starts of one length, in order, with ROWS samples at most."""
        batches: list[list[int]] = []
        length = rows = 0
        for number in sorted(range(len(self.starts)), key=lambda n: (len(self.starts[n].ids), n)):
            start = self.starts[number]
            if not batches or len(start.ids) != length or rows + len(start.samples) > ROWS:
                batches.append([])
                length, rows = len(start.ids), 0
            batches[-1].append(number)
            rows += len(start.samples)
        return batches

    @contextmanager
    def ready(self, model: Model) -> Iterator[None]:
        edits = (*inside(self.variant), *weights_of(self.variant))
        with model.edited(*edits), at_rest(model.hf), torch.inference_mode():
            yield

    def parcels(self, model: Model, fitting: Fitting | None, numbers: Sequence[int]) -> list[Parcel]:
        """The tokens behind each start, and how likely each was: [start and sample, token, 2], with _NONE
        behind an end."""
        some, tokens = [self.starts[number] for number in numbers], self.sampling.tokens
        prompts = np.stack([start.ids for start in some]).astype(np.int64)
        u = np.stack(
            [
                uniforms(text_seed(start.stream, k, self.sampling.seed), 1 + tokens)[1:]
                for start in some
                for k in start.samples
            ]
        )
        columns = iter(torch.from_numpy(u).T)
        copies = torch.from_numpy(np.repeat(np.arange(len(some)), [len(start.samples) for start in some]))
        ends, length = ends_of(model), prompts.shape[1] + tokens
        last = {"logits_to_keep": 1}  # of long prompts the logits would fill the memory
        given = last if last.keys() <= inspect.signature(model.hf.forward).parameters.keys() else {}

        logs: list[Tensor] = []

        def choose(logits: Tensor) -> Ids:
            token = inverse_cdf(logits, self.sampling.temperature, next(columns))
            logits = logits.float()
            logs.append(logits.gather(1, token[:, None])[:, 0] - logits.logsumexp(-1))
            return token.cpu().numpy()

        try:
            rows = lengthened(model, prompts, length, choose, ends, copies.to(model.device), **given)
        except torch.OutOfMemoryError as error:
            raise CannotDo(
                f"{model.name}: memory runs out at {len(copies)} texts of {length} tokens at once. Fewer "
                "tokens, --dtype bfloat16, --device-map auto or a device with more memory would help."
            ) from error
        written = np.full((len(rows), tokens), _NONE, np.int64)
        written[:, : rows.shape[1] - prompts.shape[1]] = rows[:, prompts.shape[1] :]
        over = np.isin(written, ends)
        written[np.cumsum(over, axis=1) - over > 0] = _NONE
        likely = np.zeros(written.shape)
        likely[:, : len(logs)] = torch.stack(logs, dim=1).double().cpu().numpy()
        return [Parcel(0, 0, np.asarray(numbers, np.int64), np.stack([written, likely], axis=2))]


def inverse_cdf(logits: Tensor, temperature: float | Tensor, at: Tensor) -> Tensor:
    """The token in whose share of [0, 1) each row's number lies, [row], at a temperature.

    Shares are whole multiples of 2^-52: their sum is exact, so it does not depend on the order of adding.
    """
    p = (logits.float() / temperature).softmax(-1)
    total = (p * _SCALE).to(torch.int64).cumsum(1)
    limit = (at * total[:, -1].cpu().double()).to(torch.int64)  # on the host: some devices have no float64
    return torch.searchsorted(total, limit.to(total.device)[:, None], right=True)[:, 0]


# ---- a symmetrized model


def orientations(
    model: Model, swap: GroupSwap, prompts: Sequence[Text], variant: Variant
) -> list[list[tuple[Text, int, float]]]:
    """Each prompt's orientations in the order of their texts: the text, its number t, P(σ^t x) / Σ P(σ^t x).

    The first token of a text that has nothing before it has no probability and is left out.
    """
    every = [[oriented_text(swap, text, t) for t in range(swap.groups)] for text in prompts]
    # of one text alone, the orientations are alike
    distinct = list(dict.fromkeys(text for texts in every if len({*texts}) > 1 for text in texts))
    log_p = dict[Text, float]()
    if distinct:
        (sums,) = read_one(model, SpanLikelihoods(distinct), [variant], label="Orientations")
        log_p = dict(zip(distinct, sums.tolist(), strict=True))
    found = []
    for texts in every:
        order = sorted(range(swap.groups), key=lambda t: (texts[t].first, t))
        logs = np.asarray([log_p.get(texts[t], 0.0) for t in order])
        p = np.exp(logs - np.logaddexp.reduce(logs))
        found.append([(texts[t], t, float(share)) for t, share in zip(order, p, strict=True)])
    return found


def drawn_orientation(every: Sequence[tuple[Text, int, float]], seed: int) -> tuple[Text, int]:
    """The text that a sample begins with, and its orientation."""
    ends = np.cumsum([share for _, _, share in every])
    at = uniforms(seed, 1)[0] * ends[-1]
    text, t, _ = every[min(int((ends <= at).sum()), len(every) - 1)]
    return text, t


def swapped_back(
    model: Model, swap: GroupSwap, written: Sequence[tuple[Text, int, Continuation]]
) -> list[Continuation]:
    """Continuations of oriented prompts, each with its orientation, as those of the prompts themselves."""
    whole = [prompt.first + each.text for prompt, t, each in written if t]
    swap = believing_prompts(model, swap, whole)  # names that the model came up with too

    def back(prompt: Text, t: int, each: Continuation) -> Continuation:
        each = replace(each, log_p=None)  # it is that of one orientation, not of the mixture
        if not t:
            return each
        there, end = swap(prompt.first + each.text, swap.groups - t), len(prompt.first)
        return replace(each, text=there.text[there.place((end, end))[0] :])

    return [back(*each) for each in written]


def believing_prompts(model: Model, swap: GroupSwap, prompts: Sequence[Text | str]) -> GroupSwap:
    """The swap with the genders of names in these prompts, as the unmodified model sees them."""
    return believing(
        model, swap, prompts, lambda readings: [read_one(model, each, label="Names") for each in readings]
    )
