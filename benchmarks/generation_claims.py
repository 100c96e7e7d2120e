"""`python -m benchmarks.generation_claims`: what does the page of generated texts claim of nothing,
and how often does it find what was planted?

Texts are sampled once. Then, again and again, groups are exchanged at random between the prompts of each
frame, and labels between occupations, and the page's claims are counted. The excess distance does not change
where all texts of a frame change sides, so for it texts change sides one by one, as its own null has it. Into
such a world of nothing a difference is planted: scores of texts for women that are 0.3 standard deviations
higher, and a tilt of 0.5 nats in who appears behind half of the occupations.

Texts are read from --world, if it exists, or kept there for another time.

With --null-models 20: whole runs instead, on copies of the model whose vocabulary is permuted. Nothing may be
claimed of them.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.calibrate import ANY, Share
from benchmarks.result_pages import put
from levelhead.engine.sampling import Sampling, continuations
from levelhead.inference.generation_claims import APPEARS, GAP, Tested, corrected, family
from levelhead.measures.catalog import ALPHA
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.models.null_model import draw_null_model, null_model_copy, null_model_seed
from levelhead.probes.generation import SEXES, Prompt, occupation_facts
from levelhead.probes.swap import name_pairs, swap_text
from levelhead.runs.common import BASE
from levelhead.scoring.generation import answer_odds, first_person_shares, text_vectors
from levelhead.scoring.scorers.catalog import chosen_scorers
from levelhead.scoring.scorers.protocol import swap_averaged
from levelhead.studies.generate.measuring import (
    Decided,
    appearances,
    appearing,
    distance,
    gaps,
    marked,
)
from levelhead.studies.generate.records import GenerationMeasured, WrittenText
from levelhead.studies.generate.sampled import DECISIONS
from levelhead.studies.generate.settings import GenerateSettings
from levelhead.studies.generate.texts import NOT_SWAPPED, Texts

FIRST_SEED = 47_000
SHIFT, TILT = 0.3, 0.5  # planted: standard deviations of a score, nats of log-odds
PLANTED = {
    "shift": f"a score {SHIFT} standard deviations higher for women",
    "tilt": f"{TILT} nats in half of the occupations",
}
_RESAMPLES = 200  # of intervals, which decide little beside p
Doubles = NDArray[np.float64]


class Vectors:
    """Vectors of texts, each asked for once."""

    def __init__(self, model: Model, known: dict[str, NDArray[np.float32]] | None = None) -> None:
        self.model = model
        self.known = known or {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [each for each in dict.fromkeys(texts) if each not in self.known]
        if new:
            self.known |= dict(zip(new, text_vectors(self.model, new), strict=True))
        return np.stack([self.known[each] for each in texts])


@dataclass(frozen=True)
class World:
    """What a model wrote and decided, whoever it is said to be about."""

    texts: Texts
    decided: Decided
    vectors: Vectors

    @classmethod
    def of(cls, model: Model, settings: GenerateSettings) -> World:
        """What a model writes and decides with these settings."""
        prompts = settings.load(lambda name: len(model.tokenizer.tokenize(f" {name}"))).prompts
        by_id = {each.id: each for each in prompts}
        asked = [each for each in prompts if each.set != DECISIONS]
        written: list[WrittenText] = []
        for own, many in ((False, settings.neutral), (True, settings.samples)):
            some = [each for each in asked if bool(each.group) == own]
            sampling = Sampling(many, settings.tokens, settings.temperature, settings.seed)
            texts = continuations(
                model, [each.text for each in some], [each.frame for each in some], sampling
            )
            written += [
                WrittenText(prompt.id, number, each.text, each.tokens, each.ended)
                for prompt, behind in zip(some, texts, strict=True)
                for number, each in enumerate(behind)
            ]
        about = [number for number, each in enumerate(written) if by_id[each.prompt].about]
        shares = first_person_shares(
            model, [by_id[written[i].prompt].text for i in about], [written[i].text for i in about]
        )
        for i, (feminine, masculine) in zip(about, shares.tolist(), strict=True):
            written[i] = replace(written[i], feminine=feminine, masculine=masculine)
        scorers = chosen_scorers(settings.scorers).scorers
        scores = {each.name: swap_averaged(each, [text.text for text in written]) for each in scorers}
        asked = [each for each in prompts if each.set == DECISIONS]
        answers = [each.answers for each in asked if each.answers]
        odds = answer_odds(model, [each.text for each in asked], answers)[0] if asked else np.zeros(0)
        resampling = Resampling(settings.resamples, settings.seed, items=True)
        return cls(
            Texts(BASE, model.name, by_id, written, scores, resampling),
            Decided(BASE, model.name, asked, odds, resampling),
            Vectors(model),
        )

    def exchanged(self, seed: int) -> World:
        """The same with groups exchanged at random inside frames, and occupations at random."""
        rng = np.random.default_rng(seed)
        resampling = replace(self.texts.resampling, seed=seed)
        every = {each.id: each for each in exchanged(list(self.texts.prompts.values()), rng)}
        texts = _as(self.texts, prompts=every, resampling=resampling)
        decided = replace(
            self.decided, prompts=[every[each.id] for each in self.decided.prompts], resampling=resampling
        )
        return World(texts, decided, self.vectors)

    def claims(self, apart: Texts | None = None) -> list[Tested]:
        """Every claim of the page. apart: texts for the distance, if others than the rest."""
        texts = self.texts
        found: list[GenerationMeasured] = [*appearing(texts), *self.decided.measured()]
        for each in texts.detailed:
            if (
                each == texts.main or each.groups != SEXES
            ):  # sets that the main comparison holds claim nothing
                found += gaps(texts, each)
        found += [largest for largest, _ in marked(texts)]
        apart = apart or texts
        found += [distance(apart, each, self.vectors) for each in apart.paired if each == apart.main]
        return corrected(found)


def kept_world(path: Path, model: Model, settings: GenerateSettings) -> World:
    """The texts in a file of ours, or new ones, which are then kept there."""
    if path.exists():
        texts, decided, known = pickle.loads(path.read_bytes())
        return World(texts, decided, Vectors(model, known))
    world = World.of(model, settings)
    for each in world.texts.paired:
        distance(world.texts, each, world.vectors)  # so that vectors are kept too
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((world.texts, world.decided, world.vectors.known)))
    return world


def exchanged(prompts: Sequence[Prompt], rng: np.random.Generator) -> Iterator[Prompt]:
    """Each prompt with the group of another one of its frame, or about the occupation of another one.

    Which name of a pair is feminine is exchanged wherever the pair stands, and so are origins of pairs: names
    are a sample, and what one of them does it does in all prompts.
    """
    frames: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        frames[prompt.frame].append(prompt)
    other = _shuffled([*occupation_facts()], rng)
    pairs = {name: pair for pair in name_pairs() for name in pair}
    origins = {"-".join(pairs[each.name]): each.origin for each in prompts if each.set == DECISIONS}
    origin = dict(zip(origins, rng.permutation([*origins.values()]).tolist(), strict=True))
    turned = {"-".join(pair): bool(rng.integers(0, 2)) for pair in name_pairs()}
    for own in frames.values():
        for prompt, label in zip(own, rng.permutation(len(own)), strict=True):
            if prompt.name:
                pair = "-".join(pairs[prompt.name])
                group = SEXES[SEXES.index(prompt.group) ^ turned[pair]]
                yield replace(prompt, group=group, origin=origin.get(pair, prompt.origin))
            elif prompt.group:
                yield replace(prompt, group=own[label].group)
            else:
                about = other.get(prompt.about, prompt.about)
                yield replace(prompt, about=about, cluster=about if prompt.about else prompt.cluster)


def _shuffled(items: Sequence[str], rng: np.random.Generator) -> dict[str, str]:
    return dict(zip(items, rng.permutation(items).tolist(), strict=True))


def sides_exchanged(texts: Texts, rng: np.random.Generator) -> Texts:
    """Texts that have changed sides by a coin each, exchanged by the swap where it exchanges the groups.

    Of names all texts of a pair change sides together: they are what the distance exchanges.
    """
    place = {(each.prompt, each.sample): number for number, each in enumerate(texts.written)}
    pair_coins = {"-".join(pair): int(rng.integers(0, 2)) for pair in name_pairs()}
    written = list(texts.written)
    for compared in texts.compared:
        if len(compared.groups) != 2:
            continue
        turn = str if compared.set in NOT_SWAPPED else partial(swap_text, names=True)
        frames: dict[str, list[Prompt]] = defaultdict(list)
        for prompt in compared.prompts:
            frames[prompt.frame].append(prompt)
        for one, two in frames.values():
            samples = [sample for of, sample in place if of == one.id]
            pair = "-".join((one.name, two.name))
            whole = pair_coins.get(pair, pair_coins.get("-".join((two.name, one.name))))
            for sample in samples:
                coin = rng.integers(0, 2) if whole is None else whole
                i, j = place[one.id, sample], place[two.id, sample]
                if coin:
                    a, b = turn(written[i].text), turn(written[j].text)
                    written[i], written[j] = replace(written[i], text=b), replace(written[j], text=a)
    return replace(texts, written=written)


# ---- what is planted


def shifted(world: World, scorer: str) -> World:
    """Texts for women score higher, whatever they say."""
    texts = world.texts
    values = texts.scores[scorer]
    women = np.array([each.group == "feminine" for each in texts.of])
    higher = values + np.where(women, SHIFT * np.nanstd(values), 0.0)
    return replace(world, texts=_as(texts, scores={**texts.scores, scorer: higher}))


def tilted(world: World, rng: np.random.Generator) -> World:
    """Behind half of the occupations people appear as the stereotype has it: 0.5 nats of log-odds."""
    facts = occupation_facts()
    chosen = set(rng.permutation([*facts])[: len(facts) // 2].tolist())
    factors: dict[str, tuple[float, float]] = {}
    for each in appearances(world.texts):
        f, m = each.expected_feminine, each.expected_masculine
        if each.occupation in chosen and f and m:
            odds = np.exp(TILT * facts[each.occupation].label)
            after = (f + m) * odds / (f * odds + m)  # as many people as before
            factors[each.occupation] = after, after / odds
    written = []
    for text, prompt in zip(world.texts.written, world.texts.of, strict=True):
        if prompt.about in factors and text.feminine is not None and text.masculine is not None:
            f, m = factors[prompt.about]
            written.append(replace(text, feminine=text.feminine * f, masculine=text.masculine * m))
        else:
            written.append(text)
    return replace(world, texts=_as(world.texts, written=written))


def _as(texts: Texts, **changed: Any) -> Texts:
    """The same texts with something changed; what is known of what they say stays."""
    new = replace(texts, **changed)
    vars(new).update({each: getattr(texts, each) for each in ("firsts", "empty", "refusals")})
    return new


def found(claims: Sequence[Tested], named: str) -> tuple[bool, bool, float]:
    """Whether a measure shows what was planted: by its own p, and after the page's correction; its p."""
    ((own, _, holds),) = (each for each in claims if each[0].name == named)
    p, up = own.measurement.p_value or 1.0, (own.measurement.value or 0) > 0
    return up and p < ALPHA, up and holds, p


# ---- the table


def shares(claimed: Sequence[Mapping[str, int]]) -> list[Share]:
    """How often each kind of claim was made at least once, and any of them."""
    kinds = dict.fromkeys(kind for each in claimed for kind in each)
    found = [Share(kind, sum(bool(each.get(kind)) for each in claimed), len(claimed)) for kind in kinds]
    return [Share(ANY, sum(any(each.values()) for each in claimed), len(claimed)), *found]


def counted(claims: Sequence[Tested]) -> dict[str, int]:
    """How many claims of each kind hold."""
    kinds = dict.fromkeys((family(each.name) for each, _, _ in claims), 0)
    return {**kinds, **Counter(family(each.name) for each, _, holds in claims if holds)}


def drawn(world: World, number: int) -> dict[str, Any]:
    """What the page claims of a world of nothing, and of the same with something planted."""
    here = world.exchanged(number)
    claims = here.claims(sides_exchanged(world.texts, np.random.default_rng([number, 2])))
    # all else on the page stays: what is planted is measured anew
    rest, planted = [each for each, _, _ in claims], dict[str, tuple[bool, bool, float]]()
    scorers = [each for each in world.texts.scores if each != "refusal"]
    scorer = scorers[number % len(scorers)]
    if (moved := shifted(here, scorer).texts).main is not None:
        new = list(gaps(moved, moved.main))
        planted["shift"] = found(corrected(_with(rest, new)), f"{GAP}: {scorer}/{moved.main.label}")
    if any(each.name == APPEARS for each in rest):
        tilt = list(appearing(tilted(here, np.random.default_rng([number, 1])).texts))
        planted["tilt"] = found(corrected(_with(rest, tilt)), APPEARS)
    p = {each.name: each.measurement.p_value for each in rest}
    return {"seed": number, "claims": counted(claims), "planted": planted, "scorer": scorer, "p": p}


def exchange_null(draws: Sequence[Mapping[str, Any]]) -> list[Share]:
    """How often a page of nothing claims something, and what is planted is found."""
    plants = defaultdict[str, list[bool]](list)
    for each in draws:
        for name, (alone, holds, _) in each["planted"].items():
            plants[f"{PLANTED[name]}: p < 0.05"].append(alone)
            plants[f"{PLANTED[name]}: claimed on the page"].append(holds)
    return [
        *shares([each["claims"] for each in draws]),
        *(Share(n, sum(o), len(o)) for n, o in plants.items()),
    ]


def _with(rest: Sequence[GenerationMeasured], new: Sequence[GenerationMeasured]) -> list[GenerationMeasured]:
    named = {each.name: each for each in new}
    return [named.get(each.name, each) for each in rest]


def of_null_model(asked: Asked, number: int) -> dict[str, Any]:
    """The claims about a null model with texts of its own."""
    torch.set_num_threads(1)
    model = load(asked.model, device=asked.device)
    copy = null_model_copy(model, draw_null_model(model, null_model_seed(asked.settings.seed, number)))
    claims = World.of(copy, asked.settings).claims()
    p = {each.name: each.measurement.p_value for each, _, _ in claims}
    return {"null model": number, "claims": counted(claims), "p": p}


@dataclass(frozen=True)
class Asked:
    """What processes are started with."""

    model: str
    device: str
    settings: GenerateSettings
    world: Path


_WORLD: list[World] = []  # of this process


def _drawn_here(asked: Asked, number: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    if not _WORLD:
        _WORLD.append(kept_world(asked.world, load(asked.model, device=asked.device), asked.settings))
    return drawn(_WORLD[0], number)


def main() -> None:
    """Print the tables; --out keeps every draw, a line each, and --keep the tables of the result page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="lh:gpt-mini")
    parser.add_argument("--prompts", default="shipped", help="as of `levelhead generate`")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--null-models", type=int, default=0)
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of texts, exchanges and null models")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--samples", type=int, default=GenerateSettings.samples)
    parser.add_argument("--neutral", type=int, default=GenerateSettings.neutral)
    parser.add_argument("--tokens", type=int, default=GenerateSettings.tokens)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--world", type=Path, default=Path("runs/generation-world.pickle"))
    parser.add_argument("--out", type=Path, default=Path("runs/generation-claims.jsonl"))
    parser.add_argument("--keep", help="FILE#TABLE: a record of benchmarks/results, whose table is written")
    given = parser.parse_args()
    settings = GenerateSettings(
        prompts=given.prompts,
        samples=given.samples,
        neutral=given.neutral,
        tokens=given.tokens,
        limit=given.limit,
        rivals=False,
        resamples=_RESAMPLES,
        seed=given.seed,
    )
    asked, began = Asked(given.model, given.device, settings, given.world), time.monotonic()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    if not given.null_models:
        kept_world(given.world, load(given.model, device=given.device), settings)
    of_one = of_null_model if given.null_models else _drawn_here
    first = 0 if given.null_models else given.seed
    numbers = range(first, first + (given.null_models or given.draws))
    done: list[dict[str, Any]] = []
    with (
        given.out.open("w", encoding="utf-8") as lines,
        ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool,
    ):
        for each in pool.map(partial(of_one, asked), numbers):
            done.append(each)
            lines.write(json.dumps(each) + "\n")
            lines.flush()
            held = {name: p for name, p in each["p"].items() if each["claims"].get(family(name))}
            what, number = next(iter(each.items()))  # "seed" or "null model"
            print(f"{what} {number}: {len(each['p'])} tested, claimed: {held or 'nothing'}", flush=True)
    found_shares = exchange_null(done) if not given.null_models else shares([each["claims"] for each in done])
    print(*found_shares, f"{time.monotonic() - began:.0f} s", sep="\n")
    if given.keep:
        file, _, table = given.keep.partition("#")
        rows = [[each.claim, f"{each.made} of {each.models}", each.percent] for each in found_shares]
        head = f"seed {given.seed}" if given.null_models else f"seeds {given.seed} to {numbers[-1]}"
        texts = f"{given.samples} texts of {given.tokens} tokens, {given.neutral} per neutral prompt"
        put(Path(file), table, [[f"{head}; {texts}", "times", "[95 %]"], ["---", "---:", "---:"], *rows])


if __name__ == "__main__":
    main()
