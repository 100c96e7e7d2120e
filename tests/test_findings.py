"""What `make fuzz` once found, as cases: what ended in a traceback is now one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from levelhead.errors import BadOption, BadProbe, BadRun, CannotDo, LevelheadError, UnknownModel
from levelhead.inference.check import read_plan
from levelhead.inference.contents import open_contents
from levelhead.mitigation.export import export
from levelhead.mitigation.recipe import load_recipe
from levelhead.models.adapter import PLACES
from levelhead.models.model import load
from levelhead.pages.card import card
from levelhead.pages.page import write_report
from levelhead.probes.glue import TASKS, load_task
from levelhead.probes.words import load_words
from levelhead.studies.glue import Glue
from tests.mitigation.test_export import tokens
from tests.report.synthetic import write_audit, write_glue_run, write_sweep
from tests.sealing import reseal
from tests.tiny import tiny

DEEP = "[" * 100_000
LISTS = 'A = ["she"]\nB = ["he"]\nX = ["nurse"]\nY = ["engineer"]\n'
GATE = "[[gate]]\nlayer = 1\nhead = 1\nvalue = "


@pytest.mark.parametrize(
    ("read", "text", "error", "says"),
    [
        (load_recipe, f"gate = {DEEP}", BadOption, "nested too deep"),
        (load_recipe, GATE + "9" * 5_000, BadOption, "a number is too long"),
        (load_recipe, GATE + "9" * 400, BadOption, "must be a number"),
        (read_plan, f"max = {DEEP}", BadOption, "nested too deep"),
        (read_plan, "[max]\nseat = " + "9" * 5_000, BadOption, "a number is too long"),
        (read_plan, "[max]\nseat = " + "9" * 400, BadOption, "no finite number"),
        (load_words, f"A = {DEEP}", BadProbe, "nested too deep"),
        (load_words, f"{LISTS}[parts]\nsome = [[1]]\n", BadProbe, r"\[1\] in the part 'some'"),
    ],
)
def test_a_file_that_once_ended_in_a_traceback_is_refused_in_one_line(
    read: Callable[[Path], object], text: str, error: type[LevelheadError], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(error, match=says) as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_a_glue_folder_that_leads_to_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE" / "train.tsv").symlink_to("/dev/zero")
    with pytest.raises(BadProbe, match="it is a device"):
        load_task(TASKS["rte"], "train", tmp_path)


# ---- runs


@pytest.mark.parametrize("text", [b"title = 1\ntitle = 2\n", b"title = '\xb2'\n", b"x = " + DEEP.encode()])
def test_a_damaged_recipe_of_a_sweep_is_named(text: bytes, tmp_path: Path) -> None:
    run = write_sweep(tmp_path / "run")
    recipe = min((run / "recipes").glob("*.toml"))
    recipe.write_bytes(text)
    with pytest.raises(BadRun, match=recipe.name):
        write_report(run, tmp_path / "report.html")


def test_an_audit_without_a_line_about_the_untouched_model_still_has_a_report(tmp_path: Path) -> None:
    run = write_audit(tmp_path / "run")
    path = run / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"measured/' not in line), encoding="utf-8")
    reseal(run)
    assert write_report(run, tmp_path / "report.html").is_file()


def test_a_card_of_a_glue_run_whose_tasks_lost_a_line_is_written(tmp_path: Path) -> None:
    run = write_glue_run(tmp_path / "run")
    path = run / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    tasks = next(line for line in lines if line["key"] == Glue.tasks.name)
    tasks["rows"].pop()
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    reseal(run)
    assert "can still learn" in card(open_contents(run))


# ---- models that load, then crash


def _edited_json(name: str, **changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def _id_beyond_the_network(folder: Path) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["vocab"]["kitchen"] = 10_000
    path.write_text(json.dumps(tokenizer))


def _template_without_its_tokens(folder: Path) -> None:
    """tokenizers panics in Rust where a template names a token that it does not have."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["post_processor"]["special_tokens"] = {}
    path.write_text(json.dumps(tokenizer))


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (_edited_json("tokenizer_config.json", model_max_length="many"), CannotDo, "could not be run"),
        (_edited_json("config.json", return_dict=False), CannotDo, "could not be run"),
        (_edited_json("config.json", layer_norm_eps=float("nan")), CannotDo, "NaN or infinite numbers"),
        (_id_beyond_the_network, UnknownModel, "its tokenizer has an id 10000"),
        (_template_without_its_tokens, CannotDo, "no entry found"),
    ],
)
def test_a_model_whose_parts_do_not_fit_is_refused_when_it_is_loaded(
    damage: Callable[[Path], None], error: type[LevelheadError], says: str, tmp_path: Path
) -> None:
    model = tiny("bert", layers=1)
    model.hf.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    assert load(str(tmp_path)).layers == 1
    damage(tmp_path)
    with pytest.raises(error, match=says) as raised:
        load(str(tmp_path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("part", ["heads", "value", "pooled"])
def test_an_adapter_whose_part_does_not_fit_is_refused_when_it_is_loaded(part: str, tmp_path: Path) -> None:
    model = tiny("bert", layers=2)
    export(model, (tokens(model, 0),), tmp_path / "out")
    path = tmp_path / "out" / PLACES
    about = json.loads(path.read_text())
    about["edits"][0]["part"] = part
    path.write_text(json.dumps(about))
    with pytest.raises(LevelheadError, match=r"^[^\n]+$"):
        load(str(tmp_path / "out"))
