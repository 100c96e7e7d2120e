"""Where each architecture keeps its blocks, heads and projections: the only architecture-specific file.

A family is a handful of attribute paths. Everything else (embeddings, masks, rotary angles, final norms,
poolers, vocabulary heads) is run by the model's own code, so it needs no description here. To add a family,
add one entry and run `pytest tests/models/test_contract.py`: the contract matrix builds a tiny model of it
and checks gates, projections, gradients, variants and attention against independent computations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from levelhead.errors import UnknownFamily

Layout = Literal["separate", "stacked", "interleaved"]


@dataclass(frozen=True)
class Family:
    """Attribute paths, relative to the base model (blocks) or to one block (the rest)."""

    blocks: str  # the ModuleList that the base model walks through
    attention: str  # the module that returns (output, weights) under eager attention
    output: str  # the output projection W^O: head gates multiply the per-head slices of its input
    qkv: tuple[str, ...]  # the query, key and value projections: three paths, or one that is fused
    rowwise: tuple[str, ...]  # modules, or chains "from>to", that treat tokens one by one
    causal: bool = False  # attends to earlier tokens only
    padding_leaks: bool = False  # padding changes the answer, so only rows of equal length share a batch
    layout: Layout = "separate"  # of a fused projection: stacked [q | k | v], interleaved (head, qkv, dim)
    joint_norm: bool = False  # one norm over the queries of all heads: a closed head's still scale the others
    down: str = ""  # the MLP's down projection: neuron gates multiply its input; "": experts share the work


def _bert(qkv: tuple[str, str, str] = ("query", "key", "value")) -> Family:
    inside = tuple(f"attention.self.{name}" for name in qkv)
    return Family(
        "encoder.layer",
        "attention.self",
        "attention.output.dense",
        inside,
        rowwise=(inside[0], "attention.output.dense", "intermediate>output.dense"),
        down="output.dense",
    )


def _llama(
    blocks: str = "layers",
    output: str = "self_attn.o_proj",
    *,
    causal: bool = True,
    down: str = "mlp.down_proj",
) -> Family:
    return Family(
        blocks,
        "self_attn",
        output,
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        rowwise=("self_attn.q_proj", output, "mlp"),
        causal=causal,
        down=down,
    )


_ALBERT = "albert_layers.0.attention"

FAMILIES: dict[str, Family] = {
    "bert": _bert(),
    "roberta": _bert(),
    "xlm-roberta": _bert(),
    "electra": _bert(),
    "camembert": _bert(),
    "ernie": _bert(),
    "albert": Family(
        "encoder.albert_layer_groups",
        _ALBERT,
        f"{_ALBERT}.dense",
        (f"{_ALBERT}.query", f"{_ALBERT}.key", f"{_ALBERT}.value"),
        rowwise=(f"{_ALBERT}.query", f"{_ALBERT}.dense", "albert_layers.0.ffn>albert_layers.0.ffn_output"),
        down="albert_layers.0.ffn_output",
    ),
    "distilbert": Family(
        "transformer.layer",
        "attention",
        "attention.out_lin",
        ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        rowwise=("attention.q_lin", "attention.out_lin", "ffn"),
        down="ffn.lin2",
    ),
    "mpnet": Family(
        "encoder.layer",
        "attention.attn",
        "attention.attn.o",
        ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        rowwise=("attention.attn.q", "attention.attn.o", "intermediate>output.dense"),
        down="output.dense",
    ),
    # DeBERTa also sends its relative positions through the query projection, so that one is not row by row.
    "deberta-v2": Family(
        "encoder.layer",
        "attention.self",
        "attention.output.dense",
        ("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        rowwise=("attention.output.dense", "intermediate>output.dense"),
        down="output.dense",
    ),
    # DeBERTa adds the biases of queries and values after its fused projection: edits act before them.
    "deberta": Family(
        "encoder.layer",
        "attention.self",
        "attention.output.dense",
        ("attention.self.in_proj",),
        rowwise=("attention.output.dense", "intermediate>output.dense"),
        layout="interleaved",
        down="output.dense",
    ),
    "eurobert": _llama(causal=False),
    "modernbert": Family(
        "layers",
        "attn",
        "attn.Wo",
        ("attn.Wqkv",),
        rowwise=("attn.Wo", "mlp"),
        layout="stacked",
        down="mlp.Wo",
    ),
    # MobileBERT's embeddings look at both neighbors of a token, so the last one would see the padding.
    "mobilebert": Family(
        "encoder.layer",
        "attention.self",
        "attention.output.dense",
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        rowwise=("attention.self.query", "attention.output.dense", "intermediate>output.dense"),
        padding_leaks=True,
        down="output.dense",  # of the last of its feed-forward networks
    ),
    "gpt2": Family(
        "h",
        "attn",
        "attn.c_proj",
        ("attn.c_attn",),
        rowwise=("attn.c_proj", "mlp"),
        causal=True,
        layout="stacked",
        down="mlp.c_proj",
    ),
    "gpt_neo": Family(
        "h",
        "attn.attention",
        "attn.attention.out_proj",
        ("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"),
        rowwise=("attn.attention.q_proj", "attn.attention.out_proj", "mlp"),
        causal=True,
        down="mlp.c_proj",
    ),
    "gpt_neox": Family(
        "layers",
        "attention",
        "attention.dense",
        ("attention.query_key_value",),
        rowwise=("attention.dense", "mlp"),
        causal=True,
        layout="interleaved",
        down="mlp.dense_4h_to_h",
    ),
    "gptj": Family(
        "h",
        "attn",
        "attn.out_proj",
        ("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        rowwise=("attn.q_proj", "attn.out_proj", "mlp"),
        causal=True,
        down="mlp.fc_out",
    ),
    "opt": Family(
        "decoder.layers",
        "self_attn",
        "self_attn.out_proj",
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        rowwise=("self_attn.q_proj", "self_attn.out_proj", "fc1>fc2"),
        causal=True,
        down="fc2",
    ),
    "bloom": Family(
        "h",
        "self_attention",
        "self_attention.dense",
        ("self_attention.query_key_value",),
        rowwise=("self_attention.dense", "mlp.dense_h_to_4h>mlp.dense_4h_to_h"),
        causal=True,
        layout="interleaved",
        down="mlp.dense_4h_to_h",
    ),
    "falcon": Family(
        "h",
        "self_attention",
        "self_attention.dense",
        ("self_attention.query_key_value",),
        rowwise=("self_attention.dense", "mlp"),
        causal=True,
        layout="interleaved",
        down="mlp.dense_4h_to_h",
    ),
    "llama": _llama(),
    "mistral": _llama(),
    "mixtral": _llama(down=""),
    "qwen2": _llama(),
    "qwen2_moe": _llama(down=""),
    "qwen3": _llama(),
    "qwen3_moe": _llama(down=""),
    "gpt_oss": _llama(down=""),
    "olmo": _llama(),
    "olmo2": replace(_llama(), joint_norm=True),
    "olmo3": replace(_llama(), joint_norm=True),
    "smollm3": _llama(),
    "granite": _llama(),
    "stablelm": _llama(),
    "starcoder2": _llama(down="mlp.c_proj"),
    "cohere": _llama(),
    "cohere2": _llama(),
    "glm": _llama(),
    "glm4": _llama(),
    "phi": _llama(output="self_attn.dense", down="mlp.fc2"),
    "gemma": _llama(),
    "gemma2": _llama(),
    "gemma3_text": _llama(),
    "gemma3": _llama("language_model.layers"),
    "phi3": Family(
        "layers",
        "self_attn",
        "self_attn.o_proj",
        ("self_attn.qkv_proj",),
        rowwise=("self_attn.o_proj", "mlp"),
        causal=True,
        layout="stacked",
        down="mlp.down_proj",
    ),
}


# what no entry can make askable, and why
REFUSED: dict[str, str] = {
    "fnet": "it mixes tokens by a Fourier transform and has no attention heads",
    "xlm": "its layers are no modules (four lists lie side by side), and its tokenizer gives no offsets",
}


def unknown_family(model_type: str, reason: str) -> UnknownFamily:
    """The error for a Hugging Face `model_type` without an entry, and why none could be derived."""
    known = ", ".join(sorted(FAMILIES))
    return UnknownFamily(
        f"No family for model_type {model_type!r}, and none could be derived: {reason}. Known: {known}. Add "
        "one line to levelhead/models/families.py (docs/new-family.md shows how)."
    )
