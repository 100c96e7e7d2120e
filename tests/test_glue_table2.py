"""The benchmark of Table 2 can be cut at any moment: what it counts is balanced, and it goes on."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from pathlib import Path

from benchmarks import glue_table2
from benchmarks.glue_table2 import RECIPES, balanced, in_order, run_jobs

from levelhead.studies.glue.records import Answers, GlueUnit

OPTIONS = {"train_rows": 8, "epochs": 1, "learning_rate": None, "seeds": 2, "tasks": "rte,cola,wnli"}


def options(work: Path, minutes: float = 0.0) -> Namespace:
    return Namespace(work=str(work), minutes=minutes, processes=1, **OPTIONS)


def test_after_any_cut_every_recipe_has_the_same_seeds_of_every_task(tmp_path: Path) -> None:
    jobs = in_order(options(tmp_path))
    units = [GlueUnit(job.task, job.recipe, job.seed, {}, Answers("01", ()), ()) for job in jobs]
    assert len(jobs) == 3 * 2 * len(RECIPES)
    for cut in range(len(units) + 1):
        kept = balanced(units[:cut])
        blocks = Counter((unit.task, unit.seed) for unit in kept)
        assert set(blocks.values()) <= {len(RECIPES)}
        assert len(units[:cut]) - len(kept) < len(RECIPES)
        seeds = Counter(task for task, _ in blocks)
        assert not seeds or max(seeds.values()) - min(seeds[task] for task in ("cola", "rte", "wnli")) <= 1
    assert balanced(units) == units


def test_a_stored_training_is_read_and_not_trained_again(tmp_path: Path) -> None:
    first, second, *_ = in_order(options(tmp_path))
    unit = GlueUnit(first.task, first.recipe, first.seed, {"accuracy": 0.5}, Answers("01", ()), ())
    first.file.parent.mkdir(parents=True)
    first.file.write_text(json.dumps(unit.to_json()), encoding="utf-8")
    assert first.unit() == unit
    assert second.unit() is None
    run_jobs([first], options(tmp_path, minutes=9.0))  # nothing is left: no process is started
    other = Namespace(**{**vars(options(tmp_path)), "epochs": 2})
    assert in_order(other)[0].unit() is None  # trained otherwise


def test_the_untouched_model_and_the_papers_two_columns_come_first() -> None:
    assert RECIPES[:3] == ("base", f"top-{glue_table2.K}", "all")
