"""Gender subspaces of a model: states of inputs that differ in gender only, aligned, and their differences
(docs/method.md, Gender subspace)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.erasure import AffineErasure, inlp, leace
from levelhead.edits.projection import Projection
from levelhead.edits.sites import AFTER, Edit, Site, Variant
from levelhead.edits.subspace import Subspace, fit_subspace, projection
from levelhead.engine.readings import States
from levelhead.engine.run import read
from levelhead.errors import BadProbe
from levelhead.mitigation.recipe import Fit, Step
from levelhead.models.encoding import Text, TokenRow, encode
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, list_pairs
from levelhead.probes.pairs import InputPair, gender_sentence_pairs, nli_pair_inputs
from levelhead.probes.sentences import shipped_counter_sentences
from levelhead.probes.words import WordTest

Floats = NDArray[np.float32]
Form = Literal["single", "pairs", "frames"]
OTHER_WORDS = "pair with another number of words"
OTHER_TOKENS = "word with another number of tokens"
_BASELINE_SENTENCES = 500
_FRAME_NOUNS = (
    ("woman", "man"),
    ("girl", "boy"),
    ("lady", "gentleman"),
    ("mother", "father"),
    ("sister", "brother"),
    ("wife", "husband"),
    ("daughter", "son"),
    ("aunt", "uncle"),
    ("niece", "nephew"),
    ("grandmother", "grandfather"),
)
_FRAME_ACTS = (
    "folded a towel",
    "carried a box",
    "rang the bell",
    "locked the gate",
    "washed a cup",
    "moved the chair",
)


@dataclass(frozen=True, eq=False)
class PairedStates:
    """States of both forms of the pairs at one site."""

    states: Sequence[Floats]  # of either form in turn, feminine first: [token, hidden] or [token, head, dim]
    skipped: Mapping[str, int]  # reason -> how many

    @property
    def pairs(self) -> int:
        """How many contributed."""
        return len(self.states) // 2

    @cached_property
    def feminine(self) -> Floats:
        """Those of the feminine forms, row by row: [vector, hidden] or [vector, head, dim]"""
        return np.concatenate(self.states[::2])

    @cached_property
    def masculine(self) -> Floats:
        """Those of the masculine forms, in the same rows."""
        return np.concatenate(self.states[1::2])

    def differences(self) -> Floats:
        """Feminine less masculine, row by row."""
        ends = np.cumsum([0, *(len(own) for own in self.states[::2])])
        rows = np.empty((ends[-1], *self.states[0].shape[1:]), np.float32)
        for i, start in enumerate(ends[:-1]):
            np.subtract(self.states[2 * i], self.states[2 * i + 1], out=rows[start : ends[i + 1]])
        return rows


def default_pairs(model: Model, form: Form | None = None) -> tuple[InputPair, ...]:
    """The shipped pairs of the form that a model reads: premise and hypothesis for a classifier, else one
    sentence.

    A pair classifier fitted on single sentences gets directions that change almost nothing; by default it is
    fitted on frame_pairs(), form="pairs" gives the varied shipped inputs instead.
    """
    chosen = form or ("frames" if _judges_pairs(model) else "single")
    if chosen == "frames":
        return frame_pairs()
    return nli_pair_inputs() if chosen == "pairs" else gender_sentence_pairs()


def pairs_about(model: Model, test: WordTest) -> tuple[InputPair, ...]:
    """Pairs for the bias of a word list: the shipped ones, or those that the list's own counterparts make.

    Empty where another bias has no counterparts.
    """
    return default_pairs(model) if about_gender(test) else list_pairs(test, _judges_pairs(model))


def _judges_pairs(model: Model) -> bool:
    return model.classification_head is not None and "nsp" not in model.abilities


def frame_pairs() -> tuple[InputPair, ...]:
    """60 pairs in the occupation probe's frame, without its occupations and acts: a narrow fit.

        The person opened the window. / The woman opened the window.
        The person opened the window. / The man opened the window.

    What a subspace is fitted on decides what its removal does. On lh:nli-mini, hard and 2-d from layer 3 on,
    both sets even out the genders, but the varied shipped inputs leave hardly a neutral answer, and these
    leave neutral ones.
    """
    return tuple(
        InputPair(
            (f"The person {act}.", f"The {feminine} {act}."),
            (f"The person {act}.", f"The {masculine} {act}."),
        )
        for act in _FRAME_ACTS
        for feminine, masculine in _FRAME_NOUNS
    )


def baseline_pairs() -> tuple[InputPair, ...]:
    """Single sentences with one gendered word, and the same with its counterpart, for the sentence-debias
    baseline.

    Liang et al. 2020 find sentences with attribute words in corpora and swap the words; ours are the shipped
    counter-stereotype sentences. They stay single sentences for a pair classifier too, as in that paper.
    """
    sentences = shipped_counter_sentences(_BASELINE_SENTENCES)
    both = [(s.text, s.counter) if s.group == "A" else (s.counter, s.text) for s in sentences]
    return tuple(InputPair((feminine, None), (masculine, None)) for feminine, masculine in both)


def form_of(pairs: Sequence[InputPair]) -> Literal["single", "pairs"]:
    """The form of input that the pairs have; the result of a fit says it."""
    return "pairs" if any(pair.feminine[1] is not None for pair in pairs) else "single"


def fit_subspaces(
    model: Model, pairs: Sequence[InputPair], sites: Sequence[Site], variants: Sequence[Variant] = ((),)
) -> list[dict[Site, Subspace]]:
    """The subspaces at the sites, for each variant of the model, in one shared-prefix read.

    The untouched variant () is `fit="base"`; variants with earlier interventions on are `fit="sequential"`.
    """
    by_variant = paired_states(model, pairs, sites, variants)
    return [
        {site: _subspace(model, site, states) for site, states in by_site.items()} for by_site in by_variant
    ]


def fit_steps(
    model: Model, pairs: Sequence[InputPair], plans: Sequence[Sequence[Step]], fit: Fit = "base"
) -> list[Variant]:
    """Plans of projections, as recipes name them, become variants of this model.

    fit="base": every step is fitted on the unmodified model. fit="sequential": on the model with the plan's
    earlier steps on, where earlier means at a lower depth (query, key and value of one layer are one depth).
    Plans share the edits that they share, so the engine shares their layers.
    """
    ordered = [tuple(sorted(plan, key=lambda step: _depth(model, step))) for plan in plans]
    depths = (
        sorted({_depth(model, step) for plan in ordered for step in plan}) if fit == "sequential" else [None]
    )
    made: dict[tuple[tuple[Step, ...], Step], Edit] = {}

    def history(plan: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
        here = _depth(model, step)
        return tuple(s for s in plan if _depth(model, s) < here) if fit == "sequential" else ()

    def edits(plan: tuple[Step, ...]) -> Variant:
        return tuple(made[history(plan, step), step] for step in plan)

    for depth in depths:
        wanted: dict[tuple[Step, ...], dict[Step, None]] = defaultdict(dict)
        for plan in ordered:
            for step in plan:
                if depth in (None, _depth(model, step)):
                    wanted[history(plan, step)][step] = None
        if not wanted:
            continue
        sites = [step.site(model) for steps in wanted.values() for step in steps]
        fitted = paired_states(model, pairs, sites, [edits(before) for before in wanted])
        for (before, steps), states in zip(wanted.items(), fitted, strict=True):
            made.update({(before, step): edit for step, edit in _edits(model, steps, states)})
    return [edits(plan) for plan in ordered]


def _depth(model: Model, step: Step) -> tuple[int, int]:
    """When a step acts: inside a block comes before on its output, and the sentence vector comes last."""
    site = step.site(model)
    return (model.layers, 0) if site.part == "pooled" else (site.layer, int(site.part in AFTER))


def _edits(
    model: Model, steps: Iterable[Step], states: Mapping[Site, PairedStates]
) -> Iterator[tuple[Step, AffineErasure | Projection]]:
    subspaces: dict[Site, Subspace] = {}
    for step in steps:
        site = step.site(model)
        own = states[site]
        made: AffineErasure | Projection
        if step.method == "leace":
            made = leace(site, own.feminine, own.masculine)
        elif step.method == "inlp":
            made = inlp(site, own.feminine, own.masculine, step.dimensions)
        else:
            if site not in subspaces:
                subspaces[site] = _subspace(model, site, own)
            made = projection(subspaces[site], step.dimensions, step.soft)
        yield step, made if step.strength == 1 else made.scaled(step.strength)


def _subspace(model: Model, site: Site, states: PairedStates) -> Subspace:
    return fit_subspace(site, states.differences(), states.pairs, states.skipped, model.device)


def paired_states(
    model: Model, pairs: Sequence[InputPair], sites: Sequence[Site], variants: Sequence[Variant] = ((),)
) -> list[dict[Site, PairedStates]]:
    """States of the two forms, aligned: one vector a pair at cls and pooled sites, every aligned token
    elsewhere."""
    if not pairs:
        raise BadProbe("A subspace needs at least one pair of inputs that differ in the group; none came.")
    texts = [Text(*form) for pair in pairs for form in (pair.feminine, pair.masculine)]
    whole = {site for site in sites if site.part in ("cls", "pooled")}
    aligned, skipped = _alignments(model, texts)
    if not aligned and whole < set(sites):
        reasons = ", ".join(f"{reason}: {n}" for reason, n in skipped.items())
        raise BadProbe(
            f"No pair can be aligned word by word ({reasons}). Give pairs that differ in single words."
        )
    some, tokens = [texts[number] for number in aligned], list(aligned.values())
    readings = {
        site: States(texts, site) if site in whole else States(some, site, tokens)
        for site in dict.fromkeys(sites)
    }
    answers = read(model, list(readings.values()), variants, label="Fitting subspaces")

    def paired(site: Site, variant: int) -> PairedStates:
        return PairedStates(answers[readings[site]][variant], {} if site in whole else skipped)

    return [{site: paired(site, variant) for site in readings} for variant in range(len(variants))]


def _alignments(model: Model, texts: Sequence[Text]) -> tuple[dict[int, list[int]], dict[str, int]]:
    """Of the texts that can be aligned, by their number, the tokens that correspond to those of the other
    text of the pair; and how many pairs and words are skipped, by reason.

    A pair whose texts have different numbers of words is left out.
    """
    rows = list(encode(model, texts))
    skipped: Counter[str] = Counter()
    aligned: dict[int, list[int]] = {}
    for i in range(0, len(texts), 2):
        words = [_words(text) for text in texts[i : i + 2]]
        if [part for part, _ in words[0]] != [part for part, _ in words[1]]:
            skipped[OTHER_WORDS] += 1
            continue
        aligned[i], aligned[i + 1] = _align(rows[i], rows[i + 1], words, skipped)
    return aligned, dict(skipped)


_Word = tuple[int, tuple[int, int]]  # which sentence of the input, and the word's characters in it


def _words(text: Text) -> list[_Word]:
    sentences = [text.first] if text.second is None else [text.first, text.second]
    return [
        (part, m.span()) for part, sentence in enumerate(sentences) for m in re.finditer(r"\S+", sentence)
    ]


def _align(
    feminine: TokenRow, masculine: TokenRow, words: list[list[_Word]], skipped: Counter[str]
) -> tuple[list[int], list[int]]:
    """Positions of corresponding tokens: the special tokens in order, then each word's tokens in order."""
    first, second = ([int(p) for p in np.flatnonzero(row.part == -1)] for row in (feminine, masculine))
    for (part, mine), (_, theirs) in zip(*words, strict=True):
        one, two = feminine.tokens_of(mine, part), masculine.tokens_of(theirs, part)
        if len(one) != len(two):
            skipped[OTHER_TOKENS] += 1
            continue
        first += [int(p) for p in one]
        second += [int(p) for p in two]
    return first, second
