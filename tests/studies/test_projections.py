"""Projections: 76 shared-prefix models against 76 hooked ones, the paper's own tables, and killed runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from levelhead.edits.sites import Edit, Site, Variant
from levelhead.edits.subspace import Projection, fit_subspace, projection
from levelhead.engine.effort import Speed
from levelhead.engine.readings import Pooled, States
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe, BadRun, CannotDo
from levelhead.measures.fairness import viable
from levelhead.mitigation.fitting import (
    OTHER_TOKENS,
    OTHER_WORDS,
    baseline_pairs,
    default_pairs,
    fit_steps,
    fit_subspaces,
    form_of,
    paired_states,
)
from levelhead.mitigation.recipe import Fit, Location, Method, Step, load_recipe, step
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.nli import NliPair, nli_probe
from levelhead.probes.pairs import InputPair, load_pairs
from levelhead.probes.published import published_projections
from levelhead.progress import plain_lines
from levelhead.runs.study import RECIPES
from levelhead.scoring import pairs as pairs_scoring
from levelhead.scoring.pairs import ask_nsp, nli_labels
from levelhead.studies.projections import DEPTH_TABLE, OBSERVED, TABLE5, Projections
from levelhead.studies.projections import grid as projection_settings
from levelhead.studies.projections import run as projections
from levelhead.studies.projections.grid import Setting, depth_settings, paper_settings, passes, variants_of
from levelhead.studies.projections.records import Table6Line, fairest_viable
from levelhead.studies.projections.run import Inputs
from levelhead.studies.projections.settings import ProjectionsSettings
from levelhead.studies.projections.tables import (
    Outcome,
    frontier,
    observations,
    strength_and_fairness,
    table5,
    table6,
)
from tests.studies.projection_cases import PAIRED, SINGLE, small_projections
from tests.tiny import tiny

INPUTS = [("The nurse was tired.", "She said that."), ("Who knows?", "He saw a book about men and women.")]


@pytest.fixture(autouse=True, scope="module")
def _small_baseline() -> Iterator[None]:
    """The shipped sentences are longer than the tiny models' positions under a character-like tokenizer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection_settings, "baseline_pairs", lambda: SINGLE[:4])
        patch.setattr(projections, "baseline_pairs", lambda: SINGLE[:4])
        yield


# ---- the settings


def test_there_are_76_settings_all_named_apart() -> None:
    settings = paper_settings()
    levels = Counter(setting.level for setting in settings)
    assert levels == {"base": 1, "baseline": 1, "sent": 2, "cls": 8, "tokens": 32, "attention": 32}
    assert len({setting.name for setting in settings}) == 76
    assert len({(setting.level, setting.code) for setting in settings}) == 76


def test_a_setting_is_spelt_out_and_has_the_papers_tuple() -> None:
    steps = (step("tokens", soft=True, dimensions=2), step("cls"), step("sent", soft=True))
    setting = Setting("tokens", steps)
    assert setting.name == "tokens: soft, 2-d; cls: hard, 1-d; sent: soft"
    assert setting.code == "(1, 1, 0, 0, 1)"
    assert setting in paper_settings()
    assert [s.level_name(12) for s in paper_settings()[::25]] == [
        "base",
        "layer 11",
        "layer 11 + attn",
        "layer 11 + attn",
    ]


def own_logits(model: Model, edits: Variant) -> torch.Tensor:
    """The model's own forward under hooks; MobileBERT, whose trigrams see padding, gets text by text."""
    batches = [[pair] for pair in INPUTS] if "mobilebert" in model.name else [INPUTS]
    logits = []
    with torch.no_grad(), model.edited(*edits):
        for batch in batches:
            texts = [list(side) for side in zip(*batch, strict=True)]
            out = model.hf(**model.tokenizer(*texts, return_tensors="pt", padding=True, padding_side="right"))
            logits.append(
                out.seq_relationship_logits if hasattr(out, "seq_relationship_logits") else out.logits
            )
    return torch.cat(logits)


CASES = [("bert", "nsp", 2), ("bert", "nsp", 8), ("bert", "nli", 12)]
CASES += [(family, "nli", 3) for family in ("mobilebert", "roberta", "distilbert", "electra", "albert")]


@pytest.mark.parametrize(("family", "head", "layers"), CASES)
def test_all_76_settings_equal_76_independently_hooked_models(family: str, head: str, layers: int) -> None:
    model = tiny(family, head, layers=layers)
    variants = variants_of(model, paper_settings(), PAIRED if head == "nli" else SINGLE)
    shared = read_one(model, Pooled([Text(*pair) for pair in INPUTS]), variants)
    hooked = np.stack([own_logits(model, variant).numpy() for variant in variants])
    assert np.abs(shared - hooked).max() < 1e-4
    different = {tuple(np.round(logits.ravel(), 5)) for logits in hooked}
    assert len(different) == 76, "a setting that changes nothing would pass unseen"


def test_76_models_run_the_last_block_nine_times_and_the_others_once_or_twice() -> None:
    model = tiny("bert", "nsp", layers=6)
    variants = variants_of(model, paper_settings(), SINGLE)
    calls: Counter[int] = Counter()

    def count(layer: int) -> Callable[..., None]:
        return lambda *_: calls.update([layer])

    handles = [block.register_forward_pre_hook(count(i)) for i, block in enumerate(model.blocks)]
    try:
        read_one(model, Pooled([Text(*pair) for pair in INPUTS]), variants)
    finally:
        for handle in handles:
            handle.remove()
    assert [calls[layer] for layer in range(6)] == [1, 1, 1, 1, 2, 9]


def test_one_layer_is_too_few_for_the_papers_locations() -> None:
    with pytest.raises(CannotDo, match="has 1 layer"):
        variants_of(tiny("bert", "nsp", layers=1), paper_settings(), SINGLE)


def test_depth_settings_project_every_layer_from_the_first_named_on() -> None:
    settings = depth_settings(8, 2)
    assert len(settings) == 8
    assert settings[2].name == "tokens from layer 3: hard, 2-d"
    assert [s.layer for s in settings[2].steps] == [2, 3, 4, 5, 6, 7]


# ---- fitting


def basis_of(edit: Edit) -> torch.Tensor:
    assert isinstance(edit, Projection)
    return edit.basis


def test_after_hard_projections_the_gender_components_are_zero_in_the_model() -> None:
    model = tiny("bert", "nsp", layers=4)
    variant = fit_steps(model, SINGLE, [(step("tokens", dimensions=2), step("value"))])[0]
    assert [edit.site for edit in variant] == [Site(2, "value"), Site(2, "block")]
    basis = basis_of(variant[1]).numpy()
    reading = States([Text(a) for a, _ in INPUTS], Site(2, "block"))
    before, after = (np.concatenate(states) @ basis.T for states in read_one(model, reading, [(), variant]))
    assert np.abs(before).max() > 0.1
    assert np.abs(after).max() < 1e-5


def test_fit_base_reads_the_untouched_model_and_sequential_the_edited_one() -> None:
    model = tiny("bert", "nsp", layers=4)
    plan = (step("tokens"), step("cls"), step("sent"))
    base = fit_steps(model, SINGLE, [plan], "base")[0]
    sequential = fit_steps(model, SINGLE, [plan], "sequential")[0]
    by_hand: Variant = ()
    for one in plan:
        space = fit_subspaces(model, SINGLE, [one.site(model)], [by_hand])[0][one.site(model)]
        by_hand = (*by_hand, projection(space, 1))
    for i, (edit, mine) in enumerate(zip(sequential, by_hand, strict=True)):
        assert torch.allclose(basis_of(edit), basis_of(mine), atol=1e-5)
        assert torch.allclose(basis_of(edit), basis_of(base[i]), atol=1e-4) == (i == 0)


def test_settings_share_projections_under_both_kinds_of_fit() -> None:
    model = tiny("bert", "nsp", layers=3)
    settings = [s for s in paper_settings() if s.level in ("tokens", "attention")]
    expected: dict[Fit, tuple[int, int]] = {"base": (4, 2), "sequential": (8, 64)}
    for fit, (tokens, sents) in expected.items():
        variants = variants_of(model, settings, SINGLE, fit)
        assert len({id(e) for v in variants for e in v if e.site.part == "block"}) == tokens
        assert len({id(e) for v in variants for e in v if e.site.part == "pooled"}) == sents


def test_leace_and_inlp_work_at_the_same_locations() -> None:
    model = tiny("bert", "nsp", layers=3)
    places: tuple[Location, ...] = ("query", "tokens", "cls", "sent")
    methods: tuple[Method, ...] = ("leace", "inlp")
    for method in methods:
        plan = [step(place, method=method) for place in places]
        variant = fit_steps(model, SINGLE, [plan])[0]
        out = read_one(model, Pooled([Text(*pair) for pair in INPUTS]), [(), variant])
        assert np.abs(out[1] - own_logits(model, variant).numpy()).max() < 1e-4
        assert np.abs(out[1] - out[0]).max() > 1e-3


def test_leace_makes_both_forms_of_the_pairs_alike_on_average() -> None:
    model = tiny("bert", "nsp", layers=3)
    variant = fit_steps(model, SINGLE, [[step("sent", method="leace")]])[0]
    states = paired_states(model, SINGLE, [Site(0, "pooled")])[0][Site(0, "pooled")]
    edited = [variant[0](torch.from_numpy(side)).mean(0) for side in states.forms]
    assert torch.allclose(edited[0], edited[1], atol=1e-4)
    feminine, masculine = states.forms
    assert np.abs(feminine.mean(0) - masculine.mean(0)).max() > 1e-3


def test_pairs_that_differ_in_length_serve_at_cls_and_sent_only_and_are_counted() -> None:
    model = tiny("bert", "nsp")
    uneven = InputPair(("She saw her mother.", None), ("He saw the old father yesterday.", None))
    longer = InputPair(("The grandmother was tired.", None), ("The he was tired.", None))
    sites = [Site(1, "block"), Site(1, "key"), Site(2, "cls"), Site(0, "pooled")]
    subspaces = fit_subspaces(model, [*SINGLE, uneven, longer], sites)[0]
    assert [subspaces[site].pairs for site in sites] == [7, 7, 8, 8]
    assert subspaces[sites[0]].skipped == {OTHER_WORDS: 1, OTHER_TOKENS: 1}
    assert subspaces[sites[2]].skipped == {}
    assert subspaces[sites[2]].vectors == 8


def test_aligned_tokens_are_special_tokens_and_each_words_tokens() -> None:
    model = tiny("bert", "nli")
    pair = PAIRED[0]
    states = paired_states(model, [pair], [Site(0, "block")])[0][Site(0, "block")]
    texts = [Text(*form) for form in (pair.feminine, pair.masculine)]
    whole = read_one(model, States(texts, Site(0, "block")))[0]
    assert len(states.forms[0]) == len(whole[0]) == len(whole[1])
    own = fit_subspace(Site(0, "block"), whole[0] - whole[1], pairs=1)
    assert torch.allclose(
        fit_subspaces(model, [pair], [Site(0, "block")])[0][Site(0, "block")].basis, own.basis, atol=1e-5
    )


def test_more_dimensions_than_pairs_and_no_alignable_pair_are_errors() -> None:
    model = tiny("bert", "nsp")
    with pytest.raises(BadOption, match=r"dimensions must be 1 to 2 \(got 3\): .* 2 pairs"):
        fit_steps(model, SINGLE[:2], [[Step("tokens", 1, 3)]])
    uneven = InputPair(("She saw her mother.", None), ("He saw the old father yesterday.", None))
    with pytest.raises(BadProbe, match="No pair can be aligned word by word"):
        fit_steps(model, [uneven], [[step("tokens")]])
    with pytest.raises(BadProbe, match="at least one pair"):
        fit_steps(model, [], [[step("tokens")]])


def test_a_classifier_is_fitted_on_pairs_and_an_encoder_on_single_sentences() -> None:
    assert form_of(default_pairs(tiny("bert", "nli"))) == "pairs"
    assert form_of(default_pairs(tiny("bert", "nsp"))) == "single"
    assert form_of(default_pairs(tiny("bert", "nli"), "single")) == "single"
    assert form_of(baseline_pairs()) == "single"


def test_frame_pairs_share_neither_occupations_nor_acts_with_the_probe() -> None:
    probe = nli_probe()
    for pair in default_pairs(tiny("bert", "nli"), "frames"):
        assert pair.aligned
        assert pair.feminine[0] == pair.masculine[0]
        act = pair.feminine[0].removeprefix("The person ").rstrip(".")
        assert act not in probe.contexts
        assert not {str(form[1]).split()[1] for form in (pair.feminine, pair.masculine)} & set(
            probe.occupations
        )


# ---- the tables, on the paper's own numbers


@pytest.fixture(scope="module")
def published() -> list[Outcome]:
    """Table 7 as printed."""
    levels = {
        "base": "Base",
        "baseline": "Sent-debias",
        "sent": "SENT",
        "cls": "Layer 12",
        "tokens": "Layer 11",
        "attention": "+ attn",
    }
    models = {(model.level, model.settings): model for model in published_projections().models}
    base = models["Base", ""].ability
    outcomes = []
    for setting in paper_settings():
        model = models[levels[setting.level], setting.code]
        values: dict[str, float | None] = {
            "strength": model.strength,
            "distance": model.distance,
            "parity": model.parity,
            "accuracy": model.accuracy,
            "fairness": model.fairness,
            "ability": model.ability,
        }
        outcomes.append(Outcome.measured(setting, 12, values, viable(model.ability, base)))
    return outcomes


def test_the_papers_observations_are_counted_from_its_own_table(published: list[Outcome]) -> None:
    observed = observations(published)
    assert [f"{o.agree} of {o.cases}" for o in observed] == [o.paper for o in observed]
    assert [o.holds for o in observed] == [True, False, True, True, True, True]


def test_table_6_equals_the_papers(published: list[Outcome]) -> None:
    def numbers(line: Table6Line) -> tuple[float, ...]:
        return line.pairs, line.ability_hard, line.ability_soft, line.increase

    lines = table6(published)
    printed = [(1, 0.8458, 0.8849, 0.0391), (4, 0.8162, 0.8647, 0.0485), (16, 0.7722, 0.8194, 0.0472)]
    printed += [(16, 0.7186, 0.7907, 0.0721), (37, 0.7558, 0.8136, 0.0578)]
    assert [line.level for line in lines] == ["SENT", "layer 12", "layer 11", "layer 11 + attn", "all"]
    assert np.allclose([numbers(line) for line in lines], printed, atol=1.5e-4)
    assert lines[0].sd is None
    assert [line.sd for line in lines[1:]] == pytest.approx([0.0194, 0.0425, 0.0488, 0.0440], abs=1.5e-4)


def test_table_5_picks_the_papers_best_strength_and_the_fairest_that_is_really_viable(
    published: list[Outcome],
) -> None:
    lines = {line.level: line for line in table5(published)}
    inner = lines["layer 11"]
    assert (inner.strength, inner.strength_code) == (0.2465, "(0, 0, 0, 1, 0)")
    assert inner.distance_code == "(0, 1, 1, 1, 0)"
    assert lines["layer 12"].fairness_code == "(0, 0, 1)"
    # the printed (0, 0, 1, 1, 1) is 5.2 points below base: not viable by the paper's own rule
    assert inner.fairness_code == "(1, 1, 1, 0, 1)"
    best = fairest_viable([o.line for o in published])
    assert best is not None
    assert (best.level, best.fairness) == ("layer 11 + attn", 0.5263)


def test_a_level_without_a_viable_setting_has_no_fairest_one() -> None:
    outcomes = [
        Outcome.measured(setting, 8, {"strength": 0.2, "fairness": 0.9, "ability": 0.3}, viable=False)
        for setting in paper_settings()[2:4]
    ]
    (line,) = table5(outcomes)
    assert (line.fairness, line.fairness_setting, line.fairness_code, line.ability) == (None,) * 4
    assert (line.strength, line.strength_setting, line.viable) == (0.2, "sent: hard", "0 of 2")
    assert (line.distance, line.distance_setting) == (None, None)
    assert fairest_viable([o.line for o in outcomes]) is None


def test_the_untouched_model_and_the_baseline_are_never_the_fairest_viable() -> None:
    fairness = (0.9, 0.8, 0.1, 0.2)
    outcomes = [
        Outcome.measured(setting, 8, {"fairness": value}, viable=True)
        for setting, value in zip(paper_settings(), fairness, strict=False)
    ]
    best = fairest_viable([o.line for o in outcomes])
    assert best is not None
    assert best.setting == "sent: soft"


def test_strength_and_fairness_are_unrelated_in_the_paper(published: list[Outcome]) -> None:
    correlation = strength_and_fairness(published)
    assert correlation.value == pytest.approx(-0.040, abs=0.003)
    assert correlation.details["p_value"] == pytest.approx(0.73, abs=0.02)


def test_no_point_of_the_frontier_is_dominated(published: list[Outcome]) -> None:
    lines = frontier(published)
    points = [(line.fairness or 0.0, line.ability or 0.0) for line in lines]
    chosen = [point for line, point in zip(lines, points, strict=True) if line.nli_frontier]
    assert (0.0377, 0.8898) in chosen
    assert not any(a >= x and b >= y and (a, b) != (x, y) for x, y in chosen for a, b in points)
    left = [point for line, point in zip(lines, points, strict=True) if not line.nli_frontier]
    assert all(any(a >= x and b >= y for a, b in chosen) for x, y in left)
    assert not any(line.nsp_frontier for line in lines), "LMS is not in the paper's table"


# ---- the run


@pytest.fixture(scope="module")
def models() -> tuple[Model, Model]:
    return tiny("bert", "nsp"), tiny("bert", "nli", seed=1)


def run_in(folder: Path, nsp: Model, plan: ProjectionsSettings) -> Projections:
    return projections.projections(nsp, plan, folder)


@dataclass(frozen=True)
class Measured:
    """All settings, measured once for the tests that only read them."""

    plan: ProjectionsSettings
    run: Projections


@pytest.fixture(scope="module")
def measured(models: tuple[Model, Model], tmp_path_factory: pytest.TempPathFactory) -> Measured:
    place = tmp_path_factory.mktemp("measured")
    plan = small_projections(place, models[1])
    return Measured(plan, run_in(place / "run", models[0], plan))


def outcomes_of(run: Projections, model: Model) -> list[Outcome]:
    return [Outcome.of(setting, model.layers, run.measured) for setting in paper_settings()]


def test_a_run_writes_tables_and_a_recipe_for_each_setting(
    measured: Measured, models: tuple[Model, Model]
) -> None:
    run, outcomes = measured.run, outcomes_of(measured.run, models[1])
    assert run.table7 == [o.line for o in outcomes]
    levels = {line.level for line in run.table7}
    assert levels == {"base", "sent-debias", "SENT", "layer 3", "layer 2", "layer 2 + attn"}
    assert TABLE5.read(run.folder)[2:] == table5(outcomes)[2:]  # only these levels have codes
    assert tuple(OBSERVED.read(run.folder)) == run.observations == tuple(observations(outcomes))
    assert run.correlation == strength_and_fairness(outcomes)
    recipes = sorted((run.folder / RECIPES).glob("*.toml"))
    assert len(recipes) == 75
    last = load_recipe(recipes[-1])
    assert last.projections == paper_settings()[-1].steps
    assert load_pairs(last.pairs) == PAIRED
    assert load_pairs(load_recipe(recipes[0]).pairs) == SINGLE[:4]
    written = {path.stem for path in (run.folder / "tables").iterdir()}
    assert written == {"table5", "table6", "table7", "frontier", "observations"}


def test_the_summary_names_the_fairest_viable_setting(measured: Measured) -> None:
    summary = measured.run.summary
    assert summary is not None
    assert list(summary.settings) == measured.run.table7
    assert (summary.correlation, summary.observations) == (
        measured.run.correlation,
        measured.run.observations,
    )
    assert summary.fairest_viable == summary.fairest_viable_overall == fairest_viable(measured.run.table7)
    assert summary.depth == ()
    assert measured.run.stated() == summary.to_json()


def test_the_run_holds_every_measure_of_every_setting_and_the_classifiers_answers(
    measured: Measured,
) -> None:
    run = measured.run
    values = {(each.variant, each.measurement.name): each.measurement.value for each in run.measured}
    assert len(values) == 76 * 15
    assert values["sent: soft", "fairness"] == run.table7[3].fairness
    (answers,) = run.answers
    assert {len(each.labels) for each in answers} == {len(Inputs.of(measured.plan).probe.pairs)}
    neutral = np.mean([digit == "1" for digit in answers[3].labels])
    assert values["sent: soft", "accuracy"] == pytest.approx(neutral)
    assert (run.settings.occupations, run.settings.contexts, run.settings.words) == (3, 2, ("woman", "man"))
    assert run.subspaces[0].explained[0] > run.subspaces[0].explained[1] > 0


@pytest.mark.nightly
def test_a_killed_run_resumes_and_ends_with_the_same_bytes(
    tmp_path: Path, models: tuple[Model, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "CHUNK", 5)
    plan = small_projections(tmp_path, models[1])
    run_in(tmp_path / "whole", models[0], plan)
    calls = 0

    def killed(
        model: Model, pairs: Sequence[NliPair], variants: Sequence[Variant], labels: str | None
    ) -> pairs_scoring.Labels:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return nli_labels(model, pairs, variants, labels)

    with monkeypatch.context() as patch:
        patch.setattr(pairs_scoring, "nli_labels", killed)
        with pytest.raises(KeyboardInterrupt):
            run_in(tmp_path / "killed", models[0], plan)
    run_in(tmp_path / "killed", models[0], plan)
    for name in ("results.jsonl", "tables/table5.csv", "tables/table7.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()


@pytest.mark.nightly
def test_depth_screens_every_first_layer_and_names_the_fairest_viable_overall(
    tmp_path: Path, models: tuple[Model, Model]
) -> None:
    run = run_in(tmp_path / "run", models[0], small_projections(tmp_path, models[1], depth=True))
    lines, summary = DEPTH_TABLE.read(run.folder), run.summary
    assert summary is not None
    assert Counter(line.first_layer for line in lines) == {1: 8, 2: 8, 3: 8}
    base = summary.settings[0].ability
    assert [line.viable for line in lines] == [viable(line.ability, base) for line in lines]
    assert summary.depth
    assert all(line.viable for line in summary.depth)
    viable_ones = [line for line in (*summary.settings[2:], *summary.depth) if line.viable]
    assert summary.fairest_viable_overall is not None
    assert summary.fairest_viable_overall.fairness == max(line.fairness or 0.0 for line in viable_ones)


def test_a_setting_in_the_run_equals_that_setting_asked_alone(
    measured: Measured, models: tuple[Model, Model]
) -> None:
    inputs = Inputs.of(measured.plan)
    variant = variants_of(models[0], [paper_settings()[50]], inputs.fitted_on(models[0]))
    alone = ask_nsp(models[0], inputs.triples, variant, inputs.resampling)[0]
    assert measured.run.table7[50].strength == pytest.approx(alone["strength"].value, abs=1e-5)
    assert measured.run.table7[50].lms == pytest.approx(alone["lms"].value)


def test_a_run_folder_of_another_plan_is_refused(measured: Measured, models: tuple[Model, Model]) -> None:
    with pytest.raises(BadRun, match="depth false there, true here"):
        run_in(measured.run.folder, models[0], replace(measured.plan, depth=True))


def test_a_classifier_must_be_named_and_have_three_labels(tmp_path: Path) -> None:
    nsp, nli = tiny("bert", "nsp"), tiny("bert", "nli")
    with pytest.raises(BadOption, match="nli must name an NLI classifier"):
        projections.projections(nsp, None, tmp_path / "run")
    nli.hf.config.id2label = {0: "yes", 1: "no"}
    with pytest.raises(CannotDo, match="has 2 labels"):
        run_in(tmp_path / "run", nsp, small_projections(tmp_path, nli))
    assert not (tmp_path / "run" / "results.jsonl").exists()


# ---- how long it takes


def test_passes_are_those_that_the_engine_runs() -> None:
    model = tiny("bert", "nsp", layers=6)
    assert passes(model, paper_settings()) == pytest.approx((1 + 1 + 1 + 1 + 2 + 9) / 6)
    assert passes(model, depth_settings(6, 3)) == pytest.approx((1 + 1 + 1 + 1 + 8 + 8) / 6)


@pytest.mark.nightly
def test_work_that_takes_long_is_announced_with_what_makes_it_shorter(
    measured: Measured,
    models: tuple[Model, Model],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = small_projections(tmp_path, models[1])
    with plain_lines():
        run_in(tmp_path / "quick", models[0], settings)
    assert "This takes" not in capsys.readouterr().err
    monkeypatch.setattr(projections, "speed_of", lambda model: Speed(10.0))
    monkeypatch.setattr(projections, "SCREEN", (1, 1))
    with plain_lines():
        run_in(tmp_path / "slow", models[0], settings)
    assert re.search(r"This takes about .* on this machine .*; --limit 1 1, ", capsys.readouterr().err)
    with plain_lines():
        run_in(tmp_path / "slow", models[0], settings)
    assert "This takes" not in capsys.readouterr().err, "all of it is there"
