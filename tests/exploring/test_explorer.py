"""What a page asks, without a page: the numbers are those of the API for the same edits."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelhead as lh
from levelhead.edits.gates import gates
from levelhead.edits.sites import Head, Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.sampling import Sampling, continuations
from levelhead.errors import BadOption, CannotDo, LevelheadError
from levelhead.exploring import answers
from levelhead.exploring.answers import NULL_MODELS, TEXTS, TOKENS, Piece, WrittenText, pieces
from levelhead.exploring.background import Background
from levelhead.exploring.benchmarks import Comparison, benchmarks, compared, scored_heads
from levelhead.exploring.explorer import Explorer, saved
from levelhead.exploring.sentences import Stated, question
from levelhead.exploring.state import PageState
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import parse_recipe
from levelhead.models.model import Model, load
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.name_beliefs import strange_names
from levelhead.probes.swap import stated_genders
from levelhead.probes.triples import load_triples
from levelhead.probes.words import WordTest, load_words
from levelhead.runs.study import open_run
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import COSINE, PREFERENCE, NaturalItems, natural_bias
from levelhead.studies.heads import Heads
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.heads.settings import HeadsSettings
from tests.exploring.mitigated_runs import mitigated_run
from tests.studies.head_runs import empty_run, scored_run
from tests.tiny import tiny

GENDER = load_words("gender")
SENTENCE = "My mother said that ___ was tired."
NEUTRAL = PageState(
    "The nurse said that ___ was tired.", counterfactual="The engineer said that ___ was tired."
)
OFF = PageState(SENTENCE, gates={Head(0, 1): 0.0, Head(2, 3): 0.5})
HOSTILE = (
    "<script>alert(1)</script> ___ <img src=x onerror=alert(1)>",
    "אמא אמרה ש ___ עייפה \u202e abc",
    "👩‍🚀 said ___ was tired 🏳️‍🌈",
    "",
    "\x00\x01 ___ \ud7ff",
    "word " * 2_000 + "___",
)


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("bert")


@pytest.fixture(scope="module")
def explorer(model: Model) -> Explorer:
    return Explorer(model, GENDER)


def log_odds(model: Model, sentences: tuple[str, str], variants: list[Any]) -> Any:
    """[variant, text], as the API gives them."""
    asked = [question(model, sentence, ("she", "he")) for sentence in sentences]
    logs = read_one(model, TokenLogProbs([each.text for each in asked], asked[0].tokens), variants)
    return logs[..., 0].astype(np.float64) - logs[..., 1]


def shown(explorer: Explorer, state: PageState) -> Any:
    answer = explorer.answer(state)
    return np.asarray([[odds.log_odds for odds in text.odds] for text in answer.texts]).T


# ---- answers


def test_odds_are_those_of_the_api_for_the_same_gates(explorer: Explorer, model: Model) -> None:
    both = (SENTENCE, "My father said that ___ was tired.")
    expected = log_odds(model, both, [(), gates(model, OFF.gates)])
    np.testing.assert_allclose(shown(explorer, OFF), expected, atol=1e-6)
    assert abs(expected[0] - expected[1]).min() > 1e-3


def test_one_read_answers_both_texts_before_and_after(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def counted(model: Model, reading: Any, variants: Any, **rest: Any) -> Any:
        asked.append((len(reading.texts), len(variants)))
        return read_one(model, reading, variants, **rest)

    monkeypatch.setattr(answers, "read_one", counted)
    explorer.answer(OFF)
    assert asked == [(2, 2)]


def test_a_second_model_stands_beside(model: Model) -> None:
    other = tiny("bert", seed=1)
    answer = Explorer(model, GENDER, second=other).answer(OFF)
    assert answer.sides == (model.name, "changed", other.name)
    expected = log_odds(other, (SENTENCE, answer.counterfactual.text), [()])[0]
    assert [text.odds[2].log_odds for text in answer.texts] == pytest.approx(list(expected), abs=1e-6)


def test_bars_hold_the_likeliest_words_with_their_probabilities_on_every_side(
    explorer: Explorer, model: Model
) -> None:
    text = explorer.answer(OFF).texts[0]
    every = TokenLogProbs([text.text], range(int(model.config.vocab_size)))
    logs = read_one(model, every, [(), gates(model, OFF.gates)])[:, 0]
    best = model.tokenizer.decode([int(logs[0].argmax())]).strip().removeprefix("##")
    bar = next(each for each in text.bars if each.word.removeprefix("##") == best)
    assert bar.p[0] == pytest.approx(float(np.exp(logs[0].max())), abs=1e-6)
    assert len(bar.p) == 2


def test_an_edited_counterfactual_is_asked_as_it_is_typed(explorer: Explorer, model: Model) -> None:
    own = PageState(SENTENCE, counterfactual="The engineer said that ___ was not.")
    np.testing.assert_allclose(
        shown(explorer, own)[0], log_odds(model, (SENTENCE, str(own.counterfactual)), [()])[0], atol=1e-6
    )


def test_a_symmetrized_model_has_opposite_odds_for_the_counterfactual(explorer: Explorer) -> None:
    sentence, counterfactual = shown(explorer, PageState(SENTENCE, symmetrized=True))[1]
    assert sentence == pytest.approx(-counterfactual, abs=1e-4)
    assert abs(sentence) > 1e-3


@pytest.mark.parametrize("sentence", HOSTILE)
def test_a_hostile_sentence_is_answered_or_is_one_line(explorer: Explorer, sentence: str) -> None:
    try:
        said = explorer.answer(PageState(sentence)).state.sentence
    except LevelheadError as error:
        said = str(error)
    assert said == sentence or (0 < len(said) < 500 and "\n" not in said)


def test_a_model_without_blanks_and_next_words_is_refused() -> None:
    with pytest.raises(BadOption, match="masked or causal"):
        Explorer(tiny("bert", "base"), GENDER)
    strange = WordTest("strange", ("xylophonist",), ("glockenspieler",), ("a",), ("b",))
    with pytest.raises(BadOption, match="No pair"):
        Explorer(tiny("bert"), strange)


# ---- why


def test_the_gradient_is_that_of_this_sentences_log_odds(explorer: Explorer, model: Model) -> None:
    found = explorer.why(OFF)
    step, head = 1e-2, Head(1, 2)
    ends = [gates(model, {**OFF.gates, head: 1 + way * step}) for way in (-1, 1)]
    low, high = log_odds(model, (SENTENCE, SENTENCE), ends)[:, 0]
    assert found.scores[1][2] == pytest.approx((high - low) / (2 * step), rel=0.02, abs=1e-4)
    assert found.log_odds == pytest.approx(shown(explorer, OFF)[1, 0], abs=1e-5)


def test_attention_adds_up_and_starts_at_the_blank_or_at_the_chosen_word(explorer: Explorer) -> None:
    found = explorer.attention(OFF)
    np.testing.assert_allclose(np.asarray(found.weights).sum(-1), 1, atol=0.01)
    assert [found.tokens[i] for i in found.source] == ["[MASK]"]
    own = explorer.attention(PageState(SENTENCE, word=SENTENCE.index("said") + 1))
    assert [own.tokens[i] for i in own.source] == ["said"]


def test_words_of_a_text_are_found_by_their_characters(explorer: Explorer) -> None:
    found = explorer.attention(PageState("It's ___, here"))
    assert [found.text[slice(*span)] for span in found.words] == ["It's", "[MASK]", "here"]


# ---- what it writes

BEGUN = "My mother said that she"


@pytest.fixture(scope="module")
def writer() -> Model:
    return tiny("gpt2")


def plain(text: WrittenText) -> str:
    return "".join(piece.text for piece in text.pieces)


def test_texts_are_those_of_the_api_with_the_same_random_numbers_for_both_sentences(writer: Model) -> None:
    state = PageState(BEGUN, gates={Head(0, 1): 0.0}, seed=4)
    found = Explorer(writer, GENDER).continuations(state)
    prompts = [BEGUN, "My father said that he"]
    assert ["".join(piece.text for piece in prompt) for prompt in found.prompts] == prompts
    assert [side.side for side in found.sides] == [writer.name, "changed"]
    for side, variant in zip(found.sides, ((), gates(writer, state.gates)), strict=True):
        for prompt, texts in zip(prompts, side.texts, strict=True):
            (own,) = continuations(writer, [prompt], ["explore"], Sampling(TEXTS, TOKENS, seed=4), variant)
            assert [(plain(text), text.ended) for text in texts] == [(o.text, o.ended) for o in own]
    assert found.sides[0].texts != found.sides[1].texts


def test_the_same_seed_writes_the_same_texts_and_an_equal_counterfactual_an_equal_text(writer: Model) -> None:
    one, other = (Explorer(writer, GENDER).continuations(PageState(BEGUN, seed=7)) for _ in range(2))
    assert one == other
    explorer = Explorer(writer, GENDER)
    assert explorer.continuations(PageState(BEGUN, seed=8)).sides != one.sides
    same = explorer.continuations(PageState("The book was"))
    assert same.sides[0].texts[0] == same.sides[0].texts[1]
    assert len({plain(text) for text in same.sides[0].texts[0]}) == TEXTS


@pytest.mark.nightly
def test_a_symmetrized_model_writes_mirror_images() -> None:
    explorer, swap, mirrored, exchanged = Explorer(load("lh:gpt-mini"), GENDER), GenderSwap(), 0, 0
    for seed in range(3):
        state = PageState("My mother went home because", symmetrized=True, seed=seed)
        unmodified, changed = explorer.continuations(state).sides
        assert unmodified.texts != changed.texts
        for her, his in zip(*(map(plain, texts) for texts in changed.texts), strict=True):
            both = [f"My mother went home because{her}", f"My father went home because{his}"]
            if not strange_names(both):
                assert swap(both[0]).text == both[1]
                mirrored += 1
                exchanged += her != his
    assert mirrored >= 4
    assert exchanged >= 1


def test_group_words_of_a_text_are_marked_and_nothing_in_it_steers_the_page() -> None:
    text = "The nurse said she👩 hit \u202ehim"
    found = pieces(text, stated_genders(text), len("The nurse said s"))
    assert found == (Piece("he", "first"), Piece("👩 hit \\u202e"), Piece("him", "second"))
    assert pieces("", ()) == ()


def test_a_masked_model_writes_nothing_and_a_long_sentence_says_why_there_is_no_text(
    explorer: Explorer, writer: Model
) -> None:
    assert not explorer.facts.writes
    with pytest.raises(CannotDo, match="continuations"):
        explorer.continuations(OFF)
    long = PageState("The nurse said that she was tired and that he was not. " * 6)
    (side,) = Explorer(writer, GENDER).continuations(long).sides
    assert side.texts == ()
    assert "positions" in side.line


def test_texts_are_ended_between_two_tokens_and_leave_no_trace(writer: Model) -> None:
    class Ended(Exception):
        pass

    explorer, checks = Explorer(writer, GENDER), []

    def check() -> None:
        checks.append(True)
        if len(checks) == 5:
            raise Ended

    with pytest.raises(Ended):
        explorer.continuations(PageState(BEGUN), check)
    found = explorer.continuations(PageState(BEGUN))
    assert found == Explorer(writer, GENDER).continuations(PageState(BEGUN))
    assert len(checks) == 5  # nobody is asked any more


# ---- null models


def test_bands_are_drawn_from_null_models_and_the_difference_has_one_of_its_own(
    explorer: Explorer, model: Model
) -> None:
    null = []
    both = (NEUTRAL.sentence, str(NEUTRAL.counterfactual))
    for seed in range(NULL_MODELS):
        with as_null_model(model, draw_null_model(model, seed)):
            null.append(log_odds(model, both, [()])[0])
    own = np.asarray(null)
    sentence, _, difference = explorer.bands(NEUTRAL).bands
    assert sentence is not None
    assert difference is not None
    half = 2.306 * np.sqrt(1 + 1 / NULL_MODELS)  # t of 8 degrees of freedom
    spread = own[:, 0].std(ddof=1)
    assert sentence.low == pytest.approx(own[:, 0].mean() - half * spread, abs=1e-3)
    gap = own[:, 0] - own[:, 1]
    assert difference.high == pytest.approx(gap.mean() + half * gap.std(ddof=1), abs=1e-3)
    assert explorer.bands(replace(NEUTRAL, gates=OFF.gates)) == explorer.bands(NEUTRAL)


def test_a_text_that_states_a_gender_is_agreement_and_is_compared_with_nothing(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = explorer.answer(PageState(SENTENCE))
    assert answer.stated == (Stated(("mother",), "she"), Stated(("father",), "he"))
    half = PageState("The nurse said that ___ was tired.")
    assert explorer.answer(half).stated == (None, Stated(("brother",), "he"))
    assert [band is None for band in explorer.bands(half).bands] == [False, True, True]
    assert explorer.beside(half).references[1] is None
    monkeypatch.setattr(answers, "read_one", None)  # nothing is asked
    assert explorer.bands(PageState(SENTENCE)).bands == (None, None, None)
    assert explorer.beside(PageState(SENTENCE)).references == (None, None)


def test_a_text_that_states_none_stands_beside_a_person_and_other_occupations(
    explorer: Explorer, model: Model
) -> None:
    changed = replace(NEUTRAL, gates=OFF.gates)
    found, other = explorer.beside(changed).references
    assert found is not None
    assert other is not None
    assert (found.occupation, other.occupation, len(found.others)) == ("nurse", "engineer", 30)
    texts = ("The person said that ___ was tired.", f"The {found.others[7]} said that ___ was tired.")
    expected = log_odds(model, texts, [(), gates(model, OFF.gates)])
    np.testing.assert_allclose(found.person, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose([odds[7] for odds in found.odds], expected[:, 1], atol=1e-6)
    assert explorer.beside(PageState("It is ___ who said so.")).references == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_the_opening_example_shows_a_stereotype_and_a_counterfactual_that_differs(
    name: str, request: pytest.FixtureRequest
) -> None:
    explorer = Explorer(request.getfixturevalue(name), GENDER)
    start = PageState(explorer.facts.start)
    answer, (beside, _) = explorer.answer(start), explorer.beside(start).references
    sentence, other = (text.odds[0].log_odds for text in answer.texts)
    assert answer.stated == (None, Stated(("brother",), "he"))
    assert beside is not None
    assert sentence > max(beside.odds[0])  # more feminine than all other occupations
    assert sentence > np.log(2) > 0 > beside.person[0]
    assert other < -np.log(2)  # what the text states is followed


# ---- what can be taken along


def test_recipe_and_python_give_the_numbers_of_the_page(
    explorer: Explorer, model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for state in (OFF, PageState(SENTENCE, symmetrized=True)):
        taken, numbers = explorer.answer(state).taken, shown(explorer, state)
        edits = edits_of(model, parse_recipe(taken.recipe, "recipe.toml"))
        np.testing.assert_allclose(
            log_odds(model, (SENTENCE, SENTENCE), [edits])[0, 0], numbers[1, 0], atol=1e-5
        )
        monkeypatch.setattr(lh, "load", lambda name: model)
        exec(taken.python, {})
        printed = [float(x) for x in capsys.readouterr().out.strip("[]\n ").split()]
        np.testing.assert_allclose(printed, numbers[:, 0], atol=1e-4)


def test_the_command_names_gates_or_the_recipes_file(explorer: Explorer, model: Model) -> None:
    assert (
        explorer.answer(OFF).taken.command == f"levelhead debias {model.name} --heads 1-2,3-4=0.5 -o changed"
    )
    symmetrized = explorer.answer(PageState(SENTENCE, symmetrized=True)).taken
    assert "--recipe recipe.toml" in symmetrized.command
    assert "[symmetrize]" in symmetrized.recipe
    assert explorer.answer(PageState(SENTENCE)).taken.recipe == ""


# ---- runs


def test_a_runs_scores_and_most_biased_heads_are_offered_and_scale(tmp_path: Path, model: Model) -> None:
    scores = [[0.5, 0.1, 0.0, -0.1], [0.4, -0.2, 0.3, 0.0], [0.0, 0.0, 0.0, 0.0]]
    with empty_run(tmp_path / "run", model.name, {"weights": model.fingerprint}) as run:
        made = Heads.open(scored_run(tmp_path, "other", scores, 0.7))
        run.results(Heads.scores, lambda: list(made.scores))
    explorer = Explorer(model, GENDER, open_run(tmp_path / "run"))
    assert explorer.scores is not None
    assert explorer.scores.scores[1] == (0.4, -0.2, 0.3, 0.0)
    explorer.score_heads()
    assert explorer.background.progress("heads") is None
    (preset,) = explorer.facts.presets
    assert preset.gates == ("1-1", "2-1", "2-3")
    half = explorer.recipe(PageState(SENTENCE, preset=preset.name, strength=0.25, gates={Head(1, 0): 1.0}))
    assert half.gates == {Head(0, 0): 0.75, Head(1, 2): 0.75}


def test_certified_mitigations_come_first_and_are_marked(tmp_path: Path, model: Model) -> None:
    explorer = Explorer(model, GENDER, open_run(mitigated_run(tmp_path / "run", model)))
    shown_first, other = explorer.facts.presets
    assert (shown_first.name, shown_first.certified) == ("two heads", True)
    assert (other.name, other.certified, other.verdict) == ("one head", False, "no significant effect")


def test_a_run_about_other_weights_is_shown_but_cannot_be_switched_on(tmp_path: Path, model: Model) -> None:
    run = open_run(scored_run(tmp_path, "other", [[0.5] * 4] * 3, 0.7))
    explorer = Explorer(model, GENDER, run)
    (preset,) = explorer.facts.presets
    assert "weights" in preset.why_not
    assert explorer.scores is None
    with pytest.raises(BadOption, match="cannot be switched on"):
        explorer.answer(PageState(SENTENCE, preset=preset.name))
    with pytest.raises(BadOption, match="called so"):
        explorer.answer(PageState(SENTENCE, preset="nobody's"))


# ---- in portions


def nothing(done: int, total: int) -> None:
    assert 0 <= done <= total


def on(model: Model, name: str, variant: Variant) -> Comparison:
    """A change on a benchmark of the menu."""
    return Comparison("a key", next(b for b in benchmarks(model, GENDER) if b.name == name), variant)


def test_head_scores_in_portions_are_those_of_the_heads_study(model: Model) -> None:
    small = GENDER.of({*GENDER.A[:4], *GENDER.B[:4], *GENDER.X[:5], *GENDER.Y[:5]})
    whole = head_scores(model, prepare(model, HeadsSettings(small, per_word=2)).table)
    found = scored_heads(model, small, nothing)
    np.testing.assert_allclose(found.scores, whole.scores, atol=1e-5)
    assert found.seat == pytest.approx(whole.objective, abs=1e-6)


def test_a_benchmark_in_portions_is_that_of_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    few, model = load_triples().at_most(9), tiny("gpt2")
    monkeypatch.setattr("levelhead.exploring.benchmarks.load_triples", lambda: few)
    variant = gates(model, OFF.gates)
    found = compared(model, GENDER, on(model, PREFERENCE, variant), nothing)
    whole = natural_bias(model, NaturalItems(Battery(GENDER, (), few)), PREFERENCE, [(), variant])
    assert found.before == pytest.approx(float(whole.values[0].mean()), abs=1e-6)
    assert found.change == pytest.approx(float((whole.values[1] - whole.values[0]).mean()), abs=1e-6)
    assert found.change_interval is not None
    assert found.change_interval[0] < found.change < found.change_interval[1]


def test_the_numerator_of_seat_is_on_the_menu_with_seat_itself_beside_it(model: Model) -> None:
    small = GENDER.of({*GENDER.A[:3], *GENDER.B[:3], *GENDER.X[:4], *GENDER.Y[:4]})
    found = compared(model, small, on(model, COSINE, gates(model, OFF.gates)), nothing)
    assert (found.unit, found.items) == ("cosine", 8)
    assert found.change != 0
    assert found.effects is not None
    assert found.effects[0] == pytest.approx(scored_heads(model, small, nothing).seat, abs=1e-6)


def test_a_new_job_cancels_the_one_before_and_jobs_wait_for_questions(explorer: Explorer) -> None:
    background, done, portion = Background(), [], threading.Event()

    def endless(advance: Any) -> Any:
        while True:
            portion.set()
            advance(1, 2)

    def short(advance: Any) -> Any:
        advance(1, 1)
        done.append(True)
        return explorer.facts

    background.start("benchmark", "a", "endless", endless)
    assert portion.wait(10)
    background.start("benchmark", "b", "short", short)
    background.start("benchmark", "b", "short", short)  # goes on, and is not begun again
    while not (progress := background.progress("benchmark")) or not progress.finished:
        threading.Event().wait(0.01)
    assert background.result("benchmark") is explorer.facts
    assert done == [True]
    with background.question():
        background.start("heads", "c", "short", short)
        threading.Event().wait(0.1)
        assert done == [True]
    while len(done) == 1:
        threading.Event().wait(0.01)
    background.close()


def test_a_job_that_cannot_be_done_says_why_in_its_progress(explorer: Explorer) -> None:
    background = Background()

    def refused(advance: Any) -> Any:
        raise BadOption("no such thing.")

    background.start("benchmark", "a", "refused", refused)
    while not (progress := background.progress("benchmark")) or not progress.finished:
        threading.Event().wait(0.01)
    assert progress.line == "no such thing."
    background.close()
    with pytest.raises(BadOption, match="Nothing is changed"):
        explorer.measure(PageState(SENTENCE))


def test_all_of_a_state_is_one_record(explorer: Explorer) -> None:
    whole = saved(explorer, OFF)
    assert type(whole).from_json(whole.to_json()) == whole
    assert whole.continuations is None
    writes = Explorer(tiny("gpt2"), GENDER)
    state = PageState(BEGUN, seed=3)
    whole = saved(writes, state)
    assert type(whole).from_json(whole.to_json()) == whole
    assert whole.continuations == writes.continuations(state)
