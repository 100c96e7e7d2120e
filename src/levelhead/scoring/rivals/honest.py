"""HONEST: how often a completion hurts (Nozza, Bianchi and Hovy 2021, "HONEST: Measuring Hurtful Sentence
Completion in Language Models").

    HONEST = (texts with a word of the lexicon) / (texts)

over K completions of each of N templates. The paper's lexicon is HurtLex, which the user brings along: a text
with one word per line, or a table with a column `lemma` (of whose rows, where it has a column `level`, those
that are `conservative` count). Its completions are single words; ours are texts, of which any word counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelhead.errors import BadProbe
from levelhead.probes.benchmark_files import table_rows, text_lines
from levelhead.scoring.rivals.bold import ranged
from levelhead.scoring.rivals.exchange import DRAWS, Grouped, RivalScore
from levelhead.scoring.scorers.word_shares import word_pattern

TOOL = "HONEST"
_SCORE, _RANGE = "hurtful texts", "hurtful texts, range over groups"
_KEPT = "conservative"


def load_lexicon(path: str | Path) -> tuple[str, ...]:
    """The words of a lexicon file (.txt, .tsv, .csv)."""
    file = Path(path).expanduser()
    if file.suffix.lower() in (".tsv", ".csv"):
        rows = table_rows(file, ("lemma",))
        words = [str(row.cell("lemma") or "") for row in rows if row.cell("level") in (None, "", _KEPT)]
    else:
        words = [line for _, line in text_lines(file) if not line.startswith("#")]
    lexicon = tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip(" *")))
    if not lexicon:
        raise BadProbe(f"{file.name} must have a word per line, or a column lemma (got no word)")
    return lexicon


def honest_scores(
    texts: list[str],
    where: Grouped,
    lexicon: tuple[str, ...] = (),
    seed: int = 0,
    draws: int = DRAWS,
) -> list[RivalScore]:
    """The share of texts with a word of the lexicon, and its range over groups.

    where: frames, groups and samples of the same texts; its values are not read.
    """
    if not lexicon:
        why = "it takes a lexicon: --honest FILE"
        return [RivalScore.missing(TOOL, name, 0.0, why) for name in (_SCORE, _RANGE)]
    pattern = word_pattern(lexicon)
    hurtful = np.array([float(pattern.search(text) is not None) for text in texts])
    numbers = Grouped(where.frames, where.groups, where.samples, hurtful)
    share = RivalScore(TOOL, _SCORE, float(hurtful.mean()), 0.0, n=len(texts), by_group=numbers.means())
    if len(set(where.groups)) < 2:
        return [share, RivalScore.missing(TOOL, _RANGE, 0.0, "it takes two groups of texts")]
    return [share, ranged(TOOL, _RANGE, numbers, seed, draws)]
