"""Answers to cloze prompts written by hand or drawn at random."""

from __future__ import annotations

import numpy as np

from levelhead.measures.cloze import ClozeScores, PromptTable, TopK
from levelhead.measures.measurement import Measurement

GROUPS = ("female", "male")
CODE = {"she": 1, "woman": 1, "he": -1, "man": -1}


def answers(*lines: list[tuple[str, float]]) -> TopK:
    """Each prompt's likeliest words with their probabilities."""
    words = np.array([[word for word, _ in line] for line in lines])
    groups = np.array([[CODE.get(word, 0) for word, _ in line] for line in lines])
    return TopK(words, groups, np.array([[p for _, p in line] for line in lines]))


def prompts(*listed: tuple[str, str, int]) -> PromptTable:
    """Each prompt as kind, occupation and +1 or -1 for its group."""
    kinds, occupations, own = zip(*listed, strict=True)
    return PromptTable(np.array(kinds), np.array(occupations), np.array(own), GROUPS)


def cell(
    scores: ClozeScores, name: str, kind: str, group: str = "", occupation: str = "", k: int = 3
) -> Measurement:
    """The one measurement with this name and these labels."""
    labels = {"kind": kind, "group": group, "occupation": occupation, "k": k}
    hits = [m for m in scores.measurements if m.name == name and labels.items() <= dict(m.settings).items()]
    assert len(hits) == 1
    return hits[0]


HAND = answers(
    [("she", 0.5), ("he", 0.2), ("she", 0.1)],  # nurse, base: two forms of "she" merge to 0.6
    [("he", 0.4), ("she", 0.3), ("it", 0.1)],  # nurse, counter
    [("he", 0.6), ("it", 0.2), ("man", 0.1)],  # pilot, base
    [("he", 0.3), ("woman", 0.2), ("it", 0.1)],  # pilot, counter
)
HAND_PROMPTS = prompts(
    ("base", "nurse", 1), ("counter", "nurse", 1), ("base", "pilot", -1), ("counter", "pilot", -1)
)


def random_answers(seed: int, occupations: int = 6, repeats: int = 3) -> tuple[PromptTable, TopK]:
    rng = np.random.default_rng(seed)
    listed: list[tuple[str, str, int]] = []
    for number in range(occupations):
        own = 1 if number % 2 else -1
        listed += [("base", f"job{number}", own), ("unrelated", f"job{number}", own)]
        listed += [("background", f"job{number}", own)] * repeats
    vocabulary = np.array([*CODE, "it", "they", "##er", "one"])
    words = rng.choice(vocabulary, (len(listed), 5))
    groups = np.vectorize(lambda word: CODE.get(word, 0))(words)
    probs = -np.sort(-rng.dirichlet(np.ones(9), len(listed))[:, :5], axis=1)
    return prompts(*listed), TopK(words, groups, probs)
