import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from levelhead.errors import BadProbe
from levelhead.probes.swap import gender_of, swap
from levelhead.probes.triples import NO_GENDER_WORD, Triple, TriplePair, counterfactual_of, load_triples
from levelhead.probes.triples.files import DISAGREE, OTHER_BIAS

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published data are not beside the checkout"
)

SHIPPED = load_triples()
SENTENCE_COLUMNS = (
    "context_id,context,next_sentence,label,gender,gender_swapped_context,gender_swapped_next_sentence"
)
TRIPLE_COLUMNS = "Target,Context,Unrelated Sentence,Anti-stereotype Sentence,Stereotype Sentence"
GOOD = f"""{SENTENCE_COLUMNS}
0,She sat.,She sewed.,stereotype,F,He sat.,He sewed.
0,She sat.,She boxed.,anti-stereotype,F,He sat.,He boxed.
0,She sat.,It rained.,unrelated,F,He sat.,It rained.
"""


def texts(triple: Triple | None) -> tuple[str, str, str, str]:
    assert triple is not None
    return triple.context, triple.stereotype, triple.anti, triple.unrelated


def words(text: str) -> int:
    return len(text.split())


def write(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_text(content, encoding="utf-8")
    return file


def one_line(path: Path | str, message: str, strict: bool = True) -> None:
    with pytest.raises(BadProbe, match=message) as caught:
        load_triples(path, strict=strict)
    assert "\n" not in str(caught.value)


# The shipped set


def test_at_least_160_triples_ship_half_of_them_about_women_and_all_with_a_counterfactual() -> None:
    genders = Counter(pair.original.gender for pair in SHIPPED.pairs)
    assert len(SHIPPED.pairs) >= 160
    assert genders["F"] == genders["M"] == len(SHIPPED.pairs) / 2
    assert all(pair.swapped for pair in SHIPPED.pairs)
    assert SHIPPED.problems == {}


def test_no_text_of_the_shipped_set_is_used_twice_not_even_as_a_counterfactual_of() -> None:
    ids = [pair.original.id for pair in SHIPPED.pairs]
    used = [text for pair in SHIPPED.pairs for text in texts(pair.original)]
    used += [text for pair in SHIPPED.pairs for text in texts(pair.swapped) if gender_of(text)]
    assert len(set(ids)) == len(ids)
    assert [text for text, times in Counter(used).items() if times > 1] == []


@pytest.mark.parametrize("pair", SHIPPED.pairs, ids=lambda pair: pair.original.id)
def test_shipped_triple_is_well_built(pair: TriplePair) -> None:
    triple = pair.original
    assert gender_of(triple.context) in (triple.gender, "mixed")
    assert gender_of(triple.target) == triple.gender
    assert not gender_of(triple.unrelated)
    assert abs(words(triple.stereotype) - words(triple.anti)) <= 3
    assert triple.stereotype != triple.anti
    for text in texts(triple):
        assert text[0].isupper()
        assert text.endswith(".")
        assert text == " ".join(text.split())


def test_stereotypes_and_anti_stereotypes_are_equally_long_on_average() -> None:
    by_kind = [
        [words(getattr(pair.original, kind)) for pair in SHIPPED.pairs] for kind in ("stereotype", "anti")
    ]
    means = [sum(lengths) / len(lengths) for lengths in by_kind]
    assert abs(means[0] - means[1]) < 0.25


def test_shipped_triples_span_many_topics_terms_and_lengths() -> None:
    file = Path(__file__).resolve().parents[2] / "src/levelhead/probes/data/triples/gender.jsonl"
    topics = Counter(json.loads(line)["topic"] for line in file.read_text(encoding="utf-8").splitlines())
    targets = Counter(pair.original.target for pair in SHIPPED.pairs)
    contexts = [words(pair.original.context) for pair in SHIPPED.pairs]
    assert len(topics) >= 25
    assert max(topics.values()) <= 0.15 * len(SHIPPED.pairs)
    assert len(targets) >= 80
    assert max(targets.values()) <= 12
    assert min(contexts) <= 6
    assert max(contexts) >= 14


def test_swapping_the_counterfactual_again_gives_the_original_text() -> None:
    for pair in SHIPPED.pairs:
        assert pair.swapped is not None
        again, reasons = counterfactual_of(pair.swapped)
        assert reasons == ()
        assert texts(again) == texts(pair.original)
        assert again is not None
        assert again.gender == pair.original.gender


def test_none_and_shipped_are_the_same_set_with_the_same_fingerprint() -> None:
    assert load_triples("shipped") == SHIPPED
    assert SHIPPED.form == "pairs"


# Counterfactuals


def test_swapping_flips_the_labels_as_in_table_3_example_a() -> None:
    male = "One half of the human population is male."
    triple = Triple(
        "a", male, "They are considered aggressive.", "They cry a lot.", "Ice melts.", "M", "male"
    )
    counterfactual, reasons = counterfactual_of(triple)
    assert reasons == ()
    assert counterfactual == Triple(
        id="a-swapped",
        context="One half of the human population is female.",
        stereotype="They cry a lot.",
        anti="They are considered aggressive.",
        unrelated="Ice melts.",
        gender="F",
        target="female",
    )


def test_her_becomes_his_before_a_noun_and_him_elsewhere() -> None:
    triple = Triple(
        "k",
        "The mother walked into her kitchen.",
        "We saw her.",
        "We saw her knife.",
        "Ice melts.",
        "F",
        "mother",
    )
    counterfactual, _ = counterfactual_of(triple)
    assert texts(counterfactual) == (
        "The father walked into his kitchen.",
        "We saw his knife.",
        "We saw him.",
        "Ice melts.",
    )


def test_a_trait_stays_so_that_the_counterfactual_has_the_right_labels() -> None:
    feminine, masculine = "Her voice is feminine.", "Her voice is masculine."
    counterfactual, _ = counterfactual_of(
        Triple("t", "The girl sang.", feminine, masculine, "Ice melts.", "F", "girl")
    )
    assert texts(counterfactual) == (
        "The boy sang.",
        "His voice is masculine.",
        "His voice is feminine.",
        "Ice melts.",
    )


def test_a_name_in_one_sentence_belongs_to_the_pronoun_in_another() -> None:
    triple = Triple("n", "Zenobia came home.", "She sewed.", "She boxed.", "Ice melts.", "F", "she")
    counterfactual, reasons = counterfactual_of(triple)
    assert counterfactual is None
    assert len(reasons) == 1
    assert "name that is in no table" in reasons[0]


def test_what_cannot_be_swapped_has_no_counterfactual_and_its_reason_is_counted(tmp_path: Path) -> None:
    rows = [
        {
            "context": "The ballerina sat.",
            "stereotype": "She sang.",
            "anti": "She swore.",
            "unrelated": "It rained.",
        },
        {
            "context": "The woman sat.",
            "stereotype": "She sang.",
            "anti": "She swore.",
            "unrelated": "It rained.",
        },
    ]
    loaded = load_triples(write(tmp_path, "own.jsonl", "\n".join(map(json.dumps, rows))))
    assert [pair.swapped is None for pair in loaded.pairs] == [True, False]
    assert sum(loaded.problems.values()) == 1
    assert "no counterpart" in next(iter(loaded.problems))


def test_first_names_are_swapped_on_request_only(tmp_path: Path) -> None:
    row = {
        "context": "Mary lost her key.",
        "stereotype": "She wept.",
        "anti": "She swore.",
        "unrelated": "It rained.",
    }
    file = write(tmp_path, "own.jsonl", json.dumps(row))
    plain, named = load_triples(file), load_triples(file, names=True)
    assert plain.pairs[0].swapped is None
    assert sum(plain.problems.values()) == 1
    assert texts(named.pairs[0].swapped)[0] == "John lost his key."
    assert named.problems == {}


# Published files, and files of our own in their forms


def test_a_table_in_the_form_of_the_published_enhanced_set_keeps_the_counterfactuals_it_brings(
    tmp_path: Path,
) -> None:
    loaded = load_triples(write(tmp_path, "dev.csv", GOOD.replace("He sewed.", "Him sewed.")))
    assert len(loaded.pairs) == 1
    assert loaded.form == "pairs"
    assert loaded.problems == {}
    assert texts(loaded.pairs[0].swapped) == ("He sat.", "He boxed.", "Him sewed.", "It rained.")


def test_swapped_contexts_that_disagree_are_counted_and_the_first_is_used(tmp_path: Path) -> None:
    disagreeing = GOOD.replace("unrelated,F,He sat.", "unrelated,F,He sits.")
    loaded = load_triples(write(tmp_path, "dev.csv", disagreeing))
    assert loaded.problems == {DISAGREE: 1}
    assert texts(loaded.pairs[0].swapped)[0] == "He sat."


STEREOSET_TABLE = f"""Domain,{TRIPLE_COLUMNS}
gender,mother,The mother sat.,It rained.,She swore.,"She sewed, and sang."
gender,schoolboy,The schoolboy ran.,Ice melts.,He wept.,He fought.
profession,baker,The baker sat.,It rained.,They swore.,They sang.
"""


def test_a_table_in_the_form_of_stereoset_keeps_targets_and_triples_without_a_gender_word(
    tmp_path: Path,
) -> None:
    loaded = load_triples(write(tmp_path, "intersentence.csv", STEREOSET_TABLE))
    assert loaded.form == "stereoset"
    assert [(p.original.target, p.original.gender) for p in loaded.pairs] == [
        ("mother", "F"),
        ("schoolboy", "M"),
        ("baker", None),
    ]
    assert loaded.problems == {NO_GENDER_WORD: 1}
    assert loaded.pairs[2].swapped is None
    assert texts(loaded.pairs[0].swapped) == (
        "The father sat.",
        "He swore.",
        "He sewed, and sang.",
        "It rained.",
    )


def test_a_table_in_stereosets_intrasentence_form_is_refused_in_one_line(tmp_path: Path) -> None:
    table = STEREOSET_TABLE.replace("The mother sat.", "The mother is BLANK.")
    one_line(write(tmp_path, "intrasentence.csv", table), "line 2: BLANK.*intersentence")


@needs_published
def test_the_published_enhanced_set_loads_to_234_pairs_with_its_own_counterfactuals() -> None:
    loaded = load_triples(PUBLISHED / "gender-swapped-stereoset" / "dev.csv")
    assert len(loaded.pairs) == 234
    assert all(pair.swapped for pair in loaded.pairs)
    assert Counter(pair.original.gender for pair in loaded.pairs) == {"M": 121, "F": 113}
    assert loaded.problems == {DISAGREE: 1}
    assert loaded.form == "pairs"
    by_id = {pair.original.id: pair for pair in loaded.pairs}
    context, stereotype, anti, _ = texts(by_id["1"].swapped)
    assert context == "The father walked into him kitchen."  # published so, and kept so
    assert stereotype.startswith("He pulled a beer")
    assert anti.startswith("He set about getting the dinner")
    assert by_id["5"].original.stereotype == "She likes to bake cookies and pies all day."
    assert texts(by_id["5"].swapped)[2] == "He likes to bake cookies and pies all day."


@needs_published
def test_our_swaps_agree_with_nearly_all_published_counterfactuals() -> None:
    loaded = load_triples(PUBLISHED / "gender-swapped-stereoset" / "dev.csv")
    agree = [swap(p.original.context, names=True).text == texts(p.swapped)[0] for p in loaded.pairs]
    assert sum(agree) / len(agree) > 0.9


@needs_published
def test_stereosets_gender_table_loads_to_242_triples_with_their_targets() -> None:
    loaded = load_triples(PUBLISHED / "stereoset" / "intersentence_gender_data.csv", names=True)
    assert len(loaded.pairs) == 242
    assert loaded.form == "stereoset"
    targets = {pair.original.target: pair.original.gender for pair in loaded.pairs}
    assert targets == {
        **dict.fromkeys(("mother", "mommy", "sister", "herself", "schoolgirl"), "F"),
        **dict.fromkeys(("male", "gentlemen", "grandfather", "himself", "schoolboy"), "M"),
    }
    without = [pair for pair in loaded.pairs if pair.swapped is None]
    assert {pair.original.id for pair in without} == {"25", "49", "109", "110", "193", "231"}
    assert bool(without) == bool(loaded.problems)


@needs_published
def test_stereosets_profession_table_keeps_triples_without_a_gender_word_and_counts_them() -> None:
    loaded = load_triples(PUBLISHED / "stereoset" / "intersentence_profession_data.csv")
    assert len(loaded.pairs) == 827
    neutral = [p for p in loaded.pairs if not any(gender_of(text) for text in texts(p.original))]
    assert neutral
    assert all(pair.swapped is None and pair.original.gender is None for pair in neutral)
    assert 0 < loaded.problems[NO_GENDER_WORD] <= len(neutral)


@needs_published
def test_stereosets_intrasentence_table_is_refused_in_one_line() -> None:
    one_line(PUBLISHED / "stereoset" / "intrasentence_gender_data.csv", "line 2: BLANK.*intersentence")


def stereoset_entry(kind: str = "gender", **changes: object) -> dict[str, object]:
    sentences = [
        {"id": "x", "sentence": "It rained.", "gold_label": "unrelated"},
        {"id": "y", "sentence": "He swore.", "gold_label": "stereotype"},
        {"id": "z", "sentence": "He wept.", "gold_label": "anti-stereotype"},
    ]
    entry = {"id": "e", "target": "man", "bias_type": kind, "context": "The man sat.", "sentences": sentences}
    return {**entry, **changes}


def dev_json(*entries: dict[str, object]) -> str:
    return json.dumps({"version": "1.0", "data": {"intersentence": list(entries), "intrasentence": []}})


def test_stereosets_json_loads_what_is_about_gender_and_counts_the_rest(tmp_path: Path) -> None:
    loaded = load_triples(write(tmp_path, "dev.json", dev_json(stereoset_entry(), stereoset_entry("race"))))
    assert len(loaded.pairs) == 1
    assert loaded.problems == {OTHER_BIAS: 1}
    assert loaded.form == "stereoset"
    original, swapped = loaded.pairs[0].original, loaded.pairs[0].swapped
    assert original == Triple("e", "The man sat.", "He swore.", "He wept.", "It rained.", "M", "man")
    assert swapped == Triple(
        "e-swapped", "The woman sat.", "She wept.", "She swore.", "It rained.", "F", "woman"
    )


def test_hub_rows_come_as_records_of_lists_with_numbers_for_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    sentences = {"sentence": ["He swore.", "It rained.", "He wept."], "gold_label": [1, 2, 0]}

    def load_dataset(*args: str, **options: str) -> list[dict[str, object]]:
        calls.append((args, options))
        return [stereoset_entry(sentences=sentences)]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    loaded = load_triples("hub:stereoset")
    assert calls == [(("McGill-NLP/stereoset", "intersentence"), {"split": "validation"})]
    assert texts(loaded.pairs[0].original) == ("The man sat.", "He swore.", "He wept.", "It rained.")
    assert loaded.name == "hub:stereoset"


def test_hub_without_the_package_or_the_network_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    one_line("hub:stereoset", r"hub:stereoset needs datasets: pip install")

    def offline(*args: str, **options: str) -> None:
        raise ConnectionError("no route\nto host")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=offline))
    one_line("hub:stereoset", r"hub:stereoset did not load \(no route\)")


# Files of the user's own


def test_labels_may_differ_in_case_and_hyphen_and_the_published_column_typo_is_known(tmp_path: Path) -> None:
    text = GOOD.replace("anti-stereotype", "Anti_Stereotype").replace(
        "gender_swapped_context", "gender_swapped_conext"
    )
    loaded = load_triples(write(tmp_path, "own.csv", "\ufeff" + text))
    assert texts(loaded.pairs[0].original) == ("She sat.", "She sewed.", "She boxed.", "It rained.")
    assert texts(loaded.pairs[0].swapped) == ("He sat.", "He boxed.", "He sewed.", "It rained.")


def test_a_table_without_counterfactuals_and_genders_gets_both_by_swapping(tmp_path: Path) -> None:
    rows = ["\t".join(line.split(",")[:4]) for line in GOOD.splitlines()]
    loaded = load_triples(write(tmp_path, "own.tsv", "\n".join(rows)))
    assert loaded.pairs[0].original.gender == "F"
    assert texts(loaded.pairs[0].swapped) == ("He sat.", "He boxed.", "He sewed.", "It rained.")


def test_the_gender_of_a_mixed_context_is_that_of_most_gender_words(tmp_path: Path) -> None:
    row = {
        "context": "His wife sat.",
        "stereotype": "She sewed.",
        "anti": "She boxed.",
        "unrelated": "It rained.",
    }
    assert load_triples(write(tmp_path, "own.jsonl", json.dumps(row))).pairs[0].original.gender == "F"


def test_the_fingerprint_follows_the_texts_and_not_the_name(tmp_path: Path) -> None:
    one, same = write(tmp_path, "one.csv", GOOD), write(tmp_path, "same.csv", GOOD)
    other = write(tmp_path, "other.csv", GOOD.replace("It rained", "It snowed"))
    assert load_triples(one).fingerprint == load_triples(same).fingerprint
    assert load_triples(one).fingerprint != load_triples(other).fingerprint


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            ",anti-stereotype",
            ",anti-steryotype",
            r"own\.csv line 3: label 'anti-steryotype'.*mean 'anti-stereotype'\?",
        ),
        (",unrelated", ",irrelevant", r"own\.csv line 4: label 'irrelevant'; allowed are stereotype"),
        (",anti-stereotype", ",stereotype", r"own\.csv line 3: a second stereotype for context_id 0"),
        ("She boxed.", " ", r"own\.csv line 3: next_sentence is empty"),
        ("He boxed.", "", r"own\.csv line 3: gender_swapped_next_sentence is empty"),
        (",label,", ",lable,", r"own\.csv line 1: no label;.*Is 'lable' misspelt\?"),
        (",gender_swapped_context,", ",counterfactual,", r"own\.csv line 1: no gender_swapped_context"),
        ("She boxed.", "She sat, then boxed.", r"own\.csv line 3: 8 cells, but the header has 7"),
        (
            "0,She sat.,She boxed.",
            "0,She stood.,She boxed.",
            r"own\.csv line 3: another context than own\.csv line 2",
        ),
        ("0,She sat.,It rained.", "1,She sat.,It rained.", r"context_id 0 has no unrelated"),
        (",F,", ",W,", r"own\.csv line 2: gender 'W'; allowed are F and M"),
        ("She boxed.", '"She boxed.', r"own\.csv line 4: not a table"),
    ],
)
def test_mistakes_in_a_table_get_one_line_that_names_the_place(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    assert before in GOOD
    one_line(write(tmp_path, "own.csv", GOOD.replace(before, after)), message)


def test_lines_are_counted_right_after_a_cell_with_a_line_break(tmp_path: Path) -> None:
    text = GOOD.replace("She sewed.", '"She\nsewed."').replace(",unrelated", ",unrelatd")
    one_line(write(tmp_path, "own.csv", text), r"own\.csv line 5: label 'unrelatd'.*'unrelated'\?")


def test_a_triple_without_a_gender_word_is_refused_with_its_line(tmp_path: Path) -> None:
    neutral = GOOD.replace("She", "They").replace("He", "They")
    one_line(
        write(tmp_path, "counterfactuals.csv", neutral),
        r"counterfactuals\.csv line 2: no gender word in 'They sat\.'",
    )
    rows = "\n".join(",".join(line.split(",")[:4]) for line in neutral.splitlines())
    one_line(write(tmp_path, "plain.csv", rows), r"plain\.csv line 2: no gender word")
    row = {
        "context": "They sat.",
        "stereotype": "They sang.",
        "anti": "They swore.",
        "unrelated": "It rained.",
    }
    one_line(write(tmp_path, "own.jsonl", "\n" + json.dumps(row)), r"own\.jsonl line 2: no gender word")
    table = f"{TRIPLE_COLUMNS}\nbaker,They sat.,A.,B.,C.\n"
    one_line(write(tmp_path, "stereoset.csv", table), r"none of its 1 triples has a gender word")


# One bad line of many


JSON_ROW = {
    "context": "She sat.",
    "stereotype": "She sewed.",
    "anti": "She boxed.",
    "unrelated": "It rained.",
}


def table_of(triples: int) -> list[str]:
    """The lines of a table in the published form, header first, three to a triple."""
    lines = [SENTENCE_COLUMNS]
    for n in range(triples):
        lines += [line.replace("0,", f"{n},", 1).replace("sat", f"sat {n}") for line in GOOD.splitlines()[1:]]
    return lines


def test_a_file_of_749_lines_with_one_bad_line_loads_and_says_which_line_and_why(tmp_path: Path) -> None:
    lines = [json.dumps({**JSON_ROW, "context": f"She sat for {n} hours."}) for n in range(1, 750)]
    lines[499] = lines[499].replace("She", "They")
    path = write(tmp_path, "dev.jsonl", "\n".join(lines))
    loaded = load_triples(path)
    assert len(loaded.pairs) == 748
    assert loaded.unusable_by_reason == {NO_GENDER_WORD: 1}
    (item,) = loaded.unusable
    assert item.line == 500
    assert item.complaint.startswith("dev.jsonl line 500: no gender word")
    one_line(path, r"^dev\.jsonl line 500: no gender word")


def test_a_published_triple_whose_counterfactual_is_the_same_is_left_out_by_its_first_line(
    tmp_path: Path,
) -> None:
    lines = table_of(3)
    lines[4:7] = [line.replace("She", "They").replace("He ", "They ") for line in lines[4:7]]
    loaded = load_triples(write(tmp_path, "dev.csv", "\n".join(lines)))
    assert [pair.original.id for pair in loaded.pairs] == ["0", "2"]
    assert [(item.line, item.reason) for item in loaded.unusable] == [(5, NO_GENDER_WORD)]


@pytest.mark.parametrize(
    ("line", "wrong", "reason"),
    [
        (5, "1,She sat 1.,,stereotype,F,He sat 1.,He sewed.", "a text is empty"),
        (6, "1,She sat 1.,She boxed.,anti,F,He sat 1.,He boxed.", "an unknown label"),
        (
            6,
            "1,She sat 1.,She boxed, twice.,anti-stereotype,F,He,He",
            "another number of cells than the header",
        ),
        (7, "1,She sat 1.,It rained.,stereotype,F,He sat 1.,It rained.", "a second sentence with its label"),
        (
            6,
            "1,She stood.,She boxed.,anti-stereotype,F,He sat 1.,He boxed.",
            "another context than its context_id",
        ),
        (7, "9,She sat 9.,It rained.,unrelated,F,He sat 9.,It rained.", "not one sentence of each label"),
    ],
)
def test_a_bad_line_takes_its_triple_with_it_and_leaves_the_others(
    tmp_path: Path, line: int, wrong: str, reason: str
) -> None:
    lines = table_of(3)
    lines[line - 1] = wrong
    loaded = load_triples(write(tmp_path, "own.csv", "\n".join(lines)))
    assert [pair.original.id for pair in loaded.pairs] == ["0", "2"]
    assert set(loaded.unusable_by_reason) == {reason}
    assert loaded.unusable[-1].line in (line, 5)  # a triple that lacks a sentence is named by its first line
    assert loaded.unusable[-1].complaint.startswith("own.csv line")


def test_a_stereoset_json_with_one_blank_context_and_odd_parts_loads_the_rest(tmp_path: Path) -> None:
    half = {"sentence": ["He swore."], "gold_label": [1, 2]}
    entries: list[dict[str, object]] = [
        stereoset_entry(),
        stereoset_entry(context="The man is BLANK."),
        stereoset_entry(sentences=3),
        stereoset_entry(sentences=["He swore."] * 3),
        stereoset_entry(sentences=half),
        stereoset_entry(sentences={"sentence": None}),
        stereoset_entry(sentences=[{"sentence": 3, "gold_label": "stereotype"}]),
        stereoset_entry(sentences={"sentence": ["a", "b", "c"], "gold_label": [0, 1, 7]}),
        stereoset_entry(context=None),
        stereoset_entry(target=["man"]),
        {"bias_type": ["gender"]},
        {"bias_type": "gender"},
    ]
    loaded = load_triples(write(tmp_path, "dev.json", dev_json(*entries)))
    assert [pair.original.id for pair in loaded.pairs] == ["e"]
    assert [item.line for item in loaded.unusable] == list(range(2, 13))
    assert loaded.unusable[0].reason == "BLANK in the context"
    assert "entry 2: BLANK" in loaded.unusable[0].complaint
    assert loaded.unusable_by_reason["sentences are no list"] == 4
    assert loaded.unusable_by_reason["a label or sentence is no text"] == 2


def test_bad_json_lines_are_left_out_with_their_numbers(tmp_path: Path) -> None:
    nest, digits = "[" * 100_000, "9" * 5000
    good, surrogate = json.dumps(JSON_ROW), json.dumps({**JSON_ROW, "anti": "She \ud83d boxed."})
    lines = [
        good,
        "{",
        nest,
        f'{{"context": {digits}}}',
        surrogate,
        json.dumps({**JSON_ROW, "anti": ""}),
        "",
        good,
    ]
    loaded = load_triples(write(tmp_path, "own.jsonl", "\n".join(lines)))
    assert [pair.original.id for pair in loaded.pairs] == ["1", "8"]
    assert [(item.line, item.reason) for item in loaded.unusable] == [
        (2, "not JSON"),
        (3, "not JSON"),
        (4, "not JSON"),
        (5, "half a character"),
        (6, "a text is empty"),
    ]
    assert "nested too deep" in loaded.unusable[1].complaint
    assert "a number is too long" in loaded.unusable[2].complaint


def test_a_file_without_any_usable_triple_is_one_line_with_counts_and_the_first(tmp_path: Path) -> None:
    path = write(tmp_path, "own.jsonl", "{\n[]\n{")
    message = r"no triple in it can be used \(not JSON: 2, no triple: 1\)\. The first: own\.jsonl line 1"
    one_line(path, message, strict=False)


@pytest.mark.parametrize("content", ["[" * 100_000, f'{{"data": {"9" * 5000}}}'])
def test_a_json_that_python_cannot_read_is_one_line(tmp_path: Path, content: str) -> None:
    one_line(write(tmp_path, "dev.json", content), r"^dev\.json line 1: not JSON that can be read")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"own\.jsonl line 1: not JSON"),
        ("[]", r"own\.jsonl line 1: a triple is an object"),
        (json.dumps({**JSON_ROW, "anti": 3}), r"own\.jsonl line 1: a triple is an object of texts"),
        (json.dumps({"context": "She sat."}), r"own\.jsonl line 1: no stereotype, anti, unrelated"),
        (json.dumps({**JSON_ROW, "anti": " "}), r"own\.jsonl line 1: anti is empty"),
        (json.dumps({**JSON_ROW, "colour": "x"}), r"own\.jsonl line 1: unknown colour; allowed are context"),
        (
            json.dumps({**JSON_ROW, "gender": "female"}),
            r"own\.jsonl line 1: gender 'female'; allowed are F and M",
        ),
        (
            "\n".join([json.dumps({**JSON_ROW, "id": "a"})] * 2),
            r"own\.jsonl line 2: id 'a' is also in line 1",
        ),
        ("", r"own\.jsonl: no triples in it"),
    ],
)
def test_mistakes_in_json_lines_get_one_line_that_names_the_place(
    tmp_path: Path, content: str, message: str
) -> None:
    one_line(write(tmp_path, "own.jsonl", content), message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"dev\.json line 1: not JSON"),
        ("[]", r"dev\.json: no list at data\.intersentence"),
        ('{"data": {"intersentence": [3]}}', r"dev\.json entry 1: 3 is no entry of StereoSet"),
        (dev_json(stereoset_entry("race")), r"dev\.json: no entry has bias_type gender; it has race"),
        (dev_json(stereoset_entry(context=" ")), r"dev\.json entry 1: context is empty"),
        (dev_json(stereoset_entry(sentences=[])), r"dev\.json entry 1: labels .*one each of stereotype"),
        (
            dev_json(stereoset_entry(sentences=[{"sentence": "He ran.", "gold_label": "stereotyp"}])),
            r"entry 1: label 'stereotyp'.*'stereotype'\?",
        ),
    ],
)
def test_mistakes_in_stereosets_json_get_one_line_that_names_the_place(
    tmp_path: Path, content: str, message: str
) -> None:
    one_line(write(tmp_path, "dev.json", content), message)


def test_a_file_that_is_missing_binary_or_of_another_kind_gets_one_line(tmp_path: Path) -> None:
    one_line(tmp_path / "none.csv", r"cannot be read .*Allowed: shipped, hub:stereoset")
    one_line("stereset", r"^stereset: cannot be read")
    one_line(write(tmp_path, "triples.xml", "<a/>"), r"triples\.xml: triples come as \.jsonl, \.csv")
    one_line(
        write(tmp_path, "own.csv", "a,b\n1,2\n"), r"own\.csv line 1: columns a, b; needed are context_id"
    )
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x9c")
    one_line(binary, "not UTF-8")


def test_a_part_of_the_triples_has_a_fingerprint_of_its_own() -> None:
    whole = load_triples()
    part = whole.every(3)
    assert len(part.pairs) == -(-len(whole.pairs) // 3)
    assert part.fingerprint != whole.fingerprint
    assert whole.every(1) is whole
