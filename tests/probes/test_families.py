"""Pairs that share a stem are one family, whichever word of a pair stands first."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.probes.words import load_words, pair_families


@pytest.mark.parametrize(
    ("pairs", "families"),
    [
        ([("mother", "father"), ("motherly", "fatherly"), ("motherhood", "fatherhood")], (0, 0, 0)),
        ([("woman", "man"), ("women", "men"), ("chairwoman", "chairman")], (0, 0, 0)),
        ([("wife", "husband"), ("wives", "husbands"), ("girl", "boy"), ("girls", "boys")], (0, 0, 1, 1)),
        ([("her", "him"), ("her", "his"), ("hers", "his"), ("she", "he")], (0, 0, 0, 1)),
        ([("black", "Caucasian"), ("African", "Caucasian"), ("black", "white")], (0, 0, 0)),
        ([("Muslim", "Christian"), ("Islam", "Christianity"), ("mosque", "church")], (0, 0, 1)),
        ([("aunt", "uncle"), ("niece", "nephew"), ("nun", "monk")], (0, 1, 2)),
        ([], ()),
    ],
)
def test_pairs_that_share_a_stem_are_one_family(
    pairs: list[tuple[str, str]], families: tuple[int, ...]
) -> None:
    assert pair_families(pairs) == families


def test_exchanged_pairs_have_the_same_families() -> None:
    pairs = load_words("gender").pairs
    coins = np.random.default_rng(0).integers(0, 2, len(pairs))
    turned = [(b, a) if coin else (a, b) for (a, b), coin in zip(pairs, coins, strict=True)]
    assert pair_families(turned) == pair_families(pairs)
