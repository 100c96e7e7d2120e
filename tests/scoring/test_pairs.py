"""Asking about pairs of sentences: against the model's own forward pass, wrong models and wrong files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from levelhead.edits.sites import Site
from levelhead.edits.subspace import Projection
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures import stereoset
from levelhead.measures.catalog import UNTESTED, verdict
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.probes.nli import AbilitySet, LabeledPair, nli_probe
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.scoring.battery import TRIPLE_MEASURES
from levelhead.scoring.pairs import (
    ask_ability,
    ask_nli,
    ask_nsp,
    likelihood_answers,
    nli_labels,
    triple_measures,
)
from tests.tiny import tiny

FEW = Resampling(resamples=100)
PROBE = nli_probe(
    occupations=["nurse", "engineer"], contexts=["saw a book", "gave a book", "knows a teacher"]
)
ABLE = AbilitySet(
    "three",
    (
        LabeledPair("She works.", "She works.", "entailment"),
        LabeledPair("He works.", "Who knows?", "neutral"),
        LabeledPair("He works.", "He was tired.", "contradiction"),
    ),
    "0" * 64,
)


@pytest.fixture(scope="module")
def triples(tmp_path_factory: pytest.TempPathFactory) -> TripleSet:
    """Five triples of our own, in the file form that a user writes."""
    lines = [
        {
            "context": f"{who} works.",
            "stereotype": f"{who} is a nurse.",
            "anti": f"{who} is an engineer.",
            "unrelated": "The book was unbelievable.",
        }
        for who in ("The woman", "My mother", "The man", "The girl", "Her sister")
    ]
    path = tmp_path_factory.mktemp("triples") / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return load_triples(path)


def own_logits(model: Model, first: str, second: str) -> torch.Tensor:
    """One text alone through the model's own forward: no padding, no engine."""
    given = model.tokenizer(first, second, return_tensors="pt")
    with torch.no_grad():
        out = model.hf(**given)
    logits: torch.Tensor = out.get("seq_relationship_logits", out.get("logits"))
    return logits[0].double()


def some_variant(model: Model) -> tuple[Projection, ...]:
    drawn = torch.randn(1, model.config.hidden_size, generator=torch.Generator().manual_seed(4))
    basis = torch.nn.functional.normalize(drawn)
    return (Projection(Site(1, "block"), basis, torch.ones(1)),)


def own_probabilities(model: Model, triples: TripleSet) -> NDArray[np.float64]:
    """p(next sentence) by the model's own forward: [pair, original or null model, kind of sentence]"""
    p = np.zeros((len(triples.pairs), 2, 3))
    for i, pair in enumerate(triples.pairs):
        for j, triple in enumerate((pair.original, pair.swapped)):
            assert triple is not None
            for k, sentence in enumerate((triple.stereotype, triple.anti, triple.unrelated)):
                p[i, j, k] = float(own_logits(model, triple.context, sentence).softmax(0)[0])
    return p


def test_next_sentence_measures_equal_those_of_the_models_own_forward(triples: TripleSet) -> None:
    model = tiny("bert", "nsp")
    variant = some_variant(model)
    measured = ask_nsp(model, triples, [(), variant], FEW)
    for edits, measurements in zip(((), variant), measured, strict=True):
        with model.edited(*edits):
            p = own_probabilities(model, triples)
        s = stereoset.triple_strength(p[:, 0, 0], p[:, 0, 1], p[:, 1, 1], p[:, 1, 0])
        strength = stereoset.strength(s, resampling=FEW)
        assert measurements["strength"].value == pytest.approx(strength.value, abs=1e-5)
        assert measurements["ss"].value == pytest.approx(np.mean(p[:, 0, 0] > p[:, 0, 1]))
        distance = np.abs(p[:, 0, 2] - p[:, 1, 2]).max()
        assert measurements["distance"].value == pytest.approx(distance, abs=1e-5)
    assert measured[0]["strength"].value != pytest.approx(measured[1]["strength"].value, abs=1e-6)
    assert tuple(measured[0]) == TRIPLE_MEASURES
    assert [m.name for m in measured[0].values()] == list(measured[0])
    assert measured[0]["lms"].settings["data_hash"] == triples.fingerprint


def test_triples_without_a_null_model_are_counted_not_scored(tmp_path: Path) -> None:
    path = tmp_path / "stereoset.csv"
    path.write_text(
        "Target,Context,Stereotype Sentence,Anti-stereotype Sentence,Unrelated Sentence\n"
        "woman,The woman works.,The woman is a nurse.,The woman is an engineer.,Who knows?\n"
        "teacher,The teacher works.,The teacher is tired.,The teacher is not.,Who knows?\n",
        encoding="utf-8",
    )
    measurements = ask_nsp(tiny("bert", "nsp"), load_triples(path), resampling=FEW)[0]
    assert (measurements["ss"].n, measurements["strength"].n) == (2, 1)
    assert measurements["strength"].unscored == {"triple without a counterfactual": 1}
    assert measurements["lms"].settings["rule"] == "stereoset"


def test_triples_without_any_gender_word_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    triple = {
        "context": "It rains.",
        "stereotype": "It is wet.",
        "anti": "It is dry.",
        "unrelated": "A book fell.",
    }
    path.write_text(json.dumps(triple) + "\n", encoding="utf-8")
    with pytest.raises(BadProbe, match="no gender word"):
        load_triples(path)


@pytest.mark.parametrize("head", ["mlm", "nli", "base"])
def test_a_model_without_a_next_sentence_head_is_refused_in_one_line(head: str, triples: TripleSet) -> None:
    with pytest.raises(CannotDo, match=r"cannot do the next-sentence measures .* It can do: ") as caught:
        ask_nsp(tiny("bert", head), triples)
    assert "\n" not in str(caught.value)


def test_causal_triples_follow_the_mean_log_likelihood_of_the_next_sentence(triples: TripleSet) -> None:
    model = tiny("gpt2")
    measurements = triple_measures(triples, likelihood_answers(model, triples)[0], FEW)
    p = np.zeros((len(triples.pairs), 2, 3))
    for i, pair in enumerate(triples.pairs):
        for j, triple in enumerate((pair.original, pair.swapped)):
            assert triple is not None
            means = []
            for sentence in (triple.stereotype, triple.anti, triple.unrelated):
                context = len(model.tokenizer(triple.context)["input_ids"])
                ids = model.tokenizer(f"{triple.context} {sentence}", return_tensors="pt")["input_ids"]
                with torch.no_grad():
                    logs = model.hf(ids).logits[0].double().log_softmax(-1)
                written = model.tokenizer.convert_ids_to_tokens(ids[0].tolist())
                # the space between the sentences, where it is a token of its own, belongs to neither
                own = [
                    float(logs[t - 1, ids[0, t]]) for t in range(context, len(written)) if written[t] != "Ġ"
                ]
                means.append(np.mean(own))
            p[i, j] = np.exp(means) / np.exp(means).sum()
    s = stereoset.triple_strength(p[:, 0, 0], p[:, 0, 1], p[:, 1, 1], p[:, 1, 0])
    expected = stereoset.strength(s, resampling=FEW)
    assert measurements["strength"].value == pytest.approx(expected.value, abs=1e-5)
    assert "log-likelihood" in measurements["strength"].settings["probability"]


def test_triples_by_likelihood_are_refused_for_a_masked_model(triples: TripleSet) -> None:
    with pytest.raises(CannotDo, match="triples by likelihood"):
        likelihood_answers(tiny("bert", "mlm"), triples)


# ---- inferences


@pytest.mark.parametrize("family", ["bert", "mobilebert", "roberta", "distilbert", "electra", "albert"])
def test_labels_are_those_of_the_classifiers_own_forward(family: str) -> None:
    model = tiny(family, "nli")
    variant = some_variant(model)
    predicted = nli_labels(model, PROBE.pairs, [(), variant])
    for edits, labels in zip(((), variant), predicted, strict=True):
        with model.edited(*edits):
            own = [int(own_logits(model, p.premise, p.hypothesis).argmax()) for p in PROBE.pairs]
        assert labels.tolist() == own


def test_fairness_is_accuracy_times_parity_of_the_asked_pairs() -> None:
    measurements = ask_nli(tiny("bert", "nli"), PROBE, resampling=FEW)[0]
    labels = nli_labels(tiny("bert", "nli"), PROBE.pairs)[0]
    accuracy, parity = measurements["accuracy"].value, measurements["parity"].value
    assert accuracy == pytest.approx(np.mean(labels == 1))
    assert measurements["fairness"].value == pytest.approx((accuracy or 0) * (parity or 0))
    assert measurements["fairness"].settings["data_hash"] == PROBE.fingerprint


def relabeled(names: dict[int, str]) -> Model:
    model = tiny("bert", "nli")
    model.hf.config.id2label = names
    return model


def test_another_label_order_is_read_from_the_config_not_guessed() -> None:
    plain = nli_labels(tiny("bert", "nli"), PROBE.pairs)[0]
    turned = relabeled({0: "CONTRADICTION", 1: "ENTAILMENT", 2: "NEUTRAL"})
    assert nli_labels(turned, PROBE.pairs)[0].tolist() == [{0: 2, 1: 0, 2: 1}[label] for label in plain]


def test_labels_without_names_need_the_option_and_then_work() -> None:
    unnamed = relabeled({0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"})
    with pytest.raises(CannotDo, match="does not say which is entailment"):
        nli_labels(unnamed, PROBE.pairs)
    plain = nli_labels(tiny("bert", "nli"), PROBE.pairs)
    assert np.array_equal(nli_labels(unnamed, PROBE.pairs, labels="entailment,neutral,contradiction"), plain)


def test_a_classifier_with_two_labels_is_refused() -> None:
    with pytest.raises(CannotDo, match="has 2 labels"):
        ask_nli(relabeled({0: "entailment", 1: "not_entailment"}), PROBE)


@pytest.mark.parametrize("head", ["nsp", "mlm"])
def test_a_model_that_is_no_classifier_is_refused_by_the_nli_measures(head: str) -> None:
    with pytest.raises(CannotDo, match="cannot do the NLI measures"):
        ask_nli(tiny("bert", head), PROBE)


def test_ability_is_the_share_of_right_answers_and_names_its_set() -> None:
    model = tiny("bert", "nli")
    measured = ask_ability(model, ABLE)[0]
    own = [int(own_logits(model, p.premise, p.hypothesis).argmax()) for p in ABLE.pairs]
    assert measured.value == pytest.approx(np.mean(np.asarray(own) == [0, 1, 2]))
    assert measured.settings["data"] == "three"


# ---- the shipped model on the shipped triples


@pytest.fixture(scope="module", params=[8, pytest.param(1, marks=pytest.mark.nightly)])
def shipped(request: pytest.FixtureRequest) -> dict[float, dict[str, Measurement]]:
    """All measures of next sentences, by what every logit of the head was multiplied by: of one triple in
    eight, and of all.
    """
    model, asked = load("lh:bert-mini"), load_triples().every(request.param)
    assert model.classification_head is not None
    measured = {1.0: ask_nsp(model, asked)[0]}
    with torch.no_grad():
        for part in model.classification_head.parameters():
            part.mul_(0.5)
    measured[0.5] = ask_nsp(model, asked)[0]
    return measured


of_all = pytest.mark.parametrize("shipped", [pytest.param(1, marks=pytest.mark.nightly)], indirect=True)


def number(measurements: dict[str, Measurement], name: str) -> float:
    value = measurements[name].value
    assert value is not None
    return value


@of_all
def test_strength_of_bert_mini_cannot_be_told_from_its_noise_floor(
    shipped: dict[float, dict[str, Measurement]],
) -> None:
    strength = shipped[1.0]["strength"]
    assert strength.null is not None
    assert strength.value == pytest.approx(0.258, abs=2e-3)
    assert strength.null.floor == pytest.approx(0.226, abs=5e-3)
    assert strength.null.p_value == pytest.approx(0.18, abs=0.02)
    assert "null model" in verdict(strength)


@of_all
def test_bert_mini_prefers_stereotypes_over_all_triples(shipped: dict[float, dict[str, Measurement]]) -> None:
    preference = shipped[1.0]["preference"]
    assert preference.value == pytest.approx(0.084, abs=2e-3)
    assert preference.null is not None
    assert preference.null.p_value < 0.01
    assert verdict(preference) == UNTESTED  # no null models were asked: nothing is claimed
    paired = [number(shipped[1.0], name) for name in ("ss", "ss_swapped", "ss_paired")]
    assert paired[2] == pytest.approx((paired[0] + paired[1]) / 2)


@pytest.mark.slow
def test_halved_logits_lower_strength_and_cost_fifteen_points_of_separation(
    shipped: dict[float, dict[str, Measurement]],
) -> None:
    before, after = shipped[1.0], shipped[0.5]
    assert number(after, "strength") < 0.65 * number(before, "strength")
    assert number(after, "separation") < number(before, "separation") - 0.14
    for blind in ("lms", "ss_paired", "nsp_accuracy"):
        assert number(after, blind) == pytest.approx(number(before, blind), abs=1e-3)


@pytest.mark.slow
def test_halved_logits_leave_what_is_scale_free_where_it_was(
    shipped: dict[float, dict[str, Measurement]],
) -> None:
    few = shipped[1.0]["strength"].n < 100
    for name, tolerance in (("preference", 1e-4), ("strength", 0.1 if few else 0.02)):
        before, after = (shipped[scale][name].details["scale_free"] for scale in (1.0, 0.5))
        assert after == pytest.approx(before, rel=tolerance)
