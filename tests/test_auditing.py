"""The whole story, end to end and at a small size: the README's demo in values, and a model that cannot do
everything."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

import levelhead as lh
from levelhead.edits.sites import Variant
from levelhead.errors import BadOption, BadRun
from levelhead.inference.claims import valued
from levelhead.inference.comparing import compare
from levelhead.inference.contents import measurements, open_contents
from levelhead.inference.verdicts import verdict_of
from levelhead.measures.catalog import DOUBTED
from levelhead.measures.statistics import Resampling
from levelhead.pages.card import card
from levelhead.pages.what_now import what_now
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.runs import presets
from levelhead.runs.common import BASE, SAME_ITEMS
from levelhead.runs.presets import AuditSizes
from levelhead.scoring.cloze import ask_cloze
from levelhead.scoring.fluency import ask_fluency
from levelhead.scoring.lpbs import ask_lpbs
from levelhead.scoring.pairs import ask_ability, ask_nli, ask_nsp
from levelhead.scoring.seat import ask_seat
from levelhead.studies.audit import Audit, extent
from levelhead.studies.audit.records import Headline
from levelhead.studies.audit.run import audit
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.glue import Glue
from tests.audit_sizes import FEWEST, FEWEST_AT_FIRST, ask_few_prompts, ask_little, fit_on_few_pairs
from tests.glue_files import write_glue
from tests.report.page_text import page_text
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.test_cli import call
from tests.tiny import tiny
from tests.traps import state
from tests.word_lists import gender_toml

ROOT = Path(__file__).resolve().parents[1]
SMALL = AuditSizes(
    resamples=500,
    null=2,
    prompt_nulls=0,
    contexts=1,
    counter_sentences=20,
    triples=10,
    occupations=(41, 3),
    abilities=60,
    sentences=30,
    backgrounds=1,
)


# ---- the README's demo: a next-sentence model and the classifier that was fine-tuned from it


class Case(NamedTuple):
    """An audit, and what it was asked of and with."""

    audit: Audit
    model: lh.Model
    nli: lh.Model
    settings: lh.settings.AuditSettings
    prompts: CounteractsSettings


def shipped_case(folder: Path, bert: lh.Model) -> Case:
    settings = lh.settings.AuditSettings(nli="lh:nli-mini", sizes=SMALL)
    result = audit("lh:bert-mini", settings, folder / "demo", device="cpu")
    nli = lh.load("lh:nli-mini", device="cpu")
    return Case(result, bert, nli, settings, CounteractsSettings(per_background=1))


def tiny_case(folder: Path) -> Case:
    """The same of tiny models with random weights, at the smallest size."""
    model, nli = (tiny("bert", head, layers=2, max_position_embeddings=256) for head in ("nsp", "nli"))
    nli.hf.save_pretrained(folder / "nli")
    nli.tokenizer.save_pretrained(folder / "nli")
    settings = lh.settings.AuditSettings(bias=gender_toml(folder), nli=str(folder / "nli"), sizes=FEWEST)
    with pytest.MonkeyPatch.context() as patch:
        ask_few_prompts(patch, folder)
        result = audit(model, settings, folder / "demo", device="cpu")
    return Case(
        result, model, nli, settings, CounteractsSettings(str(folder / "prompts.toml"), per_background=1)
    )


@pytest.fixture(scope="module", params=["tiny", pytest.param("shipped", marks=pytest.mark.nightly)])
def demo(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, bert: lh.Model
) -> Iterator[Case]:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            fit_on_few_pairs(patch)
        yield tiny_case(folder) if request.param == "tiny" else shipped_case(folder, bert)


of_the_shipped = pytest.mark.parametrize(
    "demo", [pytest.param("shipped", marks=pytest.mark.nightly)], indirect=True
)


def headline(audited: Audit) -> Headline:
    assert audited.headline is not None
    return audited.headline


def value(measurement: lh.Measurement) -> float:
    assert measurement.value is not None, measurement.reason
    return measurement.value


@pytest.mark.slow
def test_every_measure_of_the_demo_equals_its_own_function_asked_directly(demo: Case) -> None:
    audited, model, nli, settings, prompts = demo
    sizes, words = settings.sizes, load_words(settings.bias)
    assert sizes is not None
    draws = Resampling(sizes.resamples)
    triples = ask_nsp(model, load_triples().every(sizes.triples), resampling=draws)[0]
    fair = ask_nli(nli, nli_probe(limit=sizes.occupations), resampling=draws)[0]
    cells = ask_cloze(model, prompts.load(), [()], (5,))[0].scores().measurements
    margins = [m for m in cells if m.name == "margin" and _place(m) == (5, BASE, "", "")]
    odds = [m for m in cells if m.name == "log_odds" and _place(m) == (0, BASE, "", "")]
    direct = {
        "seat": ask_seat(model, words, template_contexts(words, 1), resampling=draws)[0],
        "lpbs career": ask_lpbs(model, load_words("career"), resampling=draws)[0],
        "lpbs science": ask_lpbs(model, load_words("science"), resampling=draws)[0],
        "fluency": ask_fluency(model, fluency_sentences()[:: sizes.sentences], resampling=draws)[0],
        "log_odds": odds[0],
        "margin": margins[0],
        "ability": ask_ability(nli, ability_pairs(limit=sizes.abilities))[0],
        **{name: triples[name] for name in ("ss", "ss_swapped", "lms", "icat", "strength", "distance")},
        **{name: fair[name] for name in ("accuracy", "parity", "strict_parity", "fairness")},
    }
    silent = [name for name, measurement in direct.items() if measurement.value is None]
    assert silent in ([], ["margin"])  # random weights put no word of a group among the likeliest
    for name, measurement in direct.items():
        assert audited[name].value == pytest.approx(measurement.value, abs=1e-5), name
        assert audited[name].n == measurement.n, name
        assert audited[name].interval == pytest.approx(measurement.interval, abs=1e-4), name


def _place(measurement: lh.Measurement) -> tuple[int, str, str, str]:
    where = measurement.settings
    return where["k"], where["kind"], where.get("group", ""), where.get("occupation", "")


FROZEN = {
    BASE: {
        "seat": 0.554140,
        "lpbs career": 1.412349,
        "lpbs math": 1.394216,
        "lpbs science": 1.319563,
        "ss": 0.647059,
        "icat": 0.664360,
        "strength": 0.043553,
        "distance": 0.123229,
        "fluency": 15.816828,
        "accuracy": 0.170732,
        "fairness": 0.004164,
        "ability": 0.766667,
        "log_odds": 0.115613,
        "margin": 0.008808,
    },
}


@pytest.mark.slow
@of_the_shipped
def test_the_demo_gives_these_numbers(demo: Case) -> None:
    measured = demo.audit.measurements
    assert list(measured) == list(FROZEN)
    for variant, numbers in FROZEN.items():
        for name, number in numbers.items():
            assert value(measured[variant][name]) == pytest.approx(number, abs=1e-4), (variant, name)
    arcs = Audit.open(demo.audit.folder).arcs
    assert arcs is not None
    assert len(arcs.pairs) == 3


@pytest.mark.slow
def test_the_demo_against_itself_is_no_difference_paired_by_item(demo: Case) -> None:
    compared = compare([demo.audit.folder, demo.audit.folder]).measures
    for name in (
        "seat",
        "lpbs career",
        "ss",
        "preference",
        "strength",
        "lms",
        "log_odds",
        "margin",
        "fairness",
    ):
        difference = compared[name].differences[0]
        assert difference is not None, name
        assert (difference.value, difference.interval, difference.paired) == (0.0, (0.0, 0.0), True), name


@pytest.mark.slow
def test_the_object_holds_the_numbers_of_the_run_folder_and_shows_itself(demo: Case) -> None:
    audited, run = demo.audit, Audit.open(demo.audit.folder)
    assert run.settings.sizes == demo.settings.sizes
    assert run.heads is not None
    assert run.heads.seat is not None
    assert audited["seat"] == run.heads.seat.measurement
    assert Audit.open(audited.folder).measurements == audited.measurements == run.measurements
    assert valued(audited["seat"]) in audited._repr_html_()
    assert headline(audited).text in page_text(audited.report)


# ---- a tiny causal model, as a plain folder: no next-sentence head, no masked-language head


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny-llama"
    model = tiny("llama")
    model.hf.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def audited(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    run = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        ask_little(patch, folder.parent)
        return audit(str(folder), small(write_glue(folder.parent / "glue")), run, device="cpu")


def small(data: Path) -> lh.settings.AuditSettings:
    """A small audit that fine-tunes too."""
    training = lh.settings.Hyperparameters(epochs=1, batch_size=8)
    glue = lh.settings.GlueSettings(str(data), ("rte",), 1, training=training)
    return lh.settings.AuditSettings(bias=gender_toml(data.parent), sizes=FEWEST, glue=glue)


@pytest.mark.slow
def test_an_audit_of_a_causal_model_completes_and_says_what_it_could_not_measure(audited: Audit) -> None:
    assert value(audited["strength"])  # by likelihood, since there is no next-sentence head
    assert "does not read plain English" in headline(audited).text  # its weights are random: no verdict
    contents = open_contents(audited.folder)
    assert what_now(contents) is None
    assert {verdict_of(contents, each) for each in measurements(contents) if each.name == "seat"} == {DOUBTED}
    assert "Texts open with: &lt;\\|endoftext\\|&gt;." in card(contents)
    for measure in ("lpbs career", "fairness", "ability"):
        assert audited[measure].value is None
        assert audited[measure].reason
    assert any(finding.startswith("Not measured:") for finding in headline(audited).findings)
    assert list(audited.measurements) == [BASE]  # no bias is claimed, so no mitigation is tried
    assert audited.mitigate is None


@pytest.mark.slow
def test_check_holds_fails_and_does_not_pretend(
    audited: Audit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(audited.folder)
    assert call(monkeypatch, "check", run, "--max", "fluency=1e9") == 0
    assert call(monkeypatch, "check", run, "--max", "fluency=1.5") == 1
    assert call(monkeypatch, "check", run, "--min", "fairness=0.1") == 3
    assert "not measured" in capsys.readouterr().out
    assert call(monkeypatch, "check", run, "--max", "seat=2.1") == 3  # random weights read no English
    assert "no verdict" in capsys.readouterr().out


def audit_and_be_killed(folder: Path, broken: Path) -> int:
    """Begin an audit three times, kill it each time, and let it end; how often it was still alive.

    Every time it runs in a process of its own, a copy of this one, which has read all modules already.
    """
    rng, results, settings = random.Random(7), broken / "results.jsonl", small(folder.parent / "glue")
    kills = 0
    for may_end in (False, False, False, True):
        before = results.stat().st_size if results.exists() else -1
        pid = os.fork()
        if pid == 0:
            audit(str(folder), settings, broken, device="cpu")
            os._exit(0)
        ended = may_end
        while not ended and (not results.exists() or results.stat().st_size == before):
            time.sleep(0.02)  # until it has added something, so that every kill finds it at another place
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        if not ended:
            time.sleep(rng.uniform(0, 0.3))
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert status in (0, signal.SIGKILL)
        kills += status == signal.SIGKILL
    return kills


KILLED = """
import pathlib, sys
import pytest
from tests.audit_sizes import ask_little
from tests.test_auditing import audit_and_be_killed
folder, broken = map(pathlib.Path, sys.argv[1:])
patch = pytest.MonkeyPatch()
ask_little(patch, folder.parent)
patch.setattr("levelhead.pages.page.vega_bundle", str)  # pages are not compared
print(audit_and_be_killed(folder, broken))
"""


@pytest.mark.nightly
def test_an_audit_killed_at_random_moments_resumes_to_the_same_bytes(
    audited: Audit, folder: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    command = [sys.executable, "-c", KILLED, str(folder), str(broken)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 2
    for part in (".", "heads", "counteracts", "glue"):
        name = f"{part}/results.jsonl"
        assert (broken / name).read_bytes() == (audited.folder / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("part", ["heads", "counteracts", "glue"])
def test_a_run_inside_an_audit_that_is_a_link_is_neither_read_nor_gone_on_with(
    part: str, audited: Audit, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "of the user's"
    shutil.copytree(audited.folder, run)
    (run / part).rename(elsewhere)
    (run / part).symlink_to(elsewhere)
    with (elsewhere / "results.jsonl").open("ab") as file:
        file.write(b"a line that a kill left half")  # which going on would cut off
    before = state(elsewhere)
    ask_little(monkeypatch, folder.parent)
    linked = rf"{part} is a symbolic link, not a folder"
    with pytest.raises(BadRun, match=linked):
        audit(str(folder), small(folder.parent / "glue"), run, device="cpu")
    with pytest.raises(BadRun, match=linked):
        getattr(Audit.open(run), part)
    assert state(elsewhere) == before


@pytest.mark.slow
def test_an_audit_with_other_settings_does_not_mix_into_a_run(audited: Audit, folder: Path) -> None:
    settings = replace(small(folder.parent / "glue"), seed=1)
    with pytest.raises(BadRun, match="seed"):
        audit(str(folder), settings, audited.folder, device="cpu")
    assert Audit.open(audited.folder).settings.seed == 0


@pytest.mark.slow
def test_an_audit_with_glue_says_what_the_model_can_still_learn(audited: Audit) -> None:
    learned = Glue.open(audited.folder / "glue")
    assert [recipe.name for recipe in learned.recipes] == [
        name for name in audited.measurements if name != SAME_ITEMS
    ]
    for recipe in learned.recipes:
        own = {name: m for name, m in audited.measurements[recipe.name].items() if name.startswith("glue")}
        assert own == {each.name: each.measurement for each in learned.measured(recipe.name)}
        assert own.keys() == {"glue/rte"} | ({"glue/rte change"} if recipe.name != BASE else set())
    assert "Fine-tuning on GLUE" in audited.report.read_text(encoding="utf-8")


def test_settings_that_ask_nothing_are_refused_in_one_line() -> None:
    with pytest.raises(BadOption, match=r"top must be at least 1 \(got 0\)"):
        lh.settings.AuditSettings(top=0)
    with pytest.raises(BadOption, match="no GLUE task 'ax'"):
        lh.settings.AuditSettings(glue=lh.settings.GlueSettings(".", ("ax",)))
    with pytest.raises(BadOption, match=r"at least 1, .* \(got triples=0, sentences=3\)"):
        lh.settings.AuditSettings(sizes=AuditSizes(triples=0))


def test_presets_ask_less_of_large_models_and_everything_in_a_full_audit() -> None:
    small = extent.Extent(lh.settings.AuditSettings(), tiny("bert", "nsp"))
    assert (small.large, small.sizes) == (False, presets.SMALL)
    assert extent.Extent(lh.settings.AuditSettings(full=True), small.model).sizes == presets.FULL
    large = presets.LARGE
    assert large.triples > presets.SMALL.triples > presets.FULL.triples - 1
    assert large.counter_sentences < presets.SMALL.counter_sentences == presets.FULL.counter_sentences
    assert presets.FULL.occupations is None


# ---- a measure of the test's own

OWN = """
import levelhead as lh

def width(model, variants):
    widths = [float(model.config.hidden_size - len(variant)) for variant in variants]
    return [lh.Measurement("width", value, (value - 1, value + 1), n=1) for value in widths]

def broken(model, variants):
    raise RuntimeError("the ruler is lost")

lh.register_measure(lh.MeasureInfo("width", "Width of the model", neutral=0.0), width)
lh.register_measure(lh.MeasureInfo("broken ruler", "A ruler that is lost"), broken)
"""


@pytest.mark.nightly
def test_a_measure_in_a_file_joins_results_table_object_and_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    monkeypatch.setattr(presets, "SMALL", FEWEST)
    monkeypatch.setattr(presets, "QUICK", FEWEST_AT_FIRST)
    ask_little(monkeypatch, tmp_path)
    words = gender_toml(tmp_path)
    command = ["audit", str(folder), "-o", str(tmp_path / "run"), "--device", "cpu", "--bias", words]
    own = ("--measure", str(tmp_path / "own.py"), "--benchmark", f"crows-pairs={write(tmp_path, PAIRS)}")
    assert call(monkeypatch, *command, *own) == 0
    printed = capsys.readouterr().out
    assert "- Width of the model: 32 [31," in " ".join(printed.split())
    assert "(RuntimeError: the ruler is lost (own.py, line 9))" in printed

    result, run = Audit.open(tmp_path / "run"), Audit.open(tmp_path / "run")
    assert value(result["width"]) == 32.0
    assert result["broken ruler"].value is None
    *_, share, gap = run.measures
    assert [info.title for info in run.measures][:2] == ["Width of the model", "A ruler that is lost"]
    assert (share.name, gap.name) == ("crows-pairs share", "crows-pairs gap")
    measured = result.measurements[BASE]
    assert [each for each in measured if each.startswith("crows-pairs")] == [share.name, gap.name]
    assert result[share.name].n == len(PAIRS)
    assert result[share.name].held_against_models
    assert run.settings.benchmarks == {"crows-pairs": str(tmp_path / "crows_pairs_anonymized.csv")}
    assert run.settings.questions == ("width", "broken ruler")
    lines = (run.folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert "measured/width" in [json.loads(line)["key"] for line in lines]
    assert "<th scope='row' style='text-align:left'>width</th>" in result._repr_html_()

    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Width of the model" in page
    assert "CrowS-Pairs: share" in page
    assert "the ruler is lost" in page
    assert call(monkeypatch, "check", str(run.folder), "--max", "width=33") == 3  # of a model in doubt
    assert call(monkeypatch, "check", str(run.folder), "--max", "broken ruler=1") == 3
    capsys.readouterr()
    assert call(monkeypatch, "card", str(run.folder)) == 0
    assert "Width of the model" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_with_other_measures_is_another_run(audited: Audit, folder: Path) -> None:
    def width(model: lh.Model, variants: Sequence[Variant]) -> list[lh.Measurement]:
        return [lh.Measurement("width", 1.0)] * len(variants)

    lh.register_measure(lh.MeasureInfo("width", "Width"), width)
    with pytest.raises(BadRun, match="measures"):
        audit(str(folder), small(folder.parent / "glue"), audited.folder, device="cpu")


def test_a_file_of_measures_that_does_not_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text("import levelhead as lh\nlh.register_measure()\n", encoding="utf-8")
    command = ["audit", "lh:bert-mini", "-o", str(tmp_path / "run")]
    assert call(monkeypatch, *command, "--measure", str(tmp_path / "own.py")) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"levelhead: {tmp_path / 'own.py'}: it does not run: TypeError")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
