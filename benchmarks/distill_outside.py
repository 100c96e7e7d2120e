"""What distillation recipes close of the mirror gap on published pairs, and what they cost.

Costs are perplexity of running text, and agreement: points of pronouns that fit the person.

    python -m benchmarks.distill_outside grid.json --data shared/data --jobs 2 --out results.json

grid.json: {"models": [...], "seeds": [...], "recipes": [{"name": ..., settings of Recipe}, ...]}. Every
training is a process of its own. Pairs of even numbers and the first half of the running text are for
choosing (dev), the others for reporting (test).

    G = mean over texts of | log P(x) − log P(σx) |   in nats per text, of texts that σ exchanges exactly
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from levelhead.edits.sites import UNTOUCHED
from levelhead.engine import distilling, own_forward
from levelhead.engine.batches import SimilarLengths, Tokens
from levelhead.engine.distilling import AlignedText, Distilling, aligned
from levelhead.engine.own_forward import sampled_texts
from levelhead.engine.readings import SpanLikelihoods, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.symmetry import token_classes
from levelhead.measures.certified import AGREEMENT, NAME_AGREEMENT
from levelhead.models.copies import copied
from levelhead.models.encoding import Text, vocabulary_parameters
from levelhead.models.hooks import quick_kernels
from levelhead.models.model import Model, load
from levelhead.probes.agreement import agreement_items
from levelhead.probes.corpus import plain_sentences, split_sentences
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.training_text import training_text
from levelhead.scoring.natural import disagreements
from levelhead.studies.mitigate.merging import merging_steps
from levelhead.studies.mitigate.training import running

WRITER = "lh:gpt-mini"  # writes texts for models that cannot
_SWAP = GenderSwap()
_EVERY = 3  # of the items of agreement of a half
LENGTH, LONG = 40, 128  # tokens of a text that is kept
KEPT = Path(os.environ.get("DISTILL_KEPT", "/tmp"))  # texts as rows of tokens


@dataclass(frozen=True)
class Recipe:
    """One way to distill; a setting that a grid does not name has its default."""

    name: str = ""
    text: str = "shipped"  # shipped, own or natural
    mix: float = 0.0  # share of shipped texts among them
    texts: int = 4_000  # distinct texts
    grouped: float = 0.5  # share of texts with words for a group
    length: int = 40  # tokens of a text
    steps: int = 240
    seconds: float = 0.0  # instead of steps; 0: none
    batch: int = 16
    rate: float = 1e-4
    schedule: str = "cosine"
    warmup: float = 0.1
    optimizer: str = "adamw"  # or muon
    muon_rate: float = 0.01
    average: float = 0.0  # of weights: its share of all steps as memory
    between: float = 6.0
    masked: float = 0.15
    masked_group: float = 0.5
    word_vectors: bool = True
    merged: float = 0.0  # how far vectors of counterparts begin moved together
    shared: int = 0  # directions that differences of counterparts share, which merging leaves as they are
    clip: float = 1.0
    eps: float = 1e-8  # of AdamW; large: weights of small gradients hardly move
    anchor: float = 0.0  # pull to the first weights, in units of the rate
    only: str = "all"  # weights that are trained beside word vectors: attention, mlp or norms
    at: tuple[float, ...] = (1.0,)  # shares of the steps at which it is evaluated
    ways: tuple[float, ...] = ()  # beyond the trained weights, on the line from the model, evaluated too


# ---- evaluation


@dataclass(frozen=True, eq=False)
class Outside:
    """Published pairs that σ exchanges exactly, and running text, each in two halves."""

    pairs: dict[str, list[tuple[str, str]]]
    running: dict[str, list[str]]

    @classmethod
    def of(cls, data: Path, paragraphs: int) -> Outside:
        found: list[tuple[str, str]] = []
        with (data / "crows-pairs/crows_pairs_anonymized.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["bias_type"] == "gender":
                    found += [(row["sent_more"], row["sent_less"])]
        exact = list(dict.fromkeys(pair for own in found if (pair := exactly(own[0]) or exactly(own[1]))))
        lines = (data / "wikitext-2/wiki.test.raw").read_text(encoding="utf-8").splitlines()
        long = [line for line in lines if len(line.split()) > 40]
        picked = [long[i] for i in np.linspace(0, len(long) - 1, 2 * paragraphs).astype(int)]
        halves = {"dev": picked[:paragraphs], "test": picked[paragraphs:]}
        text = {
            half: [" ".join(plain_sentences(split_sentences([each])))[:320] for each in own]
            for half, own in halves.items()
        }
        return cls({"dev": exact[0::2], "test": exact[1::2]}, text)

    def measured(self, model: Model, half: str) -> dict[str, Any]:
        """G with the gaps, and log perplexity by paragraph."""
        texts = [side for pair in self.pairs[half] for side in pair]
        (sums,) = read_one(model, SpanLikelihoods(texts), UNTOUCHED)
        gaps = sums[0::2] - sums[1::2]
        (scores,) = read_one(model, TokenLikelihoods(self.running[half]), UNTOUCHED).values
        nats = [(-float(np.sum(each)), len(each)) for each in scores]
        first = [(-float(np.sum(each[:LENGTH])), len(each[:LENGTH])) for each in scores]
        items = agreement_items()
        people = list(dict.fromkeys(item.people for item in items))[("dev", "test").index(half) :: 2]
        own = [item for item in items if item.people in people]
        kept = [own[i] for i in np.random.default_rng(0).permutation(len(own))[: len(own) // _EVERY]]
        missed = {each.name: float(each.values[0].mean()) for each in disagreements(model, kept, UNTOUCHED)}
        return {
            "G": float(np.abs(gaps).mean()),
            "gaps": gaps.tolist(),
            "nats": nats,
            "first": first,
            **missed,
        }


def exactly(text: str) -> tuple[str, str] | None:
    """A text and its counterfactual, where swapping comes back and changes something."""
    swapped = _SWAP(text)
    return (text, swapped.text) if swapped.changes and swapped.reversible else None


def compared(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    """Share of G that is closed with its standard error, and growth of perplexity, in percent."""
    one, two = np.abs(before["gaps"]), np.abs(after["gaps"])
    closed = 1 - two.mean() / one.mean()
    error = np.std(two - (1 - closed) * one, ddof=1) / np.sqrt(len(one)) / one.mean()
    grown = {}
    for name in ("nats", "first"):
        nats = [np.asarray(each[name], float).sum(0) for each in (before, after)]
        grown[name] = 100 * float(np.exp(nats[1][0] / nats[1][1] - nats[0][0] / nats[0][1]) - 1)
    return {
        "closed": 100 * closed,
        "error": 100 * error,
        "perplexity": grown["nats"],
        "first": grown["first"],
        **{name: 100 * (before[name] - after[name]) for name in (AGREEMENT, NAME_AGREEMENT)},
    }


# ---- text


def texts_of(model: Model, recipe: Recipe, seed: int, data: Path) -> list[AlignedText]:
    """Texts of a recipe in random order, of those that are kept on disk (`shard`)."""
    rng, found = np.random.default_rng(seed), list[AlignedText]()
    for source, share in ((recipe.text, 1 - recipe.mix), ("shipped", recipe.mix)):
        n, kinds = round(share * recipe.texts), dict[bool, list[AlignedText]]({True: [], False: []})
        files = sorted(KEPT.glob(f"{source}-{_label(model)}-*.pickle")) if n else []
        if n and not files:
            shard(model, source, 0, n, data)
            files = sorted(KEPT.glob(f"{source}-{_label(model)}-*.pickle"))
        for file in files:
            for text in pickle.loads(file.read_bytes()):
                kinds[len(text.orientations) > 1].append(text)
        for kind, part in ((True, recipe.grouped), (False, 1 - recipe.grouped)):
            own = kinds[kind]
            found += [own[i] for i in rng.permutation(len(own))[: round(part * n)]]
    return [cut(found[i], recipe.length) for i in rng.permutation(len(found))]


def cut(text: AlignedText, length: int) -> AlignedText:
    """The first tokens of a text of a causal model."""
    if max(len(row.ids) for row in text.orientations) <= length:
        return text
    kept = text.words.max(axis=0) < length
    rows = tuple(
        Tokens(row.ids[:length], None if row.types is None else row.types[:length])
        for row in text.orientations
    )
    return AlignedText(rows, text.words[:, kept], text.group[kept]) if kept.any() else text


def shard(model: Model, source: str, number: int, n: int, data: Path) -> None:
    """Some texts of a source as rows of tokens, kept on disk.

    shipped: frames that ship. own: what the model, or WRITER for one that cannot, writes behind nothing, and
    a quarter behind words for a group. natural: sentences of news and biographies.
    """
    file = KEPT / f"{source}-{_label(model)}-{number}.pickle"
    if file.is_file():
        return
    length = LONG if source == "long" else LENGTH
    if source == "shipped":
        given = [each.first for each in running(training_text(None, _SWAP, n, number))]
    elif source == "natural":
        lines = [p.read_text(encoding="utf-8") for p in sorted((data / "corpus").glob("*.txt"))]
        every = list(dict.fromkeys(plain_sentences(split_sentences("\n".join(lines).splitlines(True)))))
        given = [every[i] for i in np.random.default_rng(0).permutation(len(every))][number * n :][:n]
    else:
        writer = model if "causal" in model.abilities else load(WRITER, device=str(model.device))
        given = written(writer, n, number, length)
    texts = [Text(text) for text in given if _SWAP(text).reversible]
    file.write_bytes(pickle.dumps(aligned(model, _SWAP, texts, length).texts))


def written(model: Model, n: int, seed: int, length: int) -> list[str]:
    """What the model writes behind nothing, and behind words for a group."""
    kept = KEPT / f"written-{_label(model)}-{seed}-{n}-{length}.json"
    if kept.is_file():
        return list(json.loads(kept.read_text(encoding="utf-8")))
    rng = np.random.default_rng((seed, 1))
    begin = list(model.opening.tokens or []) or [int(model.tokenizer.bos_token_id or 0)]
    words = sorted({word for groups in _SWAP.classes() for group in groups for word in group})
    starts: dict[int, list[list[int]]] = {len(begin): [begin] * (n - n // 4)}
    for word in rng.choice(words, n // 4):
        own = [*begin, *model.tokenizer(word[0].upper() + word[1:], add_special_tokens=False)["input_ids"]]
        starts.setdefault(len(own), []).append(own)
    found = [text for some in starts.values() for text in sampled_texts(model, some, length, seed)]
    clean = [" ".join(text.split()) for text in found if "\ufffd" not in text]
    clean = list(dict.fromkeys(text for text in clean if len(text.split()) > 3))
    kept.write_text(json.dumps(clean), encoding="utf-8")
    return clean


def _label(model: Model) -> str:
    return "".join(c if c.isalnum() else "-" for c in model.name)


# ---- training


class Muon(torch.optim.Optimizer):
    """Steps of matrices with all singular values near 1 (Jordan et al. 2024), Nesterov momentum 0.95."""

    def __init__(self, weights: Sequence[Tensor], lr: float) -> None:
        super().__init__(weights, {"lr": lr, "momentum": 0.95})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                kept = state.setdefault("momentum", torch.zeros_like(weight))
                kept.lerp_(weight.grad, 1 - group["momentum"])
                step = weight.grad.lerp(kept, group["momentum"])
                tall = step.shape[0] > step.shape[1]
                x = step.T if tall else step
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                # a step of about 0.2 root mean square, as AdamW's
                scale = 0.2 * max(step.shape) ** 0.5
                weight.add_((x.T if tall else x) * scale, alpha=-group["lr"])


def optimizers_of(recipe: Recipe, weights: Sequence[Tensor], tables: Any) -> list[torch.optim.Optimizer]:
    """AdamW for all weights, or Muon for matrices; tables: ids of those of word vectors."""
    matrices = [w for w in weights if w.ndim == 2 and id(w) not in tables and min(w.shape) > 2]
    if recipe.optimizer != "muon":
        matrices = []
    names = {id(w) for w in matrices}
    others = [w for w in weights if id(w) not in names]
    adamw = torch.optim.AdamW(others, recipe.rate, weight_decay=0, betas=(0.9, 0.98))
    return [adamw, Muon(matrices, recipe.muon_rate)] if matrices else [adamw]


def rate_share(recipe: Recipe, at: float) -> float:
    """What part of the highest rate counts when so much of the training is done."""
    fall = {"cosine": 0.5 * (1 + cos(pi * at)), "linear": 1 - at, "flat": min(1.0, 5 * (1 - at))}
    rise = min(1.0, at / recipe.warmup) if recipe.warmup else 1.0
    return max(1e-3, rise * fall[recipe.schedule])


def at_ways(
    model: Model, student: Model, ends: Sequence[Tensor], ways: Sequence[float], evaluate: Any
) -> list[dict[str, Any]]:
    """Evaluations on the line from the model to trained weights."""
    found = []
    for way in ways:
        with torch.no_grad():
            for own, first, last in zip(student.hf.parameters(), model.hf.parameters(), ends, strict=True):
                own.copy_(first.lerp(last, way))
        found.append({"way": way, **evaluate(student)})
    return found


def trained(  # noqa: PLR0915
    model: Model, recipe: Recipe, seed: int, data: Path, evaluate: Any
) -> dict[str, Any]:
    """Train a copy, evaluating it on the way."""
    distilling._BETWEEN, distilling._MASKED = recipe.between, recipe.masked
    distilling._MASKED_GROUP = recipe.masked_group
    clock = time.process_time if model.device.type == "cpu" else time.monotonic
    begun = clock()
    texts = texts_of(model, recipe, seed, data)
    making = clock() - begun
    lesson = Distilling(model, _SWAP, texts)
    student = copied(model, model.name, "train the weights that it was made from")
    hf: Any = student.hf
    torch.manual_seed(seed)
    hf.requires_grad_(True)
    hf.eval()
    begin_at: list[dict[str, Any]] = []
    if recipe.merged:
        merge(student, lesson, recipe.merged, recipe.shared)
        begin_at = [{"step": 0, "seconds": 0.0, **evaluate(student)}]
    tables = {id(t.weight): t.weight for t in (hf.get_input_embeddings(), hf.get_output_embeddings()) if t}
    rows = next(iter(tables.values()))
    if not recipe.word_vectors:
        mask = torch.zeros(len(rows), 1, device=rows.device)
        mask[list(lesson.own_words)] = 1
        rows.register_hook(partial(torch.mul, mask))
    for name, weight in hf.named_parameters():
        attends, narrow = ".attention." in name or ".attn." in name, weight.ndim == 1
        kind = "norms" if narrow else "attention" if attends else "mlp"
        weight.requires_grad_(id(weight) in tables or recipe.only in ("all", kind))
    weights = [weight for weight in hf.parameters() if weight.requires_grad]
    frozen = [weight.detach().clone() for weight in weights] if recipe.anchor else []
    optimizers = optimizers_of(recipe, weights, tables.keys())
    highest = [group["lr"] for each in optimizers for group in each.param_groups]
    mean = [w.detach().clone() for w in weights] if recipe.average else []
    lengths = list(lesson.lengths)
    sampler = SimilarLengths(lengths, recipe.batch, seed)
    order: list[int] = []
    curve, losses, points = begin_at, list[float](), [round(share * recipe.steps) for share in recipe.at]
    begun, evaluating, number = clock(), 0.0, 0
    with quick_kernels():
        while number < recipe.steps:
            at = (clock() - begun - evaluating) / recipe.seconds if recipe.seconds else number / recipe.steps
            if at >= 1:
                break
            if len(order) < recipe.batch:
                order += list(sampler)
                sampler.epoch += 1
            some, order = order[: recipe.batch], order[recipe.batch :]
            batch = lesson.batch(some, (seed, number))
            loss = lesson.loss(student, batch)
            loss.backward()
            nn.utils.clip_grad_norm_(weights, recipe.clip)
            share = rate_share(recipe, at)
            for group, own in zip((g for o in optimizers for g in o.param_groups), highest, strict=True):
                group["lr"] = own * share
            for each in optimizers:
                each.step()
                each.zero_grad(set_to_none=True)
            with torch.no_grad():
                for weight, first in zip(weights, frozen, strict=False):
                    weight.lerp_(first, min(1.0, recipe.anchor * highest[0] * share))
            losses.append(float(loss.detach()) if model.device.type == "cpu" or number % 50 == 0 else np.nan)
            number += 1
            if mean:
                memory = max(1.0, recipe.average * number)
                for kept, own in zip(mean, weights, strict=True):
                    kept.lerp_(own.detach(), 1 / memory)
            if number in points and number != recipe.steps:
                before = clock()
                curve.append({"step": number, "seconds": before - begun - evaluating, **evaluate(student)})
                evaluating += clock() - before
    seconds, last = clock() - begun - evaluating, [w.detach().clone() for w in weights]
    done = {"step": number, "seconds": seconds, "loss": float(np.nanmean(losses[-50:]))}
    curve.append({**done, **evaluate(student)})
    curve += [{**done, **each} for each in at_ways(model, student, last, recipe.ways, evaluate)]
    if mean:
        curve += [
            {**done, "averaged": True, **e}
            for e in at_ways(model, student, mean, (1.0, *recipe.ways), evaluate)
        ]
    return {"texts": len(texts), "making": making, "tokens": sum(lengths), "curve": curve}


@torch.no_grad()
def merge(student: Model, lesson: Distilling, way: float, shared: int) -> None:
    """Move the vectors of counterparts some of the way to where both groups have the same mean.

    shared: the first singular directions of the differences of all counterparts stay, so that what *she*,
    *mother* and *queen* have in common still says who is meant; what differs in one pair alone goes.
    """
    for rows in vocabulary_parameters(student).values():
        steps = merging_steps(rows, token_classes(lesson.model, _SWAP).classes)
        if shared and rows.ndim > 1:
            kept = torch.linalg.svd(steps[steps.any(1)], full_matrices=False).Vh[:shared]
            steps -= steps @ kept.T @ kept
        rows += (way * steps).to(rows.dtype)


# ---- the grid


@dataclass(frozen=True)
class Run:
    """One training of a grid."""

    model: str
    seed: int
    recipe: Recipe = field(default_factory=Recipe)


def one(run: Run, data: Path, device: str, halves: Sequence[str]) -> dict[str, Any]:
    """Train, and compare with the unmodified model."""
    torch.set_num_threads(1)
    model = load(run.model, device=device)
    outside = Outside.of(data, 120 if device == "cuda" else 12)
    before = {half: outside.measured(model, half) for half in halves}

    def evaluate(student: Model) -> dict[str, Any]:
        torch.set_float32_matmul_precision("highest")
        found = {half: compared(before[half], outside.measured(student, half)) for half in halves}
        torch.set_float32_matmul_precision("high")
        return found

    found = trained(model, run.recipe, run.seed, data, evaluate)
    return {"model": run.model, "seed": run.seed, "recipe": asdict(run.recipe), **found}


def main() -> None:
    """Run a grid; one line per evaluation, and everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("grid", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--halves", default="dev")
    parser.add_argument("--seconds", type=float, default=1e9, help="no training begins after so many")
    parser.add_argument("--shards", type=int, default=0, help="make texts first, of so many seeds")
    parser.add_argument("--each", type=int, default=2_000, help="texts of a shard")
    parser.add_argument("--shard", type=int, help="make the texts of this seed alone, in this process")
    parser.add_argument("--only", type=int, help="the run of this number alone, in this process")
    given = parser.parse_args()
    grid = json.loads(given.grid.read_text(encoding="utf-8"))
    known = {each.name for each in fields(Recipe)}
    runs = []
    for recipe in grid["recipes"]:
        own: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in recipe.items()
            if key in known
        }
        for model in recipe.get("models", grid["models"]):
            runs += [Run(model, seed, Recipe(**own)) for seed in recipe.get("seeds", grid["seeds"])]
    if given.shard is not None:
        torch.set_num_threads(1)
        if given.device != "cpu":
            own_forward._BATCH = 512
        sources = {r.recipe.text for r in runs} | {"shipped" for r in runs if r.recipe.mix}
        for name in sorted({r.model for r in runs}, key=lambda each: each != WRITER):
            for source in sorted(sources):
                shard(load(name, device=given.device), source, given.shard, given.each, given.data)
        return
    part = given.out.with_suffix(".parts")
    part.mkdir(parents=True, exist_ok=True)
    if given.only is not None:
        found = one(runs[given.only], given.data, given.device, given.halves.split(","))
        (part / f"{given.only}.json").write_text(json.dumps(found), encoding="utf-8")
        return
    again = [sys.executable, "-m", "benchmarks.distill_outside", *sys.argv[1:]]
    begun = time.monotonic()
    making = [subprocess.Popen([*again, "--shard", str(number)]) for number in range(given.shards)]
    for process in making:
        process.wait()
    print(f"texts made in {time.monotonic() - begun:.0f} s", flush=True)
    waiting, working = list(range(len(runs))), dict[int, Any]()
    while waiting or working:
        while waiting and len(working) < given.jobs and time.monotonic() - begun < given.seconds:
            number = waiting.pop(0)
            with (part / f"{number}.log").open("w") as log:
                working[number] = subprocess.Popen(
                    [*again, "--only", str(number)], stdout=log, stderr=subprocess.STDOUT
                )
        if not working:
            break
        time.sleep(0.5)
        for number in [n for n, process in working.items() if process.poll() is not None]:
            del working[number]
            report(runs[number], part / f"{number}.json")
            results = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(part.glob("*.json"))]
            given.out.write_text(json.dumps(results), encoding="utf-8")


def report(run: Run, file: Path) -> None:
    """Print what a training gave, or the end of its log."""
    name = f"{run.model} {run.recipe.name} seed {run.seed}"
    if not file.is_file():
        print(name, "failed:", file.with_suffix(".log").read_text(encoding="utf-8")[-600:], flush=True)
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    for each in found["curve"]:
        shown = [
            f"{half} closed {own['closed']:.1f} ± {own['error']:.1f} % perplexity {own['perplexity']:+.2f} % "
            f"agreement {own[AGREEMENT]:+.1f}, of names {own[NAME_AGREEMENT]:+.1f} points"
            for half, own in each.items()
            if isinstance(own, dict)
        ]
        mean = (" averaged" if each.get("averaged") else "") + f" way {each.get('way', 1):g}"
        print(f"{name} step {each['step']}{mean} {each['seconds']:.0f} s", *shown, flush=True)


if __name__ == "__main__":
    main()
