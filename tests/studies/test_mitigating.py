"""A run of mitigations: parts that share nothing, order and certificates, resuming, plugins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import levelhead as lh
from levelhead.edits.gates import gates, removed
from levelhead.edits.output import Symmetrized, edit_of
from levelhead.errors import BadOption
from levelhead.inference.mitigating import sentence
from levelhead.measures.certified import AGREEMENT
from levelhead.mitigation.export import export
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import parse_recipe, recipe_text
from levelhead.models.model import Model
from levelhead.pages.page import write_report
from levelhead.probes.agreement import NAME, NOUN, AgreementItem, agreement_for, agreement_items
from levelhead.probes.bias import about_gender
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import nli_probe
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Selection
from levelhead.scoring.natural import (
    BLANKS,
    COSINE,
    LOG_ODDS,
    PREFERENCE,
    behaviors,
    clearest_bias,
    natural_values,
)
from levelhead.studies.halves import dealt
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.mitigate import Mitigate, protocol, spillover
from levelhead.studies.mitigate import run as study
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.protocol import Candidate, mitigations, register_mitigation
from levelhead.studies.mitigate.run import detect, detectable_size, mitigate
from levelhead.studies.mitigate.settings import MitigateSettings
from levelhead.studies.mitigate.symmetrization import Symmetrization
from tests.audit_sizes import ask_few_tests
from tests.report.page_text import page_text
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.word_lists import GENDER

QUICK = lh.settings.MitigateSettings(methods=("symmetrized", "ablated heads"), null=3)


def few(_: lh.settings.MitigateSettings, __: Model | None = None) -> Battery:
    """A battery that a tiny model answers in a second."""
    triples = load_triples()
    contexts = list(dict.fromkeys(pair.original.context for pair in triples.pairs))[:24]
    return Battery(
        GENDER,
        tuple(template_contexts(GENDER, 1)),
        triples.about(contexts),
        nli_probe(limit=(4, 1)),
        sentences=tuple(text for text in fluency_sentences() if len(text) < 60)[:8],
        sense_every=20,
    )


def ask_few(patch: pytest.MonkeyPatch) -> None:
    """Let runs of mitigations ask few items, and about one other bias."""
    patch.setattr(study, "shipped_battery", few)
    patch.setattr(spillover, "shipped_words", lambda: ("gender", "race"))
    patch.setattr(spillover, "LPBS_TESTS", ("career",))
    ask_few_tests(patch, "career")
    ask_few_frames(patch)


def ask_few_frames(patch: pytest.MonkeyPatch) -> None:
    """Let agreement be asked of two frames."""
    stated = [item for number, item in enumerate(agreement_items()) if number % 16 in (0, 1, 6, 7)]
    patch.setattr(
        "levelhead.studies.mitigate.parts.agreement_for",
        lambda test: tuple(stated) if about_gender(test) else agreement_for(test),
    )


@pytest.fixture
def all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """All frames of agreement."""
    monkeypatch.setattr("levelhead.studies.mitigate.parts.agreement_for", agreement_for)


@pytest.fixture(autouse=True, scope="module")
def _few_items() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_few(patch)
        yield


@pytest.fixture(scope="module")
def bert() -> Model:
    return tiny("bert", "nsp", max_position_embeddings=256)


@pytest.fixture(scope="module")
def run(bert: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mitigate") / "run"
    mitigate(bert, QUICK, folder)
    return folder


@pytest.mark.usefixtures("all_frames")
def test_no_item_is_in_two_parts() -> None:
    test = load_words("gender")
    split = parts(Battery(test, tuple(template_contexts(test, 1))), seed=3)
    fit, order, final = split.fit, split.order.battery, split.test.battery
    for items in (
        [{p.original.context for p in each.triples.pairs} for each in (fit, order, final)],
        [set(each.sentences) for each in (fit, order, final)],
        [set(each.probe.occupations) for each in (fit, order, final)],
        [{pair.premise for pair in each.ability.pairs} for each in (fit, order, final)],
        [{*each.test.X, *each.test.Y} for each in (fit, order, final)],
    ):
        assert all(items)
        assert sum(map(len, items)) == len(set.union(*items))
    assert split.order.prompts is not None
    assert split.test.prompts is not None
    asked = [{p.occupation for p in each.prompts} for each in (split.order.prompts, split.test.prompts)]
    assert all(asked)
    assert not asked[0] & asked[1]
    filled = [
        {word for test in each.blanks for word in (*test.X, *test.Y)} for each in (split.order, split.test)
    ]
    assert not filled[0] & filled[1]
    every = {word for each in split.whole.blanks for word in (*each.X, *each.Y)}
    assert filled[0] | filled[1] == every - {*fit.test.X, *fit.test.Y}
    people = [{item.people for item in each.agreement} for each in (split.order, split.test)]
    assert list(map(len, people)) == [39, 77]  # 79 pairs of nouns, 74 of names, and all titles
    words = [{word for pair in some for word in pair.split(", ")} for some in people]
    assert not words[0] & words[1]
    kinds = {item.kind for item in split.test.agreement if isinstance(item, AgreementItem)}
    assert kinds >= {NOUN, NAME}
    assert len(split.test.agreement) >= 16 * 77
    sense = [{item.written for item in each.sense} for each in (split.order, split.test, split.whole)]
    assert list(map(len, sense)) == [0, 480, 0]
    fitted = {p.original.context for each in (fit, order, final) for p in each.triples.pairs}
    assert not sense[1] & (fitted | set(fit.sentences) | set(order.sentences))


def test_biases_of_two_kinds_of_items_say_which_kind_each_is(bert: Model) -> None:
    """Each kind has half of the weight, so an item is held against its own (measures/certified.py)."""
    items = parts(few(QUICK), seed=0).test
    asked = {each.name: each for each in natural_values(bert, items, [(), ()]).biases}
    for name in (LOG_ODDS, BLANKS, COSINE):
        each = asked[name].paired(1)
        assert each.strata is not None, name
        assert each.weights is not None, name
        shares = [each.weights[each.strata == kind].sum() for kind in np.unique(each.strata)]
        assert len(shares) == 2, name
        assert shares[0] == pytest.approx(shares[1]), name
    assert asked[PREFERENCE].paired(1).strata is None


def test_more_contexts_of_language_sense_are_tested_on_for_a_gender_bias_alone() -> None:
    test = load_words("race")
    split = parts(Battery(test, tuple(template_contexts(test, 1))), seed=3)
    assert not any(each.sense for each in (split.order, split.test, split.whole))


def test_a_symmetrized_model_has_no_bias_left_in_any_unit(bert: Model) -> None:
    battery = few(QUICK)
    (candidate,) = Symmetrization().candidates(bert, battery)
    split = parts(battery, seed=0)
    for bias in natural_values(bert, split.order, [(), candidate.edits]).biases:
        items = bias.paired(1)
        assert np.abs(items.before).max() > 1e-4
        if bias.name != "cosine gap":  # words that are no counterparts keep their own vectors
            assert abs(items.mean(items.after)) < 1e-5
    unchanged = natural_values(bert, split.order, [(), ()]).costs
    assert all(cost.paired(1).change == 0 for cost in unchanged)


def test_a_run_ends_with_an_order_of_certificates_and_a_page(run: Path) -> None:
    read = Mitigate.open(run)
    assert [each.name for each in read.candidates if each.method == "symmetrized"] == ["symmetrized"]
    assert read.detected is not None
    assert read.detected.bias in (PREFERENCE, LOG_ODDS, BLANKS)
    assert not read.certified or read.detected.detected
    assert read.model in str(read.caption)
    assert {each.candidate for each in read.moved} == {each.name for each in read.candidates}
    assert read.to_frame().shape[0] == len(read.candidates)
    page = write_report(run).read_text(encoding="utf-8")
    assert 'id="mitigate"' in page
    assert all(AGREEMENT in each.certificate.p_costs for each in read.candidates)
    assert "Agreement, points" in page_text(page)
    assert "Agreement: words that fit" in page_text(page)
    assert f"Judged by {read.detected.bias}, the bias that was chosen on other items than these" in page_text(
        page
    )
    assert sentence(read) in page_text(page)


def test_where_no_bias_is_named_the_clearest_of_part_b_must_stand_out_among_all(bert: Model) -> None:
    split = parts(few(QUICK), seed=0)
    chosen = detect(bert, split, QUICK)
    known = behaviors(bert, split.order)
    assert chosen.bias == clearest_bias(bert, split.order)
    assert len(known) > 1
    named = detect(bert, split, replace(QUICK, objective=chosen.bias))
    assert (named.value, named.relative) == (chosen.value, chosen.relative)
    assert named.p is not None
    assert chosen.p == min(1.0, len(known) * named.p)


@pytest.mark.nightly
def test_a_run_goes_on_and_ends_with_the_same_bytes(bert: Model, run: Path, tmp_path: Path) -> None:
    whole = (run / "results.jsonl").read_bytes()
    again = shutil.copytree(run, tmp_path / "run")
    (again / "results.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
    mitigate(bert, QUICK, again)
    assert (again / "results.jsonl").read_bytes() == whole


def test_recipes_of_a_run_are_read_back(run: Path) -> None:
    with_recipe = [each for each in Mitigate.open(run).candidates if each.recipe]
    recipes = [lh.load_recipe(path) for path in sorted((run / "recipes").glob("*.toml"))]
    assert sorted(recipe.title for recipe in recipes) == sorted(each.name for each in with_recipe)
    assert all(recipe.gates for recipe in recipes)


@pytest.mark.nightly
def test_a_recipe_symmetrizes_by_a_list_that_ships(bert: Model, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('[symmetrize]\nwords = "gender"\n', encoding="utf-8")
    recipe = lh.load_recipe(path)
    (edit,) = edits_of(bert, recipe)
    assert edit_of(Symmetrized, (edit,)) is not None
    assert parse_recipe(recipe_text(recipe), path) == recipe
    assert export(bert, [edit], tmp_path / "folder").obstacles


@dataclass(frozen=True)
class Halved:
    """A mitigation of a user's own: every head at half strength."""

    name: str = "halved"

    def why_not(self, model: Model, fit: Battery) -> str:
        return "" if model.layers > 1 else "it needs two layers"

    def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
        return [Candidate("halved", self.name, 0.5, gates(model, {"1-1": 0.5}))]


def test_a_mitigation_of_ones_own_is_tried_like_any_other(
    bert: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol.MITIGATIONS, "own", {})
    register_mitigation(Halved())
    result = lh.mitigate(bert, lh.settings.MitigateSettings(methods=("halved",), null=3))
    assert [each.name for each in result.candidates] == ["halved"]
    assert result.candidates[0].recipe == ""


def test_what_is_no_mitigation_is_refused_in_one_line() -> None:
    with pytest.raises(BadOption, match="needs name"):
        register_mitigation(object())  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="No mitigation is called 'nothing'"):
        mitigations(("nothing",))
    with pytest.raises(BadOption, match=r"null must be at least 2 \(got 1\)"):
        lh.settings.MitigateSettings(null=1)


def test_a_change_that_does_nothing_gains_nothing(bert: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing(Halved):
        def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
            return [Candidate("nothing", self.name, 0.0, gates(model, {"1-1": 1.0}))]

    monkeypatch.setattr(protocol.MITIGATIONS, "shipped", {"nothing": Nothing("nothing")})
    (tested,) = lh.mitigate(bert, lh.settings.MitigateSettings(null=3)).candidates
    assert tested.certificate.gain == pytest.approx(0, abs=1e-6)
    assert not tested.certificate.certified
    assert removed(bert, ["1-1"]) != gates(bert, {"1-1": 1.0})


def test_a_list_of_three_groups_is_symmetrized_over_all_of_them_and_says_what_is_not_measured(
    bert: Model, tmp_path: Path
) -> None:
    trades = {
        "name": "trades",
        "pairs": [["nurse", "engineer"], ["kitchen", "book"], ["was", "saw"], ["her", "a"]],
        "exchanged": [["nurse", "engineer", "teacher"], ["kitchen", "book", "house"]],
        "X": ["tired", "late", "kind", "calm"],
        "Y": ["strong", "quick", "proud", "loud"],
    }
    test = load_words(trades)
    sentences = tuple(text for text in fluency_sentences() if len(text) < 60)[:8]
    battery = Battery(test, tuple(template_contexts(test, 1)), sentences=sentences, sense_every=20)
    settings = lh.settings.MitigateSettings(bias=test, methods=("symmetrized",), null=3)
    (one,) = (found := mitigate(bert, settings, tmp_path / "run", battery)).candidates
    assert one.passes == 3
    assert one.certificate.unmeasured == {
        AGREEMENT: "no sentence that ships states a group by words of trades"
    }
    assert AGREEMENT not in one.certificate.p_costs
    assert found.detected is not None
    assert found.detected.detected or "Not detected: the cosine gap" in found.sentence
    assert {f"gender: {PREFERENCE}", f"gender: {LOG_ODDS}"} <= {each.bias for each in found.spillover}


def test_the_stored_run_is_plain_json(run: Path) -> None:
    keys = [json.loads(line)["key"] for line in (run / "results.jsonl").read_text().splitlines()]
    assert keys[:2] == ["outside", "detected"]
    assert "candidates" in keys


@pytest.mark.nightly
def test_a_benchmark_is_a_target_fitted_ordered_and_tested_on_pairs_that_share_no_writer(
    tmp_path: Path,
) -> None:
    model = tiny("bert", max_position_embeddings=256)
    rows = [(*pair[:4], f"w{i}") for i, pair in enumerate([*PAIRS, *PAIRS])]
    file = str(write(tmp_path, rows))
    own = "ablated heads by crows-pairs"
    settings = MitigateSettings(GENDER, (own,), "crows-pairs", null=3, spillover=False, data=file)
    run = mitigate(model, settings, tmp_path / "run")
    assert run.detected is not None
    assert run.detected.bias == "crows-pairs"
    assert [each.method for each in run.candidates] == [own] * len(run.candidates)
    items = CROWS_PAIRS.load(file, Selection())
    early, late = dealt(items.clusters, 0)
    fitting, _ = dealt(sorted(early), 1)
    parts = [items.chosen([i for i, c in enumerate(items.clusters) if c in part]) for part in (fitting, late)]
    objective = CROWS_PAIRS.objective(model, parts[0])
    assert objective is not None
    best = highest(objective.absolute.gradients(model).scores, 1)
    one = next(each for each in run.candidates if each.strength == 1)
    assert list(parse_recipe(one.recipe, "recipe").gates) == best
    values = CROWS_PAIRS.natural(model, parts[1], [(), removed(model, best)]).values.mean(axis=1)
    assert (one.certificate.before, one.certificate.after) == pytest.approx(tuple(values), abs=1e-4)
    with pytest.raises(BadOption, match="needs its published file"):
        mitigate(model, replace(settings, data="", methods=()), tmp_path / "other")


def test_the_size_that_would_have_been_detected_has_the_critical_value() -> None:
    # items 1 and 3: mean 2, root mean square √5, standard deviation 1; 0.75 / √(0.75² + 1) = 0.6
    relative = 2 / 5**0.5
    assert detectable_size(0.6, 2.0, relative) == pytest.approx(0.75)
    assert detectable_size(0.6, -2.0, -relative) == pytest.approx(0.75)
    assert detectable_size(1.0, 2.0, relative) is None  # a mean is never above the root mean square
    assert detectable_size(0.6, 2.0, relative, most=0.5) is None
