"""Every kind of result: a frame, a chart, a table in a notebook, a folder; a temporary one goes with it."""

from __future__ import annotations

import gc
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.api.shown import html_table, line_of
from levelhead.edits.sites import Head
from levelhead.errors import CannotDo
from levelhead.measures.measurement import Measurement, Null
from levelhead.runs.common import MeasuredVariant
from levelhead.runs.folder import LOCK
from levelhead.runs.study import AnyRun, Scratch, Study
from levelhead.studies.audit import Audit
from levelhead.studies.compare_heads import CompareHeads
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import HeadScore
from tests.report.synthetic import write_audit, write_heads, write_prompts, write_sweep
from tests.report.synthetic.glue import write_glue_run
from tests.studies.head_runs import scored_run

WRITERS: dict[str, Callable[[Path], Path]] = {
    "audit": write_audit,
    "heads": write_heads,
    "counteracts": write_prompts,
    "projections": write_sweep,
    "glue": write_glue_run,
}


@pytest.fixture(params=WRITERS)
def result(request: pytest.FixtureRequest, tmp_path: Path) -> AnyRun:
    opened = lh.open_run(WRITERS[request.param](tmp_path / "run"))
    assert isinstance(opened, Study)
    return opened


def test_every_result_is_a_frame_with_a_line_a_record(result: AnyRun) -> None:
    frame = result.to_frame()
    assert len(frame) == len(result.lines()) > 3
    assert list(frame.columns) == list(result.lines()[0])
    assert all(list(line) == list(frame.columns) for line in result.lines())


def test_every_result_draws_a_chart_that_altair_can_write(result: AnyRun) -> None:
    spec = result.plot().to_dict()  # altair checks it against its schema
    assert "$" not in str({key: part for key, part in spec.items() if key in ("mark", "layer", "encoding")})
    assert spec["title"]["text"]


def test_every_result_shows_itself_in_a_notebook(result: AnyRun) -> None:
    assert repr(result) == f"<{type(result).__name__} of {result.model}: {type(result).command}>"
    page = result._repr_html_()
    table = page[page.index("<table") : page.index("</table>") + len("</table>")]
    assert len(ElementTree.fromstring(table.replace("'", '"'))) > 3


def test_a_saved_result_opens_again_and_is_the_same(result: AnyRun, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "kept")
    assert not (folder / LOCK).exists()
    again = lh.open_run(folder)
    assert type(again) is type(result)
    assert again.lines() == result.lines()
    assert again.settings == result.settings


def test_the_audit_hands_out_its_measures_and_the_runs_inside_it(tmp_path: Path) -> None:
    audit = Audit.open(write_audit(tmp_path / "run"))
    assert audit["seat"] == audit.measurements["base"]["seat"]
    assert isinstance(audit.heads, Heads)
    assert audit.heads.to_frame()["head"][0] == str(audit.heads.ranked[0].head)
    assert audit.headline is not None
    assert audit.headline.text in audit._repr_html_()


def test_heads_of_two_models_compare_as_results(tmp_path: Path) -> None:
    scores = [[0.3, -0.2], [0.1, -0.4]]
    runs = [Heads.open(scored_run(tmp_path, name, scores, 0.5)) for name in ("first", "second")]
    compared = lh.compare_heads(runs, lh.settings.CompareHeadsSettings(top=1))
    assert len(compared.to_frame()) == 8
    assert compared.flips == ()
    assert compared.plot().to_dict()
    assert compared.save(tmp_path / "kept") == tmp_path / "kept"
    assert CompareHeads.open(tmp_path / "kept").pairs == compared.pairs


# ---- temporary folders


def test_a_temporary_folder_goes_with_the_last_result_that_reads_it(tmp_path: Path) -> None:
    scratch = Scratch()
    write_audit(scratch.path / "run")
    audit = Audit(Audit.open(scratch.path / "run").data, scratch)
    place, inner = scratch.path, audit.counteracts
    del scratch, audit
    gc.collect()
    assert inner is not None
    assert inner.occupations("lh:tiny")  # read from the folder, which is still there
    del inner
    gc.collect()
    assert not place.exists()


# ---- tables


def test_a_line_has_the_interval_in_two_columns_and_heads_as_people_write_them() -> None:
    null = Null("null_models", 19, 0.1, 0.2, 0.05)
    measured = Measurement("seat", 0.5, (0.2, 0.8), n=7, neutral=0.0, details={"p_value": 0.4}, null=null)
    line = line_of(MeasuredVariant("base", "tiny", measured))
    assert line == {
        "variant": "base",
        "model": "tiny",
        "measure": "seat",
        "value": 0.5,
        "low": 0.2,
        "high": 0.8,
        "n": 7,
        "neutral": 0.0,
        "p": 0.05,
        "reason": "",
    }
    assert line_of(HeadScore(Head(7, 5), 0.1, None, None, None, 1, 0.5))["head"] == "8-6"


def test_what_comes_from_models_and_data_is_text_and_long_tables_are_cut() -> None:
    page = html_table("<b>model</b>", [{"word": "<script>", "value": 0.12345}] * 25)
    assert "<script>" not in page
    assert "&lt;b&gt;model" in page
    assert page.count("<tr>") == 21
    assert "0.123" in page
    assert "5 more in .to_frame()" in page


def test_a_frame_without_pandas_is_one_line_that_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Heads.open(write_heads(tmp_path / "run"))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CannotDo, match=r"pip install 'levelhead\[frame\]'"):
        run.to_frame()


def test_results_are_runs_with_all_their_attributes() -> None:
    assert issubclass(Heads, Study)
    assert {"scores", "ranked", "clear_heads", "to_frame", "plot", "save", "folder"} <= set(dir(Heads))
