"""Types of transformers that no table lists: which can be derived, and do they answer as their own code does?

    python -m benchmarks.derived [TYPE ...]

Every causal or masked type that can be built tiny (2 layers, 4 heads, 16 wide, random weights) is loaded. Of
a derived one, word vectors that the engine reads are compared with the model's own forward pass.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transformers
from tests.tiny import bpe
from transformers.models.auto import modeling_auto

from levelhead.engine.readings import WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import LevelheadError
from levelhead.models.encoding import Text, encode, find_word
from levelhead.models.families import FAMILIES, REFUSED
from levelhead.models.model import Model, load

_LARGEST = 2_000_000  # parameters: what stays larger than this is not built
_CLOSE = 1e-4
_SIZES = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "emb_dim", "embedding_size"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), 4),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "head_dim"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok"), 2),
    **dict.fromkeys(("intermediate_size", "moe_intermediate_size", "ffn_dim"), 24),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 96),
    **dict.fromkeys(("bos_token_id", "eos_token_id"), 1),
    "pad_token_id": 0,
}
_TEXTS = ("The nurse said that she was tired.", "Engineers work and he saw a book there.")
_WORDS = ("she", "book")


def unlisted() -> Iterator[tuple[str, Any]]:
    """Every causal or masked type without an entry, with the transformers class that builds it."""
    auto: Any = modeling_auto
    kinds = (
        (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
        (auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, transformers.AutoModelForMaskedLM),
    )
    builders = {name: builder for names, builder in kinds for name in names}
    yield from sorted((name, each) for name, each in builders.items() if name not in {*FAMILIES, *REFUSED})


def built(name: str, builder: Any) -> Any:
    """A tiny random model of a type; None where the sizes do not fit its configuration."""
    try:
        own = transformers.AutoConfig.for_model(name)
        sizes = {key: value for key, value in _SIZES.items() if hasattr(own, key)}
        config = transformers.AutoConfig.for_model(name, **sizes, vocab_size=len(bpe()))
        with torch.device("meta"):
            size = sum(weight.numel() for weight in builder.from_config(config).parameters())
        if size > _LARGEST:
            return None
        torch.manual_seed(0)
        hf = builder.from_config(config).eval().requires_grad_(False)
    except Exception:  # a configuration that these sizes contradict raises anything
        return None
    for weight in hf.parameters():
        if weight.dim() > 1:
            weight.normal_(0, 0.15)
    return hf


def gap(model: Model) -> float:
    """The largest difference between what the engine reads and the model's own forward pass."""
    texts = [Text(text) for text in _TEXTS]
    spans = [find_word(text, word) for text, word in zip(_TEXTS, _WORDS, strict=True)]
    ours = read_one(model, WordVectors(texts, spans))[0]
    gaps = []
    for vector, row, span in zip(ours, encode(model, texts), spans, strict=True):
        with torch.no_grad():
            hidden = model.base(input_ids=torch.tensor(row.ids[None], dtype=torch.long)).last_hidden_state
        gaps.append(np.abs(hidden[0, row.tokens_of(span)].mean(0).numpy() - vector).max())
    return float(max(gaps))


def outcome(hf: Any) -> tuple[str, str]:
    """What became of a model, in a word, and the rest of the line."""
    try:
        model = load(hf, bpe())
        difference = gap(model)
    except LevelheadError as error:
        return "refused", str(error).split(" Known:")[0]
    word = "derived" if model.derived else "listed"  # some types are another's configuration
    return (word if difference < _CLOSE else "WRONG"), f"{difference:.0e} {model.family}"


def main(names: list[str]) -> int:
    """A line a type, and how many there are of each outcome."""
    counts: Counter[str] = Counter()
    for name, builder in unlisted():
        if names and name not in names:
            continue
        hf = built(name, builder)
        word, rest = ("not built", "") if hf is None else outcome(hf)
        counts[word] += 1
        print(f"{name:24} {word:10} {rest}", flush=True)
    print(", ".join(f"{word} {count}" for word, count in counts.most_common()))
    return int("WRONG" in counts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
