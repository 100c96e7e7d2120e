"""A benchmark with a known truth: bias is planted into chosen heads, and each localizer must find them.

    gradient    b = d|SEAT| / d gate (docs/method/heads.md, Head scores)
    ablation    how far |SEAT| falls when the head alone is removed (Ablation)
    attention   how far attention to the attribute falls in counter-stereotypes (Counter-stereotypes)
    and every other localizer of heads that is registered, by its scores for |SEAT| (docs/atlas.md)

A localizer ranks all heads of the planted copy, once by its own scores ("alone"), once by what changed
against the unmodified model ("compared"), which takes out the bias that the model had before
(docs/planted.md):

    precision@k = share of the k planted heads among its k highest       by chance k / heads
    mean rank of the planted heads, 1 is the highest                      by chance (heads + 1) / 2

The plant strengthens what the model leans to already: X-A where its SEAT is above 0, else X-B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor, nn

from levelhead.edits.gates import all_heads, gates, removed
from levelhead.edits.sites import Head, Part, Site
from levelhead.engine.effort import speed_of, tokens_of
from levelhead.engine.readings import States
from levelhead.engine.run import read
from levelhead.engine.shards import crew_of
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.measures.statistics import mean_sd
from levelhead.models.concurrency import asking
from levelhead.models.encoding import Ints, Text, encode
from levelhead.models.hooks import changed_qkv
from levelhead.models.model import Model
from levelhead.models.sources import Source
from levelhead.probes.contexts import Context, contexts_fingerprint, template_contexts
from levelhead.probes.sentences import StereotypeSentence
from levelhead.probes.words import WordTest, load_words
from levelhead.progress import BACK, Plan, announced, duration, tokens_in
from levelhead.runs.folder import Run
from levelhead.runs.study import WEIGHTS_HASH, WORDS_HASH
from levelhead.scoring.objective import Objective
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.placed import keeping_long_work, note_places, stored_of
from levelhead.scoring.seat import WordTable, ask_seat, sample_contexts, word_table
from levelhead.studies.atlas.catalog import localizers
from levelhead.studies.atlas.protocol import LOCALIZERS as REGISTERED
from levelhead.studies.atlas.protocol import scored
from levelhead.studies.heads.counter import counter_attention, counter_sentences, sentence_source
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.heads.settings import FROM_TEMPLATES
from levelhead.studies.planted import Planted
from levelhead.studies.planted.records import (
    ABS_SEAT,
    MEAN_RANK,
    PRECISION,
    PlantedBase,
    PlantSummary,
    PlantTrial,
)
from levelhead.studies.planted.settings import LARGEST, PlantedSettings, PlantedStored

Kind = Literal["value", "attention"]
_RIDGE = 1e-3  # of the mean variance: fewer words than dimensions must not make the direction explode
_PARTS: dict[Kind, tuple[Part, ...]] = {"value": ("value", "block"), "attention": ("query", "key")}
Doubles = NDArray[np.float64]
LOCALIZERS = ("gradient", "ablation", "attention")
WAYS = ("alone", "compared")
_STRENGTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # of a value plant


def direction(first: Doubles, second: Doubles, others: Doubles) -> Doubles:
    """The direction that is +1/2 at the first set's mean, −1/2 at the second's, and quiet on others: [d]

    first, second [occurrence of a word, d]; others [token, d].
    """
    u, v = first.mean(0), second.mean(0)
    within = np.concatenate([first - u, second - v])
    noise = within.T @ within / len(within) + others.T @ others / max(len(others), 1)
    noise += _RIDGE * np.trace(noise) / len(noise) * np.eye(len(noise))
    limits = np.stack([u - v, u + v], axis=1)
    solved = np.linalg.solve(noise, limits)
    gram = limits.T @ solved
    if not np.isfinite(gram).all() or np.linalg.cond(gram) > 1e12:
        raise CannotDo(
            "The model sees no difference between the two sets of words, so nothing can be planted."
        )
    return np.asarray(solved @ np.linalg.solve(gram, np.array([1.0, 0.0])), dtype=np.float64)


class Planter:
    """Plants the association X-A, Y-B into copies of a model; the model itself is not touched.

    Its directions are fitted on the unmodified model, on the given contexts.

    Direction. For two sets of vectors with means u and v and the vectors o of all other tokens, the one, r,
    that tells the sets apart and stays quiet everywhere else (a linearly constrained minimum-variance
    filter):

        minimize r' N r   subject to   r·(u − v) = 1,  r·(u + v) = 0
        N = within-set covariance + E[o o'] + ridge

    Value plant. r reads X against Y in all value vectors of the layer, and g is the difference of the means
    of A and B in the stream behind it. One dimension j of the head's values, the one that matters least,
    becomes what r reads, and its column of W^O becomes g: where the head attends to an X word it writes
    +strength/2 of the way from B to A, at a Y word −strength/2. (Other query heads of the same key-value
    group lose dimension j, so that only this head carries the plant.)

        W^V[j] = r' W^V,   W^O[:, j] = strength · g

    Attention plant. r reads X against Y in the head's queries, k reads A against B in its keys. The head's
    rows of W^Q get a rank-1 addition, so that X words attend to A words, and Y words to B words, by
    `strength` nats more (before rotary angles and norms of queries, where a family has those):

        W^Q[head] += strength · sqrt(dim) · k r' W^Q[head]

    The head's gate controls all that was planted into it.
    """

    def __init__(self, model: Model, contexts: Sequence[Context], kind: Kind = "value") -> None:
        if model.shares_blocks:
            raise CannotDo(
                f"{model.name} runs one block at several layers, so a plant would have no single place."
            )
        if lacking := set("ABXY") - {context.group for context in contexts}:
            raise BadProbe(
                f"No context holds a word of {', '.join(sorted(lacking))}; planting needs A, B, X and Y."
            )
        self.model, self.kind = model, kind
        self._contexts = contexts
        self._texts = [Text(context.text) for context in contexts]
        encoded = zip(encode(model, self._texts), contexts, strict=True)
        self._tokens: list[Ints] = [text.tokens_of((context.start, context.end)) for text, context in encoded]
        self._seen: dict[tuple[int, Part], list[Doubles]] = {}  # (layer, part) -> of each text [token, ...]

    def planted(self, strengths: Mapping[Head, float]) -> Model:
        """A copy with a plant of the given strength in each head; a negative strength plants X-B, Y-A."""
        if not strengths:
            raise BadOption("strengths must name at least one head to plant into (got none)")
        if self.model.fixed_weights:
            raise CannotDo(f"{self.model.name} takes no plants: {self.model.fixed_weights}.")
        gates(self.model, strengths)  # refuses heads that the model does not have
        # what the unmodified model shows there, once for all plants of a layer
        wanted = product(sorted({head.layer for head in strengths}), _PARTS[self.kind])
        places = [place for place in wanted if place not in self._seen]
        readings = [States(self._texts, Site(*place)) for place in places]
        if readings:
            answers = read(self.model, readings, label="Looking for a place to plant")
            for place, reading in zip(places, readings, strict=True):
                self._seen[place] = [state.astype(np.float64) for state in answers[reading][0]]
        name = f"{self.model.name} with planted heads"
        with asking(self.model.hf):
            hf = deepcopy(self.model.hf)
        about = self.model.origin, self.model._missing
        alone, opening = self.model.placement.alone(), self.model.opening
        source = Source(name, hf, self.model.tokenizer, *about, placement=alone, opening=opening)
        copy = Model(source)
        for head, strength in sorted(strengths.items()):
            plant = self._plant_value if self.kind == "value" else self._plant_attention
            plant(copy, *head, strength)
        return copy

    def _plant_value(self, copy: Model, layer: int, head: int, strength: float) -> None:
        values = self._seen[layer, "value"]
        of_all_heads = [v.reshape(len(v), -1) for v in values]
        r = torch.from_numpy(self._direction(of_all_heads, "XY"))
        behind = self._seen[layer, "block"]
        g = torch.from_numpy(self._words(behind, "A").mean(0) - self._words(behind, "B").mean(0))
        group = copy.heads // copy.kv_heads
        # W^O as [hidden, head, dim], a view of the weights; GPT-2's Conv1D keeps them transposed
        projection = copy.output_projection(layer)
        weight = cast(Tensor, projection.weight).data
        out = weight if isinstance(projection, nn.Linear) else weight.T
        out = out.unflatten(1, (copy.heads, copy.head_dim))
        spread = np.concatenate(values)[:, head // group].std(0)
        j = int((out[:, head].norm(dim=0).cpu().double() * torch.from_numpy(spread)).argmin())

        def read_by_r(v: Tensor) -> Tensor:
            new = v.clone()
            new[..., head // group, j] = v.flatten(-2) @ r.to(v)
            return new

        _change(copy, layer, "value", read_by_r)
        out[:, head // group * group : (head // group + 1) * group, j] = 0
        out[:, head, j] = strength * g.to(out)

    def _plant_attention(self, copy: Model, layer: int, head: int, strength: float) -> None:
        r = self._direction([q[:, head] for q in self._seen[layer, "query"]], "XY")
        of_group = head * copy.kv_heads // copy.heads
        k = self._direction([key[:, of_group] for key in self._seen[layer, "key"]], "AB")
        change = torch.from_numpy(strength * copy.head_dim**0.5 * np.outer(r, k))

        def attracted(q: Tensor) -> Tensor:
            new = q.clone()
            new[..., head, :] += q[..., head, :] @ change.to(q)
            return new

        _change(copy, layer, "query", attracted)

    # ---- what the unmodified model shows

    def _direction(self, states: Sequence[Doubles], groups: str) -> Doubles:
        first, second = (self._words(states, group) for group in groups)
        others = [
            np.delete(state, tokens, axis=0) for state, tokens in zip(states, self._tokens, strict=True)
        ]
        return direction(first, second, np.concatenate(others))

    def _words(self, states: Sequence[Doubles], group: str) -> Doubles:
        """Every occurrence of a word of a group: [context, d]"""
        texts = zip(self._contexts, states, self._tokens, strict=True)
        return np.stack([state[tokens].mean(0) for context, state, tokens in texts if context.group == group])


def _change(model: Model, layer: int, part: Part, change: Callable[[Tensor], Tensor]) -> None:
    """Fold a linear change of a layer's queries, keys or values [..., head, dim] into their weights.

    Seen from the right side, weights look like outputs: one line for each input dimension, and one for the
    bias.
    """
    module, changed = model.qkv_module(layer, part), partial(changed_qkv, model, part, change=change)
    weight = cast(Tensor, module.weight).data
    by_input = weight.T if isinstance(module, nn.Linear) else weight  # [in, out], a view
    by_input.copy_(changed(by_input))
    bias: Any = getattr(module, "bias", None)
    if bias is not None:
        bias.data.copy_(changed(bias.data))


REGISTERED.taken |= {"attention": "the localizer attention of planted biases"}


def planted(model: Model, settings: PlantedSettings | None, folder: str | Path) -> Planted:
    """Plant, let every localizer search, and write its trials and their summary into a run folder.

    None: the default settings.
    """
    settings, in_all = settings or PlantedSettings(), model.layers * model.heads
    if settings.heads >= in_all:
        raise BadOption(f"heads must be below {in_all}, all heads of {model.name} (got {settings.heads})")
    questions = prepare(model, settings)
    stored = stored_of(model, Planted, PlantedStored, settings, layers=model.layers, heads_in_all=in_all)
    hashes = {
        WEIGHTS_HASH: model.fingerprint,
        **model.facts(),
        WORDS_HASH: questions.test.fingerprint(),
        "contexts": contexts_fingerprint((*questions.table.contexts, *questions.fitting)),
    }
    with Run.open(folder, Planted, stored, hashes=hashes) as run, keeping_long_work(run, [model]):
        seeds = range(settings.seed, settings.seed + settings.seeds)
        kinds = cast("tuple[Kind, ...]", settings.kinds)
        planned = {Planted.trials.of(f"{kind}/{seed}"): (kind, seed) for kind in kinds for seed in seeds}
        missing = [plant for key, plant in planned.items() if key not in run]
        with announced("Planted", lambda: _times(model, questions, settings, missing)):
            base = run.result(Planted.base, lambda: _base(model, questions))
            tried = _trials(model, questions, settings, base, missing)
            trials = [trial for key in planned for trial in run.results(key, partial(next, tried))]
        run.results(Planted.summary, lambda: summary(trials, settings, in_all))
        note_places(run, [model])
        return Planted(run.data())


def _times(
    model: Model, questions: Questions, settings: PlantedSettings, missing: Sequence[tuple[Kind, int]]
) -> Plan:
    """What these plants take on this machine, and which option makes them fewer."""
    if not missing:
        return Plan()
    table = tokens_of(model, questions.objective.reading)
    sentences = tokens_in(text for each in questions.sentences for text in (each.text, each.counter))
    fitting = tokens_in(context.text for context in questions.fitting)
    # Removing a head asks half of the blocks, in the mean. A gradient asks for the vectors first.
    search = (1 + model.layers * model.heads / 2 + 2 + BACK) * table
    speed, found = speed_of(model), list[Plan]()
    for plants in (missing, [plant for plant in missing if plant[1] == missing[0][1]]):
        # A value plant is tried in rising strengths, of which each is a pass; some heads never carry one. A
        # layer is read once for all plants of a kind, and half of the blocks are below it, in the mean.
        value = sum(kind == "value" for kind, _ in plants)
        tried = value * settings.heads * len(_STRENGTHS) * table
        layers = min(model.layers, value * settings.heads) + min(model.layers, len(plants) - value)
        read = sentences * (1 + len(plants)) + layers / 2 * fitting
        found.append(speed.plan(search * (1 + len(plants)) + tried, estimated=read))
    shorter = f"--seeds 1 takes about {duration(found[1].seconds)}" if settings.seeds > 1 else ""
    return replace(found[0], shorter=shorter)


# ---- trials


def _trials(
    model: Model,
    questions: Questions,
    settings: PlantedSettings,
    base: PlantedBase,
    plants: Sequence[tuple[Kind, int]],
) -> Iterator[list[PlantTrial]]:
    """The trials of each kind and seed, one after the other, or each by one of the model's workers."""
    if (crew := crew_of(model)) is not None:
        shared = crew.crew.share(questions)
        yield from crew.call(_trial, [(shared, settings, base, plant) for plant in plants])
        return
    planters = {kind: Planter(model, questions.fitting, kind) for kind, _ in plants}
    for plant in plants:
        yield _trial(model, questions, settings, base, plant, planters[plant[0]])


def choose(
    planter: Planter, questions: Questions, settings: PlantedSettings, seed: int, base: PlantedBase
) -> tuple[dict[Head, float], list[Head]]:
    """Heads drawn at random with the strength of their plants, and drawn heads that cannot carry one.

    A value plant is as strong as it must be to raise |SEAT| by settings.rise alone; a head that never does,
    because it hardly attends to the target words or because later layers undo what it writes, is nothing that
    could be found.
    """
    everyone = all_heads(planter.model)
    if planter.kind == "value" and base.abs_seat + settings.rise > LARGEST:
        raise CannotDo(
            f"|SEAT| of {planter.model.name} is {base.abs_seat:.3f} and at most {LARGEST:g}, so no plant can "
            f"raise it by {settings.rise:g}. Ask for a smaller rise."
        )
    leaning = -1.0 if base.seat < 0 else 1.0  # −1 where the unmodified model ties X to B

    chosen: dict[Head, float] = {}
    refused: list[Head] = []
    for i in np.random.default_rng(seed).permutation(len(everyone)):
        head = everyone[i]
        strength: float | None = settings.nats
        if planter.kind == "value":  # the smallest that raises |SEAT| enough, where one does
            copies = ((each, planter.planted({head: leaning * each})) for each in _STRENGTHS)
            sizes = ((each, questions.objective.sizes(copy, label="Plant")[0]) for each, copy in copies)
            enough = (each for each, size in sizes if size - base.abs_seat >= settings.rise)
            strength = next(enough, None)
        if strength is None:
            refused.append(head)
        else:
            chosen[head] = leaning * strength
        if len(chosen) == settings.heads:
            return chosen, refused
    raise CannotDo(
        f"Only {len(chosen)} of {len(everyone)} heads of {planter.model.name} can raise |SEAT| by "
        f"{settings.rise:g} alone. Plant into fewer heads, or ask for a smaller rise."
    )


def _trial(
    model: Model,
    questions: Questions,
    settings: PlantedSettings,
    base: PlantedBase,
    plant: tuple[Kind, int],
    planter: Planter | None = None,
) -> list[PlantTrial]:
    """Every localizer, in both ways, on one planted copy. planter: one for several plants of this kind."""
    kind, seed = plant
    planter = planter or Planter(model, questions.fitting, kind)
    strengths, refused = choose(planter, questions, settings, seed, base)
    heads = sorted(strengths)
    after = localize(planter.planted(strengths), questions)
    trials = []
    for name in base.suspicion:
        alone = after.by_localizer[name]
        for way, scores in zip(WAYS, (alone, alone - np.array(base.suspicion[name])), strict=True):
            placed = ranks(scores, heads)
            trials.append(
                PlantTrial(
                    kind=kind,
                    seed=seed,
                    heads=tuple(heads),
                    strengths=tuple(strengths[head] for head in heads),
                    refused=tuple(refused),
                    abs_seat_before=base.abs_seat,
                    abs_seat=after.abs_seat,
                    localizer=name,
                    way=way,
                    precision=precision(scores, heads),
                    ranks=tuple(placed),
                    mean_rank=float(np.mean(placed)),
                )
            )
    return trials


def _base(model: Model, questions: Questions) -> PlantedBase:
    """The unmodified model."""
    seat = ask_seat(model, questions.test, questions.table.contexts, intervals=False)[0]
    if seat.value is None:
        raise CannotDo(f"{questions.test.name}: there is nothing to find, because {seat.reason}.")
    suspicion = localize(model, questions)
    stored = {
        name: tuple(map(tuple, suspicion.by_localizer[name].tolist())) for name in suspicion.by_localizer
    }
    return PlantedBase(seat.value, suspicion.abs_seat, stored)


def summary(trials: Sequence[PlantTrial], settings: PlantedSettings, heads: int) -> list[PlantSummary]:
    """Mean and standard deviation over seeds, with the level of chance; heads: how many the model has."""
    records: list[PlantSummary] = []
    for kind in settings.kinds:
        of_kind = [trial for trial in trials if trial.kind == kind]
        for name in dict.fromkeys(trial.localizer for trial in of_kind):
            for way in WAYS:
                some = [trial for trial in of_kind if (trial.localizer, trial.way) == (name, way)]
                precisions, mean_ranks = [t.precision for t in some], [t.mean_rank for t in some]
                records += [
                    PlantSummary(kind, name, way, measurement, None)
                    for measurement in (
                        mean_sd(PRECISION, precisions, settings.heads / heads),
                        mean_sd(MEAN_RANK, mean_ranks, (heads + 1) / 2),
                    )
                ]
        seats = [t.abs_seat for t in of_kind if (t.localizer, t.way) == (LOCALIZERS[0], WAYS[0])]
        before = of_kind[0].abs_seat_before
        records.append(PlantSummary(kind, "", "", mean_sd(ABS_SEAT, seats), before))
    return records


# ---- what localizers search a planted copy by


@dataclass(frozen=True)
class Questions:
    """What the localizers search by; the plant is fitted on other contexts."""

    test: WordTest
    table: WordTable
    fitting: Sequence[Context]
    sentences: Sequence[StereotypeSentence]

    @property
    def objective(self) -> Objective:
        """What a plant raises, and what heads are scored by."""
        return word_objective(self.table)


def prepare(model: Model, settings: PlantedSettings) -> Questions:
    """Words, contexts and sentences."""
    test = load_words(settings.bias)
    contexts = template_contexts(test)
    searched = sample_contexts(test, contexts[::2], settings.words, settings.seed)
    fitting = [  # contexts of odd number, on which no localizer searches
        context for odd in (1, 5, 9, 13) for context in sample_contexts(test, contexts[odd::16], 90, odd)
    ]
    source = sentence_source(test, FROM_TEMPLATES, settings.sentences)
    sentences = counter_sentences(model, test, source, settings.n_sentences, settings.seed).sentences
    if len(sentences) < 2:
        raise BadProbe(f"{len(sentences)} usable stereotype sentences from {source}; at least 2 are needed.")
    return Questions(test, word_table(test, searched), fitting, sentences)


@dataclass(frozen=True)
class Suspicion:
    """|SEAT| of a model and how strongly each localizer suspects each head."""

    abs_seat: float
    by_localizer: Mapping[str, Doubles]  # localizer -> [layer, head]


def localize(model: Model, questions: Questions) -> Suspicion:
    """Let every localizer search a model."""
    variants = [(), *(removed(model, [head]) for head in all_heads(model))]
    abs_seat, *without = questions.objective.sizes(model, variants, label="Ablation")
    original, counter = counter_attention(model, questions.sentences)
    change = original - counter
    seen = ~np.isnan(change)
    attention = np.where(seen, change, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    # localizers of a user's own; those that cannot score this model are left out
    own = {name: each for name, each in localizers("heads").items() if name not in LOCALIZERS}
    able = {name: each for name, each in own.items() if not each.why_not(model, questions.objective)}
    return Suspicion(
        abs_seat,
        {
            "gradient": head_scores(model, questions.table).scores,
            "ablation": abs_seat - np.reshape(without, (model.layers, model.heads)),
            # a head that no sentence could score is the least suspected
            "attention": np.where(seen.any(0), attention, attention.min()),
            **{name: scored(each, model, questions.objective).values for name, each in able.items()},
        },
    )


def ranks(suspicion: Doubles, heads: Sequence[Head]) -> list[float]:
    """Ranks of these heads, 1 for the most suspected; equal ones share the mean of their ranks."""
    order = stats.rankdata(-suspicion).reshape(suspicion.shape)
    return [float(order[head]) for head in heads]


def precision(suspicion: Doubles, heads: Sequence[Head]) -> float:
    """Share of these k heads among the k most suspected."""
    k = len(heads)
    return sum(rank <= k for rank in ranks(suspicion, heads)) / k
