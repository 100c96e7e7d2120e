"""Prompts in null models, in rounds: a kind that stays open is asked further, a closed one is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pytest

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.measures.null import NullDistribution, looks, share
from levelhead.models.null_model import draw_null_model, null_model_copy, null_model_seed
from levelhead.probes.cloze import BASE, ClozeSet, load_cloze
from levelhead.scoring import cloze
from levelhead.scoring.cloze import Change, ClozeAnswers, ask_cloze, change_nulls
from tests.tiny import tiny
from tests.word_lists import OCCUPATIONS

PLANNED = 9
MODEL = tiny("bert", "mlm", layers=2, max_position_embeddings=256)
FAR, NEAR, BETWEEN = 1e6, 0.0, 4.0  # from null models at 0, ½, −½ ...: sure at once, futile at once, neither


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> ClozeSet:
    path = tmp_path_factory.mktemp("prompts") / "prompts.toml"
    path.write_text(OCCUPATIONS, encoding="utf-8")
    return load_cloze(path, per_background=1)


class Told:
    """Null models that are moved by 0, ½, −½, 1, −1 ... in every kind, and what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def ask(self, model: object, cloze_set: ClozeSet, **_: object) -> list[Answer]:
        self.asked.append(tuple(dict.fromkeys(prompt.kind for prompt in cloze_set.prompts)))
        number = len(self.asked)
        moved = (number // 2) * (-1) ** number * 0.5
        return [Answer({("log_odds change", kind): moved for kind in self.asked[-1] if kind != BASE})]


class Answer:
    """The changes of one null model."""

    def __init__(self, changes: Mapping[Change, float]) -> None:
        self._changes = changes

    def changes(self) -> Mapping[Change, float]:
        return self._changes


def own(kinds: Sequence[str], values: Mapping[str, float]) -> dict[Change, float]:
    """The changes of a variant: near to those of null models in all kinds but the given."""
    return {("log_odds change", kind): values.get(kind, NEAR) for kind in kinds}


def draws(nulls: Mapping[Change, NullDistribution]) -> dict[str, int]:
    return {kind: len(null) for (_, kind), null in nulls.items()}


def knowledge(prompts: ClozeSet) -> tuple[str, ...]:
    return tuple(kind for kind in prompts.kinds if kind != BASE)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    null_models = Told()
    monkeypatch.setattr(cloze, "ask_cloze", null_models.ask)
    return null_models


def test_a_kind_that_stays_open_is_asked_further_and_a_closed_one_is_not(
    prompts: ClozeSet, told: Told
) -> None:
    kinds = knowledge(prompts)
    still = kinds[2]
    (nulls,) = change_nulls(MODEL, prompts, [own(kinds, {still: BETWEEN, kinds[1]: FAR})], PLANNED)
    assert looks(PLANNED) == (5, 9)
    assert [set(asked) for asked in told.asked] == [{BASE, *kinds}] * 5 + [{BASE, still}] * 4
    assert draws(nulls) == {kind: 9 if kind == still else 5 for kind in kinds}
    assert [kind for _, kind in nulls] == list(kinds)  # in the order of the set
    by_kind = {kind: null for (_, kind), null in nulls.items()}
    assert by_kind[still].values.tolist() == [0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0]
    assert by_kind[still].share == share(9, PLANNED) == 0.95
    assert (by_kind[kinds[1]].futile, by_kind[kinds[1]].share) == (False, 0.05)
    assert by_kind[kinds[0]].futile
    assert all(null.long_tails and null.planned == PLANNED for null in nulls.values())


def test_nothing_more_is_asked_once_every_kind_is_closed(prompts: ClozeSet, told: Told) -> None:
    (nulls,) = change_nulls(MODEL, prompts, [own(knowledge(prompts), {})], PLANNED)
    assert len(told.asked) == 5
    assert set(draws(nulls).values()) == {5}


def test_a_variants_null_models_do_not_hang_on_which_others_are_asked_beside_it(
    prompts: ClozeSet, told: Told
) -> None:
    kinds = knowledge(prompts)
    quiet, loud = own(kinds, {}), own(kinds, {kinds[0]: BETWEEN})
    (alone,) = change_nulls(MODEL, prompts, [quiet], PLANNED)
    told.asked.clear()
    beside, other = change_nulls(MODEL, prompts, [quiet, loud], PLANNED)
    assert [len(asked) for asked in told.asked] == [1 + len(kinds)] * 5 + [2] * 4
    assert draws(beside) == draws(alone) == dict.fromkeys(kinds, 5)
    assert draws(other) == {**dict.fromkeys(kinds, 5), kinds[0]: 9}


def answered(model: object, prompts: ClozeSet, kinds: Collection[str]) -> ClozeAnswers:
    return ask_cloze(model, prompts.of_kinds({BASE, *kinds}), ks=(1,))[0]  # type: ignore[arg-type]


def test_the_null_is_that_of_null_models_whose_rows_are_really_exchanged(prompts: ClozeSet) -> None:
    variants = ask_cloze(MODEL, prompts, [(), removed(MODEL, [Head(0, 0)])], ks=(1,))
    nulls = change_nulls(MODEL, prompts, [each.changes() for each in variants], 3, seed=4)
    null_models = [
        null_model_copy(MODEL, draw_null_model(MODEL, null_model_seed(4, number))) for number in range(3)
    ]
    expected = [answered(null_model, prompts, knowledge(prompts)).changes() for null_model in null_models]
    assert list(nulls[0]) == list(variants[0].changes()) == list(nulls[1])
    for change, null in nulls[0].items():
        np.testing.assert_allclose(null.values, [each[change] for each in expected], atol=2e-5)


def test_the_changes_of_a_kind_are_the_same_where_other_kinds_are_not_asked(prompts: ClozeSet) -> None:
    kinds = knowledge(prompts)
    whole, part = answered(MODEL, prompts, kinds).changes(), answered(MODEL, prompts, kinds[1:2]).changes()
    assert {kind for _, kind in part} == {kinds[1]}
    for change, value in part.items():
        assert whole[change] == pytest.approx(value, abs=2e-5)


def test_without_null_models_nothing_is_told(prompts: ClozeSet, told: Told) -> None:
    assert change_nulls(MODEL, prompts, [own(knowledge(prompts), {})], 0) == [{}]
    assert told.asked == []
