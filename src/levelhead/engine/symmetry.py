"""A model that is run at every orientation of its groups, and answers with the mean (edits/output.py).

For each kind of reading two things are told here: what the model is given at an orientation, and how the
answers of all orientations become one answer (docs/method/symmetrization.md).

    pooled logits, tokens at a blank    the mean of the probabilities, as logarithms
    vectors                             the mean of the vectors
    likelihoods, masked                 the mean of the probabilities of each word and its counterpart
    likelihoods, causal                 a mixture of whole sequences, P_s(x) = mean over t of P(σ^t x); word
                                        by word a mixture with weights in proportion to P(σ^t prefix)

A word whose counterpart has another number of subword tokens is mixed as a word, and its logarithm shared
out evenly over its tokens. A causal model without an opening gives the first token no probability: a first
word that has another token at some orientation is given at all of them.

A model can also be run once, at an orientation that a coin decides for each text (probes/coin.py). Readings
that see inside the network or follow a text token by token are then refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.collectors import Doubles, Floats, TokenScores, TopK
from levelhead.engine.kept import ByText, items_of, of_texts
from levelhead.engine.readings import (
    Ask,
    Pooled,
    Predictions,
    Reading,
    SentenceVectors,
    SpanLikelihoods,
    StaticVectors,
    TextLogProbs,
    TextPredictions,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
    span_sums,
)
from levelhead.errors import CannotDo
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text, token_id
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.models.unmodified import Condition, condition
from levelhead.probes.coin import Coin
from levelhead.probes.group_swap import GenderSwap, GroupSwap
from levelhead.probes.name_beliefs import KNOWN, WORDS, belief_texts, believed, strange_names

_FLOATS = 1 << 27  # vocabulary log-probabilities held at once
_CASES: tuple[Callable[[str], str], ...] = (str, str.capitalize, str.upper)
# log p(she) − log p(he) in texts about names, and the network that gave them
_NAME_SCORES: WeakKeyDictionary[Model, tuple[Condition, dict[str, Floats]]] = WeakKeyDictionary()
_INSIDE = "a "  # before a word inside a text, whose token may hold the space
Mixture = tuple[list[Reading[Any]], Callable[[Sequence[Any]], Any]]  # readings, and what mixes their answers


# ---- which tokens stand for each other


@dataclass(frozen=True)
class TokenClasses:
    """Tokens of counterparts, [class][group] -> tokens. Each token is in one class at most."""

    classes: tuple[tuple[tuple[int, ...], ...], ...]
    split: tuple[str, ...]  # words that are exchanged in texts, but are more than one token

    def closed(self, tokens: Iterable[int]) -> tuple[int, ...]:
        """These tokens and all that stand for them, in order."""
        wanted = set(tokens)
        for groups in self.classes:
            members = {token for group in groups for token in group}
            if members & wanted:
                wanted |= members
        return tuple(sorted(wanted))

    def mixed(self, answers: Sequence[NDArray[Any]], tokens: Sequence[int]) -> Doubles:
        """Log-probabilities [..., token] of all orientations as those of the symmetrized model.

            p_s(y | x) = (1/k) Σ_t P(σ^t [y] | σ^t x) · p(y | x) / P([y] | x)

        [y]: the tokens of y's class and group, of which most classes have one. answers[t] is about the texts
        after orientation t, tokens are those of the question, a closed set.
        """
        logs = [np.asarray(answer, np.float64) for answer in answers]
        place = {token: i for i, token in enumerate(tokens)}
        total = log_mean(logs)
        for groups in self.classes:
            if groups[0][0] not in place:
                continue
            columns = [[place[token] for token in group] for group in groups]
            masses = [[np.logaddexp.reduce(p[..., own], axis=-1) for own in columns] for p in logs]
            for group, own in enumerate(columns):
                mixture = masses[0][group]
                for orientation in range(1, len(logs)):
                    mixture = np.logaddexp(mixture, masses[orientation][(group + orientation) % len(groups)])
                share = logs[0][..., own] - masses[0][group][..., None]
                total[..., own] = mixture[..., None] + share - np.log(len(logs))
        return total

    def exchanged(self, logs: Doubles, tokens: Sequence[int], orientation: int) -> Doubles:
        """Log-probabilities [..., token] at an orientation as those about the text: p(y | x) is what y's
        counterparts got. tokens: a closed set."""
        place = {token: i for i, token in enumerate(tokens)}
        out = logs.copy()
        for groups in self.classes:
            if groups[0][0] not in place:
                continue
            columns = [[place[token] for token in group] for group in groups]
            for group, own in enumerate(columns):
                there = columns[(group + orientation) % len(columns)]
                mass = np.logaddexp.reduce(logs[..., there], axis=-1)
                out[..., own] = mass[..., None] - np.log(len(own))
        return out


@once_a_model
def token_classes(model: Model, swap: GroupSwap) -> TokenClasses:
    """The classes of a swap as tokens, in each case and place of a word; those of one token on every side."""
    every = {case(word) for groups in swap.classes() for group in groups for word in group for case in _CASES}
    written = [before + word for before in (_INSIDE, "") for word in sorted(every)]
    with TOKENIZING:  # one call for all words
        encoded = model.tokenizer(written, add_special_tokens=False, return_offsets_mapping=True)
    single = {}  # words that are one token inside a text (behind _INSIDE) or at its start
    for text, ids, offsets in zip(written, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        start = len(_INSIDE) if text.startswith(_INSIDE) else 0
        own = [token for token, (_, end) in zip(ids, offsets, strict=True) if end > start]
        if len(own) == 1 and own[0] != model.tokenizer.unk_token_id:
            single[text] = int(own[0])

    found: dict[tuple[tuple[int, ...], ...], None] = {}
    taken: set[int] = set()
    split: list[str] = []
    for words in swap.classes():
        complete = False
        for before, case in product((_INSIDE, ""), _CASES):
            groups = tuple(
                tuple(sorted({single[w] for word in group if (w := before + case(word)) in single}))
                for group in words
            )
            members = {token for group in groups for token in group}
            if all(groups) and not members & taken and len(members) == sum(map(len, groups)):
                found[groups] = None
                taken |= members
            complete |= all(groups)
        if not complete:
            split += sorted(word for group in words for word in group)
    return TokenClasses(tuple(found), tuple(split))


# ---- what the model is given


def believing(model: Model, swap: GroupSwap, texts: Sequence[Text | str], ask: Ask) -> GroupSwap:
    """The swap with the genders of names in these texts that no table has, as the unmodified model sees them
    (probes/name_beliefs.py).

    ask: evaluates readings on the unmodified model.
    """
    if not isinstance(swap, GenderSwap) or not swap.names or not model.abilities & {"mlm", "causal"}:
        return swap
    names = strange_names(part for text in map(Text.of, texts) for part in (text.first, text.second) if part)
    tokens = [token for word in WORDS if (token := token_id(model, word)) is not None]
    if not names or len(tokens) < len(WORDS):
        return swap
    # each name once for a network as it is now: most texts have few new ones
    now, scores = condition(model.hf), dict[str, Floats]()
    before, known = _NAME_SCORES.get(model, (now, scores))
    if before == now:
        scores = known
    _NAME_SCORES[model] = now, scores
    if new := [name for name in dict.fromkeys((*KNOWN, *names)) if name not in scores]:
        blank = "" if "causal" in model.abilities else model.tokenizer.mask_token
        (log_p,) = ask([TokenLogProbs(belief_texts(new, blank), tokens)])  # [variant, text, token]
        odds = (log_p[0, :, 0] - log_p[0, :, 1]).reshape(len(new), -1)
        scores |= dict(zip(new, odds, strict=True))
    own, table = (np.concatenate([scores[name] for name in some]) for some in (names, KNOWN))
    return replace(swap, believed=believed(names, table, own))


def oriented_text(swap: GroupSwap, text: Text | str, orientation: int) -> Text:
    """A text, or a pair, after an orientation of the groups, with its blanks and masks where they belong."""
    text = Text.of(text)
    if not orientation:
        return text
    first = swap(text.first, orientation)
    second = None if text.second is None else swap(text.second, orientation).text
    return replace(text, first=first.text, second=second, masked=tuple(map(first.place, text.masked)))


def _oriented(swap: GroupSwap, reading: Any, orientations: Sequence[int]) -> Any:
    """A reading about oriented texts, each at an orientation of its own."""
    own: dict[str, Any] = {
        "texts": [
            oriented_text(swap, text, orientation)
            for text, orientation in zip(reading.texts, orientations, strict=True)
        ]
    }
    if isinstance(reading, WordVectors | StaticVectors):
        places = zip(reading.texts, reading.spans, orientations, strict=True)
        own["spans"] = [
            swap(Text.of(text).first, orientation).place(span) for text, span, orientation in places
        ]
    return replace(reading, **own)


# ---- all orientations


def symmetrized(model: Model, swap: GroupSwap, readings: Sequence[Reading[Any]], ask: Ask) -> list[Any]:
    """The answers of the symmetrized model to each reading; `ask` runs the model itself."""
    mixtures = [_mixture(model, swap, reading) for reading in readings]
    answers = iter(ask([reading for unmixed, _ in mixtures for reading in unmixed]))
    return [mixed([next(answers) for _ in unmixed]) for unmixed, mixed in mixtures]


def _mixture(model: Model, swap: GroupSwap, reading: Any) -> Mixture:
    """What the model itself is given at each orientation, and what makes one answer of those of all
    orientations."""
    if isinstance(reading, SpanLikelihoods):
        if reading.instead is not None:
            raise CannotDo("Tokens in place of a text's own have no counterpart under symmetrization.")
        unmixed, likelihoods = _mixture(model, swap, TokenLikelihoods(reading.texts))
        return unmixed, lambda answers: span_sums(model, reading, likelihoods(answers))

    if isinstance(reading, Predictions | TextPredictions):
        return _mixed_top(model, swap, reading)
    texts, orientations = list(getattr(reading, "texts", ())), range(swap.groups)
    if isinstance(reading, TokenLogProbs):
        # those of the reading, and all others of their classes, at every orientation
        classes, own = token_classes(model, swap), reading.tokens
        tokens = tuple(dict.fromkeys((*own, *classes.closed(own))))
        place = {token: i for i, token in enumerate(tokens)}
        plain: Any = TokenLogProbs(reading.texts, tokens)

        def mixed(answers: Sequence[Any]) -> Any:
            return classes.mixed(answers, tokens)[..., [place[token] for token in own]].astype(np.float32)

    elif isinstance(reading, TokenLikelihoods):
        plain, mixed = reading, partial(_mixed_likelihoods, model, swap, texts)

    elif isinstance(reading, Pooled) and not reading.vectors:
        plain = reading

        def mixed(answers: Sequence[Any]) -> Any:
            shifted = [logits.astype(np.float64) for logits in answers]
            shifted = [logits - logits.max(axis=-1, keepdims=True) for logits in shifted]
            logs = [each - np.log(np.exp(each).sum(axis=-1, keepdims=True)) for each in shifted]
            return log_mean(logs).astype(np.float32)

    elif isinstance(reading, Pooled | WordVectors | StaticVectors | SentenceVectors):
        plain = reading

        def mixed(answers: Sequence[Any]) -> Any:
            return (sum(answers[1:], start=answers[0]) / len(answers)).astype(answers[0].dtype)

    else:
        raise CannotDo(
            f"{type(reading).__name__} looks inside the network, where a symmetrized model is two. Ask the "
            "model itself, or distill the symmetrized one into weights."
        )
    oriented = [plain, *(_oriented(swap, plain, [t] * len(texts)) for t in orientations[1:])]
    return _each_text_once(oriented, mixed) if isinstance(plain, ByText) else (oriented, mixed)


def _each_text_once(
    oriented: Sequence[ByText], mixed: Callable[[Sequence[Any]], Any]
) -> tuple[list[Reading[Any]], Callable[[Sequence[Any]], Any]]:
    """All orientations as one reading: a text that is the same at several of them is evaluated once."""
    items = [items_of(reading) for reading in oriented]
    place = {item: number for number, item in enumerate(dict.fromkeys(chain(*items)))}
    own: dict[str, Any] = {"texts": [text for text, _ in place]}
    if isinstance(oriented[0], WordVectors):
        own["spans"] = [span for _, span in place]

    def apart(answers: Sequence[Any]) -> Any:
        return mixed([of_texts(answers[0], [place[item] for item in some]) for some in items])

    return [replace(oriented[0], **own)], apart


def _mixed_top(model: Model, swap: GroupSwap, reading: Predictions | TextPredictions) -> Mixture:
    """The same for the likeliest tokens. Those of the mixture need not be so at any orientation: the whole
    vocabulary is read."""
    texts, orientations = list(reading.texts), range(swap.groups)
    every = range(int(model.config.vocab_size))
    if isinstance(reading, TextPredictions):
        halves: list[Any] = [TokenLikelihoods(reading.texts), TextLogProbs(reading.texts, tuple(every))]
        oriented = [
            [each if not t else _oriented(swap, each, [t] * len(texts)) for t in orientations]
            for each in halves
        ]

        def along(answers: Sequence[Any]) -> TopK:
            scores, logs = answers[: swap.groups], answers[swap.groups :]
            return _mixed_predictions(model, swap, texts, scores, logs, reading.k)

        return [each for half in oriented for each in half], along

    step = max(1, _FLOATS // len(every))
    if len(texts) > step:
        raise CannotDo(
            f"The likeliest words of {len(texts)} texts under symmetrization need too much memory; ask "
            f"{step} at a time."
        )

    def likeliest(answers: Sequence[Floats]) -> TopK:
        logs = token_classes(model, swap).mixed(answers, every)
        ids = np.argsort(-logs, axis=-1, kind="stable")[..., : reading.k]
        return TopK(ids.astype(np.int64), np.take_along_axis(logs, ids, axis=-1).astype(np.float32))

    whole = TokenLogProbs([Text.of(text) for text in texts], tuple(every))
    return _each_text_once([_oriented(swap, whole, [t] * len(texts)) for t in orientations], likeliest)


def log_mean(logs: Sequence[NDArray[Any]]) -> Doubles:
    """The logarithm of the mean of probabilities, from their logarithms."""
    total = np.asarray(logs[0], np.float64)
    for more in logs[1:]:
        total = np.logaddexp(total, more)
    return np.asarray(total - np.log(len(logs)))


def _mixed_likelihoods(
    model: Model, swap: GroupSwap, texts: Sequence[Text | str], answers: Sequence[TokenScores]
) -> TokenScores:
    """Log-likelihoods of each text's scored tokens under the mixture."""
    units = [_units(swap, Text.of(text), answers, number) for number, text in enumerate(texts)]
    mixtures: list[list[Floats]] = []
    for variant, own in enumerate(answers[0].values):
        mixtures.append([])
        for number, unmixed in enumerate(own):
            of_orientations = [
                [float(answer.values[variant][number][list(unit)].sum()) for unit in of_orientation]
                for answer, of_orientation in zip(answers, units[number], strict=True)
            ]
            sums = np.array(of_orientations).reshape(len(answers), -1)  # [orientation, unit]
            if "causal" in model.abilities:
                mixed = np.diff(log_mean(list(np.cumsum(sums, axis=1))), prepend=0.0)
            else:
                mixed = log_mean(list(sums))
            out = np.array(unmixed, dtype=np.float32)
            for unit, value in zip(units[number][0], mixed, strict=True):
                out[list(unit)] = value / len(unit)
            mixtures[-1].append(out)
    return replace(answers[0], values=mixtures)


def _mixed_predictions(
    model: Model,
    swap: GroupSwap,
    texts: Sequence[Text | str],
    scores: Sequence[TokenScores],
    logs: Sequence[Floats],
    k: int,
) -> TopK:
    """The likeliest next tokens of the mixture along each text, [variant, position, k].

    p_s(y | x) = Σ_t w_t(x) · p_t(y | x),   w_t(x) = P(σ^t x) / Σ_u P(σ^u x),   x: what stands before
    p_t: the probability of y's counterparts at orientation t, as for a blank (TokenClasses.mixed)
    """
    classes, every = token_classes(model, swap), range(int(model.config.vocab_size))
    shape = (len(logs[0]), logs[0].shape[1], k)
    ids, values = np.full(shape, -1, np.int64), np.full(shape, np.nan, np.float32)
    starts = [
        np.cumsum([0, *(len(positions) for positions in answer.positions)]).tolist() for answer in scores
    ]
    for number, text in enumerate(texts):
        units = _units(swap, Text.of(text), scores, number)
        for variant in range(shape[0]):
            sums = np.array(  # [orientation, unit]
                [
                    [float(answer.values[variant][number][list(unit)].sum()) for unit in own]
                    for answer, own in zip(scores, units, strict=True)
                ]
            ).reshape(len(scores), -1)
            before = np.cumsum(sums, axis=1) - sums
            weights = before - np.logaddexp.reduce(before, axis=0) + np.log(len(scores))
            oriented = [
                answer[variant][[start[number] + unit[0] for unit in own]] + weight[:, None]
                for answer, start, own, weight in zip(logs, starts, units, weights, strict=True)
            ]
            mixed = classes.mixed(oriented, every)  # [unit, token]
            likeliest = np.argpartition(-mixed, k - 1, axis=-1)[:, :k]  # a sort of all would take longer
            order = np.argsort(-np.take_along_axis(mixed, likeliest, axis=-1), axis=-1, kind="stable")
            likeliest = np.take_along_axis(likeliest, order, axis=-1)
            places = [starts[0][number] + unit[0] for unit in units[0]]
            ids[variant, places] = likeliest
            values[variant, places] = np.take_along_axis(mixed, likeliest, axis=-1)
    return TopK(ids, values)


def _units(
    swap: GroupSwap, text: Text, answers: Sequence[TokenScores], number: int
) -> list[list[tuple[int, ...]]]:
    """Scored tokens that stand for each other, [orientation][unit] -> places among the text's scored
    tokens."""
    parts = []
    for orientation, answer in enumerate(answers):
        row, cut = (
            answer.rows[number],
            list[list[int]](),
        )  # at exchanged words: before the first, it, between ...
        for part, sentence in enumerate([text.first] if text.second is None else [text.first, text.second]):
            old = {span for other in range(swap.groups) for span, _ in swap(sentence, other).changes}
            here = swap(sentence, orientation)
            spans, first = [here.place(span) for span in sorted(old)], len(cut)
            cut += [[] for _ in range(2 * len(spans) + 1)]
            for place, position in enumerate(answer.positions[number]):
                if int(row.part[position]) != part:
                    continue
                start, end = (int(at) for at in row.offsets[position])
                inside = next((i for i, (a, b) in enumerate(spans) if start < b and end > a), None)
                gap = sum(b <= start for _, b in spans)
                cut[first + (2 * gap if inside is None else 2 * inside + 1)].append(place)
        parts.append(cut)
    units: list[list[tuple[int, ...]]] = [[] for _ in answers]
    for pieces in zip(*parts, strict=True):  # the tokens between two exchanged words, or of one
        # nothing there, or a first word of which some orientation has the first token alone
        if not all(pieces):
            continue
        alike = len({len(piece) for piece in pieces}) == 1
        for of_orientation, piece in zip(units, pieces, strict=True):
            of_orientation += [(token,) for token in piece] if alike else [tuple(piece)]
    return units


# ---- one orientation


def coined(model: Model, coin: Coin, readings: Sequence[Reading[Any]], ask: Ask) -> list[Any]:
    """The answers to each reading, every text run once; `ask` runs the model itself."""
    orientations: list[NDArray[np.int64]] = []
    oriented: list[Any] = []
    for reading in readings:
        if not isinstance(reading, Pooled | TokenLogProbs | WordVectors):
            raise CannotDo(
                f"{type(reading).__name__} cannot be evaluated by a coin: give the symmetrized model as a "
                "variant."
            )
        texts = [Text.of(text) for text in reading.texts]
        own = np.asarray([coin.orientation(f"{text.first}\n{text.second or ''}") for text in texts], np.int64)
        orientations.append(own)
        oriented.append(_oriented(coin.swap, reading, own.tolist()))
        if isinstance(reading, TokenLogProbs):  # of tokens, all that stand for them are read
            closed = token_classes(model, coin.swap).closed(reading.tokens)
            oriented[-1] = TokenLogProbs(oriented[-1].texts, closed)
    answers = ask(oriented)
    for number, (reading, given, own) in enumerate(zip(readings, oriented, orientations, strict=True)):
        if isinstance(reading, TokenLogProbs):
            logs, classes = np.array(answers[number], np.float64), token_classes(model, coin.swap)
            for orientation in set(own.tolist()) - {0}:
                logs[:, own == orientation] = classes.exchanged(
                    logs[:, own == orientation], given.tokens, orientation
                )
            place = {token: i for i, token in enumerate(given.tokens)}
            answers[number] = logs[..., [place[token] for token in reading.tokens]].astype(np.float32)
    return answers
