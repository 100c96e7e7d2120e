"""A model of 7 B parameters on a card of 24 GiB: an audit and head scores. Skipped without CUDA.

`set_per_process_memory_fraction` makes a small card out of a large one. Weights are random, Llama-2-7B's
shape in bfloat16, written to a folder first, so that loading and hashing are a part of what is timed.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.claims import Claim, in_turn, seconds
from benchmarks.heads import two_forwards_one_backward
from levelhead.edits.gates import removed
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.memory import KINDS, token_budget
from levelhead.engine.run import read_one
from levelhead.models.encoding import encode
from levelhead.models.model import Model, load
from levelhead.probes.contexts import TEMPLATES, template_contexts
from levelhead.probes.words import load_words
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable, word_table
from levelhead.studies.audit.run import audit
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings

GIB = 1 << 30
CARD = 24 * GIB
REMOVED = 256  # heads, evenly spread over the layers, of which each is removed
ROWS = 800  # contexts that they are removed on


def bench() -> list[Claim]:
    """The promises for one card; none where there is no card, or one of less than 24 GiB."""
    if not torch.cuda.is_available() or torch.cuda.mem_get_info()[1] < CARD:
        return []
    with TemporaryDirectory() as place:
        folder = _written(Path(place) / "llama-7b")
        loading = seconds(lambda: load(folder).fingerprint)
        claims = [Claim("7B: loading and hashing, s", loading, None, False, "bfloat16, from a local folder")]
        claims += _commands(folder, Path(place) / "whole", "the whole card")
        with _small_card():
            claims += _commands(folder, Path(place) / "small", "a cap of 24 GiB")
            return claims + _ratios(load(folder))


@contextmanager
def _small_card() -> Iterator[None]:
    """The card as if it had 24 GiB."""
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(CARD / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def _written(folder: Path) -> Path:
    """Random weights of Llama-2-7B's shape, with the shipped causal model's tokenizer."""
    tokenizer = load("lh:gpt-mini", device="cpu").tokenizer
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            hf = LlamaForCausalLM(LlamaConfig(pad_token_id=0))  # the defaults are Llama-2-7B's
    finally:
        torch.set_default_dtype(torch.float32)
    hf.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    os.sync()  # else results wait for the disk until 13 GB are written
    del hf
    gc.collect()
    torch.cuda.empty_cache()
    return folder


def _commands(folder: Path, runs: Path, card: str) -> list[Claim]:
    """A first look, an audit, scores of all heads on all contexts: each from the folder to its run."""
    every = HeadsSettings(experiments=("scores",), score_contexts=len(TEMPLATES), null=0)
    commands = {
        "first look": (lambda: audit(str(folder), AuditSettings(quick=True), runs / "first"), 15),
        "audit": (lambda: audit(str(folder), None, runs / "audit"), 30),
        "heads on all contexts": (lambda: heads(load(folder), every, runs / "heads"), None),
    }
    claims = []
    for name, (command, promised) in commands.items():
        torch.cuda.reset_peak_memory_stats()
        took = seconds(command)
        peak = torch.cuda.max_memory_allocated() / GIB
        gc.collect()
        torch.cuda.empty_cache()
        note = f"with its defaults, {card}"
        claims.append(Claim(f"7B: {name}, s", took, promised, False, note))
        cap = CARD / GIB if "cap" in card else None
        claims.append(Claim(f"7B: {name}, peak memory in GiB", peak, cap, False, note))
    return claims


def _ratios(model: Model) -> list[Claim]:
    """All template contexts of the gender list; the floor runs the very same batches."""
    test = load_words("gender")
    table = word_table(test, template_contexts(test))
    reading, objective = table.static(), word_objective(table).number
    sizes = ", ".join(f"{kind} {token_budget(model, kind):,}" for kind in KINDS)
    few = word_table(test, template_contexts(test, 1))
    gate_gradients(model, few.static(), word_objective(few).number)  # libraries choose their kernels
    list(encode(model, reading.texts))  # texts are tokenized once, whoever comes first
    ours, floor = in_turn(
        lambda: gate_gradients(model, reading, objective),
        lambda: two_forwards_one_backward(model, reading),
        rounds=1,
    )
    note = f"{len(table.contexts):,} contexts, a cap of 24 GiB, tokens of a batch: {sizes}"
    return [
        Claim("7B: head scores against two forwards + one backward", ours / floor, 1.15, False, note),
        _removals(model, word_table(test, template_contexts(test)[:: len(table.contexts) // ROWS])),
    ]


def _removals(model: Model, table: WordTable) -> Claim:
    """A head that is removed costs about half a pass: variants share the blocks before it."""
    step = model.layers * model.heads // REMOVED
    heads = [divmod(number * step, model.heads) for number in range(REMOVED)]
    reading = table.static()
    variants = [removed(model, [head]) for head in heads]
    every, plain = in_turn(
        lambda: read_one(model, reading, variants), lambda: read_one(model, reading), rounds=1
    )
    note = f"{REMOVED} heads, {ROWS} contexts"
    return Claim("7B: removing a head, in passes", every / plain / REMOVED, 0.55, False, note)
