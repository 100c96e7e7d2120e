"""CounterActs and surveys of a model behind a server, by its likelihoods; numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelhead as lh
from levelhead.edits.sites import Head
from levelhead.errors import CannotDo
from levelhead.inference.contents import open_contents
from levelhead.measures.log_odds import NAME
from levelhead.models.served import served
from levelhead.pages.page import report_html
from levelhead.scoring.benchmarks.served import NOT_PARSED, PARSE_RATE
from levelhead.studies.counteracts.run import counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.generate.run import generate
from levelhead.studies.survey.run import survey
from levelhead.studies.survey.settings import SurveySettings
from tests import servers
from tests.scoring.benchmarks.test_bbq import write as write_bbq
from tests.servers import Behavior, Handler, log_ps, serving, split
from tests.studies.test_served import SMALL, model_at

BARE = CounteractsSettings(per_background=0, draws=100)
QUICK = SurveySettings(quick=True, measures=("triples", "fluency"))


@pytest.mark.nightly
def test_log_odds_are_of_the_likelihoods_of_words_behind_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # behind "The target is" the server expects "she" with 1.5 nats, and each of 23 other words with 4
    monkeypatch.setattr(servers, "_BIGRAMS", {*servers._BIGRAMS, ("is", "she")})
    with serving(behavior := Behavior()) as url:
        run = counteracts([model_at(url)], BARE, tmp_path / "run")
        sent = behavior.requests
        again = counteracts([model_at(url)], BARE, tmp_path / "run")
        assert behavior.requests == sent
    toward_women = np.log((np.exp(2.5) + 11) / 12)
    lines = [each for each in run.occupations(run.model) if each.name == NAME]
    assert len(lines) == 58
    assert [each.value for each in lines] == pytest.approx([toward_women] * 58, abs=1e-4)
    (form,) = run.forms
    assert form.form == "likelihoods of words"
    assert {"she", "he"}.isdisjoint(form.absent)
    assert "aunt" in form.absent or "gal" in form.absent  # words without a counterpart in the set
    margin = run.margin()
    assert margin is not None
    assert (margin.measurement.value, "likeliest tokens" in margin.measurement.reason) == (None, True)
    assert [cell.measurement for cell in again.cells] == [cell.measurement for cell in run.cells]
    assert "likeliest tokens" in report_html(open_contents(run.folder))
    replayed = counteracts(
        [replace(served(run.model), replay=str(run.folder))], BARE, tmp_path / "again"
    )  # there is no server any more
    assert (run.folder / "results.jsonl").read_bytes() == (replayed.folder / "results.jsonl").read_bytes()


@pytest.mark.nightly
def test_knowledge_changes_log_odds_and_stays_untested_without_null_models(tmp_path: Path) -> None:
    with serving(Behavior()) as url:
        run = counteracts([model_at(url)], replace(BARE, per_background=1), tmp_path / "run")
    assert run.settings.null == 0
    assert {each.verdict for each in run.knowledge()} <= {"untested", "no change", "not measured"}
    assert len(run.knowledge()) == 9


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"chat": True}, "chats have no likelihoods"),
        ({"remove_heads": (Head(0, 0),)}, "heads and recipes edit the network"),
        ({}, "does not give likelihoods .* so no text's likelihood is known; vLLM"),
    ],
)
def test_what_a_server_cannot_be_asked_is_refused_in_one_line(
    changed: dict[str, Any], line: str, tmp_path: Path
) -> None:
    with serving(Behavior(echo=False)) as url, pytest.raises(CannotDo, match=line) as caught:
        counteracts([model_at(url)], replace(BARE, **changed), tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.nightly
def test_answers_of_two_servers_are_kept_apart_and_replayed(tmp_path: Path) -> None:
    with serving(Behavior()) as url:
        both = [model_at(url), model_at(f"{url}/v2")]
        run = counteracts(both, BARE, tmp_path / "run")
    assert len(list((tmp_path / "run" / "servers").glob("*/answers.jsonl"))) == 2
    again = counteracts([replace(each, replay=str(run.folder)) for each in both], BARE, tmp_path / "again")
    assert (run.folder / "results.jsonl").read_bytes() == (again.folder / "results.jsonl").read_bytes()


def test_a_survey_measures_what_likelihoods_allow_and_says_what_they_do_not(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:
        name = f"server:{url}#tiny"
        run = survey(name, replace(QUICK, measures=()), tmp_path / "run")
        sent = behavior.requests
        survey([name], replace(QUICK, measures=()), tmp_path / "run")
        assert behavior.requests == sent
    (task,) = run.tasks
    measured = {each.name: each for each in task.measured}
    texts = [body["prompt"] for body in behavior.bodies if body.get("echo")]
    fluent = measured["fluency"]
    own = [log_ps(split(text))[1:] for text in texts[-int(fluent.details["texts"] or 0) :]]
    logs = [log for text in own for log in text if log is not None]
    assert fluent.value == pytest.approx(np.exp(-np.mean(logs)))
    assert fluent.n == len(logs)
    assert measured["preference"].value is not None
    assert "reads the network itself" in measured["seat"].reason
    assert (task.weights, task.doubt) == (f"{url}/v1#tiny", "")
    replayed = survey([replace(served(name), replay=str(run.folder))], run_settings(), tmp_path / "again")
    assert [each.measured for each in replayed.tasks] == [task.measured]


def run_settings() -> SurveySettings:
    return replace(QUICK, measures=())


def test_a_survey_without_likelihoods_has_sampled_choices_with_a_parse_rate_and_reasons(
    tmp_path: Path,
) -> None:
    def answers(handler: Handler, body: Any) -> bool:
        """A letter in three of four samples, else what names no choice."""
        if not str(body.get("prompt", "")).endswith("Answer:"):
            return False
        said = " A" if body["seed"] % 4 else " I would rather not say"
        choice = {"index": 0, "text": said, "finish_reason": "stop", "logprobs": None}
        handler.give(200, {"id": "x", "model": "tiny", "choices": [choice], "usage": {}})
        return True

    settings = replace(QUICK, benchmarks={"bbq": write_bbq(tmp_path)})
    with serving(Behavior(echo=False, first=answers)) as url:
        run = survey([model_at(url)], settings, tmp_path / "run")
    measured = {each.name: each for each in run.tasks[0].measured}
    for name in ("fluency", "preference"):
        assert measured[name].value is None
        assert "does not give likelihoods" in measured[name].reason
    answered = next(each for name, each in measured.items() if name.startswith("bbq") and each.n)
    assert 0.5 < (answered.details[PARSE_RATE] or 0.0) < 1
    assert answered.unscored[NOT_PARSED] > 0


def test_a_survey_of_a_server_that_is_not_there_goes_on_with_the_others(tmp_path: Path) -> None:
    gone = replace(model_at("http://127.0.0.1:9"), name="server:http://127.0.0.1:9#tiny")
    with serving(Behavior()) as url:
        run = survey([gone, model_at(url)], QUICK, tmp_path / "run")
    lost, there = run.tasks
    assert lost.failed
    assert not there.failed


def test_an_outage_is_no_result_of_a_survey_and_the_same_command_goes_on(tmp_path: Path) -> None:
    seen: list[Any] = []

    def ends(handler: Handler, body: Any) -> bool:
        seen.append(body)
        if len(seen) > 60:  # behind its proofs, among next sentences
            handler.give(503, {"error": "busy"})
        return len(seen) > 60

    with serving(behavior := Behavior(first=ends)) as url:
        (lost,) = survey([model_at(url)], QUICK, tmp_path / "run").tasks
        behavior.first = lambda handler, body: False
        (task,) = survey([model_at(url)], QUICK, tmp_path / "run").tasks
    assert lost.failed
    assert "answers 503 (busy)" in lost.reason
    assert not task.failed
    assert {each.name: each.value is None for each in task.measured}["preference"] is False


def test_a_survey_of_a_server_is_planned_without_a_request(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:
        plan = lh.survey([f"server:{url}#tiny"], QUICK, tmp_path / "run", plan=True)
        assert behavior.requests == 0
        survey([f"server:{url}#tiny"], QUICK, tmp_path / "run")
    assert 0.7 * plan.requests < behavior.requests <= plan.requests


def test_the_mirror_image_of_texts_is_read_where_a_server_gives_likelihoods(tmp_path: Path) -> None:
    settings = replace(SMALL, sets=("occupations",))
    with serving(Behavior()) as url:
        run = generate(model_at(url), settings, tmp_path / "run")
    divergence = next(each for each in run.measured if each.name == "mirror divergence").measurement
    exact = [each for each in run.texts() if each.log_p is not None]
    assert exact
    for each in exact:  # Σ log p of the words behind the prompt
        logs = log_ps(split(f"{each.given}{each.text}"))
        behind = logs[len(split(each.given)) :]
        assert each.log_p == pytest.approx(sum(log for log in behind if log is not None))
    assert divergence.value is not None
    with serving(Behavior(echo=False)) as url:
        silent = generate(model_at(url), settings, tmp_path / "silent")
    assert not [each for each in silent.measured if each.name.startswith("mirror divergence")]
