"""A symmetrized model as a folder: what transformers loads from it answers as the model in memory does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from levelhead import models
from levelhead.edits.gates import removed
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Edit, Site
from levelhead.edits.subspace import Projection
from levelhead.engine.readings import Pooled, SentenceVectors, TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.symmetry import token_classes
from levelhead.errors import CannotDo, UnknownModel
from levelhead.mitigation.export import export
from levelhead.mitigation.mitigate import mitigate
from levelhead.mitigation.recipe import Recipe, parse_recipe, recipe_text
from levelhead.mitigation.remote.orienting import Orienter, Row
from levelhead.models.encoding import Text, encode, token_id
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap, RowSwap
from levelhead.probes.triples import load_triples
from tests.tiny import tiny

SWAP = GenderSwap()
SYMMETRIZED = (Symmetrized(SWAP),)
TEXTS = ["The nurse said that she was tired.", "He saw the engineer in the kitchen.", "Nurses work."]
HEADS = {
    "mlm": ("bert", "AutoModelForMaskedLM"),
    "nsp": ("bert", "AutoModelForPreTraining"),
    "nli": ("roberta", "AutoModelForSequenceClassification"),
    "base": ("bert", "AutoModel"),
    "causal": ("gpt2", "AutoModelForCausalLM"),
}


@cache
def shared(family: str, head: str = "mlm") -> Model:
    """A tiny model that no test changes, with its words sorted into groups once."""
    return tiny(family, head)


def made(head: str) -> Model:
    family, _ = HEADS[head]
    return shared(family) if head == "causal" else shared(family, head)


def loaded(folder: Path, head: str) -> tuple[Any, Any]:
    auto = getattr(transformers, HEADS[head][1])
    network = auto.from_pretrained(folder, trust_remote_code=True).eval()
    return network, transformers.AutoTokenizer.from_pretrained(folder)


def asked(network: Any, tokenizer: Any, *texts: list[str]) -> Any:
    batch = tokenizer(*texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        return network(**batch), batch


@pytest.fixture(params=list(HEADS))
def head(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def in_memory(model: Model, head: str) -> np.ndarray[Any, Any]:
    """What the symmetrized model answers, as probabilities or vectors."""
    if head == "mlm":
        asked = TokenLogProbs(blanks(model), words(model))
        return np.asarray(np.exp(read_one(model, asked, [SYMMETRIZED])[0]))
    if head == "causal":
        scores = read_one(model, TokenLikelihoods(TEXTS), [SYMMETRIZED])
        return np.concatenate(scores.values[0])
    if head == "base":
        return np.asarray(read_one(model, SentenceVectors(TEXTS, "mean-special"), [SYMMETRIZED])[0])
    pairs = [Text(text, other) for text, other in zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)]
    return np.asarray(np.exp(read_one(model, Pooled(pairs), [SYMMETRIZED])[0]))


def from_folder(network: Any, tokenizer: Any, model: Model, head: str) -> np.ndarray[Any, Any]:
    """The same from a network that transformers loaded."""
    if head in ("nsp", "nli"):
        out, _ = asked(network, tokenizer, TEXTS, TEXTS[1:] + TEXTS[:1])
        logits = out.logits if head == "nli" else out.seq_relationship_logits
        return np.asarray(logits.softmax(-1))
    out, batch = asked(network, tokenizer, blanks(model) if head == "mlm" else TEXTS)
    ids, real = batch["input_ids"], batch["attention_mask"]
    if head == "mlm":
        return np.asarray(out.logits.softmax(-1)[ids == tokenizer.mask_token_id][:, words(model)])
    if head == "base":
        return np.asarray((out.last_hidden_state * real[..., None]).sum(1) / real.sum(1, keepdim=True))
    logs = out.logits.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    return np.asarray(logs[real[:, 1:].bool()])


def blanks(model: Model) -> list[str]:
    return [f"{text} {model.tokenizer.mask_token} was tired." for text in TEXTS]


def words(model: Model) -> list[int]:
    return [token for word in ("she", "he", "nurse", "was") if (token := token_id(model, word)) is not None]


@pytest.mark.nightly
def test_the_folder_answers_as_the_model_in_memory(head: str, tmp_path: Path) -> None:
    model = made(head)
    torch.set_warn_always(True)  # else torch warns once in a process, and another test may have been first
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = export(model, SYMMETRIZED, tmp_path / "out")
    finally:
        torch.set_warn_always(False)
    network, tokenizer = loaded(tmp_path / "out", head)
    expected = in_memory(model, head)
    assert from_folder(network, tokenizer, model, head) == pytest.approx(expected, abs=1e-5)
    assert not report.folded
    assert report.effect > 1e-4
    assert report.per_answer is not None
    assert report.per_answer > 0
    assert (report.per_token is not None) == (head == "causal")
    check_named_classes(tmp_path / "out", head)
    check_outputs(network, tokenizer, head)


def check_named_classes(folder: Path, head: str) -> None:
    """The card names the Auto classes that load the folder; the documents name the one for each kind."""
    named = set(re.findall(r"Auto\w+", (folder / "README.md").read_text(encoding="utf-8")))
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    assert named == {*written, "AutoTokenizer"} - {"AutoConfig"}
    for name in sorted(named - {"AutoTokenizer"}):
        auto = getattr(transformers, name)
        assert type(auto.from_pretrained(folder, trust_remote_code=True)).__name__.startswith("Edited")
        with pytest.raises(ValueError, match="trust_remote_code"):
            auto.from_pretrained(folder, trust_remote_code=False)
    assert HEADS[head][1] in named
    text = Path(__file__).parents[2].joinpath("docs", "export.md").read_text(encoding="utf-8")
    section = text.split("## Symmetrized, as a folder")[1].split("\n## ")[0]
    told = set(re.findall(r"`(Auto\w+)`", section))
    assert told == {"AutoTokenizer", *(auto for _, auto in HEADS.values())}


def check_outputs(network: Any, tokenizer: Any, head: str) -> None:
    """Tuples where they are asked for, and a cache or a refusal."""
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        out, plain = network(**batch), network(**batch, return_dict=False)
    assert type(plain) is tuple
    assert [type(value) for value in plain] == [type(value) for value in out.to_tuple()]
    assert plain[0].numpy() == pytest.approx(out[0].numpy(), abs=1e-6)
    if head == "causal":
        assert (
            network(**batch, use_cache=True).past_key_values.get_seq_length() == batch["input_ids"].shape[1]
        )
    else:
        with pytest.raises(ValueError, match="causal language model"):
            network(**batch, use_cache=True)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["symmetrized", "adapter"])
def test_a_tokenizer_of_an_exported_folder_is_loaded_without_a_question(kind: str, tmp_path: Path) -> None:
    model = shared("bert")
    basis = torch.nn.functional.normalize(torch.ones(1, model.config.hidden_size))
    edits = SYMMETRIZED if kind == "symmetrized" else (Projection(Site(1, "block"), basis, torch.ones(1)),)
    assert not export(model, edits, tmp_path / "out").folded
    code = (
        "import sys, transformers\n"
        f"tokenizer = transformers.AutoTokenizer.from_pretrained({str(tmp_path / 'out')!r})\n"
        "print(tokenizer(sys.argv[1])['input_ids'], 'transformers_modules' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, TEXTS[0]], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.stdout == f"{model.tokenizer(TEXTS[0])['input_ids']} False\n"
    assert "custom code" not in done.stderr


@pytest.mark.nightly
def test_groups_are_equally_likely_in_the_folder_where_none_is_named(tmp_path: Path) -> None:
    model = shared("bert")
    export(model, SYMMETRIZED, tmp_path / "out")
    network, tokenizer = loaded(tmp_path / "out", "mlm")
    out, batch = asked(network, tokenizer, ["The nurse said that [MASK] was tired."])
    blank = out.logits[batch["input_ids"] == tokenizer.mask_token_id].softmax(-1)[0]
    she, he = (blank[tokenizer.convert_tokens_to_ids(word)] for word in ("she", "he"))
    assert float(she) == pytest.approx(float(he), rel=1e-5)
    assert float(blank.sum()) == pytest.approx(1, abs=1e-5)


def test_next_words_are_turned_with_the_text_and_text_can_be_generated(tmp_path: Path) -> None:
    model = shared("gpt2")
    export(model, SYMMETRIZED, tmp_path / "out")
    network, tokenizer = loaded(tmp_path / "out", "causal")
    pair = [token_id(model, word) for word in ("she", "he")]
    own, oriented = (
        asked(network, tokenizer, [f"The nurse said that {word}"])[0].logits[0, -1].softmax(-1)
        for word in ("she", "he")
    )
    assert own[pair].tolist() == pytest.approx(oriented[pair[::-1]].tolist(), rel=1e-5)
    assert float(own.sum()) == pytest.approx(1, abs=1e-5)
    ids = tokenizer("The nurse said that", return_tensors="pt")["input_ids"]
    written = network.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert written.shape == (1, ids.shape[1] + 3)
    with torch.no_grad():
        assert int(network(ids).logits[0, -1].argmax()) == int(written[0, ids.shape[1]])


@pytest.mark.nightly
def test_padding_on_the_left_changes_no_answer(tmp_path: Path) -> None:
    export(shared("gpt2"), SYMMETRIZED, tmp_path / "out")
    network, tokenizer = loaded(tmp_path / "out", "causal")
    tokenizer.padding_side = "left"
    together, _ = asked(network, tokenizer, TEXTS)
    alone, _ = asked(network, tokenizer, TEXTS[2:])
    assert together.logits[2, -1].numpy() == pytest.approx(alone.logits[0, -1].numpy(), abs=1e-5)


@pytest.mark.nightly
def test_the_mean_over_coins_is_the_symmetrized_answer(tmp_path: Path) -> None:
    model = shared("bert")
    recipe = Recipe(symmetrize="gender", coin=3)
    assert parse_recipe(recipe_text(recipe), tmp_path / "x.toml") == recipe
    mitigate(model, recipe, tmp_path / "out")
    network, tokenizer = loaded(tmp_path / "out", "mlm")
    assert network.config.levelhead["coin"] == 3
    wanted = [token_id(model, word) for word in ("she", "he", "was")]

    def probabilities(seed: int | None) -> np.ndarray[Any, Any]:
        network.config.levelhead["coin"] = seed
        out, batch = asked(network, tokenizer, blanks(model))
        return np.asarray(out.logits.softmax(-1)[batch["input_ids"] == tokenizer.mask_token_id][:, wanted])

    exact, tossed = probabilities(None), [probabilities(seed) for seed in range(60)]
    sides = [np.unique([each[text].round(7) for each in tossed], axis=0) for text in range(2)]
    assert [len(each) for each in sides] == [2, 2]
    assert [each.mean(axis=0) for each in sides] == pytest.approx(exact[:2], abs=1e-6)
    shares = [np.mean([np.allclose(each[t], sides[t][0], atol=1e-6) for each in tossed]) for t in range(2)]
    assert all(0.3 < share < 0.7 for share in shares)


@pytest.mark.nightly
def test_words_of_another_bias_are_turned_through_all_groups(tmp_path: Path) -> None:
    swap = RowSwap("trades", (("nurse", "engineer", "teacher"),))
    model = shared("bert", "nli")
    export(model, (Symmetrized(swap),), tmp_path / "out")
    network, tokenizer = loaded(tmp_path / "out", "nli")
    texts = [f"The {word} was tired." for word in swap.rows[0]]
    out, _ = asked(network, tokenizer, texts)
    assert out.logits.numpy() == pytest.approx(np.repeat(out.logits[:1].numpy(), 3, axis=0), abs=1e-5)


def test_edits_that_fold_are_in_the_weights_and_others_are_refused(tmp_path: Path) -> None:
    model = shared("bert", "nli")
    both: list[Edit] = [*removed(model, ["1-1"]), *SYMMETRIZED]
    export(model, both, tmp_path / "out")
    network, tokenizer = loaded(tmp_path / "out", "nli")
    expected = np.exp(read_one(model, Pooled(TEXTS), [tuple(both)])[0])
    out, _ = asked(network, tokenizer, TEXTS)
    assert out.logits.exp().numpy() == pytest.approx(expected, abs=1e-5)
    basis = torch.nn.functional.normalize(torch.ones(1, model.config.hidden_size))
    inside = Projection(Site(1, "block"), basis, torch.ones(1))
    with pytest.raises(CannotDo, match="fold"):
        export(model, [inside, *SYMMETRIZED], tmp_path / "other")


@pytest.mark.nightly
def test_levelhead_does_not_take_the_folder_for_the_model_that_it_was(tmp_path: Path) -> None:
    export(shared("bert", "nli"), SYMMETRIZED, tmp_path / "out")
    with pytest.raises(UnknownModel, match="symmetrized"):
        load(tmp_path / "out", trust_remote_code=True)


def test_what_is_not_one_token_is_counted_in_the_card(tmp_path: Path) -> None:
    model = shared("bert")
    report = export(model, SYMMETRIZED, tmp_path / "out")
    assert str(len(token_classes(model, SWAP).split)) in report.note
    assert report.note in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_a_text_comes_back_token_by_token_where_its_turn_is_reversible() -> None:
    model = shared("bert")
    orienter = Orienter(model.tokenizer, SWAP, causal=False)
    for text in ("She saw him in the kitchen.", "The mothers and the women work too!"):
        ids = model.tokenizer(text)["input_ids"]
        there = orienter(Row(ids, [0] * len(ids)), 1)
        assert list(orienter(Row(there.ids, there.types), 1).ids) == ids
        assert list(there.ids) == model.tokenizer(SWAP(text).text)["input_ids"]


@pytest.mark.parametrize("name", ["bert-mini", "gpt-mini"])
def test_turned_rows_are_the_rows_of_turned_texts(name: str) -> None:
    """Words are put together from tokens, also behind a curly apostrophe, which is several bytes."""
    folder = Path(models.__file__).parent / "embedded" / name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    orienter = Orienter(tokenizer, SWAP, causal=name == "gpt-mini")
    texts = [pair.original.context for pair in load_triples().pairs[:60]]
    texts = [text for text in texts if SWAP(text).changes]
    texts += ["The nurse said she\u2019s tired.", '"He said that!" she (a woman) said; her dad left.']
    assert len(texts) > 20
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        oriented = orienter(Row(ids, [0] * len(ids)), 1)
        assert list(oriented.ids) == tokenizer(SWAP(text).text)["input_ids"], text


@pytest.mark.nightly
def test_a_folder_takes_names_in_no_table_for_what_the_model_takes_them_to_be(tmp_path: Path) -> None:
    model = load("lh:gpt-mini")
    texts = [
        Text(f"{name} hoped that {pronoun}")
        for name in ("Philomena", "Bartholomew", "Aurelia", "Thaddeus", "Mary")
        for pronoun in ("she", "he")
    ]
    memory = [float(own[-1]) for own in read_one(model, TokenLikelihoods(texts), [SYMMETRIZED]).values[0]]
    export(model, SYMMETRIZED, tmp_path / "out")
    network, _ = loaded(tmp_path / "out", "causal")
    found = []
    for row in encode(model, texts):
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([row.ids[:-1].tolist()])).logits[0, -1]
        found.append(float(logits.log_softmax(-1)[int(row.ids[-1])]))
    assert found == pytest.approx(memory, abs=1e-3)
    odds = np.subtract(memory[::2], memory[1::2])
    assert odds[0] > 0.5 > -0.5 > odds[1]  # Philomena she, Bartholomew he


@pytest.mark.nightly
def test_what_a_folder_copies_of_levelhead_stands_alone_and_holds_no_more_than_is_used(
    tmp_path: Path,
) -> None:
    export(shared("bert"), SYMMETRIZED, tmp_path / "out")
    copied = {
        path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").glob("levelhead_*.py")
    }
    assert len(copied) > 5
    # transformers 5.0 copies what this file imports by itself, and nothing that those import
    code = (tmp_path / "out" / "modeling_levelhead.py").read_text(encoding="utf-8")
    assert {f"{name}.py" for name in re.findall(r"^from \.(\w+) import", code, re.M)} == {*copied}
    for text in copied.values():
        assert "from levelhead" not in text
        assert "import levelhead" not in text
    (tables,) = (text for text in copied.values() if "TABLES = {" in text)
    assert "FOLDER" not in tables
    assert "class BadProbe(" in copied["levelhead_errors.py"]
    assert "class BadRun(" not in copied["levelhead_errors.py"]
