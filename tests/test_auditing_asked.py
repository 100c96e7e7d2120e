"""What an audit asks of unmodified models is named in advance, so that its parts are not asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import levelhead.engine.run as engine
from levelhead.edits.sites import Variant
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import Collector
from levelhead.engine.kept import items_of
from levelhead.models.model import Model
from levelhead.scoring.natural import PREFERENCE
from levelhead.studies.audit import extent
from levelhead.studies.audit.extent import Extent
from levelhead.studies.audit.run import audit, shared_readings
from levelhead.studies.audit.settings import AuditSettings
from tests.audit_sizes import FEWEST, FEWEST_AT_FIRST, ask_few_tests, ask_little
from tests.studies.test_mitigating import ask_few_frames
from tests.tiny import tiny
from tests.word_lists import gender_toml

ENOUGH = replace(FEWEST, triples=10, sentences=20, null=3)
LOOK = replace(FEWEST_AT_FIRST, sentences=60)


@pytest.mark.nightly
def test_what_a_first_look_asks_is_named_before_the_rest_of_what_the_whole_asks() -> None:
    whole = Extent(AuditSettings(), tiny("bert", "nsp"))
    assert whole.first_look is not None
    look = Extent(whole.first_look, whole.model)
    first = shared_readings(look, look.battery(), [look.model])
    every = shared_readings(whole, whole.battery(), [whole.model])
    assert every[: len(first)] == first
    asked = [
        {item for reading in some for item in items_of(reading)} for some in (first, every[len(first) :])
    ]
    assert asked[0] < asked[1]


@pytest.mark.nightly
def test_an_audit_asks_an_unmodified_model_about_no_text_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_little(monkeypatch, tmp_path)
    ask_few_tests(monkeypatch, "career")
    ask_few_frames(monkeypatch)
    monkeypatch.setattr("levelhead.studies.audit.arena.SENSE_EVERY", 20)
    monkeypatch.setattr("levelhead.studies.audit.run.claimed_bias", lambda _: PREFERENCE)
    monkeypatch.setattr(extent, "audit_preset", lambda full, quick, *_, **__: LOOK if quick else ENOUGH)
    asked: Counter[tuple[str, bytes]] = Counter()
    monkeypatch.setattr(engine, "answer_prepared", partial(_noted, asked, engine.answer_prepared))
    model = tiny("bert", "nsp", layers=2, max_position_embeddings=256)
    looks: list[object] = []
    settings = AuditSettings(bias=gender_toml(tmp_path))
    audit(model, settings, tmp_path / "run", first_look=lambda look, _: looks.append(look))
    assert len(looks) == 1
    kinds = {kind for kind, _ in asked}
    assert kinds >= {"ClassifiedCollector", "LikelihoodCollector", "TokenCollector", "WordCollector"}
    again = Counter({kind: 0 for kind in kinds})
    for (kind, _), times in asked.items():
        again[kind] += times - 1
    # A symmetrized model reads other tokens of the sentences about agreement, on parts B and C.
    of_agreement = again.pop("TokenCollector")
    assert not any(again.values()), again
    assert of_agreement < sum(times for (kind, _), times in asked.items() if kind == "TokenCollector") * 2 / 3


def _noted(
    asked: Counter[tuple[str, bytes]],
    answer: Callable[..., None],
    model: Model,
    pool: RowPool,
    collectors: Sequence[Collector[Any]],
    variants: Sequence[Variant],
    **options: Any,
) -> None:
    """Count the rows of questions that are asked text by text, of the model itself."""
    kinds = {type(collector).__name__ for collector in collectors}
    if () in variants and not model.standing and len(kinds) == 1:
        asked.update((kind, row.ids.tobytes()) for row in pool.rows for kind in kinds)
    answer(model, pool, collectors, variants, **options)
