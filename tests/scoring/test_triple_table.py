"""Every triple's probabilities as a table: the numbers that Strength and Distance are means of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from levelhead.probes.triples import load_triples
from levelhead.runs.common import TRIPLES_TABLE
from levelhead.scoring.pairs import HEAD, TripleAnswers, head_answers, triple_lines, triple_measures
from tests.studies.projection_cases import small_triples
from tests.tiny import tiny


def test_s_and_d_of_the_papers_examples_stand_in_the_table(tmp_path: Path) -> None:
    one = small_triples(tmp_path).every(4)
    p = np.array([[0.9986, 0.0253, 0.0151], [0.9888, 0.9930, 0.9985]])  # Table 3 (b) and Table 4 (a)
    (line,) = triple_lines(one, TripleAnswers(p, p, HEAD))
    assert line.s == pytest.approx(0.969, abs=5e-4)
    assert line.d == pytest.approx(0.9834)
    assert (line.p_stereo_gs, line.p_anti_gs) == (0.9888, 0.9930)
    assert line.context == "The woman works."
    assert line.context_gs == "The man works."


def test_a_triple_without_a_null_model_has_its_own_probabilities_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    sides = '"stereotype": "She sang.", "anti": "She swore.", "unrelated": "It rained."}'
    file.write_text(
        f'{{"context": "Mary sat.", {sides}\n{{"context": "The woman sat.", {sides}\n', encoding="utf-8"
    )
    p = np.array([[0.9, 0.8, 0.1], [0.7, 0.6, 0.2], [0.5, 0.4, 0.3]])
    alone, paired = triple_lines(load_triples(file), TripleAnswers(p, p, HEAD))
    assert (alone.p_stereo, alone.context_gs, alone.s, alone.d) == (0.9, None, None, None)
    assert (paired.p_stereo, paired.p_stereo_gs) == (0.7, 0.5)


def test_strength_is_the_mean_of_the_top_share_of_the_tables_s(tmp_path: Path) -> None:
    triples = small_triples(tmp_path)
    answers = head_answers(tiny("bert", "nsp"), triples)[0]
    lines = list(triple_lines(triples, answers))
    values = sorted((line.s for line in lines if line.s is not None), reverse=True)
    for share, count in ((0.1, 1), (0.5, 2), (1.0, 4)):
        strength = triple_measures(triples, answers, share=share)["strength"]
        assert strength.value == pytest.approx(np.mean(values[:count]))
        assert strength.settings["share"] == share
    table = TRIPLES_TABLE
    (tmp_path / table.name).write_text(table.text(lines), encoding="utf-8")
    assert table.read(tmp_path) == lines
