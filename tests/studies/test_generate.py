"""The study of generated texts: the same bytes after a kill, what it refuses, what its page claims."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.cli.printed import print_brief
from levelhead.engine.sampling import continuations
from levelhead.errors import BadOption, BadPlugin, BadProbe, BadRun, CannotDo, LevelheadError
from levelhead.inference.check import Plan as Thresholds
from levelhead.inference.check import check, threshold
from levelhead.inference.comparing import compare
from levelhead.inference.contents import open_contents
from levelhead.inference.generation_claims import corrected, family, generation_claims
from levelhead.measures.statistics import Resampling
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model, load
from levelhead.pages.blocks import Shown, SideBySide
from levelhead.pages.card import card
from levelhead.pages.page import report_html
from levelhead.pages.presented import presented
from levelhead.pages.renderers import csv, latex
from levelhead.pages.tables import bounded
from levelhead.probes.generation import Prompt, load_prompts
from levelhead.progress import plain_lines
from levelhead.runs.common import BASE
from levelhead.studies.generate import TEXTS, Generate, sampled, sections
from levelhead.studies.generate.chapter import chapters
from levelhead.studies.generate.measuring import measured
from levelhead.studies.generate.records import WrittenText
from levelhead.studies.generate.run import generate
from levelhead.studies.generate.sections import marked_section, mirror_section
from levelhead.studies.generate.settings import GenerateSettings
from levelhead.studies.generate.texts import Texts
from tests.tiny import tiny

SMALL = GenerateSettings(limit=3, samples=3, tokens=8, names=2, resamples=100, scorers=("length", "warmth"))
SYMMETRIZED = "symmetrized"


@cache
def writer() -> Model:
    return tiny("gpt2", n_positions=512)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """Before and after a symmetrization, on a few prompts of every set; a tiny model writes no words."""
    settings = replace(SMALL, recipes={SYMMETRIZED: Recipe(symmetrize="gender")})
    return generate(load("lh:gpt-mini", device="cpu"), settings, tmp_path_factory.mktemp("runs") / "generate")


# ---- texts


def test_every_prompt_but_decisions_has_so_many_texts_and_all_are_in_the_file(run: Generate) -> None:
    continued = [each for each in run.prompts if each.set != "decisions"]
    texts = run.texts()
    neutral = [each for each in continued if not each.group]
    assert neutral
    assert len(texts) == 3 * len(continued) - len(neutral) == (run.plan.texts if run.plan else 0)
    assert {text.prompt for text in texts} == {each.id for each in continued}
    assert {text.sample for text in texts if text.group} == {0, 1, 2}
    assert {text.sample for text in texts if not text.group} == {0, 1}
    assert all(text.tokens <= 8 and set(text.scores) == {"length", "warmth"} for text in texts)
    lines = (run.folder / TEXTS.of(BASE).name).read_text(encoding="utf-8").split("\n")
    assert json.loads(lines[0])["given"] == run.prompts[0].text


@pytest.mark.nightly
def test_a_run_that_was_killed_in_its_middle_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SMALL, sets=("occupations", "gender"), rivals=False, limit=16, samples=2, tokens=4)
    calls = [0]

    def killed(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return continuations(*given, **named)

    monkeypatch.setattr(sampled, "_PART", 6)
    parts = generate(writer(), settings, tmp_path / "parts")
    monkeypatch.setattr(sampled, "continuations", killed)
    with pytest.raises(KeyboardInterrupt):
        generate(writer(), settings, tmp_path / "killed")
    results = tmp_path / "killed" / "results.jsonl"
    results.write_bytes(results.read_bytes() + b'{"key": "written/base | 0001", "ro')
    again = generate(writer(), settings, tmp_path / "killed")
    for name in ("results.jsonl", "settings.json", TEXTS.of(BASE).name):
        assert (again.folder / name).read_bytes() == (parts.folder / name).read_bytes()
    assert calls[0] > 4


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_texts_and_another_seed_others(tmp_path: Path) -> None:
    settings = replace(SMALL, sets=("situations",), rivals=False)
    one, same, other = (
        [text.text for text in generate(writer(), replace(settings, seed=seed), tmp_path / name).texts()]
        for name, seed in (("one", 0), ("same", 0), ("other", 1))
    )
    assert one == same != other


def test_other_prompts_belong_into_another_folder(run: Generate) -> None:
    with pytest.raises(BadRun, match="other settings"):
        generate(load("lh:gpt-mini", device="cpu"), replace(SMALL, samples=2), run.folder)


# ---- how much


def test_one_line_says_before_sampling_how_much_and_what_it_can_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plain_lines():
        found = generate(writer(), replace(SMALL, sets=("gender", "names"), rivals=False), tmp_path / "run")
    (line,) = (each for each in capsys.readouterr().err.splitlines() if "texts of at most 8 tokens" in each)
    assert "the smallest paired gap that they show with power 0.8, corrected for 5 claims" in line
    assert found.plan is not None
    assert f"{found.plan.texts:,} texts" in line


@pytest.mark.nightly
def test_a_difference_that_must_be_shown_chooses_the_samples(tmp_path: Path) -> None:
    settings = replace(SMALL, sets=("gender",), limit=None, rivals=False, tokens=4, samples=2, detect=0.9)
    found = generate(writer(), settings, tmp_path / "run")
    assert found.plan is not None
    assert found.plan.samples >= 2
    assert found.pilot
    assert len(found.texts()) == found.plan.samples * 60
    assert not found.plan.reaches or all(
        each.detectable is None or each.detectable <= 0.9 for each in found.plan.spreads
    )


# ---- what is refused, before anything is written


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty file"),
        ("The weather was fine.\n", "no slot and no word for a gender"),
        ("The {animal} said that\n", "{animal}"),
    ],
)
def test_prompts_that_name_no_group_are_refused_in_one_line(
    text: str, complaint: str, tmp_path: Path
) -> None:
    (file := tmp_path / "own.txt").write_text(text, encoding="utf-8")
    refused(BadProbe, complaint, tmp_path, prompts=str(file))


def refused(kind: type[LevelheadError], complaint: str, tmp_path: Path, **settings: Any) -> None:
    with pytest.raises(kind) as found:
        generate(writer(), replace(SMALL, **settings), tmp_path / "run")
    assert complaint in str(found.value)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "run").exists()


def raising(texts: Sequence[str]) -> list[float]:
    raise RuntimeError("no lexicon")


def nan(texts: Sequence[str]) -> list[float]:
    return [math.nan for _ in texts]


def short(texts: Sequence[str]) -> list[float]:
    return [0.0]


@pytest.mark.parametrize(
    ("scorer", "complaint"), [(raising, "no lexicon"), (nan, "nan"), (short, "1 scores")]
)
def test_a_scorer_that_fails_is_refused_before_anything_is_sampled(
    scorer: Callable[[Sequence[str]], list[float]], complaint: str, tmp_path: Path
) -> None:
    refused(BadPlugin, complaint, tmp_path, scorers=(scorer,))


def test_a_text_longer_than_the_context_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    refused(BadProbe, "positions of tiny-gpt2", tmp_path, tokens=600)


def test_a_masked_model_is_told_what_it_can_do_instead(tmp_path: Path) -> None:
    with pytest.raises(CannotDo, match="counteracts"):
        generate(tiny("bert"), SMALL, tmp_path / "run")


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadOption, match="sets must be empty"):
        GenerateSettings(prompts="own.txt", sets=("gender",))
    with pytest.raises(BadOption, match="chat"):
        GenerateSettings(sets=("chat",))


def test_prompts_of_a_users_own_are_compared_by_their_groups(tmp_path: Path) -> None:
    (file := tmp_path / "own.txt").write_text(
        "My sister said that\n{name} is late because\n", encoding="utf-8"
    )
    found = generate(writer(), replace(SMALL, prompts=str(file)), tmp_path / "run")
    names = {each.name for each in found.measured}
    assert {"paired gap: length/own", "mirror divergence/own"} <= names
    assert not any(name.startswith("who appears") for name in names)


# ---- what is measured


def test_every_kind_of_measure_is_there_with_its_set(run: Generate) -> None:
    found = run.data.records(Generate.measured.of(BASE))
    assert {family(each.name) for each in found} >= {
        "who appears",
        "paired gap",
        "excess distance",
        "decision gap",
        "impact ratio",
        "mirror divergence",
    }
    gaps = {each.set for each in found if each.name.startswith("paired gap: length")}
    assert gaps == {"gender + names", "gender", "names", "age", "religion", "origin"}
    (gender,) = (each for each in found if each.name == "paired gap: length/gender")
    assert gender.groups == ("feminine", "masculine")


def test_claims_are_few_and_known_beforehand(run: Generate) -> None:
    claimed = [each.name for each, _, _ in generation_claims(run)]
    assert [name for name in claimed if name != "texts that say nothing/gender + names"] == [
        "paired gap: length/gender + names",
        "paired gap: warmth/gender + names",
        "largest gap/age",
        "largest gap/religion",
        "largest gap/origin",
        "excess distance/gender + names",
        "marked words/gender + names",
        "decision gap/sex",
        "decision gap/origin",
    ]
    (appears,) = (each for each in run.measured if each.variant == BASE and each.name == "who appears")
    assert appears.claim  # three occupations are too few for a test


def test_the_largest_gap_of_a_set_is_corrected_for_every_score(run: Generate) -> None:
    found = run.data.records(Generate.measured.of(BASE))
    (largest,) = (each for each in found if each.name == "largest gap/religion")
    gaps = [each for each in found if each.set == "religion" and "/religion, " in each.name]
    scores = {each.name.partition("/")[0] for each in gaps}
    smallest = min(gaps, key=lambda each: each.measurement.p_value or 1.0)
    p = min(1.0, (smallest.measurement.p_value or 1.0) * len(scores))
    assert largest.measurement.p_value == pytest.approx(p)
    sd, value = smallest.measurement.details["sd"], smallest.measurement.value
    assert sd
    assert value is not None
    assert largest.measurement.value == pytest.approx(value / sd)
    assert (largest.score, largest.groups) == (scored_by(smallest.name), smallest.groups)


def scored_by(name: str) -> str:
    return name.partition("/")[0].removeprefix("paired gap: ")


def test_expected_numbers_of_first_words_are_near_their_counts(run: Generate) -> None:
    rows = run.data.records(Generate.appearances.of(BASE))
    texts = sum(each.feminine + each.masculine + each.neither for each in rows)
    for side in ("feminine", "masculine"):
        expected = sum(getattr(each, f"expected_{side}") for each in rows)
        assert 0 < expected < texts
        assert abs(expected - sum(getattr(each, side) for each in rows)) < 0.5 * texts


def test_a_symmetrized_model_is_its_own_mirror_image_and_the_change_is_paired(run: Generate) -> None:
    after = {each.name: each.measurement for each in run.data.records(Generate.measured.of(SYMMETRIZED))}
    before = {each.name: each.measurement for each in run.data.records(Generate.measured.of(BASE))}
    value = after["mirror divergence"].value
    assert value == pytest.approx(0.0, abs=1e-3)
    exact = [text for text in run.texts(SYMMETRIZED) if text.log_p is not None]
    assert exact
    (change,) = (each for each in run.changed if each.name == "mirror divergence change")
    assert change.measurement.value == pytest.approx(
        (value or 0.0) - (before["mirror divergence"].value or 0.0)
    )


def test_mirror_divergence_is_never_a_claim(run: Generate) -> None:
    claimed = {each.name for each, _, _ in generation_claims(run)}
    assert claimed
    assert not any(name.startswith(("mirror divergence", "impact ratio")) for name in claimed)


PROMPTS = load_prompts("shipped", ("gender", "names", "age"))


def made(rng: np.random.Generator, shift: float, label: Callable[[Prompt], bool]) -> Texts:
    """Eight texts of every prompt, with a score that is higher by so much where a prompt is labeled."""
    prompts = {each.id: each for each in PROMPTS.prompts}
    written = [WrittenText(each, k, f"text {k}", 2, False) for each in prompts for k in range(8)]
    labels = np.array([label(prompts[each.prompt]) for each in written])
    score = rng.normal(size=len(written)) + shift * labels
    return Texts(BASE, "made", prompts, written, {"score": score}, Resampling(200, int(rng.integers(99))))


def claims(texts: Texts) -> set[str]:
    found = measured(
        texts, lambda given: np.random.default_rng(0).normal(size=(len(given), 4)).astype(np.float32)
    )
    return {each.name for each, _, holds in corrected(list(found)) if holds}


@pytest.mark.nightly
def test_a_planted_shift_is_claimed_and_exchanged_groups_claim_nothing() -> None:
    rng = np.random.default_rng(1)
    planted = [claims(made(rng, 0.3, lambda each: each.group in ("feminine", "older"))) for _ in range(20)]
    assert sum("paired gap: score/gender + names" in each for each in planted) >= 18
    exchanged = []
    for _ in range(20):
        frames = PROMPTS.frames().items()
        coin = {frame: own[int(rng.integers(len(own)))].group for frame, own in frames}

        def shifted(each: Prompt, shifted_group: dict[str, str] = coin) -> bool:
            return each.group == shifted_group[each.frame]

        exchanged.append(claims(made(rng, 0.3, shifted)))
    assert sum(bool(each) for each in exchanged) <= 2


# ---- what is shown


@pytest.mark.nightly
def test_the_page_shows_the_answer_the_examples_and_every_text(run: Generate) -> None:
    html = report_html(open_contents(run.folder))
    for name in ("generate", "generate-appears", "generate-decisions", "generate-mirror", "generate-texts"):
        assert f'<section id="{name}"' in html
    assert html.count("<li data-set=") == len(run.texts()) + len(run.texts(SYMMETRIZED))
    assert "Local Law 144" in html
    assert "no compliance is claimed" in html
    page = presented(open_contents(run.folder))
    assert page.headline.startswith(f"In {run.plan.texts if run.plan else 0:,} texts of lh:gpt-mini")
    assert "mirror" in csv(page)
    assert r"\begin{tabular}" in latex(page)


def test_the_table_of_marked_words_ends_and_says_where_the_rest_is(
    run: Generate, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents, every = open_contents(run.folder), run.data.records(Generate.marked.of(BASE))
    most = len(every) - 1
    assert most > 0
    for limit in (most, len(every)):
        monkeypatch.setattr(sections, "_WORDS", limit)
        shown = marked_section(contents, run)
        assert shown is not None
        (table,) = (block.table for block in shown.blocks if isinstance(block, Shown))
        assert len(table.rows) == limit
        assert ("results.jsonl" in table.note) == (limit == most)
    smallest = min(each.p for each in every)
    assert table.rows[0][-1].raw == repr(smallest)


def test_an_answer_in_a_chat_begins_a_line_of_its_own_on_the_page(
    run: Generate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prompts() -> list[str]:
        blocks = chapters(open_contents(run.folder))[0].blocks
        (examples,) = (each for each in blocks if isinstance(each, SideBySide))
        return [side.given for pair in examples.pairs for side in pair]

    plain, settings = prompts(), replace(run.settings, chat=True)
    monkeypatch.setattr(Generate, "settings", settings)
    assert prompts() == [f"{prompt}\n" for prompt in plain]


def test_the_chapter_of_the_mirror_image_says_that_there_were_no_neutral_prompts(
    run: Generate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "measure_of_base", lambda *_: None)
    shown = mirror_section(open_contents(run.folder), run)
    assert shown is not None
    assert shown.found.startswith("Not measured after neutral prompts.")


def test_the_chapter_of_the_mirror_image_says_what_a_recipe_changes(run: Generate) -> None:
    (changed,) = (each for each in run.changed if each.name == "mirror divergence change")
    shown = mirror_section(open_contents(run.folder), run)
    assert shown is not None
    assert changed.measurement.value is not None
    assert f"Change {SYMMETRIZED}: {bounded(changed.measurement).text}." in shown.found


def test_hostile_prompts_stay_text(tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    lines = [{"prompt": "<script>alert(1)</script> said {name}"}, {"prompt": "My sister's </script> said"}]
    own.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    found = generate(writer(), replace(SMALL, prompts=str(own)), tmp_path / "run")
    html = report_html(open_contents(found.folder))
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_check_card_and_compare_read_the_run(run: Generate) -> None:
    contents = open_contents(run.folder)
    typed = ("who appears=100", "mirror divergence=0", "paired gap: length=1000")
    judged = check(contents, Thresholds(tuple(threshold(each, "max") for each in typed)))
    outcomes = {each.measure: each.outcome for each in judged}
    assert outcomes["mirror divergence"] == "fails"
    assert outcomes["paired gap: length/gender"] == "holds"
    assert "## Bias evaluation" in card(contents)
    assert "mirror divergence" in card(contents)
    compared = compare([run.folder])
    (difference,) = compared.measures["mirror divergence"].differences
    assert difference is not None
    assert difference.paired


def test_the_result_is_a_table_and_a_chart(run: Generate) -> None:
    assert len(run.lines()) == len(run.measured)
    assert run.plot().to_dict()
    assert {"plan", "measured", "decisions", "rivals"} <= set(run.stated())


def test_a_terminal_shows_what_was_found_in_few_lines(
    run: Generate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    print_brief(run.folder)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    text = "\n".join(lines)
    for said in ("Who appears: ", "Decisions: ", "Impact ratio by sex", "Mirror image: ", "--as text"):
        assert said in text
