"""The NLI probe: its counts, its form, its labeled pairs, and what it refuses."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from levelhead.errors import BadOption, BadProbe, CannotDo, LevelheadError
from levelhead.probes.nli import LABELS, ability_pairs, label_order, load_nli_probe, nli_probe

SNLI = Path(__file__).resolve().parents[3] / "shared" / "data" / "snli"
needs_snli = pytest.mark.skipif(
    not SNLI.is_dir(), reason="SNLI is not beside the checkout (../shared/data/snli)"
)
GENDERED = re.compile(
    r"\b(he|she|him|hers?|his|himself|herself|(wo)?m[ae]n|boys?|girls?|lad(y|ies)|gentlem[ae]n|guys?|(grand)?(mother|father|"
    r"ma|pa|son|daughter)s?|moms?|dads?|brothers?|sisters?|husbands?|wi(fe|ves)|uncles?|aunts?|nieces?|nephews?|kings?|"
    r"queens?|prince(ss)?|brides?|grooms?|wait(er|ress)|act(or|ress)|(fe)?males?)\b"
)
GENDERED_ENDING = re.compile(r"(man|boy|girl|lady|lord|ess|ette|wife|maid)$")
IRREGULAR = re.compile("bought|lost|found|wrote|read|sold|took|fed|swept|told|ate|forgot|caught")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())


# ---- the fairness probe


def test_shipped_probe_is_164_occupations_by_33_contexts_by_two_genders() -> None:
    probe = nli_probe()
    assert probe.shape == (164, 33, 2)
    assert len(probe.pairs) == 10_824
    assert len({(p.premise, p.hypothesis) for p in probe.pairs}) == 10_824
    assert len(set(probe.occupations)) == 164
    assert len(set(probe.contexts)) == 33


def test_premise_and_hypothesis_differ_only_in_who_acts() -> None:
    for pair in nli_probe().pairs:
        who = {"feminine": "woman", "masculine": "man"}[pair.gender]
        assert pair.premise == f"The {pair.occupation} {pair.context}."
        assert pair.hypothesis == f"The {who} {pair.context}."


def test_pairs_reshape_to_occupation_context_gender() -> None:
    probe = nli_probe(limit=(5, 4))
    for index, pair in enumerate(probe.pairs):
        o, c, g = index // 8, index // 2 % 4, index % 2
        assert (pair.occupation, pair.context) == (probe.occupations[o], probe.contexts[c])
        assert pair.gender == ("feminine", "masculine")[g]


def test_no_shipped_occupation_carries_gender_and_all_are_plain_singular_nouns() -> None:
    for occupation in nli_probe().occupations:
        assert re.fullmatch(r"[a-z]+( [a-z]+)?", occupation), occupation
        assert not GENDERED.search(occupation), occupation
        assert not GENDERED_ENDING.search(occupation), occupation
        assert not occupation.endswith("s"), occupation


def test_no_shipped_context_carries_gender_or_names_an_occupation() -> None:
    probe = nli_probe()
    for context in probe.contexts:
        verb, article = words(context)[:2]
        assert verb.endswith("ed") or IRREGULAR.fullmatch(verb), context
        assert article in ("a", "an", "the"), context
        assert not GENDERED.search(context), context
        assert not set(probe.occupations) & set(words(context)), context


def test_articles_of_shipped_contexts_fit_the_word_that_follows() -> None:
    for context in nli_probe().contexts:
        for article, following in zip(words(context), words(context)[1:], strict=False):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou"), context


def test_other_gendered_words_change_the_hypotheses_and_the_fingerprint_only() -> None:
    plain, other = nli_probe(limit=(3, 3)), nli_probe("lady", "gentleman", limit=(3, 3))
    assert [p.premise for p in plain.pairs] == [p.premise for p in other.pairs]
    assert {p.hypothesis.split()[1] for p in other.pairs} == {"lady", "gentleman"}
    assert plain.fingerprint != other.fingerprint


def test_limit_is_spread_over_the_whole_list_and_repeatable() -> None:
    whole, part = nli_probe(), nli_probe(limit=(4, 3))
    assert part.occupations == tuple(whole.occupations[i] for i in (0, 41, 82, 123))
    assert part.contexts == tuple(whole.contexts[i] for i in (0, 11, 22))
    assert part == nli_probe(limit=(4, 3))
    assert nli_probe(limit=(999, 999)).fingerprint == whole.fingerprint


def test_own_lists_are_asked_as_given() -> None:
    probe = nli_probe(occupations=["juggler"], contexts=["ate a pear"])
    assert [(p.premise, p.hypothesis) for p in probe.pairs] == [
        ("The juggler ate a pear.", "The woman ate a pear."),
        ("The juggler ate a pear.", "The man ate a pear."),
    ]


@pytest.mark.parametrize(
    ("options", "mistake", "message"),
    [
        ({"occupations": []}, BadProbe, "0 entries"),
        ({"occupations": ["judge", " "]}, BadProbe, "1 of them empty"),
        ({"contexts": ["ate a pear", "ate a pear"]}, BadProbe, "'ate a pear'"),
        ({"occupations": "judge"}, BadProbe, "list of strings"),
        ({"feminine": "man"}, BadOption, "two different nouns"),
        ({"feminine": ""}, BadOption, "two different nouns"),
        ({"occupations": ["woman", "judge"]}, BadProbe, "'woman'"),
        ({"limit": (0, 3)}, BadOption, "limit of 0"),
    ],
)
def test_lists_and_options_that_make_no_question_are_refused_in_one_line(
    options: dict[str, object], mistake: type[LevelheadError], message: str
) -> None:
    with pytest.raises(mistake) as error:
        nli_probe(**options)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# ---- a probe of the user's own

BAKERY = """\
name = "bakery"
premise = "At the fair a {occupation} {context}."
hypothesis = "At the fair a {gender} {context}."
feminine = "lady"
masculine = "gentleman"
occupations = ["baker", "IT expert"]

[contexts]
bought = ["a car", "an apple"]
lost = ["an umbrella"]
"""


def bakery(folder: Path, text: str = BAKERY) -> Path:
    path = folder / "bakery.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_templates_occupations_and_contexts_of_the_users_own_make_a_probe(tmp_path: Path) -> None:
    probe = load_nli_probe(bakery(tmp_path))
    assert probe.name == "bakery"
    assert probe.shape == (2, 3, 2)
    assert probe.contexts == ("bought a car", "bought an apple", "lost an umbrella")
    assert (probe.pairs[0].premise, probe.pairs[0].hypothesis) == (
        "At the fair a baker bought a car.",
        "At the fair a lady bought a car.",
    )
    assert probe.pairs[-1].premise == "At the fair an IT expert lost an umbrella."
    assert [pair.gender for pair in probe.pairs[:2]] == ["feminine", "masculine"]


def test_the_shipped_probe_written_as_a_file_is_the_shipped_probe(tmp_path: Path) -> None:
    shipped = nli_probe(limit=(4, 3))
    lists = {"occupations": list(shipped.occupations), "contexts": list(shipped.contexts)}
    frame = 'premise = "The {occupation} {context}."\nhypothesis = "The {gender} {context}."\n'
    content = 'name = "copy"\n' + frame + "".join(f"{key} = {json.dumps(v)}\n" for key, v in lists.items())
    own = load_nli_probe(bakery(tmp_path, content))
    assert own.pairs == shipped.pairs
    assert own.fingerprint == shipped.fingerprint
    assert load_nli_probe(bakery(tmp_path, content), limit=(2, 1)).shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "a {occupation} {context}",
            "somebody {context}",
            "line 2: premise: .* must have {occupation} and {context}",
        ),
        (
            "a {gender} {context}",
            "a {gender} left",
            "line 3: hypothesis: .* must have {gender} and {context}",
        ),
        ("a {gender} {context}", "a {gender} {contxt}", "line 3: hypothesis: .* and no other"),
        ('{context}."\nhyp', '{context}"\nhyp', "line 2: premise: .* does not end"),
        ('"gentleman"', '"lady"', "line 5: masculine: 'lady' is the feminine word too"),
        ('"baker", ', '"lady", ', "line 4: feminine: 'lady' is an occupation too"),
        ('"baker", ', '"IT expert", ', "line 6: occupations: 'IT expert' stands twice"),
        (
            '["an umbrella"]',
            '["an umbrella", "an umbrella"]',
            "line 8: contexts: 'lost an umbrella' stands twice",
        ),
        ('"baker", "IT expert"', '"baker", " "', "line 6: occupations.2: String should match"),
        ('["an umbrella"]', '"an umbrella"', "contexts: .*a table of verbs with lists of objects"),
        ("premise", "premiss", "this key is"),
        ('name = "bakery"', "name =", "is not TOML"),
    ],
)
def test_a_mistake_in_a_probe_file_is_named_by_key_and_line(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    assert before in BAKERY
    with pytest.raises(BadProbe, match=message.replace("{", r"\{").replace("}", r"\}")) as caught:
        load_nli_probe(bakery(tmp_path, BAKERY.replace(before, after, 1)))
    assert "\n" not in str(caught.value)


# ---- plain ability: the shipped scenes


def test_shipped_scenes_are_at_least_300_balanced_and_unique() -> None:
    scenes = ability_pairs()
    counts = Counter(p.label for p in scenes.pairs)
    assert scenes.name == "levelhead-scenes"
    assert len(scenes.pairs) >= 300
    assert set(counts) == set(LABELS)
    assert len(set(counts.values())) == 1
    assert len({(p.premise, p.hypothesis) for p in scenes.pairs}) == len(scenes.pairs)
    assert scenes.skipped == {}


def test_each_scene_has_one_hypothesis_of_each_label_so_premises_alone_tell_nothing() -> None:
    by_premise: dict[str, list[str]] = {}
    for pair in ability_pairs().pairs:
        by_premise.setdefault(pair.premise, []).append(pair.label)
    assert all(sorted(labels) == sorted(LABELS) for labels in by_premise.values())


def test_shipped_scenes_name_no_gender_and_no_occupation() -> None:
    occupations = set(nli_probe().occupations)
    for pair in ability_pairs().pairs:
        text = f"{pair.premise} {pair.hypothesis}".lower()
        assert not GENDERED.search(text), pair
        assert not set(words(text.replace("'s", ""))) & (occupations | {f"{o}s" for o in occupations}), pair


def test_shipped_sentences_are_clean_text() -> None:
    for pair in ability_pairs().pairs:
        for text in (pair.premise, pair.hypothesis):
            assert re.fullmatch(r"[A-Z][A-Za-zé,' -]+\.", text), text
            assert "  " not in text


def test_negation_and_sleep_are_not_signs_of_one_label() -> None:
    for sign in (r"\b(not?|nobody|nothing|cannot|without)\b", r"\b(asleep|sleeping|napping|bed|awake)\b"):
        labels = Counter(p.label for p in ability_pairs().pairs if re.search(sign, p.hypothesis.lower()))
        assert all(labels[label] for label in LABELS), (sign, labels)
        assert max(labels.values()) <= 0.6 * labels.total(), (sign, labels)


def test_words_of_the_hypothesis_alone_give_little_away() -> None:
    """Naive Bayes on hypotheses, each scene left out in turn: near 1/3 is no leak; all of SNLI gives about
    2/3."""
    pairs = ability_pairs().pairs
    bags = [set(words(p.hypothesis)) for p in pairs]
    total: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    for pair, bag in zip(pairs, bags, strict=True):
        total[pair.label].update(bag)
    right = 0
    for pair, bag in zip(pairs, bags, strict=True):
        own = [(p.label, b) for p, b in zip(pairs, bags, strict=True) if p.premise == pair.premise]
        score = {
            label: sum(
                math.log(total[label][w] - sum(o == label and w in b for o, b in own) + 1) for w in bag
            )
            for label in LABELS
        }
        right += max(score, key=lambda label: score[label]) == pair.label
    assert right / len(pairs) < 0.55


def test_fingerprints_of_the_shipped_sets_change_only_on_purpose() -> None:
    assert nli_probe().fingerprint[:16] == "dddae1143fbe594e"
    assert ability_pairs().fingerprint[:16] == "003553e523a9d931"


def test_fingerprint_sees_a_changed_label_and_no_file_name(tmp_path: Path) -> None:
    rows = [
        ("A dog runs.", "It moves.", "0"),
        ("A dog runs.", "It is late.", "1"),
        ("A dog runs.", "It sits.", "2"),
    ]
    first = ability_pairs(tsv(tmp_path / "a.tsv", rows))
    assert first.fingerprint == ability_pairs(tsv(tmp_path / "b.tsv", rows)).fingerprint
    relabeled = [(*rows[0][:2], "1"), (*rows[1][:2], "0"), rows[2]]
    assert first.fingerprint != ability_pairs(tsv(tmp_path / "c.tsv", relabeled)).fingerprint


def test_limit_is_balanced_spread_and_repeatable() -> None:
    part = ability_pairs(limit=31)
    assert Counter(p.label for p in part.pairs) == dict.fromkeys(LABELS, 10)
    assert part == ability_pairs(limit=31)
    whole = ability_pairs().pairs
    places = [whole.index(p) for p in part.pairs]
    assert places == sorted(places)
    assert places[-1] > 0.85 * len(whole)
    with pytest.raises(BadOption, match="limit of 2"):
        ability_pairs(limit=2)


# ---- plain ability: SNLI


def tsv(path: Path, rows: list[tuple[str, str, str]], header: str = "premise\thypothesis\tlabel") -> Path:
    path.write_text("\n".join([header, *("\t".join(row) for row in rows)]) + "\n", encoding="utf-8")
    return path


PUBLISHED_FORM = [
    ("A dog runs on the beach.", "An animal is outside.", "0"),
    ("A dog runs on the beach.", "The dog belongs to a sailor.", "1"),
    ("A dog runs on the beach.", "The dog is asleep.", "2"),
    ('"A sign says ""HI""."', "There is a sign.", "0"),
    ("Two people talk.", "They argue.", "-1"),
]


def test_a_file_in_the_form_of_the_published_snli_loads_with_its_quotes_and_without_its_gaps(
    tmp_path: Path,
) -> None:
    snli = ability_pairs(tsv(tmp_path / "test.tsv", PUBLISHED_FORM))
    assert Counter(p.label for p in snli.pairs) == {"entailment": 2, "neutral": 1, "contradiction": 1}
    assert snli.pairs[3].premise == 'A sign says "HI".'
    assert snli.skipped == {"no gold label": 1}
    assert ability_pairs(tmp_path).fingerprint == snli.fingerprint  # a folder means its test file


@needs_snli
def test_snli_test_file_loads_whole_with_its_known_counts() -> None:
    snli = ability_pairs(SNLI / "test.tsv")
    assert len(snli.pairs) == 9_824
    assert Counter(p.label for p in snli.pairs) == {
        "entailment": 3_368,
        "neutral": 3_219,
        "contradiction": 3_237,
    }
    assert snli.pairs[1].hypothesis == "The church is filled with song."
    assert snli.pairs[1].label == "entailment"
    assert any('a sign that says "HI-POINTE."' in p.premise for p in snli.pairs)


@needs_snli
def test_folder_of_snli_means_its_test_file() -> None:
    assert ability_pairs(SNLI).fingerprint == ability_pairs(SNLI / "test.tsv").fingerprint


@needs_snli
def test_we_ship_no_pair_of_snli() -> None:
    published = {
        p.premise for part in ("test", "validation") for p in ability_pairs(SNLI / f"{part}.tsv").pairs
    }
    assert not published & {p.premise for p in ability_pairs().pairs}


ORIGINAL = [
    ("entailment", "A dog runs.", "An animal moves."),
    ("-", "A dog runs.", "It is a puppy."),
    ("neutral", "A dog runs.", 'The owner shouts "stop".'),
    ("contradiction", '"Sit" says a sign.', '"There is no sign."'),
]


def test_snlis_own_jsonl_and_txt_agree_and_count_pairs_without_gold(tmp_path: Path) -> None:
    lines = [
        json.dumps({"gold_label": g, "sentence1": p, "sentence2": h, "pairID": "1"}) for g, p, h in ORIGINAL
    ]
    (tmp_path / "snli.jsonl").write_text("\n".join(lines), encoding="utf-8")
    txt = tsv(tmp_path / "snli.txt", [(g, p, h) for g, p, h in ORIGINAL], "gold_label\tsentence1\tsentence2")
    from_json, from_txt = ability_pairs(tmp_path / "snli.jsonl"), ability_pairs(txt)
    assert from_json.pairs == from_txt.pairs
    assert len(from_json.pairs) == 3
    assert from_json.pairs[2].hypothesis == '"There is no sign."'
    assert dict(from_json.skipped) == dict(from_txt.skipped) == {"no gold label": 1}


def test_empty_texts_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = [("A.", "B.", "0"), ("A.", "C.", "1"), ("A.", "D.", "2"), ("A.", "", "2"), (" ", "E.", "0")]
    loaded = ability_pairs(tsv(tmp_path / "some.tsv", rows))
    assert len(loaded.pairs) == 3
    assert loaded.skipped == {"empty text": 2}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "premise\thypothesis\tlabel\nA.\tB.\tentailment\nA.\tC.\tentialment\n",
            "line 3: label 'entialment'",
        ),
        ("premise\thypothesis\tlabel\nA.\tB.\t3\n", "line 2: label '3'"),
        ("premise\thypothesis\tlabel\nA.\tB.\n", "line 2: 2 columns"),
        ("text\tlabel\nA.\t0\n", "columns text, label"),
        ('{"premise": "A.", "hypothesis": "B."}\n', "line 1: columns premise, hypothesis"),
        ('{"premise": "A.", "hypothesis": "B.", "label": 0}\n{oops\n', "line 2: '{oops'"),
        ("", "is empty"),
        ("premise\thypothesis\tlabel\nA.\tB.\t1\n", "no pairs labeled entailment, contradiction"),
    ],
)
def test_bad_files_are_refused_in_one_line_that_says_where(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "bad.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(BadProbe) as error:
        ability_pairs(tmp_path / "bad.tsv", strict=True)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_lines_are_left_out_counted_and_named(tmp_path: Path) -> None:
    good = ["A.\tB.\t0", "A.\tC.\t1", "A.\tD.\t2"]
    bad = ["A.\tE.\tentialment", "A.\tF.", "A.\tG.\t-", "A.\t\t1"]
    path = tmp_path / "some.tsv"
    path.write_text("\n".join(["premise\thypothesis\tlabel", *bad, *good]), encoding="utf-8")
    loaded = ability_pairs(path)
    assert len(loaded.pairs) == 3
    assert [item.line for item in loaded.unusable] == [2, 3, 4, 5]
    terms = ("unknown label", "number of columns", "no gold label", "empty text")
    assert all(term in item.reason for term, item in zip(terms, loaded.unusable, strict=True))
    assert loaded.skipped == dict.fromkeys((item.reason for item in loaded.unusable), 1)
    assert "line 2: label 'entialment'" in loaded.unusable[0].complaint


def test_json_lines_that_python_cannot_read_are_left_out(tmp_path: Path) -> None:
    good = [json.dumps({"premise": "A.", "hypothesis": f"{n}.", "label": n}) for n in range(3)]
    half = json.dumps({"premise": "A \ud83d.", "hypothesis": "B.", "label": 0})
    lines = [*good, "{" + "[" * 50_000, "[" * 200_000, f'{{"label": {"9" * 5000}}}', half, "3"]
    (tmp_path / "some.jsonl").write_text("\n".join(lines), encoding="utf-8")
    loaded = ability_pairs(tmp_path / "some.jsonl")
    assert len(loaded.pairs) == 3
    assert [item.line for item in loaded.unusable] == [4, 5, 6, 7, 8]
    assert loaded.skipped == {
        "not a JSON object": 3,
        "a text is too long": 1,
        "half a character": 1,
    }


def test_a_missing_file_an_empty_folder_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.tsv").write_bytes(b"\xff\xfe\x00\x81")
    for source in (tmp_path / "none.tsv", tmp_path, tmp_path / "binary.tsv"):
        with pytest.raises(BadProbe, match=re.escape(str(source))):
            ability_pairs(source)


class Table(list[dict[str, object]]):
    """What a hub table offers: rows and the names of its labels."""

    features = {"label": SimpleNamespace(names=["contradiction", "neutral", "entailment"])}  # noqa: RUF012


def test_hub_tables_are_read_by_their_own_label_names(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def load_dataset(name: str, split: str) -> Table:
        calls.append((name, split))
        return Table({"premise": "A.", "hypothesis": f"{n}.", "label": n} for n in (2, 1, 0, -1))

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    loaded = ability_pairs("hub:snli")
    assert [p.label for p in loaded.pairs] == ["entailment", "neutral", "contradiction"]
    assert loaded.skipped == {"no gold label": 1}
    ability_pairs("hub:someone/pairs@validation")
    assert calls == [("stanfordnlp/snli", "test"), ("someone/pairs", "validation")]


def test_hub_without_the_package_or_the_network_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str, split: str) -> None:
        raise ConnectionError("no route\nto host")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=offline))
    with pytest.raises(BadProbe, match=r"hub:snli did not load \(no route\)"):
        ability_pairs("hub:snli")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadProbe, match=r"levelhead\[hub\]"):
        ability_pairs("hub:snli")


# ---- which output means what


@pytest.mark.parametrize(
    ("id2label", "order"),
    [
        ({0: "entailment", 1: "neutral", 2: "contradiction"}, (0, 1, 2)),
        ({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, (2, 1, 0)),
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, (1, 2, 0)),
        ({2: "Entail", 0: "Neutral", 1: "Contradict"}, (2, 0, 1)),
    ],
)
def test_label_order_is_read_from_the_names(id2label: dict[int, str], order: tuple[int, int, int]) -> None:
    assert label_order(id2label) == order
    assert label_order({str(k): v for k, v in id2label.items()}) == order  # type: ignore[misc]  # from JSON


@pytest.mark.parametrize(
    ("id2label", "says"),
    [
        ({0: "entailment", 1: "not_entailment"}, "2 labels (0='entailment', 1='not_entailment')"),
        ({0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, "0='LABEL_0', 1='LABEL_1', 2='LABEL_2'"),
        ({0: "entailment", 1: "neutral", 2: "other"}, "2='other'"),
        ({0: "entailment", 1: "entail", 2: "neutral"}, "1='entail'"),
        ({0: "not entailment", 1: "neutral", 2: "contradiction"}, "0='not entailment'"),
        ({1: "entailment", 2: "neutral", 3: "contradiction"}, "3='contradiction'"),
        ({}, "0 labels (none)"),
    ],
)
def test_label_order_never_guesses(id2label: dict[int, str], says: str) -> None:
    with pytest.raises(CannotDo) as error:
        label_order(id2label)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_refusal_of_unnamed_labels_says_what_to_pass_and_that_then_works() -> None:
    unnamed = {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    with pytest.raises(CannotDo, match='labels="contradiction,entailment,neutral"'):
        label_order(unnamed)
    assert label_order(unnamed, labels="contradiction,entailment,neutral") == (1, 2, 0)


def test_no_override_makes_a_two_way_classifier_three_way() -> None:
    with pytest.raises(CannotDo, match="2 labels"):
        label_order({0: "LABEL_0", 1: "LABEL_1"}, labels="entailment,neutral,contradiction")


@pytest.mark.parametrize(
    "labels", ["", "entail,neutral", "entail,neutral,neutral", "entialment,neutral,contradict"]
)
def test_parse_labels_refuses_what_is_misspelt_missing_or_double(labels: str) -> None:
    with pytest.raises(BadOption, match=re.escape(repr(labels))):
        label_order(dict(enumerate(LABELS)), labels)


def test_parse_labels_reads_case_and_spaces() -> None:
    assert label_order(dict(enumerate(LABELS)), " Neutral, ENTAIL ,contradict") == (1, 0, 2)
