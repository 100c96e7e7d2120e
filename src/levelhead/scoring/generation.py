"""Texts that a model wrote, scored by models: likelihoods of texts and of their counterfactuals, decisions,
vectors (docs/method/generation.md).

A prompt and its continuation are one text, tokenized as one. The continuation's tokens are those that begin
at or behind the prompt's end; in the swapped text, those that begin at or behind the place of that end. So
both sides are cut at the same place, also where a token reaches over it.

A symmetrized model is the mixture of its orientations, P_s(x y) = (1/k) Σ_t P(σ^t x σ^t y); so

    log P_s(y | x) = log Σ_t P(σ^t x σ^t y) − log Σ_t P(σ^t x)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.output import Symmetrized, edit_of
from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.collectors import Doubles, Floats
from levelhead.engine.readings import PositionMasses, SentenceVectors, SpanLikelihoods, scored_positions
from levelhead.engine.run import read, read_one
from levelhead.engine.sampling import Continuation, believing_prompts
from levelhead.engine.served.writing import span_likelihoods
from levelhead.engine.symmetry import oriented_text, token_classes
from levelhead.errors import BadProbe
from levelhead.measures.mirror import MirrorScores, PairedWords
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Ints, Text, encode, fits
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.probes.group_swap import GenderSwap, GroupSwap
from levelhead.probes.swap import stated_genders

LEAST_OCCURRENCES = 5  # of a class of words that is tilted
MOST_CLASSES = 96  # of them, the most frequent ones
Cut = tuple[Text, int]  # a prompt with what follows as one text, and the character at which that begins


def mirror_scores(
    model: Model,
    prompts: Sequence[Text | str],
    texts: Sequence[str | Continuation],
    variants: Sequence[Variant] = UNTOUCHED,
) -> list[MirrorScores]:
    """How likely each variant finds texts behind their prompts, and their counterfactuals: one per variant.

    prompts [text]: of each text its own. Genders are swapped with first names, as a symmetrized model does.
    A text as the only variant drew it is not read again if its tokens are those that were drawn.
    """
    said = [each if isinstance(each, str) else each.text for each in texts]
    own, mirrored, exact, fits = _sides(model, prompts, said)
    tokens = [_tokens(model, *cut)[1] for cut in own]
    known = np.full(len(own), np.nan)
    for i, (row, each) in enumerate(zip(encode(model, [text for text, _ in own]), texts, strict=True)):
        if len(variants) > 1 or isinstance(each, str) or each.log_p is None:
            continue
        if each.ids == tuple(row.ids[tokens[i]].tolist()):
            known[i] = each.log_p
    other = np.asarray([before != after for before, after in zip(own, mirrored, strict=True)], np.bool_)
    read_own = [cut for cut, each in zip(own, known, strict=True) if np.isnan(each)]
    cuts = list(dict.fromkeys([*read_own, *(cut for cut, read in zip(mirrored, other, strict=True) if read)]))
    place = {cut: number for number, cut in enumerate(cuts)}
    here, there = ([place.get(cut, -1) for cut in side] for side in (own, mirrored))
    found = list[MirrorScores]()
    for log_p in continuation_log_p(model, cuts, variants):  # [cut]
        log_p = np.append(log_p, np.nan)  # of those that are not read
        before = np.where(fits, np.where(np.isnan(known), log_p[here], known), np.nan)
        after = np.where(fits, np.where(other, log_p[there], before), np.nan)
        found.append(MirrorScores(before, after, np.asarray(list(map(len, tokens)), np.int64), exact))
    return found


def served_mirror_scores(model: ServedModel, prompts: Sequence[str], texts: Sequence[str]) -> MirrorScores:
    """The same of a model behind a server that gives likelihoods. Where a word has two counterparts, as "her"
    has, the shipped rule chooses one: what the model believes is not known."""
    swap = GenderSwap()
    cuts = [_joined(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]
    sides = [[_turned(swap, cut, orientation) for cut in cuts] for orientation in (0, 1)]
    spans = [(text.first, at, len(text.first)) for side in sides for text, at in side]
    sums, counts = span_likelihoods(model, spans, "Likelihoods")
    sums = np.where(counts > 0, sums, np.nan)
    own, mirrored = sums[: len(cuts)], sums[len(cuts) :]
    exact = np.asarray([swap(text.first).reversible for text, _ in cuts], np.bool_)
    return MirrorScores(own, mirrored, counts[: len(cuts)].astype(np.int64), exact)


def _sides(
    model: Model, prompts: Sequence[Text | str], texts: Sequence[str]
) -> tuple[list[Cut], list[Cut], NDArray[np.bool_], NDArray[np.bool_]]:
    """Each prompt with its text, the same swapped, whether the swap turns it around exactly, and whether both
    fit into the model: a counterfactual may have more tokens. Where they do not, the prompt is alone."""
    joint = [_joined(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]
    swap = believing_prompts(model, GenderSwap(), [text for text, _ in joint])
    own, mirrored, exact, both_fit = list[Cut](), list[Cut](), list[bool](), list[bool]()
    for prompt, cut in zip(prompts, joint, strict=True):
        before, after = (_turned(swap, cut, t) for t in (0, 1))
        both_fit.append(fits(model, before[0]) and fits(model, after[0]))
        exact.append(both_fit[-1] and swap(cut[0].first).reversible)
        own.append(before if both_fit[-1] else _joined(prompt, ""))
        mirrored.append(after if both_fit[-1] else _joined(prompt, ""))
    return own, mirrored, np.asarray(exact, np.bool_), np.asarray(both_fit, np.bool_)


def _joined(prompt: Text | str, text: str) -> Cut:
    """A prompt and what follows it. Blanks at a prompt's end are a part of the token behind them."""
    given = Text.of(prompt)
    return replace(given, first=given.first + text), len(given.first.rstrip(" "))


def _turned(swap: GroupSwap, cut: Cut, orientation: int) -> Cut:
    """A text at an orientation, cut where its continuation begins there; before a word that is exchanged."""
    text, at = cut
    for other in range(1, swap.groups):
        inside = [start for (start, end), _ in swap(text.first, other).changes if start < at < end]
        at = min([at, *inside])
    return oriented_text(swap, text, orientation), swap(text.first, orientation).place((at, at))[0]


def _tokens(model: Model, text: Text, at: int) -> tuple[Ints, Ints]:
    """The scored tokens of a text that begin before a character, and those that begin at or behind it."""
    (row,) = encode(model, [text])
    scored = scored_positions(model, row, None)
    behind = row.offsets[scored, 0] >= at
    return scored[~behind], scored[behind]


def continuation_log_p(model: Model, cuts: Sequence[Cut], variants: Sequence[Variant] = UNTOUCHED) -> Doubles:
    """log P(y | x) of each cut text in each variant, in nats: [variant, cut]"""
    model.require("causal", "likelihoods of what follows a prompt")
    plain = [variant for variant in variants if edit_of(Symmetrized, variant) is None]
    of_plain = iter(list(_sums(model, cuts, plain, (True,))[0]) if plain else list[Doubles]())
    found = list[Doubles]()
    for variant in variants:
        symmetry = edit_of(Symmetrized, variant)
        if symmetry is None:
            found.append(next(of_plain))
            continue
        rest = tuple(edit for edit in variant if edit is not symmetry)
        swap = believing_prompts(model, symmetry.swap, [text for text, _ in cuts])
        every = [[_turned(swap, cut, t) for cut in cuts] for t in range(swap.groups)]
        once = list(dict.fromkeys(cut for of_orientation in every for cut in of_orientation))
        place = {cut: number for number, cut in enumerate(once)}
        (before,), (behind,) = _sums(model, once, [rest], (False, True))
        order = np.asarray([[place[cut] for cut in of_orientation] for of_orientation in every])
        whole = np.logaddexp.reduce((before + behind)[order], axis=0)
        found.append(whole - np.logaddexp.reduce(before[order], axis=0))
    return np.stack(found)


def _sums(
    model: Model, cuts: Sequence[Cut], variants: Sequence[Variant], sides: Sequence[bool]
) -> list[Doubles]:
    """log p of the tokens before (False) or behind (True) each cut: [side] of [variant, cut]"""
    texts, tokens = [text for text, _ in cuts], [_tokens(model, *cut) for cut in cuts]
    sums = [SpanLikelihoods(texts, [own[side].tolist() for own in tokens]) for side in sides]
    answers = read(model, sums, variants, label="Likelihoods")
    return [answers[each] for each in sums]


# ---- what a tilt explains


def tilt_scores(
    model: Model,
    prompts: Sequence[Text | str],
    texts: Sequence[str],
    variants: Sequence[Variant] = UNTOUCHED,
) -> list[PairedWords | None]:
    """What measures/mirror.mirror_parts needs of the mirrored texts, one per variant.

    Of classes of words that are one token on either side and occur 5 times or more. None for a symmetrized
    variant: it is its own mirror image, and its divergence of 0 has no parts.
    """
    _, mirrored, _, _ = _sides(model, prompts, texts)
    classes = _word_classes(model)
    where = {token: (c, g) for c, (_, groups) in enumerate(classes) for g in (0, 1) for token in groups[g]}
    positions = [_tokens(model, *cut)[1] for cut in mirrored]
    rows = list(encode(model, [text for text, _ in mirrored]))
    counts = np.zeros((len(texts), len(classes), 2))
    for i, (row, own) in enumerate(zip(rows, positions, strict=True)):
        for token in row.ids[own].tolist():
            if token in where:
                counts[i, where[token][0], 1 - where[token][1]] += 1  # of the text itself: the other side
    often = counts.sum(axis=(0, 2))
    kept = [c for c in np.argsort(-often, kind="stable")[:MOST_CLASSES] if often[c] >= LEAST_OCCURRENCES]
    of_text = np.repeat(np.arange(len(texts)), [len(own) for own in positions])
    masses = PositionMasses(
        [text for text, _ in mirrored],
        [own.tolist() for own in positions],
        [classes[c][1][g] for g in (1, 0) for c in kept],
    )
    found: list[PairedWords | None] = []
    for variant in variants:
        if edit_of(Symmetrized, variant) is not None:
            found.append(None)
            continue
        (p,) = read_one(model, masses, [variant], label="Paired words") if kept else (np.zeros((0, 0)),)
        if not kept:
            p = np.zeros((len(of_text), 0), np.float32)
        feminine, masculine = np.split(p, 2, axis=1)
        names = tuple(classes[c][0] for c in kept)
        gaps = counts[:, kept, 0] - counts[:, kept, 1]
        found.append(PairedWords(names, gaps, of_text, feminine, masculine))
    return found


def _word_classes(model: Model) -> list[tuple[str, tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Classes of words with their feminine and masculine tokens, in every case and place of a word."""
    swap = GenderSwap()
    words = swap.classes()
    known = {
        word.lower(): number for number, groups in enumerate(words) for group in groups for word in group
    }
    tokens: dict[int, tuple[list[int], list[int]]] = {}
    for groups in token_classes(model, swap).classes:
        with TOKENIZING:
            written = str(model.tokenizer.decode([groups[0][0]])).strip().lower()
        if written in known:
            mine = tokens.setdefault(known[written], ([], []))
            for side, group in zip(mine, groups, strict=True):
                side += group
    return [
        ("/".join("|".join(sorted(group)) for group in words[number]), (tuple(f), tuple(m)))
        for number, (f, m) in tokens.items()
    ]


# ---- who appears


def first_person_shares(
    model: Model, prompts: Sequence[Text | str], texts: Sequence[str], variant: Variant = ()
) -> Doubles:
    """How likely it was that the first word for a person is feminine, or masculine: [text, 2]

        share = Σ_{j ≤ J} p(feminine word | prompt, tokens before j),   J: where that word stands, or the end

    Its mean over sampled texts has the expectation of the counts of first words, and less of their noise: at
    the first token nothing is left to chance. Words of several tokens and names are counted as they come.

    A model that is symmetrized by gender writes both orientations of a text as often behind a prompt that the
    swap leaves as it is: both shares are their mean. Behind any other prompt of a symmetrized model words are
    counted: there the orientations have weights of their own at every position.
    """
    said = [next(iter(stated_genders(text, names=True)), None) for text in texts]
    counted = np.asarray([[word is not None and word.gender == sex for sex in "FM"] for word in said], float)
    counted = counted.reshape(len(texts), 2)
    if (symmetry := edit_of(Symmetrized, variant)) is not None and len(texts):
        rest = tuple(edit for edit in variant if edit is not symmetry)
        shares = first_person_shares(model, prompts, texts, rest).mean(axis=1, keepdims=True)
        by_gender, given = (
            isinstance(symmetry.swap, GenderSwap),
            [Text.of(prompt).first for prompt in prompts],
        )
        same = [by_gender and not symmetry.swap(each).changes for each in given]
        return np.where(np.asarray(same)[:, None], shares, counted)
    if not len(texts):
        return counted
    groups = [
        sorted({token for _, sides in _word_classes(model) for token in sides[side]}) for side in (0, 1)
    ]
    known, positions, cuts = {*groups[0], *groups[1]}, list[list[int]](), list[Text]()
    shares = np.zeros((len(texts), 2))
    for i, (prompt, text, word) in enumerate(zip(prompts, texts, said, strict=True)):
        until = text if word is None else text[: word.start + len(word.word)]
        cut, at = _joined(prompt, until)
        if not fits(model, cut):  # its tokens are not those that were drawn, and are more: it is counted
            cuts.append(_joined(prompt, "")[0])
            positions.append([])
            shares[i] = counted[i]
            continue
        (row,) = encode(model, [cut])
        own = _tokens(model, cut, at)[1]
        hits = [j for j, token in enumerate(row.ids[own].tolist()) if token in known]
        positions.append(own[: hits[0] + 1].tolist() if hits else own.tolist())
        cuts.append(cut)
        shares[i] = 0.0 if hits else counted[i]
    (masses,) = read_one(model, PositionMasses(cuts, positions, groups), [variant], label="Who appears")
    np.add.at(shares, np.repeat(np.arange(len(texts)), [len(each) for each in positions]), masses)
    return shares


# ---- decisions and vectors


def answer_odds(
    model: Model,
    prompts: Sequence[Text | str],
    answers: Sequence[tuple[str, str]],
    variants: Sequence[Variant] = UNTOUCHED,
) -> Doubles:
    """log p(favorable answer) − log p(unfavorable answer) behind each prompt, in nats: [variant, prompt]

    answers [prompt]. Words of several tokens are scored as words. Behind a chat that ends in a blank or in a
    special token an answer's own blank is left out.
    """
    cuts: list[Cut] = []
    for prompt, pair in zip(prompts, answers, strict=True):
        given = Text.of(prompt)
        (row,) = encode(model, [given])
        bare = given.first[-1:].isspace() or (given.whole and row.part[-1] == -1)
        cuts += [_joined(given, answer.lstrip() if bare else answer) for answer in pair]
    for text, at in cuts:
        if not len(_tokens(model, text, at)[1]):
            raise BadProbe(f"An answer needs a word of its own behind the prompt (got {text.first[at:]!r})")
    once = list(dict.fromkeys(cuts))
    place = {cut: number for number, cut in enumerate(once)}
    log_p = continuation_log_p(model, once, variants)[:, [place[cut] for cut in cuts]]
    return np.asarray(log_p[:, 0::2] - log_p[:, 1::2])


def text_vectors(model: Model, texts: Sequence[str]) -> Floats:
    """The mean vector of each text's tokens in the model itself, [text, hidden]; NaN for an empty text."""
    kept = [number for number, text in enumerate(texts) if text.strip()]
    found = np.full((len(texts), int(model.config.hidden_size)), np.nan, np.float32)
    if kept:
        (found[kept],) = read_one(model, SentenceVectors([texts[n] for n in kept]), label="Vectors of texts")
    return found
