"""Prompts that a model continues: what ships is paired exactly, and a user's files are read or refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.errors import BadProbe, LevelheadError
from levelhead.probes.generation import (
    MOST_NAMES,
    SETS,
    SEXES,
    Prompt,
    PromptSet,
    load_prompts,
    name_pools,
    occupation_facts,
)
from levelhead.probes.slots import SLOT
from levelhead.probes.swap import gender_of, name_pairs, stated_genders, swap, swap_text

NEUTRAL = ("occupations", "situations")
EXCHANGED = ("gender", "names", "chat")  # two groups, which the swap exchanges
WORDED = {"age": 2, "religion": 4, "origin": 5}  # groups that words tell


@pytest.fixture(scope="module")
def shipped() -> PromptSet:
    return load_prompts()


def own(tmp_path: Path, text: str, name: str = "own.txt", **options: Any) -> PromptSet:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load_prompts(tmp_path / name, **options)


# ---- what ships


def test_every_set_has_its_prompts(shipped: PromptSet) -> None:
    counts = Counter(prompt.set for prompt in shipped.prompts)
    assert dict(counts) == {
        **{"occupations": 262 * 2, "situations": 20, "gender": 30 * 2, "names": 20 * 4 * 2, "age": 15 * 2},
        **{"religion": 12 * 4, "origin": 12 * 5, "chat": 15 * 4 * 2, "decisions": 4 * 10 * 6 * 2 * 2},
    }
    assert tuple(counts) == SETS


def test_no_prompt_comes_twice_and_none_has_an_open_slot(shipped: PromptSet) -> None:
    for what in ("id", "text"):
        counts = Counter(getattr(prompt, what) for prompt in shipped.prompts)
        assert [each for each, count in counts.items() if count > 1] == []
    assert [prompt.id for prompt in shipped.prompts if SLOT.search(prompt.text)] == []
    assert [prompt.id for prompt in shipped.prompts if prompt.text != prompt.text.strip()] == []


def test_the_swap_turns_every_prompt_of_two_groups_into_its_counterpart(shipped: PromptSet) -> None:
    for frame, prompts in shipped.frames().items():
        if prompts[0].set in EXCHANGED:
            feminine, masculine = prompts
            assert (feminine.group, masculine.group) == SEXES
            assert swap_text(feminine.text, names=True) == masculine.text, frame
            assert swap_text(masculine.text, names=True) == feminine.text, frame
            assert feminine.exact
            assert masculine.exact


@pytest.mark.parametrize("seed", [1, 2])
def test_prompts_are_exact_whichever_names_are_drawn(seed: int) -> None:
    found = load_prompts(sets=("names", "chat", "decisions"), seed=seed, names_per_group=MOST_NAMES)
    assert [prompt.text for prompt in found.prompts if not prompt.exact] == []


def test_profiles_of_decisions_differ_in_the_name_alone() -> None:
    profiles: dict[str, set[str]] = {}
    for each in load_prompts(sets=["decisions"]).prompts:
        profiles.setdefault(each.cluster, set()).add(each.text.replace(each.name, "NAME"))
        assert each.name in each.text
    assert all(len(texts) == 1 for texts in profiles.values())


def test_decisions_come_in_pairs_that_the_swap_exchanges(shipped: PromptSet) -> None:
    for prompts in shipped.frames().values():
        if prompts[0].set == "decisions":
            by_sex = [{each.text for each in prompts if each.group == sex} for sex in SEXES]
            assert {swap_text(text, names=True) for text in by_sex[0]} == by_sex[1]


def test_neutral_prompts_state_no_gender(shipped: PromptSet) -> None:
    for prompt in shipped.of(*NEUTRAL):
        assert stated_genders(prompt.text, names=True) == (), prompt.text
        assert swap_text(prompt.text, names=True) == prompt.text
        assert prompt.group == ""
        assert prompt.frame == prompt.id


def test_gendered_prompts_have_nothing_that_the_swap_complains_of(shipped: PromptSet) -> None:
    for prompt in shipped.of("gender"):
        assert swap(prompt.text, names=True).problems == (), prompt.text


def test_worded_groups_differ_in_their_words_alone(shipped: PromptSet) -> None:
    for prompts in shipped.frames().values():
        if (count := WORDED.get(prompts[0].set)) is None:
            continue
        assert len({prompt.group for prompt in prompts}) == len(prompts) == count
        lengths = {len(prompt.text.split()) for prompt in prompts}
        assert len(lengths) == 1, prompts[0].text
        assert not any(prompt.exact for prompt in prompts)
        assert not any(gender_of(prompt.text) for prompt in prompts)


def test_clusters_hold_whole_frames(shipped: PromptSet) -> None:
    for prompts in shipped.frames().values():
        assert len({(prompt.cluster, prompt.set) for prompt in prompts}) == 1
    assert len({prompt.cluster for prompt in shipped.of("occupations")}) == 262
    assert len({prompt.cluster for prompt in shipped.of("names")}) == 20


def test_occupations_have_a_label_and_a_real_share() -> None:
    facts = occupation_facts()
    labels = np.array([each.label for each in facts.values()])
    shares = np.array([each.women for each in facts.values()])
    assert Counter(labels.tolist()) == {1: 105, 0: 36, -1: 121}
    assert ((shares > 0) & (shares < 1)).all()
    assert facts["nurse"].women == pytest.approx(0.879)  # Registered nurses, 2022
    assert facts["plumber"].women == pytest.approx(0.011)
    assert (facts["plumber"].label, facts["plumber"].row[:8]) == (-1, "Plumbers")
    assert shares[labels == 1].min() >= 0.68 > shares[labels == 0].max()
    assert shares[labels == -1].max() <= 0.30 < shares[labels == 0].min()
    by_row = {each.row: each.women for each in facts.values()}
    assert all(each.women == by_row[each.row] for each in facts.values())
    assert all(each.year == 2022 and "Current Population Survey" in each.source for each in facts.values())


def test_every_occupation_stands_in_two_frames_and_every_frame_has_as_many(shipped: PromptSet) -> None:
    occupations = shipped.of("occupations")
    assert set(Counter(prompt.about for prompt in occupations).values()) == {2}
    frames = Counter(prompt.text.replace(prompt.about, "") for prompt in occupations)
    assert len(frames) == 6
    assert max(frames.values()) - min(frames.values()) <= 2


# ---- names


def test_names_are_pairs_of_the_swap() -> None:
    drawn = {pair.names for pairs in name_pools().values() for pair in pairs}
    assert drawn == set(name_pairs())


@cache
def frequencies() -> dict[str, float]:
    return {
        name: value
        for pairs in name_pools().values()
        for pair in pairs
        for name, value in zip(pair.names, (pair.feminine_zipf, pair.masculine_zipf), strict=True)
    }


def zipf(prompts: Iterable[Prompt]) -> float:
    return float(np.mean([frequencies()[prompt.name] for prompt in prompts]))


@pytest.mark.parametrize("set_", ["names", "chat", "decisions"])
def test_names_of_both_sexes_are_alike_in_frequency(set_: str) -> None:
    """A Zipf difference of 0.3 is a factor of two; the names of the table differ by up to 20."""
    prompts = load_prompts(sets=[set_], names_per_group=MOST_NAMES).prompts
    feminine, masculine = (tuple(each for each in prompts if each.group == sex) for sex in SEXES)
    assert len(feminine) == len(masculine)
    assert abs(zipf(feminine) - zipf(masculine)) < 0.15


def test_names_of_all_origins_are_alike_in_frequency() -> None:
    prompts = load_prompts(sets=["decisions"], names_per_group=MOST_NAMES).prompts
    origins = {prompt.origin for prompt in prompts}
    by_origin = {each: zipf(prompt for prompt in prompts if prompt.origin == each) for each in origins}
    assert len(by_origin) == 6
    assert max(by_origin.values()) - min(by_origin.values()) < 0.55


@pytest.mark.parametrize("names", [1, 2, 4, 6, MOST_NAMES])
def test_decisions_are_balanced_over_sex_origin_and_kind(names: int) -> None:
    prompts = load_prompts(sets=["decisions"], names_per_group=names).prompts
    for prompt in prompts[:1]:
        assert prompt.answers == (" Yes", " No")
    cells = Counter((prompt.kind, prompt.frame, prompt.group, prompt.origin) for prompt in prompts)
    assert set(cells.values()) == {max(1, names // 2)}
    used = Counter((prompt.origin, prompt.name) for prompt in prompts)
    assert len(used) == 6 * 2 * names
    assert (
        max(used.values()) - min(used.values()) <= 4
    )  # one for each kind of decision: ten profiles cannot be dealt evenly to 3 or 4 halves


def test_a_frame_has_as_many_names_per_group_as_asked_for() -> None:
    for names in (1, 3, MOST_NAMES):
        prompts = load_prompts(sets=["names"], names_per_group=names).prompts
        for cluster in {prompt.cluster for prompt in prompts}:
            groups = Counter(prompt.group for prompt in prompts if prompt.cluster == cluster)
            assert groups == dict.fromkeys(SEXES, names)


def test_the_seed_draws_names_and_nothing_else() -> None:
    first, again, other = (load_prompts(sets=["names", "gender"], seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.of("gender") == other.of("gender")
    assert {prompt.name for prompt in first.of("names")} != {prompt.name for prompt in other.of("names")}


def test_a_tokenizer_at_hand_draws_names_of_equal_length() -> None:
    """Here every letter is a token."""
    prompts = load_prompts(sets=["names"], names_per_group=2, tokens=len)
    for feminine, masculine in prompts.frames().values():
        assert len(feminine.name) == len(masculine.name)


# ---- choices


def test_a_limit_keeps_whole_clusters_spread_over_the_set() -> None:
    found = load_prompts(limit=6)
    for set_ in SETS:
        assert len({prompt.cluster for prompt in found.of(set_)}) == 6
    labels = [occupation_facts()[prompt.about].label for prompt in found.of("occupations")]
    assert set(labels) == {1, 0, -1}
    assert {prompt.group for prompt in found.of("religion")} == {"christian", "hindu", "jewish", "muslim"}


def test_sets_are_taken_by_name() -> None:
    assert {prompt.set for prompt in load_prompts(sets=["age", "gender"]).prompts} == {"age", "gender"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sets": ["nonsense"]}, r"sets must be among occupations.*\(got 'nonsense'\)"),
        ({"names_per_group": 0}, r"names must be 1 to 8 per group \(got 0\)"),
        ({"names_per_group": 99}, r"names must be 1 to 8 per group \(got 99\)"),
        ({"limit": 0}, r"limit must be at least 1 \(got 0\)"),
        ({"source": "own.txt", "sets": ["age"]}, "sets must be left out with prompts of your own"),
        ({"source": "own.pdf"}, r"prompts must be 'shipped' or a .*file \(got 'own.pdf'\)"),
    ],
)
def test_choices_that_cannot_be_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(LevelheadError, match=says):
        load_prompts(**options)


# ---- a user's own


def test_a_name_slot_has_several_names_of_each_group(tmp_path: Path) -> None:
    found = own(tmp_path, "{name} opened the door and\n", names_per_group=3)
    assert Counter(prompt.group for prompt in found.prompts) == dict.fromkeys(SEXES, 3)
    assert {prompt.cluster for prompt in found.prompts} == {"own/line 1"}
    assert all(
        prompt.exact and prompt.text == f"{prompt.name} opened the door and" for prompt in found.prompts
    )


def test_a_person_slot_has_nouns_of_both_genders(tmp_path: Path) -> None:
    found = own(tmp_path, "A {person} opened the door and\n")
    texts = [prompt.text for prompt in found.prompts]
    assert texts[:2] == ["A woman opened the door and", "A man opened the door and"]
    assert all(prompt.exact for prompt in found.prompts)


def test_words_beside_a_slot_follow_it(tmp_path: Path) -> None:
    found = own(tmp_path, "{name} said that she lost her keys and\n", names_per_group=1)
    feminine, masculine = found.prompts
    assert feminine.text == f"{feminine.name} said that she lost her keys and"
    assert masculine.text == f"{masculine.name} said that he lost his keys and"


def test_plain_text_is_turned_by_the_swap(tmp_path: Path) -> None:
    feminine, masculine = own(tmp_path, "He told his aunt that\n").prompts
    assert (feminine.group, masculine.group) == SEXES
    assert (feminine.text, masculine.text) == ("She told her uncle that", "He told his aunt that")
    assert feminine.exact


def test_names_of_the_table_are_turned_too(tmp_path: Path) -> None:
    feminine, masculine = own(tmp_path, "Mary wrote to the bank because\n").prompts
    assert (feminine.text, masculine.text) == (
        "Mary wrote to the bank because",
        "John wrote to the bank because",
    )


def test_text_that_does_not_come_back_is_kept_and_not_exact(tmp_path: Path) -> None:
    (feminine, masculine) = own(tmp_path, "My mum said that\n").prompts
    assert masculine.text == "My dad said that"
    assert not feminine.exact


def test_rows_of_a_pair_are_prompts_of_one_frame(tmp_path: Path) -> None:
    rows = [
        {"prompt": "My Muslim neighbor", "pair": "neighbor", "group": "muslim"},
        {"prompt": "My Jewish neighbor", "pair": "neighbor", "group": "jewish"},
        {"prompt": "My Hindu neighbor", "pair": "neighbor", "group": "hindu"},
    ]
    found = own(tmp_path, "\n".join(map(json.dumps, rows)), "own.jsonl")
    (prompts,) = found.frames().values()
    assert [prompt.group for prompt in prompts] == ["muslim", "jewish", "hindu"]
    assert not any(prompt.exact for prompt in prompts)


def test_a_pair_that_the_swap_exchanges_is_exact(tmp_path: Path) -> None:
    text = "prompt,pair,group\nMy sister,1,her\nMy brother,1,his\n"
    assert all(prompt.exact for prompt in own(tmp_path, text, "own.csv").prompts)


def test_a_neutral_prompt_is_about_an_occupation(tmp_path: Path) -> None:
    (prompt,) = own(tmp_path, "prompt\tabout\nThe juggler said that\tjuggler\n", "own.tsv").prompts
    assert (prompt.about, prompt.cluster, prompt.group, prompt.exact) == ("juggler", "juggler", "", True)


def test_ids_of_the_user_are_kept(tmp_path: Path) -> None:
    found = own(tmp_path, '{"prompt": "My sister", "id": "a7"}', "own.jsonl")
    assert [prompt.id for prompt in found.prompts] == ["a7/feminine", "a7/masculine"]


LEFT_OUT = {
    "The weather is": "no slot and no word for a gender",
    "{city} is": "an unknown slot",
    "My brother is": "a prompt twice",
    "He told her that {name}": "words for both genders beside a slot",
    "The pregnant colleague": "a word without a counterpart",
}


def test_lines_that_cannot_be_used_are_counted_by_their_reason(tmp_path: Path) -> None:
    found = own(tmp_path, "\n".join(["My sister is", "", *LEFT_OUT]))
    assert found.left_out == dict.fromkeys(LEFT_OUT.values(), 1)
    assert len(found.prompts) == 2
    assert found.name == "own.txt"


@pytest.mark.parametrize("line", [line for line in LEFT_OUT if line != "My brother is"])
def test_a_file_without_a_usable_line_is_one_line_that_says_what_to_write(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadProbe) as caught:
        own(tmp_path, line)
    said = str(caught.value)
    assert "\n" not in said
    assert LEFT_OUT[line] in said
    assert "(got " in said
    assert "Write one text per line with {name} or {person}" in said


ROWS: dict[str, list[dict[str, Any]]] = {
    "a group without a pair": [{"prompt": "My sister", "group": "her"}],
    "a pair without two groups": [{"prompt": "My sister", "pair": 1, "group": "her"}],
    "about, and a word for a gender": [{"prompt": "She juggles", "about": "juggler"}],
    "no prompt": [{"text": "My sister"}],
    "prompt is empty": [{"prompt": " "}],
    "no id": [{"prompt": "My sister", "id": [1]}],
}


@pytest.mark.parametrize("reason", ROWS)
def test_rows_that_contradict_themselves_are_left_out(tmp_path: Path, reason: str) -> None:
    rows = [*ROWS[reason], {"prompt": "My aunt said"}]
    found = own(tmp_path, "\n".join(map(json.dumps, rows)), "own.jsonl")
    assert found.left_out == {reason: 1}
    assert len(found.prompts) == 2


def test_one_id_twice_is_left_out(tmp_path: Path) -> None:
    found = own(tmp_path, "prompt,id\nMy sister,a\nMy aunt,a\n", "own.csv")
    assert found.left_out == {"an id twice": 1}


@pytest.mark.parametrize("name", ["own.txt", "own.jsonl", "own.csv", "own.tsv"])
def test_an_empty_file_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadProbe) as caught:
        own(tmp_path, "", name)
    assert "\n" not in str(caught.value)


def test_a_table_without_a_prompt_column_names_its_columns(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="no column 'prompt'; its columns are text, pair"):
        own(tmp_path, "text,pair\na,b\n", "own.csv")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="cannot be read"):
        load_prompts(tmp_path / "nowhere.txt")


def complaint(file: Path) -> str:
    """What is said of a file; nothing where it has prompts."""
    try:
        return "" if load_prompts(file, names_per_group=1).prompts else "no prompt, and no error:\n"
    except LevelheadError as error:
        return str(error)


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    """Whatever bytes change, no other error than ours comes out, and it is one line."""
    good = (
        b'{"prompt": "My sister said that", "id": "a"}\n{"prompt": "{name} is", "about": ""}\n'
        b'{"prompt": "Old", "pair": "p", "group": "o"}\n{"prompt": "Young", "pair": "p", "group": "y"}\n'
    )
    rng = random.Random(0)
    for number in range(300):
        damaged = bytearray(good)
        for _ in range(rng.randint(1, 12)):
            place = rng.randrange(len(damaged))
            match rng.randrange(3):
                case 0:
                    damaged[place] = rng.randrange(256)
                case 1:
                    del damaged[place : place + rng.randint(1, 20)]
                case _:
                    damaged[place:place] = rng.choice(
                        [b'"', b"\n", b"{", b"\x00", b"\xff", b"{person}", b"[[["]
                    )
            if not damaged:
                break
        file = tmp_path / f"{number % 3}{rng.choice(['.jsonl', '.csv', '.txt', '.tsv'])}"
        file.write_bytes(bytes(damaged))
        assert "\n" not in complaint(file)
