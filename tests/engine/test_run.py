"""Variants, order, de-duplication and the rows that are read."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from levelhead.edits.gates import HeadGates
from levelhead.edits.sites import Edit, Part, Site, Variant
from levelhead.edits.subspace import Projection
from levelhead.engine import run
from levelhead.engine.batches import Tokens, batches, inputs
from levelhead.engine.readings import (
    Attention,
    Pooled,
    Predictions,
    Reading,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
    WordVectors,
)
from levelhead.engine.run import read, read_one
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model
from tests.tiny import CONFIGS, CORPUS, tiny

SENTENCES = [s.strip() for line in CORPUS for s in line.replace("!", ".").split(".") if len(s.split()) > 2]


def random_edits(model: Model, rng: random.Random) -> Variant:
    generator = torch.Generator().manual_seed(rng.randrange(10**6))
    width = model.config.hidden_size
    parts: list[Part] = ["heads", "block", "cls", "query", "key", "value"]
    edits: list[Edit] = []
    for _ in range(rng.randrange(4)):
        layer = rng.randrange(model.layers)
        part = rng.choice(parts if model.classification_head is None else [*parts, "pooled"])
        heads = {"query": model.heads, "key": model.kv_heads, "value": model.kv_heads}.get(part)
        if part == "heads":
            edits.append(
                HeadGates(layer, tuple(rng.choice([0.0, 0.5, 1.0, 2.0]) for _ in range(model.heads)))
            )
            continue
        shape = (heads, 1, model.head_dim) if heads else (rng.choice([1, 2]), width)
        basis = torch.linalg.qr(torch.randn(*shape, generator=generator).mT)[0].mT.contiguous()
        edits.append(Projection(Site(layer, part), basis, torch.rand(basis.shape[:-1], generator=generator)))
    return tuple(edits)


def readings_of(model: Model) -> list[Reading[Any]]:
    words = [find_word(s, s.split()[-1].strip(",;:")) for s in SENTENCES]
    texts = [Text(s) for s in SENTENCES]
    readings: list[Reading[Any]] = [
        WordVectors(texts, words),
        StaticVectors(texts, words, [i % 3 for i in range(len(texts))]),
    ]
    if "causal" in model.abilities:
        return [*readings, Predictions(texts, 5), TokenLogProbs(texts, [5, 9]), TokenLikelihoods(texts)]
    masked = [Text(f"{s} {model.tokenizer.mask_token} .") for s in SENTENCES]
    readings += [Predictions(masked, 5), TokenLogProbs(masked, [5, 9]), TokenLikelihoods(texts[:2])]
    if model.classification_head is not None:
        readings.append(Pooled([Text(a, b) for a, b in itertools.pairwise(SENTENCES)]))
    return readings


def flat(answer: Any, variant: int) -> npt.NDArray[np.float64]:
    if hasattr(answer, "log_probs"):
        return np.asarray(answer.log_probs[variant], np.float64).ravel()
    if hasattr(answer, "values"):
        return np.concatenate(answer.values[variant]).astype(np.float64)
    return np.asarray(answer[variant], np.float64).ravel()


@pytest.mark.parametrize("family", ["bert", "albert", "llama", "gpt2"])
def test_all_variants_at_once_equal_each_variant_alone_under_hooks(family: str) -> None:
    model = tiny(family, "nsp" if family == "bert" else "mlm", layers=4)
    rng = random.Random(3)
    variants = [random_edits(model, rng) for _ in range(20)]
    variants += [variants[3] + variants[5], ()]  # shared objects: the tree must not mix them up
    readings = readings_of(model)
    assert any(isinstance(reading, Pooled) for reading in readings) == (family == "bert")
    together = read(model, readings, variants)
    for number, variant in enumerate(variants):
        with model.edited(*variant):  # no variants for the engine here: the edits are live hooks
            alone = read(model, readings)
        for reading in readings:
            np.testing.assert_allclose(
                flat(together[reading], number),
                flat(alone[reading], 0),
                atol=1e-5,
                rtol=1e-4,
                err_msg=str(variant),
            )


NSP = [("bert", "nsp"), ("mobilebert", "nsp")]
NLI = [
    (f, "nli")
    for f in ["bert", "roberta", "distilbert", "electra", "albert", "modernbert", "deberta-v2", "mpnet"]
]


@pytest.mark.parametrize(("family", "head"), [*NSP, *NLI])
def test_pooled_logits_equal_the_models_own_forward_pass(family: str, head: str) -> None:
    model = tiny(family, head)
    pairs = list(itertools.pairwise(SENTENCES))
    ours = read_one(model, Pooled([Text(a, b) for a, b in pairs]))[0]
    for (a, b), logits in zip(pairs, ours, strict=True):
        encoded = dict(model.tokenizer(a, b, return_tensors="pt"))
        if family in ("distilbert", "mpnet", "modernbert"):
            encoded.pop("token_type_ids", None)
        with torch.no_grad():
            out = model.hf(**encoded)
        theirs = out.seq_relationship_logits if head == "nsp" else out.logits
        np.testing.assert_allclose(logits, theirs[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("family", CONFIGS)
def test_token_log_probs_equal_the_models_own_forward_pass(family: str) -> None:
    model = tiny(family)
    causal = "causal" in model.abilities
    mask = "" if causal else f" {model.tokenizer.mask_token} tired"
    texts = [
        f"The nurse said that she was{mask}",
        f"Engineers work and{mask}",
        f"He saw him yesterday in a{mask}",
    ]
    ours = read_one(model, TokenLogProbs([Text(t) for t in texts], list(range(20))))[0]
    before = torch.tensor([model.opening.tokens or ()], dtype=torch.long)
    for text, log_probs in zip(texts, ours, strict=True):
        encoded = dict(model.tokenizer(text, return_tensors="pt"))
        if causal:
            encoded = {"input_ids": torch.cat([before, encoded["input_ids"]], dim=1)}
        if family in ("distilbert", "mpnet", "modernbert"):
            encoded.pop("token_type_ids", None)
        place = -1 if causal else int((encoded["input_ids"][0] == model.tokenizer.mask_token_id).nonzero()[0])
        with torch.no_grad():
            theirs = model.hf(**encoded).logits[0, place].log_softmax(-1)[:20]
        np.testing.assert_allclose(log_probs, theirs.numpy(), atol=2e-5)


def test_answers_come_in_the_callers_order_whatever_the_batches() -> None:
    model = tiny("bert")
    texts = [Text(s) for s in SENTENCES]
    spans = [find_word(s, s.split()[0]) for s in SENTENCES]
    once = read_one(model, WordVectors(texts, spans))
    order = list(range(len(texts)))
    random.Random(1).shuffle(order)
    mixed = WordVectors([texts[i] for i in order], [spans[i] for i in order])
    for budget in (1, 17, 64, 4096):
        answer = read(model, [mixed], batch_tokens=budget)[mixed]
        np.testing.assert_allclose(answer[0], once[0][order], atol=1e-5)


def test_identical_rows_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    seen: list[Tokens] = []

    def counting(model: Model, rows: Sequence[Tokens]) -> dict[str, torch.Tensor]:
        seen.extend(rows)
        return inputs(model, rows)

    monkeypatch.setattr(run, "inputs", counting)
    text = "The nurse said that she was tired."
    reading = WordVectors(
        [Text(text)] * 50, [find_word(text, w) for w in ("nurse", "she") for _ in range(25)]
    )
    other = States([Text(text)], Site(1, "block"))
    read(model, [reading, other])
    assert len(seen) == 1


def test_the_last_block_computes_only_the_rows_that_are_read() -> None:
    model = tiny("bert", "nli")
    tokens = {0: 0, model.layers - 1: 0}  # layer -> how many tokens its feed-forward part has seen

    def counted(layer: int) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: object, out: torch.Tensor) -> None:
            tokens[layer] += out.shape[:-1].numel()

        return hook

    feed_forward = {layer: model.blocks[layer].get_submodule("intermediate") for layer in tokens}
    handles = [part.register_forward_hook(counted(layer)) for layer, part in feed_forward.items()]
    read_one(model, Pooled([Text(a, b) for a, b in itertools.pairwise(SENTENCES)]))
    for handle in handles:
        handle.remove()
    assert tokens[model.layers - 1] == len(SENTENCES) - 1
    assert tokens[0] > 5 * tokens[model.layers - 1]


def test_shared_layers_run_once_for_all_variants() -> None:
    model, calls = tiny("bert", layers=4), [0] * 4

    def counted(layer: int) -> Callable[..., None]:
        def hook(*_: object) -> None:
            calls[layer] += 1

        return hook

    handles = [block.register_forward_hook(counted(layer)) for layer, block in enumerate(model.blocks)]
    variants: list[Variant] = [()] + [
        (HeadGates(2, tuple(float(h != k) for h in range(4))),) for k in range(4)
    ]
    read_one(model, WordVectors([Text("Nurses work.")], [(0, 6)]), variants)
    for handle in handles:
        handle.remove()
    assert calls == [1, 1, 5, 5]


def rows_of(lengths: list[int]) -> list[Tokens]:
    return [Tokens(np.zeros(n, np.int32), None) for n in lengths]


def test_batches_keep_to_the_token_budget_and_lose_no_row() -> None:
    rows = rows_of(random.Random(0).choices(range(1, 60), k=300))
    cut = list(batches(rows, 128))
    assert sorted(i for batch in cut for i in batch) == list(range(300))
    assert all(len(b) * max(len(rows[i].ids) for i in b) <= 128 or len(b) == 1 for b in cut)


def test_a_batch_that_is_large_enough_takes_no_longer_rows_and_a_small_one_does() -> None:
    assert list(batches(rows_of([4] * 8 + [5] * 8), 128)) == [list(range(8)), list(range(8, 16))]
    assert list(batches(rows_of([4] * 7 + [5] * 8), 128)) == [list(range(15))]
    assert list(batches(rows_of([4, 5]), 128, equal=True)) == [[0], [1]]


def test_the_attention_implementation_is_the_models_own_again_after_reading_attention() -> None:
    model = tiny("bert")
    text = SENTENCES[0]
    read_one(model, Attention([Text(text)], [find_word(text, "tired")], [find_word(text, "nurse")]))
    assert model.hf.config._attn_implementation == "sdpa"


def test_asking_for_what_a_model_lacks_names_what_it_has() -> None:
    with pytest.raises(CannotDo, match=r"no mlm head\. It can do: embeddings, nli"):
        read_one(tiny("bert", "nli"), Predictions([Text("A [MASK] works.")], 3))
    with pytest.raises(CannotDo, match="neither a next-sentence head nor a classifier"):
        read_one(tiny("llama"), Pooled([Text("A nurse works.")]))
    with pytest.raises(BadOption, match=r"k must be 1 to 100, .* \(got 9999\)"):
        read_one(tiny("bert"), Predictions([Text("A [MASK] works.")], 9999))
    with pytest.raises(BadProbe, match=r"Expected one \[MASK\]"):
        read_one(tiny("bert"), Predictions([Text("A nurse works.")], 3))


def test_the_same_question_gives_the_same_bits() -> None:
    model = tiny("llama")
    reading = TokenLikelihoods([Text(s) for s in SENTENCES])
    one, two = read_one(model, reading), read_one(model, reading)
    assert all(np.array_equal(a, b) for a, b in zip(one.values[0], two.values[0], strict=True))
