"""Tiny random-weight models of every family, each with a real tokenizer, built in the test run: no hub.

The tokenizers are the same in every run. What `tokenizers` trains by itself is not: its WordPiece and Unigram
trainers break ties by the order of a hash map.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from tokenizers.normalizers import BertNormalizer

from levelhead.models.families import FAMILIES
from levelhead.models.model import Model
from levelhead.models.sources import Source

CORPUS = [
    "The nurse said that she was tired, and the engineer said that he was not.",
    "Engineers and nurses work; mothers and fathers, women and men, work too!",
    "She saw him yesterday in the kitchen. He gave her a book about unbelievable grandmothers.",
    "Unhappiness is rarely unbelievable. A nurse, an engineer, a teacher: who knows?",
]
BPE_SIZE = 380

_SIZES: dict[str, Any] = dict(
    hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48
)
_GROUPED: dict[str, Any] = dict(_SIZES, num_key_value_heads=2, max_position_embeddings=96, pad_token_id=0)
_SHORT: dict[str, Any] = dict(_SIZES, max_position_embeddings=96, pad_token_id=0)
_SMALLEST: dict[str, Any] = dict(_SHORT, hidden_size=16, num_hidden_layers=2, intermediate_size=24)
_SMALLEST_GROUPED: dict[str, Any] = dict(_SMALLEST, num_key_value_heads=2)

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", _SHORT),
    "roberta": ("Roberta", _SHORT),
    "xlm-roberta": ("XLMRoberta", _SHORT),
    "albert": ("Albert", dict(_SHORT, embedding_size=16)),
    "distilbert": (
        "DistilBert",
        dict(dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=96),
    ),
    "electra": ("Electra", dict(_SHORT, embedding_size=16)),
    "mpnet": ("MPNet", _SHORT),
    "deberta-v2": (
        "DebertaV2",
        dict(
            _SHORT,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=8,
            share_att_key=True,
        ),
    ),
    "deberta": (
        "Deberta",
        dict(_SMALLEST, relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=8),
    ),
    "eurobert": ("EuroBert", _SMALLEST_GROUPED),
    "modernbert": ("ModernBert", dict(_SHORT, local_attention=8, cls_token_id=2, sep_token_id=3)),
    "mobilebert": (
        "MobileBert",
        dict(_SHORT, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    ),
    "gpt2": ("GPT2", dict(n_embd=32, n_layer=3, n_head=4, n_positions=96)),
    "gpt_neo": (
        "GPTNeo",
        dict(
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=8,
            intermediate_size=48,
            max_position_embeddings=96,
        ),
    ),
    "gpt_neox": ("GPTNeoX", _SHORT),
    "opt": (
        "OPT",
        dict(
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            ffn_dim=48,
            word_embed_proj_dim=16,
            max_position_embeddings=96,
            pad_token_id=0,
        ),
    ),
    "bloom": ("Bloom", dict(hidden_size=32, n_layer=3, n_head=4)),
    "llama": ("Llama", _GROUPED),
    "mistral": ("Mistral", dict(_GROUPED, sliding_window=8)),
    "qwen2": ("Qwen2", _GROUPED),
    "qwen3": ("Qwen3", dict(_GROUPED, head_dim=8)),
    "gemma2": ("Gemma2", dict(_GROUPED, head_dim=8, sliding_window=8, query_pre_attn_scalar=8)),
    "gemma3_text": ("Gemma3Text", dict(_GROUPED, head_dim=8, sliding_window=8, query_pre_attn_scalar=8)),
    "phi3": ("Phi3", dict(_GROUPED, bos_token_id=2, eos_token_id=3)),
    "gptj": ("GPTJ", dict(n_embd=16, n_layer=2, n_head=4, n_positions=96, rotary_dim=2)),
    "falcon": (
        "Falcon",
        dict(_SMALLEST, new_decoder_architecture=True, num_kv_heads=2, max_position_embeddings=96),
    ),
    "phi": ("Phi", _SMALLEST_GROUPED),
    "gemma": ("Gemma", dict(_SMALLEST_GROUPED, head_dim=8)),
    "olmo": ("Olmo", _SMALLEST_GROUPED),
    "olmo2": ("Olmo2", _SMALLEST_GROUPED),
    "olmo3": ("Olmo3", dict(_SMALLEST_GROUPED, sliding_window=8)),
    "granite": ("Granite", dict(_SMALLEST_GROUPED, residual_multiplier=0.5, attention_multiplier=0.4)),
    "smollm3": ("SmolLM3", dict(_SMALLEST_GROUPED, no_rope_layers=[1, 0])),
    "stablelm": ("StableLm", _SMALLEST_GROUPED),
    "starcoder2": ("Starcoder2", _SMALLEST_GROUPED),
    "cohere": ("Cohere", _SMALLEST_GROUPED),
    "cohere2": ("Cohere2", dict(_SMALLEST_GROUPED, sliding_window=8)),
    "glm": ("Glm", dict(_SMALLEST_GROUPED, head_dim=8)),
    "glm4": ("Glm4", dict(_SMALLEST_GROUPED, head_dim=8)),
    "mixtral": ("Mixtral", dict(_SMALLEST_GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": (
        "Qwen2Moe",
        dict(
            _SMALLEST_GROUPED,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            shared_expert_intermediate_size=8,
        ),
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        dict(_SMALLEST_GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8),
    ),
    "gpt_oss": (
        "GptOss",
        dict(_SMALLEST_GROUPED, head_dim=8, sliding_window=8, num_local_experts=4, num_experts_per_tok=2),
    ),
}

ENCODERS = tuple(name for name in CONFIGS if not FAMILIES[name].causal)
DECODERS = tuple(name for name in CONFIGS if FAMILIES[name].causal)
CLASSIFIABLE = tuple(name for name in CONFIGS if name not in ("granite", "cohere", "cohere2"))
_HEADS = {"mlm": "ForMaskedLM", "nli": "ForSequenceClassification", "base": "Model", "nsp": "ForPreTraining"}
_CAUSAL_CLASS = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}


_fast_tokenizer: Any = hf.PreTrainedTokenizerFast  # transformers gives its constructor no types


@cache
def wordpiece() -> Any:
    """An uncased WordPiece tokenizer, as BERT's: the corpus's words, and every letter for all other words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = re.findall(r"\w+|[^\w\s]", " ".join(CORPUS).lower())
    tokens = sorted({*words, *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)})
    vocabulary = {token: number for number, token in enumerate([*special, *tokens])}
    tok = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tok.normalizer = BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _fast_tokenizer(
        tokenizer_object=tok,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


@cache
def bpe() -> Any:
    """A byte-level BPE tokenizer, as GPT-2's, with a separate pad token."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<|endoftext|>"]
    tok.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=BPE_SIZE, special_tokens=special, initial_alphabet=alphabet)
    )
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return _fast_tokenizer(
        tokenizer_object=tok, pad_token="<pad>", bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )


@cache
def unigram() -> Any:
    """A SentencePiece-style unigram tokenizer, as ALBERT's and XLM-R's."""
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    tok.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=160, special_tokens=special, unk_token="<unk>")
    )
    tokens = sorted(token for token in tok.get_vocab() if token not in special)
    costs = [(token, 0.0) for token in special] + [(token, -1.0) for token in tokens]  # as few as possible
    tok.model = models.Unigram(costs, unk_id=special.index("<unk>"))
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return _fast_tokenizer(
        tokenizer_object=tok,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        bos_token="<s>",
        eos_token="</s>",
        mask_token="<mask>",
    )


def tokenizer_for(family: str) -> Any:
    """What the family uses in real life, in kind."""
    if family in ("roberta", "xlm-roberta", "albert", "deberta-v2", "eurobert"):
        return unigram()
    return bpe() if family in DECODERS else wordpiece()


def tiny(
    family: str,
    head: str = "mlm",
    *,
    layers: int | None = None,
    seed: int = 0,
    tokenizer: Any = None,
    **otherwise: Any,
) -> Model:
    """A tiny model: head is mlm, nli, nsp or base for encoders; decoders are causal.

    otherwise: settings of its configuration that differ from CONFIGS.
    """
    torch.manual_seed(seed)
    tokenizer = tokenizer or tokenizer_for(family)
    prefix, sizes = CONFIGS[family]
    extra: dict[str, Any] = {"num_labels": 3, "id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}
    if layers is not None:
        extra |= {name: layers for name in ("num_hidden_layers", "n_layers", "n_layer") if name in sizes}
    sizes = {**sizes, "vocab_size": len(tokenizer), **extra, **otherwise}
    config = getattr(hf, f"{prefix}Config")(**sizes)
    kind = _CAUSAL_CLASS.get(prefix, f"{prefix}ForCausalLM") if family in DECODERS else prefix + _HEADS[head]
    model = getattr(hf, kind)(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.normal_(0, 0.15)  # not the usual 0.02, so that every part leaves a trace in the output
        elif "bias" in name:
            weight.normal_(0, 0.05)
    return Model(Source(name=f"tiny-{family}", hf=model, tokenizer=tokenizer, origin="test", missing=()))


def given(model: Model, text: str, second: str | None = None) -> dict[str, torch.Tensor]:
    """What transformers is given of a text, by its tokenizer alone, behind the tokens that open texts."""
    inputs = dict(model.tokenizer(text, second, return_tensors="pt"))
    first = torch.tensor([list(model.opening.tokens or ())], dtype=torch.long)
    if first.numel():
        inputs = {"input_ids": torch.cat([first, inputs["input_ids"]], dim=1)}
    return inputs


def saved(folder: Path, family: str, head: str = "mlm", **otherwise: Any) -> str:
    """The path of a folder with a tiny model in it, as a user has one."""
    model = tiny(family, head, **otherwise)
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return str(folder)
