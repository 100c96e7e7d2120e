"""Heads: scores, ablation, counter-stereotypes, and the run folder that they leave."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, gates, removed
from levelhead.edits.sites import Head
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe, BadRun, CannotDo
from levelhead.inference.head_claims import sources_text
from levelhead.measures.exchange import Exchange
from levelhead.measures.null import looks
from levelhead.models.model import Model
from levelhead.pages.charts.heads import write_figures
from levelhead.pages.page import write_report
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import shipped_counter_sentences
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable, fitting, word_table
from levelhead.studies.heads import Heads, null_models, open_heads
from levelhead.studies.heads.counter import arc_sheet, counter_attention, counter_sentences
from levelhead.studies.heads.crossfit import (
    Splits,
    cross_fit,
    held_on_other_words,
    highest,
    removal_closed,
    scores_closed,
    summaries,
)
from levelhead.studies.heads.records import (
    CROSS_FITTED,
    IN_COMMON,
    LARGEST_HELD,
    OF_HIGHEST,
    CrossFit,
)
from levelhead.studies.heads.run import heads, source_agreement
from levelhead.studies.heads.scores import head_scores, score_records
from levelhead.studies.heads.settings import HeadsSettings, HeadsStored
from tests.report.page_text import page_text
from tests.tiny import tiny
from tests.word_lists import GENDER, RELIGION, gender_toml, toml

Doubles = NDArray[np.float64]
SMALL = HeadsSettings(n_sentences=12, resamples=100, per_word=2, null=2, splits=1)


@pytest.fixture(scope="module")
def table() -> WordTable:
    return word_table(GENDER, template_contexts(GENDER, 2))


@pytest.fixture(scope="module")
def scores(bert: Model, table: WordTable) -> Doubles:
    return head_scores(bert, table).scores


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Heads:
    """A whole run on a tiny random model."""
    folder = tmp_path_factory.mktemp("heads")
    settings = replace(SMALL, bias=gender_toml(folder), sentences="shipped")
    return heads(tiny("bert"), settings, folder / "run")


# ---- scores


def one_graph(model: Model, test: WordTest, n: int) -> torch.Tensor:
    """The gradient of |SEAT| in every gate, written from the equations: one batch, one autograd graph."""
    contexts = template_contexts(test, n)
    batch = model.tokenizer(
        [c.text for c in contexts], padding=True, return_tensors="pt", return_offsets_mapping=True
    )
    offsets = batch.pop("offset_mapping")
    m = torch.ones(model.layers, model.heads, requires_grad=True)
    handles = []
    for layer in range(model.layers):

        def scale(_: object, args: tuple[torch.Tensor], layer: int = layer) -> tuple[torch.Tensor]:
            h = args[0]
            return ((h.unflatten(-1, (model.heads, -1)) * m[layer][:, None]).flatten(-2),)

        handles.append(model.output_projection(layer).register_forward_pre_hook(scale))
    try:
        with torch.enable_grad():
            states = model.base(**batch).last_hidden_state.double()
    finally:
        for handle in handles:
            handle.remove()
    vectors: dict[str, list[torch.Tensor]] = {}
    for i, c in enumerate(contexts):
        inside = (offsets[i, :, 0] < c.end) & (offsets[i, :, 1] > c.start)
        vectors.setdefault(c.word, []).append(states[i][inside].mean(0))
    static = {word: torch.stack(of_word).mean(0) for word, of_word in vectors.items()}
    cos = torch.nn.functional.cosine_similarity

    def s(w: str) -> torch.Tensor:
        sides = [
            torch.stack([cos(static[w], static[a], dim=0) for a in side]).mean() for side in (test.A, test.B)
        ]
        return sides[0] - sides[1]

    x, y = torch.stack([s(w) for w in test.X]), torch.stack([s(w) for w in test.Y])
    value = ((x.mean() - y.mean()) / torch.cat([x, y]).std()).abs()
    return torch.autograd.grad(value, m)[0]


def test_scores_equal_a_naive_single_graph(bert: Model, scores: Doubles) -> None:
    naive = one_graph(bert, GENDER, 2).double().numpy()
    assert scores == pytest.approx(naive, rel=1e-3, abs=1e-5 * np.abs(naive).max())


def test_finite_differences_agree_for_the_ten_largest_heads(
    bert: Model, table: WordTable, scores: Doubles
) -> None:
    step = 0.02
    largest = sorted(all_heads(bert), key=lambda head: -abs(scores[head]))[:10]
    variants = [gates(bert, {head: 1 + sign * step}) for head in largest for sign in (1, -1)]
    seats = np.array(word_objective(table).sizes(bert, variants)).reshape(10, 2)
    slope = (seats[:, 0] - seats[:, 1]) / (2 * step)
    b = np.array([scores[head] for head in largest])
    assert (np.sign(slope) == np.sign(b)).all()
    assert slope == pytest.approx(b, rel=0.05)


@pytest.mark.nightly
def test_removing_the_top_three_lowers_seat_more_than_random_triples_do(
    bert: Model, table: WordTable, scores: Doubles
) -> None:
    everyone = all_heads(bert)
    top = sorted(everyone, key=lambda head: -scores[head])[:3]
    rng = np.random.default_rng(0)
    triples = [[everyone[i] for i in rng.choice(len(everyone), 3, replace=False)] for _ in range(20)]
    base, cut, *random = word_objective(table).sizes(bert, [(), *(removed(bert, t) for t in (top, *triples))])
    assert base - cut > base - np.mean(random)


def test_scores_rank_from_the_most_biased_and_have_no_error_where_no_word_has_two_contexts() -> None:
    model = tiny("bert")
    test = replace(GENDER, A=("she", "her"), B=("he", "him"), pairs=())
    unsure = score_records(head_scores(model, word_table(test, template_contexts(test, 1))))
    assert all(score.stderr is None and score.held is None and not score.clear for score in unsure)
    tested = score_records(head_scores(model, word_table(test, template_contexts(test, 3))))
    assert [score.head for score in tested] == all_heads(model)
    best = min(tested, key=lambda score: score.rank)
    assert best.score == max(score.score for score in tested)
    assert all(score.stderr is not None for score in tested)


# ---- other words


def test_the_halves_of_a_split_share_no_word_and_keep_counterparts_together(table: WordTable) -> None:
    splits = Splits.of(table, GENDER, 3, seed=0)
    for first, second in splits.parts:
        assert not set(first.words) & set(second.words)
        assert {*first.words, *second.words} == set(table.words)
        for a, b in GENDER.pairs:
            assert (a in first.words) == (b in first.words)
        assert len(first.contexts) == len(first.words)  # one context a word
    assert splits.parts == Splits.of(table, GENDER, 3, seed=0).parts


def test_a_cross_fit_is_what_scores_and_removals_of_the_halves_are(table: WordTable) -> None:
    model = tiny("bert")
    splits = Splits.of(table, GENDER, 1, seed=0)
    (vectors,) = read_one(model, splits.table.static())
    (fit,) = cross_fit(model, splits, vectors, 2, None)
    scores = [head_scores(model, part).scores for part in splits.parts[0]]
    np.testing.assert_allclose(np.array(fit.halves), scores, atol=1e-6)
    chosen, other = [], []
    for side, own in enumerate(scores):
        variant = removed(model, highest(own, 2))
        changes = [np.diff(word_objective(part).sizes(model, [(), variant]))[0] for part in splits.parts[0]]
        chosen.append(changes[side])
        other.append(changes[1 - side])
    assert fit.chosen == pytest.approx(np.mean(chosen), abs=1e-6)
    assert fit.other == pytest.approx(np.mean(other), abs=1e-6)
    (of_counterfactual,) = cross_fit(model, splits, vectors, 2, 0)
    assert (of_counterfactual.chosen, of_counterfactual.other, of_counterfactual.halves) == (
        None,
        fit.other,
        fit.halves,
    )
    (scored,) = cross_fit(model, splits, vectors, 0, 0)  # what removal does is known well enough
    assert (scored.chosen, scored.other, scored.halves) == (None, None, fit.halves)


def made_fits(rng: np.random.Generator, planted: float) -> list[CrossFit]:
    """Two splits of a model and of 19 null models; the planted head scores so much in every half of the
    model."""
    fits = []
    for null_model in (None, *range(19)):
        for split in range(2):
            halves = rng.normal(size=(2, 4, 4))
            if null_model is None:
                halves[:, 1, 2] += planted
            scores = tuple(tuple(map(tuple, half)) for half in halves.tolist())
            fits.append(CrossFit(null_model, split, 0.0, -0.1, 0.0, scores))
    return fits


def test_a_planted_head_is_clear_and_a_null_model_in_the_models_place_has_none() -> None:
    rng = np.random.default_rng(0)
    held, test = held_on_other_words(made_fits(rng, planted=8.0), 19)
    assert test is not None
    assert [tuple(place) for place in np.argwhere(test.p_value <= 0.05)] == [(1, 2)]
    assert held[1, 2] == np.abs(held).max()
    silent = [held_on_other_words(made_fits(rng, planted=0.0), 19)[1] for _ in range(100)]
    assert sum(test is not None and bool((test.p_value <= 0.05).any()) for test in silent) < 12
    _, _, largest = summaries(made_fits(rng, planted=8.0), 19)
    assert largest.name == LARGEST_HELD
    assert largest.null is not None
    assert largest.null.p_value < 0.005


def test_later_null_models_without_a_removal_leave_its_verdict_and_those_on_scores_as_they_are() -> None:
    rng = np.random.default_rng(1)
    fits = [replace(fit, rho=rng.normal(), other=rng.normal()) for fit in made_fits(rng, planted=8.0)]
    fewer = [replace(fit, other=None) if (fit.null_model or 0) >= 9 else fit for fit in fits]
    assert removal_closed(fewer, 19)
    assert not scores_closed(fewer, 19)  # the planted head lies beyond all null models so far
    agreement, removal, largest = summaries(fewer, 19)
    assert [agreement, largest] == [summaries(fits, 19)[0], summaries(fits, 19)[2]]
    assert removal.null is not None
    assert (removal.null.draws, removal.settings["null_models"], removal.null.futile) == (9, 9, True)
    assert removal.null == summaries([fit for fit in fits if (fit.null_model or 0) < 9], 19)[1].null


def test_what_a_round_has_closed_is_not_asked_of_later_null_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(null_models, "removal_closed", lambda fits, planned: True)
    monkeypatch.setattr(null_models, "scores_closed", lambda fits, planned: False)
    settings = HeadsSettings(GENDER, experiments=("scores",), per_word=1, resamples=100, null=6, splits=1)
    run = heads(tiny("bert"), settings, tmp_path / "run")
    assert [fit.other is None for fit in run.cross_fits] == [False] * 6 + [True]
    assert [each.null.draws for each in run.cross_fit if each.null is not None] == [6, 5, 6]


def test_the_heads_of_some_null_models_are_scored_and_seat_is_asked_of_all(tmp_path: Path) -> None:
    settings = HeadsSettings(
        GENDER, experiments=("scores",), per_word=2, resamples=100, null=6, scored_nulls=3, splits=1
    )
    run = heads(tiny("bert"), settings, tmp_path / "run")
    assert [fit.null_model for fit in run.cross_fits] == [None, 0, 1, 2]
    assert run.seat is not None
    assert run.seat.measurement.null is not None
    assert run.seat.measurement.null.draws in looks(6)  # 5, where the association is settled, or 6
    nulls = [each.null for each in run.cross_fit]
    assert [(null.draws, null.planned) for null in nulls if null is not None] == [(3, 3)] * 3
    assert run.settings.scored_nulls == 3
    shown = "1 splits of the words into halves, on the first context of each word; 3 null models on the same"
    assert shown in page_text(write_report(tmp_path / "run"))
    older = run.settings.to_json()
    del older["scored_nulls"]
    assert HeadsStored.from_json(older).scored_nulls is None  # all of them


def test_a_planted_head_is_clear_against_nine_null_models_by_students_t() -> None:
    rng = np.random.default_rng(2)
    nine = [fit for fit in made_fits(rng, planted=8.0) if (fit.null_model or 0) < 9]
    _, test = held_on_other_words(nine, 9)
    assert test is not None
    assert [tuple(place) for place in np.argwhere(test.clear)] == [(1, 2)]
    five = [
        replace(fit, rho=rng.normal()) for fit in made_fits(rng, planted=0.0) if (fit.null_model or 0) < 5
    ]
    assert scores_closed(five, 9)  # futile


def test_the_scores_of_a_run_carry_what_holds_and_its_p(run: Heads) -> None:
    held, test = held_on_other_words(run.cross_fits, run.settings.null)
    assert test is not None
    assert [score.held for score in run.scores] == held.ravel().tolist()
    assert run.seat is not None
    exchanged = Exchange.of(run.seat.measurement)
    assert exchanged is not None
    larger = np.maximum(test.p_value, exchanged.p_value)  # no head carries what other words would not show
    assert [score.p for score in run.scores] == larger.ravel().tolist()
    assert run.clear_heads == [score.head for score in run.ranked if (score.p or 1.0) <= 0.05]
    assert [each.name for each in run.cross_fit] == list(CROSS_FITTED)


def test_the_rows_of_seat_are_stored_and_all_words_is_the_seat_of_the_run(run: Heads) -> None:
    rows = {row.name: row for row in run.seat_rows}
    assert list(rows) == ["all words", "matched by tokens"]
    assert run.seat is not None
    assert rows["all words"].measurement == run.seat.measurement
    assert rows["all words"].words == 22
    assert [row.name for row in run.seat_rows if row.sound] == [run.sound_row.name if run.sound_row else ""]
    assert run.seat.measurement.null is not None
    assert run.seat.measurement.null.draws == 2


# ---- counter-stereotypes


def test_attention_of_the_counter_experiment_is_what_the_model_returns(bert: Model) -> None:
    sentence = shipped_counter_sentences(5)[0]
    original, _ = counter_attention(bert, [sentence])
    before = bert.hf.config._attn_implementation
    bert.hf.set_attn_implementation("eager")
    try:
        tokens = bert.tokenizer(sentence.text, return_tensors="pt", return_offsets_mapping=True)
        offsets = tokens.pop("offset_mapping")[0]
        with torch.no_grad():
            weights = torch.stack(bert.hf(**tokens, output_attentions=True).attentions)[:, 0].numpy()
    finally:
        bert.hf.set_attn_implementation(before)
    written = [sentence.text[a:b] for a, b in offsets.tolist()]
    counted = [i for i, word in enumerate(written) if any(c.isalnum() for c in word)]

    def places(span: tuple[int, int]) -> list[int]:
        return [i for i, (a, b) in enumerate(offsets.tolist()) if a < span[1] and b > span[0]]

    for head in all_heads(bert):
        by_token = []
        for target in places(sentence.target_span):
            weight = weights[(*head, target)]
            low, high = weight[counted].min(), weight[counted].max()
            by_token.append(sum((weight[i] - low) / (high - low) for i in places(sentence.attribute_span)))
        assert original[(0, *head)] == pytest.approx(np.mean(by_token), abs=1e-4)


def test_the_sides_of_the_counter_experiment_make_up_its_whole(run: Heads) -> None:
    assert [test.group for test in run.counter] == ["biased", "regular"]
    for test in run.counter:
        sides = [side for side in run.counter_sides if side.group == test.group]
        assert [side.side for side in sides] == ["A", "B"]
        n = sum(side.measurement.n for side in sides)
        assert n == test.measurement.n
        total = sum(side.measurement.n * (side.measurement.value or 0.0) for side in sides)
        assert total / n == pytest.approx(test.measurement.value)


def test_the_main_number_is_the_biased_heads_change_less_the_regular_heads(run: Heads) -> None:
    by_group = {test.group: test.measurement for test in run.counter}
    parts = {(each.heads, each.part): each.measurement for each in run.contrasts}
    main = parts["biased - regular", "whole"]
    assert by_group["biased"].n == by_group["regular"].n == main.n
    assert main.value == pytest.approx((by_group["biased"].value or 0) - (by_group["regular"].value or 0))
    assert parts["biased", "whole"].value == pytest.approx(by_group["biased"].value)
    assert main.settings["clusterings"] == ["template", "attribute pair", "target"]
    assert main.null is not None
    assert main.null.p_value >= (main.details["p, template"] or 0)


def test_sentences_of_one_template_and_both_words_of_a_pair_are_one_cluster(bert: Model) -> None:
    questions = counter_sentences(bert, load_words("gender"), "shipped", 500)
    clusters = {name: set(labels) for name, labels in questions.clusterings().items()}
    assert {name: len(labels) for name, labels in clusters.items()} == {
        "template": 84,
        "attribute pair": 11,
        "target": 119,
    }
    assert "he/she" in clusters["attribute pair"]


def test_arcs_to_the_attribute_word_add_up_to_the_attention_of_the_counter_experiment(bert: Model) -> None:
    sentences = shipped_counter_sentences(2)
    (arcs, _), (original, _) = arc_sheet(bert, sentences).pairs, counter_attention(bert, sentences)
    assert (arcs.text, arcs.counter_text) == (sentences[0].text, sentences[0].counter)
    for head in all_heads(bert):
        weights = arcs.original.attention[head.layer][head.head]
        assert weights is not None
        total = sum(weights[i] or 0.0 for i in arcs.original.attribute)
        assert total == pytest.approx(original[(0, *head)], abs=1e-4)


def test_a_causal_model_is_not_asked_what_it_cannot_see() -> None:
    everything, gender = shipped_counter_sentences(), load_words("gender")
    behind = [s for s in everything if not s.attribute_first]
    assert behind
    model = tiny("gpt2")
    originals = fitting(model, [s.text for s in behind])
    counters = fitting(model, [s.counter for s in behind])
    unseen = sum(a and b for a, b in zip(originals, counters, strict=True))
    usable = counter_sentences(model, gender, "shipped", len(everything))
    assert all(s.attribute_first for s in usable.sentences)
    (lost,) = (number for reason, number in usable.unscored.items() if "causal model" in reason)
    assert lost == unseen > 0
    assert "attribute word" not in str(counter_sentences(tiny("bert"), GENDER, "shipped", 50).unscored)


# ---- the run


def test_a_run_holds_its_words_contexts_scores_results_and_figures(run: Heads) -> None:
    words = json.loads((run.folder / "words.json").read_text())
    assert words["X"] == list(GENDER.X)
    line = json.loads((run.folder / "contexts.jsonl").read_text().splitlines()[0])
    assert line["text"][line["start"] : line["end"]] == line["word"]
    with (run.folder / "head_scores.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["layer", "head", "score", "stderr", "held", "p", "clear"]
    assert (lines[0]["layer"], lines[-1]["layer"], lines[-1]["head"]) == ("1", "3", "4")
    assert [float(line["score"]) for line in lines] == [score.score for score in run.scores]
    assert len(run.counter_heads) == 12
    names = {path.name for path in write_figures(run.folder)}
    assert {"distribution.svg", "heatmap.svg", "heatmap-signed.svg", "counter.svg", "example.svg"} <= names
    assert all((run.folder / "figures" / name).read_text().startswith("<svg") for name in names)


def test_the_ablation_of_a_run_is_the_change_that_removal_makes(run: Heads) -> None:
    model, removal = tiny("bert"), run.removals[7]
    table = word_table(GENDER, template_contexts(GENDER, 2))
    base, cut = word_objective(table).sizes(model, [(), removed(model, [removal.head])])
    assert removal.head == Head(1, 3)
    assert removal.change == pytest.approx(cut - base, abs=1e-6)
    assert list(run.data.labeled("removals")) == ["1-1 to 3-4"]
    assert run.agreement is not None
    assert run.agreement.n == 12


def test_the_running_example_is_the_most_biased_head_and_a_regular_one_in_both_versions(
    run: Heads,
) -> None:
    biased, regular = run.example[0].head, run.example[2].head
    assert biased == run.ranked[0].head
    assert next(score.biased for score in run.scores if score.head == regular) is False
    shown = [(each.group, each.version, each.head) for each in run.example]
    assert shown == [
        ("biased", "original", biased),
        ("biased", "counter", biased),
        ("regular", "original", regular),
        ("regular", "counter", regular),
    ]


def test_a_killed_run_ends_like_one_that_was_never_killed(run: Heads, tmp_path: Path) -> None:
    killed = tmp_path / "run"
    shutil.copytree(run.folder, killed)
    lines = (killed / "results.jsonl").read_bytes().splitlines(keepends=True)
    (killed / "results.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:20])
    (killed / "head_scores.csv").unlink()
    heads(tiny("bert"), replace(SMALL, bias=run.settings.bias, sentences="shipped"), killed)
    for name in ("results.jsonl", "head_scores.csv", "contexts.jsonl"):
        assert (killed / name).read_bytes() == (run.folder / name).read_bytes()


def test_the_race_list_and_a_religion_list_of_a_user_run(tmp_path: Path) -> None:
    for bias in ("race", toml(tmp_path, RELIGION)):
        settings = replace(SMALL, bias=bias, experiments=("scores", "counter"))
        run = heads(tiny("llama"), settings, tmp_path / f"run-{Path(bias).stem}")
        assert len(run.scores) == 12
        assert "--sentences" in run.counter[0].measurement.reason
        assert (run.counter_sides, run.counter_heads, run.example) == ((), (), ())


def test_words_that_a_corpus_lacks_are_reported_and_the_rest_is_measured(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    spoken = [w for words in GENDER.groups().values() for w in words if w not in ("queen", "nurse")]
    texts = [
        f"Nobody knew why the {w} was there that day.\nWe talked about the {w} for hours." for w in spoken
    ]
    texts += [
        "Everyone said the woman was a gentle soul.",
        "They all thought that the man would stay strong.",
    ]
    corpus.write_text("\n".join(texts), encoding="utf-8")
    settings = replace(SMALL, bias=gender_toml(tmp_path), contexts=str(corpus), experiments=("counter",))
    run = heads(tiny("bert"), settings, tmp_path / "run")
    assert run.words is not None
    assert run.words.missing == ("queen", "nurse")
    assert run.counter[0].measurement.settings["sentences"] == str(corpus)
    assert run.sources is not None
    assert run.sources.value is not None
    assert -1 < run.sources.value < 1
    assert "in common" in sources_text(run)
    corpus.write_text("Nothing of all this can be found in here.\n", encoding="utf-8")
    with pytest.raises(BadProbe, match="no usable sentence"):
        heads(tiny("bert"), settings, tmp_path / "other")


@pytest.mark.nightly
def test_a_corpus_of_our_own_templates_gives_the_heads_of_the_templates(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    n = HeadsSettings().score_contexts_per_word(GENDER)
    corpus.write_text("\n".join(c.text for c in template_contexts(GENDER, n)), encoding="utf-8")
    settings = replace(
        SMALL, bias=gender_toml(tmp_path), contexts=str(corpus), per_word=n, experiments=("scores",)
    )
    run = heads(tiny("bert"), settings, tmp_path / "run")
    assert run.sources is not None
    assert run.sources.value is not None
    assert run.sources.value > 0.99
    assert "3 of the 3 highest in common" in sources_text(run)


def test_sources_that_rank_heads_in_opposite_order_agree_by_minus_1_and_share_no_highest_head() -> None:
    scores = np.arange(8.0).reshape(2, 4)
    agreement = source_agreement(scores, -scores, 3)
    assert agreement.value == pytest.approx(-1.0)
    assert (agreement.details[IN_COMMON], agreement.details[OF_HIGHEST]) == (0, 3)


def test_a_run_on_templates_has_one_source_and_says_nothing_of_another(run: Heads) -> None:
    assert run.sources is None
    assert sources_text(run) == ""


def test_mistakes_get_one_clear_line(tmp_path: Path) -> None:
    model = tiny("bert")
    typo = toml(tmp_path, RELIGION.replace("pairs", "pares"), "typo.toml")
    overlap = toml(tmp_path, RELIGION.replace('"peaceful"', '"violent"'), "overlap.toml")
    single = toml(
        tmp_path, RELIGION.replace('["violent", "hostile", "dangerous"]', '["violent"]'), "single.toml"
    )
    for bias, complaint in (
        (typo, 'line 4: unknown key "pares"'),
        (overlap, '"violent" is in Y and in X'),
        ("gendr", "gender"),
    ):
        with pytest.raises(BadProbe, match=complaint):
            heads(model, HeadsSettings(bias), tmp_path / "run")
    with pytest.raises(CannotDo, match="X has 1 and Y has 2 usable entries"):
        heads(model, HeadsSettings(single), tmp_path / "single")
    with pytest.raises(BadOption, match=r"per_word must be at most 16, .* \(got 17\)"):
        heads(model, HeadsSettings(per_word=17), tmp_path / "run")
    with pytest.raises(BadOption, match="experiments must be of scores, ablation, counter, debias"):
        HeadsSettings(experiments=("score",))
    with pytest.raises(BadOption, match=r"top must be at least 1 \(got 0\)"):
        HeadsSettings(top=0)


def test_a_run_keeps_its_sentences_and_does_not_go_on_with_others(run: Heads, tmp_path: Path) -> None:
    lines = (run.folder / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [json.loads(line) for line in lines]
    assert len(kept) == 12
    assert {key for line in kept for key in line} == {"text", "counter", "target", "attribute", "group"}
    corpus = tmp_path / "mine.txt"
    settings = replace(SMALL, bias=gender_toml(tmp_path), sentences=str(corpus), experiments=("counter",))
    corpus.write_text(
        "The woman became a nurse last year.\nYesterday the man met an engineer.\n", encoding="utf-8"
    )
    heads(tiny("bert"), settings, tmp_path / "run")
    corpus.write_text(
        "The woman became a nurse last May.\nYesterday the man met an engineer.\n", encoding="utf-8"
    )
    with pytest.raises(BadRun, match="sentences"):
        heads(tiny("bert"), settings, tmp_path / "run")


def test_shipped_sentences_serve_a_list_only_as_far_as_it_has_their_words(tmp_path: Path) -> None:
    usable = counter_sentences(tiny("bert"), GENDER, "shipped", 30)
    assert len(usable.sentences) > 2
    assert {s.attribute for s in usable.sentences} <= {*GENDER.A, *GENDER.B}
    assert {s.target for s in usable.sentences} <= {*GENDER.X, *GENDER.Y}
    with pytest.raises(BadProbe, match="No shipped sentence has words of religion"):
        counter_sentences(tiny("bert"), load_words(toml(tmp_path, RELIGION)), "shipped")


def test_words_that_the_tokenizer_cannot_write_are_missing_rather_than_one_vector(tmp_path: Path) -> None:
    text = RELIGION.replace('"hostile"', '"hostile", "Ω", "Ψ"')
    settings = HeadsSettings(toml(tmp_path, text), per_word=1, experiments=("scores",), resamples=100, null=2)
    words = heads(tiny("bert"), settings, tmp_path / "run").words
    assert words is not None
    assert words.missing == ("Ω", "Ψ")
    ((reason, skipped),) = words.skipped.items()
    assert ("tokenizer" in reason, skipped) == (True, 2)


def test_seat_takes_all_templates_and_scores_of_long_lists_take_fewer() -> None:
    settings, corpus = HeadsSettings(), HeadsSettings(contexts="corpus.txt")
    assert settings.contexts_per_word == 16
    assert settings.score_contexts_per_word(GENDER) == 16
    assert settings.score_contexts_per_word(load_words("gender")) == 2
    assert HeadsSettings(per_word=1).score_contexts_per_word(load_words("gender")) == 1
    assert (corpus.contexts_per_word, corpus.score_contexts_per_word(GENDER)) == (20, 20)
    assert HeadsSettings(score_contexts=5).score_contexts_per_word(GENDER) == 5


@pytest.mark.parametrize(
    "name",
    [
        "gpt",
        pytest.param("smollm2", marks=[pytest.mark.smollm2, pytest.mark.nightly]),
        pytest.param("minilm", marks=pytest.mark.minilm),
    ],
)
def test_scores_and_counter_run_on_real_models_of_other_families(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model: Model = request.getfixturevalue(name)
    settings = replace(SMALL, bias=gender_toml(tmp_path), sentences="shipped", n_sentences=6, per_word=1)
    settings = replace(settings, experiments=("counter",), null=0, splits=0)  # other tests have null models
    run = heads(model, settings, tmp_path / "run")
    scores = np.array([score.score for score in run.scores])
    assert scores.shape == (model.layers * model.heads,)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    assert run.counter[0].measurement.n >= 2
    assert open_heads(tmp_path / "run").model == model.name
