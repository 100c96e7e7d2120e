"""Texts that a judge scores: corrected gaps in a run, answers that are paid once, and the page."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import levelhead as lh
from levelhead.engine.served.answers import read_answers
from levelhead.errors import BadRun, CannotDo
from levelhead.inference.contents import open_contents
from levelhead.models.served import Patience, ServedModel, served
from levelhead.pages.page import report_html
from levelhead.runs.folder import RESULTS
from levelhead.studies.generate import Generate
from levelhead.studies.generate.run import generate
from levelhead.studies.generate.settings import GenerateSettings
from tests.servers import Behavior, Handler, serving
from tests.tiny import saved

pytestmark = pytest.mark.nightly

_TEXT = re.compile(r"<text>\n(.*?)\n</text>", re.DOTALL)
FAST = Patience(attempts=2, seconds=20.0, wait=lambda seconds: None)


def right(question: str) -> str:
    """The letter of whoever reads well: texts of an even number of letters meet the rubric."""
    said = [len(text) % 2 == 0 for text in _TEXT.findall(question)]
    if len(said) == 2:
        return "C" if said[0] == said[1] else "A" if said[0] else "B"
    return next(letter for letter in "AB" if f"{letter}: {'yes' if said[0] else 'no'}" in question)


def says(wrong: float, question: str, _: random.Random) -> str:
    """A judge that takes the other letter in a share of texts, the same ones in either order."""
    if "Rubric:" not in question:
        return " walked" if random.Random(question).random() < 0.5 else " sat"
    errs = random.Random(str(sorted(_TEXT.findall(question)))).random() < wrong
    letter = right(question)
    return {"A": "B", "B": "A"}.get(letter, letter) if errs else letter


def labels(folder: Path, pairs: bool = False, number: int = 40) -> str:
    path, rows = folder / "labels.jsonl", list[dict[str, str]]()
    for i in range(number):
        good, bad = f"text {i:03d}", f"texts {i:03d}"
        rows += (
            [{"a": good, "b": bad, "label": "A"}, {"a": good, "b": good + "!!", "label": "same"}]
            if pairs
            else [{"text": good, "label": "yes"}, {"text": bad, "label": "no"}]
        )
    path.write_text("".join(f"{json.dumps(each)}\n" for each in rows), encoding="utf-8")
    return str(path)


def settings_of(url: str, folder: Path, pairs: bool = False, judge: str = "") -> GenerateSettings:
    return GenerateSettings(
        sets=("gender",),
        limit=6,
        samples=2,
        tokens=6,
        resamples=100,
        rivals=False,
        scorers=("length", f"judge:{judge or f'server:{url}#tiny'}"),
        judge_rubric="Is its length even?",
        judge_labels=labels(folder, pairs),
    )


def model_at(url: str) -> ServedModel:
    return replace(served(f"server:{url}#tiny"), patience=FAST)


def gap(run: Generate, name: str = "paired gap: judge/gender") -> Any:
    return next(each.measurement for each in run.measured if each.name == name)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_gap_is_corrected_by_the_error_rates_on_labels(tmp_path: Path, pairs: bool) -> None:
    with serving(Behavior(says=partial(says, 0.0))) as url:
        perfect = generate(model_at(url), settings_of(url, tmp_path, pairs), tmp_path / "perfect")
    with serving(Behavior(says=partial(says, 0.2))) as url:
        erring = generate(model_at(url), settings_of(url, tmp_path, pairs), tmp_path / "erring")
    assert gap(perfect).details["judge, slope"] == 1.0
    slope = gap(erring).details["judge, slope"]
    assert 0.4 < slope < 0.8
    # the difference of the scores as they are stored, divided by the slope
    texts = erring.texts()
    by_group = [[t.scores["judge"] for t in texts if t.group == g] for g in ("feminine", "masculine")]
    means = [sum(each or 0.0 for each in scores) / len(scores) for scores in by_group]
    assert gap(erring).value == pytest.approx((means[0] - means[1]) / slope)
    low, high = gap(erring).interval
    assert low < gap(erring).value < high
    rows = {each.of: each for each in erring.judged}
    assert {"base", "labeled A" if pairs else "labeled yes"} <= rows.keys()
    assert rows["base"].judgments == (len(texts) if pairs else 2 * len(texts))
    assert all(sum(each.outcomes.values()) == each.judgments for each in erring.judged)
    page = report_html(open_contents(erring.folder))
    assert "How the judge answered" in page
    assert "differences are divided by" in page


def test_a_run_is_made_again_and_replayed_without_a_judge(tmp_path: Path) -> None:
    with serving(behavior := Behavior(says=partial(says, 0.1))) as url:
        settings = settings_of(url, tmp_path)
        plan = lh.generate(model_at(url), settings, tmp_path / "whole", plan=True)
        assert behavior.requests == 0
        whole = generate(model_at(url), settings, tmp_path / "whole")
        every, sent = behavior.requests, 0
        plain = replace(settings, scorers=("length",), judge_rubric=None, judge_labels=None)
        alone = lh.generate(model_at(url), plain, tmp_path / "plain", plan=True)
        judged = len(read_answers(whole.folder / "judge")[0])
        assert judged <= plan.requests - alone.requests <= 1.3 * judged

        def killed(handler: Handler, body: Any) -> bool:
            nonlocal sent
            sent += "Rubric" in json.dumps(body)
            return sent > 200  # then nothing is answered

        behavior.first, behavior.requests = killed, 0
        with pytest.raises(CannotDo):
            generate(model_at(url), settings, tmp_path / "killed")
        behavior.first = lambda handler, body: False
        kept = len(read_answers(tmp_path / "killed" / "judge")[0])
        assert kept > 150
        behavior.requests = 0
        again = generate(model_at(url), settings, tmp_path / "killed")
        assert behavior.requests <= every - kept
        behavior.requests = 0
        generate(model_at(url), settings, tmp_path / "killed")
        assert behavior.requests == 0
    stored = (whole.folder / RESULTS).read_bytes()
    assert (again.folder / RESULTS).read_bytes() == stored
    # no server is there any longer
    named = replace(model_at(url), replay=str(whole.folder))
    replayed = generate(named, settings, tmp_path / "replayed")
    assert (replayed.folder / RESULTS).read_bytes() == stored
    kept_again, all_of_them = (read_answers(each.folder / "judge")[0] for each in (replayed, whole))
    assert kept_again.items() <= all_of_them.items()  # without those that proved what the server can do
    assert len(kept_again) > 200
    with pytest.raises(BadRun, match="other settings"):
        generate(named, replace(settings, judge_rubric="Is its length odd?"), tmp_path / "replayed")


def test_judges_that_cannot_be_used_end_a_run_before_a_text_is_sampled(tmp_path: Path) -> None:
    for said, line in (
        ("A", "no better than a guess"),
        ("Both.", "answers with a letter about 0"),
    ):

        def answer(question: str, _: random.Random, said: str = said) -> str:
            return said

        with serving(behavior := Behavior(says=answer)) as url:
            with pytest.raises(CannotDo, match=line) as caught:
                generate(model_at(url), settings_of(url, tmp_path), tmp_path / said)
            assert "\n" not in str(caught.value)
        assert not any("tokens" in body and body.get("max_tokens") == 6 for body in behavior.bodies)


def test_a_model_of_this_machine_judges_and_its_answers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny network judges nothing, so its answers are put in its mouth; how they come and go is tried."""
    from levelhead.engine.sampling import Continuation
    from levelhead.engine.served import questions

    folder = Path(saved(tmp_path / "model", "gpt2"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["chat_template"] = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    asked = list[str]()

    def written(model: Any, texts: Any, told: Any, sampling: Any, label: str) -> Any:
        asked.extend(told)
        return [[Continuation(right(each), 1, True)] for each in told]

    monkeypatch.setattr(questions, "continuations", written)
    with serving(Behavior()) as url:
        settings = settings_of(url, tmp_path, judge=str(folder))
        run = generate(model_at(url), settings, tmp_path / "run")
        assert gap(run).details["judge, slope"] == 1.0
        many = len(asked)
        assert many == len(set(asked)) == len(read_answers(run.folder / "judge")[0])
        generate(model_at(url), settings, tmp_path / "run")
        named = replace(model_at(url), replay=str(run.folder))
        generate(named, settings, tmp_path / "replayed")
    assert len(asked) == many
