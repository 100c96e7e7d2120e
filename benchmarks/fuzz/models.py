"""Model folders, adapters and GGUF files that are damaged: what loads must also answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Unpack

import numpy as np
import torch
from tests.tiny import CORPUS, tiny

from benchmarks.fuzz.mutations import flipped, mutated
from benchmarks.fuzz.runs import damage
from benchmarks.fuzz.trial import Place, Subject
from levelhead.mitigation.mitigate import mitigate
from levelhead.mitigation.recipe import Recipe, step
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import WordTest
from levelhead.scoring.fluency import ask_fluency
from levelhead.scoring.seat import ask_seat

WORDS = WordTest("small", ("she", "mother"), ("he", "father"), ("nurse", "teacher"), ("engineer", "book"))


class ModelFolders:
    """Tiny models as save_pretrained writes them, one with an adapter, and a tiny GGUF file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, family, head in (
            ("masked", "bert", "nsp"),
            ("causal", "gpt2", ""),
            ("classifier", "bert", "nli"),
        ):
            save(tiny(family, head, layers=2), folder / "folders" / name)
        recipe = Recipe(projections=(step("tokens", 0),), pairs="single")
        mitigate(load(str(folder / "folders" / "masked")), recipe, folder / "folders" / "adapter")
        write_gguf(folder / "tiny.gguf")

    def subjects(self) -> list[Subject]:
        """Folders and GGUF files."""
        return [Subject("model folder", 12, self._damaged_folder), Subject("gguf", 6, self._damaged_gguf)]

    def _damaged_folder(self, rng: Random, place: Place) -> Callable[[], object]:
        names = sorted(path.name for path in (self._folder / "folders").iterdir())
        copy = place.inputs / "model"
        shutil.copytree(self._folder / "folders" / rng.choice(names), copy, dirs_exist_ok=True)
        damage(rng, copy)
        return lambda: asked(copy)

    def _damaged_gguf(self, rng: Random, place: Place) -> Callable[[], object]:
        data = (self._folder / "tiny.gguf").read_bytes()
        copy = place.inputs / "tiny.gguf"
        copy.write_bytes(rng.choice((mutated, flipped))(rng, data))
        return lambda: asked(copy)


def save(model: Model, folder: Path) -> Path:
    """Write a tiny model as a folder."""
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def asked(path: Path, **options: Unpack[LoadOptions]) -> object:
    """Load a model, describe it and ask what it can be asked."""
    given: LoadOptions = {"cache": False, **(options or {"device": "cpu"})}  # nobody's cache is filled
    model = load(str(path), **given)
    facts = model.fingerprint, model.max_tokens, model.abilities
    if model.abilities & {"mlm", "causal"}:
        ask_fluency(model, CORPUS[:1])
    return facts, ask_seat(model, WORDS, template_contexts(WORDS, 1))


def write_gguf(path: Path) -> Path:
    """A Llama of one layer with random weights, and a tokenizer of a few words, as a GGUF file."""
    import gguf

    hidden, heads, wide, words = 16, 2, 24, [*_tokens()]
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([3 if number < 3 else 1 for number in range(len(words))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    shapes = {
        "token_embd": (len(words), hidden),
        "output": (len(words), hidden),
        "blk.0.attn_q": (hidden, hidden),
        "blk.0.attn_k": (hidden, hidden),
        "blk.0.attn_v": (hidden, hidden),
        "blk.0.attn_output": (hidden, hidden),
        "blk.0.ffn_gate": (wide, hidden),
        "blk.0.ffn_up": (wide, hidden),
        "blk.0.ffn_down": (hidden, wide),
        "output_norm": (hidden,),
        "blk.0.attn_norm": (hidden,),
        "blk.0.ffn_norm": (hidden,),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    torch.manual_seed(0)
    return path


def _tokens() -> list[str]:
    words = sorted({word for line in CORPUS for word in line.replace(",", "").split()})
    return ["<unk>", "<s>", "</s>", *(f"▁{word}" for word in words), *"abcdefghijklmnopqrstuvwxyz.,▁"]
