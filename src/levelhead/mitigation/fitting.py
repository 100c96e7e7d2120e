"""What a mitigation fits on a model: gender subspaces, the direction of steering, and the last linear layer
of a head (docs/method/projections.md, Gender subspace) (docs/method/mitigations.md, Steering)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import AFTER, Edit, Site, Variant
from levelhead.edits.steering import difference_of_means
from levelhead.edits.subspace import Subspace, fit_subspace, inlp, leace, projection
from levelhead.engine.readings import Pooled, States
from levelhead.engine.run import read, read_one
from levelhead.engine.symmetry import oriented_text
from levelhead.errors import BadProbe, CannotDo
from levelhead.mitigation.recipe import Fit, Step
from levelhead.models.encoding import Text, encode
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, list_pairs
from levelhead.probes.group_swap import GroupSwap
from levelhead.probes.pairs import InputPair, gender_sentence_pairs, nli_pair_inputs
from levelhead.probes.sentences import shipped_counter_sentences
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.probes.words import WordTest

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Form = Literal["single", "pairs", "frames"]
OTHER_WORDS = "pair with another number of words"
OTHER_TOKENS = "word with another number of tokens"
_BASELINE_SENTENCES = 500
_FRAME_NOUNS = (
    *(("woman", "man"), ("girl", "boy"), ("lady", "gentleman"), ("mother", "father"), ("sister", "brother")),
    *(("wife", "husband"), ("daughter", "son"), ("aunt", "uncle"), ("niece", "nephew")),
    ("grandmother", "grandfather"),
)
_FRAME_ACTS = (
    *("folded a towel", "carried a box", "rang the bell"),
    *("locked the gate", "washed a cup", "moved the chair"),
)
_CONTEXTS = 8  # of steering that are read at once
_LEAST_DOUBT = 1e-12  # of a text that is decided to the last bit
_LENGTH = 128  # tokens of a pair; longer ones are left out
RIDGE = 0.3  # ρ of the head: chosen on parts A and B of the shipped items


# ---- pairs of inputs


def default_pairs(model: Model, form: Form | None = None) -> tuple[InputPair, ...]:
    """The shipped pairs of the form that a model reads: premise and hypothesis for a classifier, else one
    sentence.

    A pair classifier fitted on single sentences gets directions that change almost nothing; by default it is
    fitted on 60 pairs in the occupation probe's frame, without its occupations and acts: a narrow fit.

        The person opened the window. / The woman opened the window.
        The person opened the window. / The man opened the window.

    form="pairs" gives the varied shipped inputs instead. What a subspace is fitted on decides what its
    removal does: on lh:nli-mini, hard and 2-d from layer 3 on, both sets even out the genders, but the varied
    inputs leave hardly a neutral answer, and frames leave neutral ones.
    """
    judges_pairs = model.classification_head is not None and "nsp" not in model.abilities
    chosen = form or ("frames" if judges_pairs else "single")
    if chosen == "frames":
        return tuple(
            InputPair(
                (f"The person {act}.", f"The {feminine} {act}."),
                (f"The person {act}.", f"The {masculine} {act}."),
            )
            for act in _FRAME_ACTS
            for feminine, masculine in _FRAME_NOUNS
        )
    return nli_pair_inputs() if chosen == "pairs" else gender_sentence_pairs()


def pairs_about(model: Model, test: WordTest) -> tuple[InputPair, ...]:
    """Pairs for the bias of a word list: the shipped ones, or those that the list's own counterparts make.

    Empty where another bias has no counterparts.
    """
    judges_pairs = model.classification_head is not None and "nsp" not in model.abilities
    return default_pairs(model) if about_gender(test) else list_pairs(test, judges_pairs)


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


# ---- subspaces


@dataclass(frozen=True, eq=False)
class PairedStates:
    """States of both forms of the pairs at one site."""

    states: Sequence[Floats]  # of either form, feminine first: [token, hidden] or [token, head, dim]
    skipped: Mapping[str, int]  # reason -> how many

    @cached_property
    def forms(self) -> tuple[Floats, Floats]:
        """Those of the feminine and of the masculine forms, row by row: [vector, hidden] or [vector, head,
        dim]"""
        return np.concatenate(self.states[::2]), np.concatenate(self.states[1::2])

    def subspace(self, site: Site, device: Any) -> Subspace:
        """The principal directions of the differences, feminine less masculine, row by row."""
        ends = np.cumsum([0, *(len(own) for own in self.states[::2])])
        rows = np.empty((ends[-1], *self.states[0].shape[1:]), np.float32)
        for i, start in enumerate(ends[:-1]):
            np.subtract(self.states[2 * i], self.states[2 * i + 1], out=rows[start : ends[i + 1]])
        return fit_subspace(site, rows, len(self.states) // 2, self.skipped, device)


def fit_subspaces(
    model: Model, pairs: Sequence[InputPair], sites: Sequence[Site], variants: Sequence[Variant] = ((),)
) -> list[dict[Site, Subspace]]:
    """The subspaces at the sites, for each variant of the model, in one shared-prefix read.

    The untouched variant () is `fit="base"`; variants with earlier interventions on are `fit="sequential"`.
    """
    by_variant = paired_states(model, pairs, sites, variants)
    return [
        {site: states.subspace(site, model.device) for site, states in by_site.items()}
        for by_site in by_variant
    ]


def fit_steps(
    model: Model, pairs: Sequence[InputPair], plans: Sequence[Sequence[Step]], fit: Fit = "base"
) -> list[Variant]:
    """Plans of projections, as recipes name them, become variants of this model.

    fit="base": every step is fitted on the unmodified model. fit="sequential": on the model with the plan's
    earlier steps on, where earlier means at a lower depth (query, key and value of one layer are one depth).
    Plans share the edits that they share, so the engine shares their layers.
    """

    def depth_of(step: Step) -> tuple[int, int]:
        # inside a block comes before on its output, and the sentence vector comes last
        site = step.site(model)
        return (model.layers, 0) if site.part == "pooled" else (site.layer, int(site.part in AFTER))

    def history(plan: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
        here = depth_of(step)
        return tuple(s for s in plan if depth_of(s) < here) if fit == "sequential" else ()

    def edits(plan: tuple[Step, ...]) -> Variant:
        return tuple(made[history(plan, step), step] for step in plan)

    made: dict[tuple[tuple[Step, ...], Step], Edit] = {}
    ordered = [tuple(sorted(plan, key=depth_of)) for plan in plans]
    in_order = sorted({depth_of(step) for plan in ordered for step in plan})
    for depth in in_order if fit == "sequential" else [None]:
        wanted: dict[tuple[Step, ...], dict[Step, None]] = defaultdict(dict)
        for plan in ordered:
            for step in plan:
                if depth in (None, depth_of(step)):
                    wanted[history(plan, step)][step] = None
        if not wanted:
            continue
        sites = [step.site(model) for steps in wanted.values() for step in steps]
        fitted = paired_states(model, pairs, sites, [edits(before) for before in wanted])
        for (before, steps), states in zip(wanted.items(), fitted, strict=True):
            subspaces: dict[Site, Subspace] = {}
            for step in steps:
                site = step.site(model)
                own = states[site]
                if step.method == "leace":
                    edit: Any = leace(site, *own.forms)
                elif step.method == "inlp":
                    edit = inlp(site, *own.forms, step.dimensions)
                else:
                    if site not in subspaces:
                        subspaces[site] = own.subspace(site, model.device)
                    edit = projection(subspaces[site], step.dimensions, step.soft)
                made[before, step] = edit if step.strength == 1 else edit.scaled(step.strength)
    return [edits(plan) for plan in ordered]


def paired_states(
    model: Model, pairs: Sequence[InputPair], sites: Sequence[Site], variants: Sequence[Variant] = ((),)
) -> list[dict[Site, PairedStates]]:
    """States of the two forms, aligned: one vector a pair at cls and pooled sites, every aligned token
    elsewhere."""
    if not pairs:
        raise BadProbe("A subspace needs at least one pair of inputs that differ in the group (got none).")
    texts = [Text(*form) for pair in pairs for form in (pair.feminine, pair.masculine)]
    whole = {site for site in sites if site.part in ("cls", "pooled")}
    # of texts that can be aligned, by their number, the tokens that correspond to those of the pair's other
    # text, the special tokens in order, then each word's tokens in order
    aligned: dict[int, list[int]] = {}
    skipped: Counter[str] = Counter()
    rows = list(encode(model, texts))
    for i in range(0, len(texts), 2):
        words = [
            [
                (part, m.span())
                for part, sentence in enumerate((text.first, text.second))
                for m in re.finditer(r"\S+", sentence or "")
            ]
            for text in texts[i : i + 2]
        ]
        if [part for part, _ in words[0]] != [part for part, _ in words[1]]:
            skipped[OTHER_WORDS] += 1  # a pair with different numbers of words is left out
            continue
        first, second = ([int(p) for p in np.flatnonzero(row.part == -1)] for row in rows[i : i + 2])
        for (part, mine), (_, theirs) in zip(*words, strict=True):
            one, two = rows[i].tokens_of(mine, part), rows[i + 1].tokens_of(theirs, part)
            if len(one) != len(two):
                skipped[OTHER_TOKENS] += 1
                continue
            first += [int(p) for p in one]
            second += [int(p) for p in two]
        aligned[i], aligned[i + 1] = first, second
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
    return [
        {
            site: PairedStates(answers[reading][variant], {} if site in whole else skipped)
            for site, reading in readings.items()
        }
        for variant in range(len(variants))
    ]


# ---- the direction from stereotyped to anti-stereotyped sentences, along which states are steered


def middle(model: Model) -> Site:
    """Where states are steered: all tokens behind the block in the middle."""
    return Site(model.layers // 2, "block")


def steering_triples(held_out: bool = False) -> TripleSet:
    """The shipped triples that a recipe's steering is fitted on, every other context; or the rest."""
    triples = load_triples()
    return triples.about(triple_contexts(triples)[int(held_out) :: 2])


def triple_contexts(triples: TripleSet) -> list[str]:
    return list(dict.fromkeys(pair.original.context for pair in triples.pairs))


def steering_vector(model: Model, advance: Callable[[int, int], None] | None = None) -> Tensor:
    """The difference of means of the shipped triples: [hidden]. advance: told how many contexts are done, of
    how many."""
    triples, site = steering_triples(), middle(model)
    contexts = triple_contexts(triples)
    parts = []
    for start in range(0, len(contexts), _CONTEXTS):
        some = triples.about(contexts[start : start + _CONTEXTS])
        if any(pair.swapped for pair in some.pairs):
            parts.append(sentence_states(model, some, site))
        if advance is not None:
            advance(min(start + _CONTEXTS, len(contexts)), len(contexts))
    stereotyped, other = (np.concatenate(states) for states in zip(*parts, strict=True))
    return difference_of_means(to=other, away=stereotyped)


def sentence_states(model: Model, triples: TripleSet, site: Site) -> tuple[Floats, Floats]:
    """States of all tokens of stereotyped and of anti-stereotyped next sentences: [token, hidden] each."""
    both = [each for pair in triples.pairs if pair.swapped for each in (pair.original, pair.swapped)]
    pairs = [(each.context, next_one) for each in both for next_one in (each.stereotype, each.anti)]
    together = "nsp" in model.abilities
    texts = [Text(*pair) if together else Text(" ".join(pair)) for pair in pairs]
    tokens = []
    for (context, _), row in zip(pairs, encode(model, texts), strict=True):
        inside = row.part == 1 if together else (row.part == 0) & (row.offsets[:, 1] > len(context))
        tokens.append([int(i) for i in np.flatnonzero(inside)])
    states = read_one(model, States(texts, site, tokens), label="Steering")[0]
    return np.concatenate(states[::2]), np.concatenate(states[1::2])


# ---- the last linear layer of a classifier or next-sentence head


@dataclass(frozen=True)
class LinearHead:
    """A linear layer: weight [label, entry], bias [label]."""

    weight: Doubles
    bias: Doubles

    def __call__(self, vectors: Doubles) -> Doubles:
        return np.asarray(vectors @ self.weight.T + self.bias)


def doubts(goal: Doubles) -> Doubles:
    """How much each text counts: in proportion to 1 − Σ p² over the labels, with a mean of 1.

    goal: [text, label], logits whose softmax is p; of two labels that is 2 p (1 − p).
    """
    p = np.exp(goal - goal.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    undecided = np.maximum(1 - (p**2).sum(1), _LEAST_DOUBT)
    return np.asarray(undecided / undecided.mean())


def solved_head(vectors: Doubles, goal: Doubles, head: LinearHead, weighing: float) -> LinearHead:
    """The head nearest to a goal where that is in doubt, and that an exchange of groups moves less.

        W, b minimize   mean over texts of u ( W c + b − z )²  +  λ · mean of ( W d )²  +  ρ v · | W − W₀ |²

    c is the mean over the orientations of the groups of the vectors that the layer reads, d how far each
    orientation is from c, z the mean over the orientations of the unmodified model's logits, W₀ the layer as
    it was, v the mean variance of the entries of c, weighed by u. u is how undecided z leaves a text
    (doubts): logits that could be 8 or 9 decide nothing, those near 0 do, so what the head decides is kept.
    λ, the weighing, says how much more a difference between the groups weighs than what the head says of
    both. One linear system, no training, an ordinary checkpoint. Logits are centered over the labels, which
    changes no probability.

    vectors: [orientation, text, entry]. goal: [text, label]. head: the layer as it was; the mean of its rows
    and the mean of its bias stay.
    """
    common = vectors.mean(0)
    apart = (vectors - common).reshape(-1, common.shape[1])
    share, wanted = doubts(goal) / len(goal), goal - goal.mean(1, keepdims=True)
    own = head.weight - head.weight.mean(0)
    center, level = share @ common, share @ wanted
    spread = common - center
    weighed = (share[:, None] * spread).T
    scatter, leaning = weighed @ spread, weighing * apart.T @ apart / len(apart)
    system = scatter + leaning + RIDGE * np.diag(scatter).mean() * np.eye(len(center))
    missing = weighed @ (wanted - level - spread @ own.T) - leaning @ own.T
    step = np.linalg.solve(system, missing).T
    return LinearHead(head.weight + step, level - (own + step) @ center + head.bias.mean())


def refitted_heads(
    model: Model,
    swap: GroupSwap,
    texts: Sequence[Text],
    variants: Sequence[Variant],
    weighings: Sequence[float],
) -> list[list[Mapping[str, Tensor]]]:
    """The classification head by the names of its parameters, [variant][weighing], fitted on texts that the
    exchange of groups changes."""
    module: Any = model.classification_head
    if module is None or module.bias is None:
        raise CannotDo(f"{model.name} has no linear classification head with a bias.")
    called = {id(value): name for name, value in model.hf.named_parameters()}
    names = called[id(module.weight)], called[id(module.bias)]
    weight, bias = (value.detach().double().cpu().numpy() for value in (module.weight, module.bias))
    head = LinearHead(weight, bias)
    # the texts that an orientation changes and that fit at every orientation, orientation after orientation
    oriented = [
        tuple(oriented_text(swap, text, orientation) for orientation in range(swap.groups)) for text in texts
    ]
    changed = [orientations for orientations in oriented if len(set(orientations)) > 1]
    limit = min(_LENGTH, model.max_tokens or _LENGTH)
    rows = encode(model, [text for orientations in changed for text in orientations], limit)
    short = np.asarray([len(row.ids) < limit for row in rows], np.bool_).reshape(-1, swap.groups)
    kept = [orientations for orientations, fits in zip(changed, short, strict=True) if fits.all()]
    if not kept:
        raise CannotDo(f"{model.name}: no text that fits has a word of {swap.name} to exchange.")
    given = [orientations[orientation] for orientation in range(swap.groups) for orientations in kept]
    vectors = read_one(model, Pooled(given, vectors=True), [(), *variants], label="Pairs of sentences")
    own, *others = vectors.astype(np.float64).reshape(len(vectors), swap.groups, len(kept), -1)
    said = head(own)
    goal = (said - said.mean(-1, keepdims=True)).mean(0)
    solved = [[solved_head(each, goal, head, weighing) for weighing in weighings] for each in others]
    return [
        [
            {
                name: torch.from_numpy(np.ascontiguousarray(value, np.float32))
                for name, value in zip(names, (one.weight, one.bias), strict=True)
            }
            for one in of_variant
        ]
        for of_variant in solved
    ]
