"""Exported folders, reloaded in a process without levelhead, compute what the edited model computes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import levelhead
from levelhead.edits.gates import HeadGates, gates, removed
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Edit, Head, Part, Site
from levelhead.edits.subspace import AffineErasure, Projection
from levelhead.engine.readings import Pooled, WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo, LevelheadError, NoEffect, UnknownModel
from levelhead.mitigation import export as export_module
from levelhead.mitigation.export import RECIPE_FILE, ExportReport, export
from levelhead.mitigation.recipe import Recipe, load_recipe
from levelhead.models.adapter import NUMBERS, PLACES, read_adapter
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap
from tests.tiny import tiny

TEXTS = ["The nurse said that she was tired.", "Engineers and nurses work, unbelievable as it is."]
TOLERANCE = 1e-5

RELOAD = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "levelhead":
            raise ImportError("levelhead is not here")

sys.meta_path.insert(0, Blocked())
try:
    import levelhead
except ImportError:
    pass
else:
    sys.exit("levelhead could be imported")
import torch, transformers

differences = {}
for job in json.load(open(sys.argv[1])):
    options = {"trust_remote_code": True} if job["remote"] else {}
    model = getattr(transformers, job["auto"]).from_pretrained(job["folder"], **options).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"], **options)
    assert tokenizer("She is a nurse.")["input_ids"], job
    data = torch.load(job["data"])
    with torch.no_grad():
        out = model(**data["inputs"])
    keep = data["inputs"]["attention_mask"].bool()
    if job["skip_first"]:
        keep[:, 0] = False
    worst = 0.0
    for name, edited in data["outputs"].items():
        reloaded = out[name]
        if reloaded.shape[:2] == keep.shape:
            reloaded, edited = reloaded[keep], edited[keep]
        worst = max(worst, float((reloaded - edited).abs().max()))
    differences[job["folder"]] = worst
print(json.dumps(differences))
"""


def basis(*shape: int, seed: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    orthogonal: torch.Tensor = torch.linalg.qr(torch.randn(*shape, generator=generator).mT)[0]
    return orthogonal.mT.contiguous()


def qkv(model: Model, layer: int) -> list[Projection]:
    sizes: list[tuple[Part, int]] = [
        ("query", model.heads),
        ("key", model.kv_heads),
        ("value", model.kv_heads),
    ]
    return [
        Projection(Site(layer, part), basis(heads, 1, model.head_dim, seed=i), torch.full((heads, 1), 0.8))
        for i, (part, heads) in enumerate(sizes)
    ]


def sent(model: Model) -> Projection:
    return Projection(Site(0, "pooled"), basis(1, model.config.hidden_size), torch.ones(1))


def cls(model: Model, layer: int = -1) -> Projection:
    return Projection(
        Site(layer % model.layers, "cls"), basis(2, model.config.hidden_size), torch.tensor([1.0, 0.6])
    )


def tokens(model: Model, layer: int = 1) -> Projection:
    return Projection(
        Site(layer, "block"), basis(2, model.config.hidden_size, seed=9), torch.tensor([1.0, 0.4])
    )


def some_gates(model: Model) -> tuple[HeadGates, ...]:
    return gates(model, {(0, 1): 0.0, (1, 0): 0.3, (1, 3): 2.5})


def everywhere(model: Model) -> tuple[HeadGates, ...]:
    return gates(model, {(layer, head): 0.2 for layer in range(model.layers) for head in (1, 2)})


def inside(model: Model) -> list[Edit]:
    return [*some_gates(model), *qkv(model, 1), *qkv(model, 1)[:1], *qkv(model, 2)]


def classifier(model: Model) -> list[Edit]:
    return [*inside(model), cls(model), sent(model)]


def deep(model: Model) -> list[Edit]:
    return [*some_gates(model), *qkv(model, 0), tokens(model), cls(model, 0)]


Make = Callable[[Model], list[Edit]]
FOLDED: dict[str, tuple[str, str, Make]] = {
    "bert-nsp": ("bert", "nsp", classifier),
    "bert-nli": ("bert", "nli", classifier),
    "roberta": ("roberta", "nli", classifier),
    "distilbert": ("distilbert", "nli", classifier),
    "electra": ("electra", "nli", classifier),
    "albert": ("albert", "nli", lambda model: [*everywhere(model), cls(model), sent(model)]),
    "mobilebert": ("mobilebert", "nli", lambda model: [*some_gates(model), cls(model), sent(model)]),
    "deberta-v2": ("deberta-v2", "nli", classifier),
    "modernbert": ("modernbert", "mlm", inside),
    "gpt2": ("gpt2", "mlm", inside),
    "llama": ("llama", "mlm", inside),
    "qwen3": ("qwen3", "mlm", inside),
    "phi3": ("phi3", "mlm", inside),
    "gpt_neox": ("gpt_neox", "mlm", inside),
}
ADAPTED: dict[str, tuple[str, str, Make]] = {
    "bert-nsp": ("bert", "nsp", lambda model: [*deep(model), sent(model)]),
    "bert-base": ("bert", "base", lambda model: [tokens(model), sent(model)]),
    "bert-cls-mlm": ("bert", "mlm", lambda model: [cls(model)]),
    "roberta": ("roberta", "nli", lambda model: [*deep(model), sent(model)]),
    "albert": ("albert", "nli", lambda model: [*deep(model), sent(model)]),
    "modernbert": ("modernbert", "nli", lambda model: [*deep(model), cls(model)]),
    "gpt2": ("gpt2", "mlm", deep),
    "llama": ("llama", "mlm", deep),
    "phi3": ("phi3", "mlm", deep),
    "gpt_neox": ("gpt_neox", "mlm", deep),
}


def inputs_of(model: Model) -> dict[str, torch.Tensor]:
    options = {"return_tensors": "pt", "padding": True, "padding_side": "right"}
    encoded = dict(model.tokenizer(TEXTS, TEXTS[::-1], **options))
    if model.family.causal or model.name in ("tiny-roberta", "tiny-distilbert", "tiny-modernbert"):
        encoded.pop("token_type_ids", None)
    return encoded


def outputs(hf: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        returned = hf(**inputs)
    return {name: value for name, value in returned.items() if isinstance(value, torch.Tensor)}


def auto_of(model: Model) -> str:
    kind = type(model.hf).__name__
    if kind.endswith(("ForPreTraining", "ForSequenceClassification", "ForMaskedLM", "ForCausalLM")):
        return "AutoModelFor" + kind.partition("For")[2]
    return "AutoModelForCausalLM" if "LMHead" in kind else "AutoModel"


class Exported:
    """Folders written by export, and how far they are from the edited models in a foreign process."""

    def __init__(self, place: Path, cases: dict[str, tuple[str, str, Make]]) -> None:
        self.reports: dict[str, ExportReport] = {}
        self.models: dict[str, Model] = {}
        self.edits: dict[str, list[Edit]] = {}
        self.effects: dict[str, float] = {}
        self.differences: dict[str, float] = {}
        self.jobs: list[dict[str, Any]] = []
        for name, (family, head, make) in cases.items():
            model = tiny(family, head)
            before = {key: value.clone() for key, value in model.hf.state_dict().items()}
            edits = make(model)
            folder = place / f"{name}.v1"  # a dot in a folder's name must not trouble the remote code
            report = export(model, edits, folder)
            assert all(torch.equal(value, before[key]) for key, value in model.hf.state_dict().items())
            inputs = inputs_of(model)
            plain = outputs(model.hf, inputs)
            with model.edited(*edits):
                edited = outputs(model.hf, inputs)
            skip = report.folded and any(edit.site.part == "cls" for edit in edits)
            self.effects[name] = max(float((edited[key] - plain[key]).abs().max()) for key in edited)
            self.reports[name], self.models[name], self.edits[name] = report, model, edits
            data = place / f"{name}.pt"
            torch.save({"inputs": inputs, "outputs": edited}, data)
            self.jobs.append(
                {
                    "folder": str(folder),
                    "remote": not report.folded,
                    "data": str(data),
                    "skip_first": skip,
                    "auto": auto_of(model),
                }
            )

    def difference(self, name: str) -> float:
        return self.differences[str(self.reports[name].folder)]


def reload_elsewhere(place: Path, jobs: list[dict[str, Any]]) -> dict[str, float]:
    (place / "jobs.json").write_text(json.dumps(jobs))
    (place / "reload.py").write_text(RELOAD)
    environment = {
        "HF_HOME": str(place / "hf"),
        "OMP_NUM_THREADS": "1",  # cores are shared with other tests
        "HF_HUB_OFFLINE": "1",
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
    }
    done = subprocess.run(
        [sys.executable, "-I", str(place / "reload.py"), str(place / "jobs.json")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    differences: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return differences


@pytest.fixture(scope="module")
def all_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exported, Exported]:
    """Folded folders and folders with an adapter, all read in one foreign process."""
    folded = Exported(tmp_path_factory.mktemp("folded"), FOLDED)
    adapted = Exported(tmp_path_factory.mktemp("adapter"), ADAPTED)
    jobs = [*folded.jobs, *adapted.jobs, symmetrized_job(tmp_path_factory.mktemp("symmetrized"))]
    differences = reload_elsewhere(tmp_path_factory.mktemp("elsewhere"), jobs)
    folded.differences = adapted.differences = differences
    return folded, adapted


def symmetrized_job(place: Path) -> dict[str, Any]:
    """A symmetrized classifier as a folder, and what transformers makes of it in this process."""
    model = tiny("bert", "nli")
    export(model, (Symmetrized(GenderSwap()),), place / "out")
    auto: Any = getattr(transformers, auto_of(model))
    network = auto.from_pretrained(place / "out", trust_remote_code=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place / "out", trust_remote_code=True)
    inputs = dict(tokenizer(TEXTS, return_tensors="pt", padding=True))
    with torch.no_grad():
        torch.save({"inputs": inputs, "outputs": {"logits": network(**inputs).logits}}, place / "data.pt")
    job = {"folder": str(place / "out"), "remote": True, "skip_first": False}
    return job | {"auto": auto_of(model), "data": str(place / "data.pt")}


@pytest.fixture(scope="module")
def folded_folders(all_folders: tuple[Exported, Exported]) -> Exported:
    return all_folders[0]


@pytest.fixture(scope="module")
def adapter_folders(all_folders: tuple[Exported, Exported]) -> Exported:
    return all_folders[1]


@pytest.mark.parametrize("name", list(FOLDED))
def test_a_folded_model_needs_nothing_of_levelhead_and_equals_the_edited_one(
    folded_folders: Exported, name: str
) -> None:
    report = folded_folders.reports[name]
    assert report.folded
    assert not report.obstacles
    assert folded_folders.difference(name) <= TOLERANCE
    assert report.max_difference <= TOLERANCE
    assert folded_folders.effects[name] > 1e-2
    assert report.effect > 1e-2
    assert not (report.folder / PLACES).exists()
    assert "auto_map" not in json.loads((report.folder / "config.json").read_text())


@pytest.mark.parametrize("name", list(ADAPTED))
def test_remote_code_needs_nothing_of_levelhead_and_equals_the_edited_model(
    adapter_folders: Exported, name: str
) -> None:
    report = adapter_folders.reports[name]
    assert not report.folded
    assert report.obstacles
    assert adapter_folders.difference(name) <= TOLERANCE
    assert adapter_folders.effects[name] > 1e-2
    assert (report.folder / NUMBERS).stat().st_size < 20_000


def test_a_symmetrized_folder_needs_nothing_of_levelhead(adapter_folders: Exported) -> None:
    (difference,) = (far for path, far in adapter_folders.differences.items() if "symmetrized" in path)
    assert difference < 1e-6


@pytest.mark.parametrize("name", list(ADAPTED))
def test_load_applies_an_adapter_for_good_without_running_remote_code(
    adapter_folders: Exported, name: str
) -> None:
    model, edits = adapter_folders.models[name], adapter_folders.edits[name]
    again = levelhead.load(str(adapter_folders.reports[name].folder), device="cpu")
    assert type(again.hf) is type(model.hf)
    assert len(again.adapter) == len(edits)
    inputs = inputs_of(model)
    with model.edited(*edits):
        edited = outputs(model.hf, inputs)
    reloaded = outputs(again.hf, inputs)
    for key, value in edited.items():
        real = inputs["attention_mask"].bool()
        pick = real if value.shape[:2] == real.shape else ...
        torch.testing.assert_close(reloaded[key][pick], value[pick], atol=TOLERANCE, rtol=0)
    assert again.abilities == model.abilities
    assert again.fingerprint != model.fingerprint


@pytest.mark.parametrize("name", ["bert-nsp", "albert", "gpt2"])
def test_the_engine_asks_a_loaded_adapter_as_it_asks_the_edited_model(
    adapter_folders: Exported, name: str
) -> None:
    model, edits = adapter_folders.models[name], tuple(adapter_folders.edits[name])
    again = load(str(adapter_folders.reports[name].folder), device="cpu")
    texts = [Text(text) for text in TEXTS]
    reading = WordVectors(texts, [find_word(TEXTS[0], "nurse"), find_word(TEXTS[1], "nurses")])
    plain, edited = read_one(model, reading, [(), edits])
    np.testing.assert_allclose(read_one(again, reading)[0], edited, atol=1e-4)
    assert np.abs(plain - edited).max() > 1e-2
    if again.classification_head is not None:
        judged = Pooled([Text(TEXTS[0], TEXTS[1])])
        np.testing.assert_allclose(read_one(again, judged)[0], read_one(model, judged, [edits])[0], atol=1e-4)


def test_an_adapter_folder_is_never_loaded_without_its_edits_by_mistake(adapter_folders: Exported) -> None:
    folder = adapter_folders.reports["roberta"].folder
    with pytest.raises(ValueError, match="trust_remote_code"):
        transformers.AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=False)


def test_an_adapter_model_can_be_edited_again_and_exported_again(
    adapter_folders: Exported, tmp_path: Path
) -> None:
    model, edits = adapter_folders.models["gpt2"], adapter_folders.edits["gpt2"]
    again = load(str(adapter_folders.reports["gpt2"].folder), device="cpu")
    more = removed(again, [(2, 3)])
    report = export(again, more, tmp_path / "twice")
    assert not report.folded
    third = load(str(report.folder), device="cpu")
    inputs = inputs_of(model)
    with model.edited(*edits, *more):
        edited = outputs(model.hf, inputs)["logits"]
    real = inputs["attention_mask"].bool()
    again_exported = outputs(third.hf, inputs)["logits"]
    torch.testing.assert_close(again_exported[real], edited[real], atol=TOLERANCE, rtol=0)


def test_the_adapter_alone_gives_the_base_model_the_same_edits(adapter_folders: Exported) -> None:
    model = adapter_folders.models["llama"]
    inputs = inputs_of(model)
    with model.edited(*read_adapter(adapter_folders.reports["llama"].folder)):
        from_adapter = outputs(model.hf, inputs)["logits"]
    with model.edited(*adapter_folders.edits["llama"]):
        edited = outputs(model.hf, inputs)["logits"]
    torch.testing.assert_close(from_adapter, edited, atol=TOLERANCE, rtol=0)


def test_leace_folds_at_the_sentence_vector_with_its_offset(tmp_path: Path) -> None:
    model = tiny("bert", "nli")
    left, right, center = torch.randn(32, 1), torch.randn(1, 32), torch.randn(32)
    report = export(
        model, [AffineErasure(Site(0, "pooled"), left, right / (right @ left), center)], tmp_path / "out"
    )
    assert report.folded
    assert report.max_difference <= TOLERANCE


def test_the_shipped_model_exports_with_its_recipe_and_card(tmp_path: Path) -> None:
    model = load("lh:bert-mini", device="cpu")
    recipe = Recipe(
        gates={Head(2, 4): 0.0}, title="one head", model=model.name, fingerprint=model.fingerprint
    )
    report = export(model, gates(model, recipe.gates), tmp_path / "out", recipe)
    assert report.folded
    assert report.max_difference <= 1e-4
    assert load_recipe(report.folder / RECIPE_FILE) == recipe
    card = (report.folder / "README.md").read_text()
    assert "transformers.AutoModelForPreTraining.from_pretrained('out')" in card
    assert (report.folder / "model.safetensors").stat().st_mode & 0o777 == (
        report.folder / "README.md"
    ).stat().st_mode & 0o777
    assert model.fingerprint in card
    again = load(str(report.folder), device="cpu")
    assert again.abilities == model.abilities
    assert again.adapter == ()
    judged = Pooled([Text("She is a nurse.", "She works at night.")])
    edited = read_one(model, judged, [gates(model, recipe.gates)])
    np.testing.assert_allclose(read_one(again, judged), edited, atol=1e-4)


def test_nothing_is_written_into_a_folder_that_holds_something(tmp_path: Path) -> None:
    model = tiny("bert", "nli")
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(LevelheadError, match="not empty"):
        export(model, some_gates(model), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_reloaded_model_that_differs_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert", "nli")
    monkeypatch.setattr(export_module, "folded", lambda model, folding: model.edited())  # folds nothing
    with pytest.raises(CannotDo, match="differs from the edited one"):
        export(model, some_gates(model), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_edits_without_effect_are_an_error_and_so_are_none(tmp_path: Path) -> None:
    model = tiny("bert", "nli")
    with pytest.raises(NoEffect, match="change no output"):
        export(model, gates(model, {(0, 0): 1.0}), tmp_path / "out")
    with pytest.raises(BadOption, match="No edits"):
        export(model, [], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "other format", "no numbers", "other number of edits"])
def test_a_damaged_adapter_is_refused_in_one_line(
    adapter_folders: Exported, tmp_path: Path, damage: str
) -> None:
    folder = adapter_folders.reports["gpt2"].folder
    text = (folder / PLACES).read_text()
    data = json.loads(text)
    if damage == "cut":
        text = text[:40]
    elif damage == "other format":
        text = json.dumps({**data, "format": 99})
    elif damage == "other number of edits":
        text = json.dumps({**data, "edits": data["edits"][:-1]})
    (tmp_path / PLACES).write_text(text)
    if damage != "no numbers":
        (tmp_path / NUMBERS).write_bytes((folder / NUMBERS).read_bytes())
    with pytest.raises(UnknownModel, match="Export"):
        read_adapter(tmp_path)


@pytest.mark.smollm2
@pytest.mark.nightly
def test_a_model_read_from_a_gguf_file_is_written_as_an_ordinary_folder(
    smollm2: Model, tmp_path: Path
) -> None:
    model = smollm2
    report = export(model, gates(model, {(0, 0): 0.0}), tmp_path / "out")
    assert report.folded
    assert "quantization_config" not in json.loads((tmp_path / "out" / "config.json").read_text())
    assert report.max_difference < 1e-3 < report.effect


def test_an_adapter_beside_other_weights_is_refused(adapter_folders: Exported, tmp_path: Path) -> None:
    folder = shutil.copytree(adapter_folders.reports["gpt2"].folder, tmp_path / "copy")
    assert read_adapter(folder)
    weights = load_file(folder / "model.safetensors")
    first = next(name for name, value in weights.items() if value.dim() > 1)
    weights[first][0, 0] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnknownModel, match="other weights"):
        read_adapter(folder)


def test_a_folder_with_remote_code_and_no_adapter_is_still_refused(
    adapter_folders: Exported, tmp_path: Path
) -> None:
    source = adapter_folders.reports["gpt2"].folder
    for path in source.iterdir():
        if path.is_file() and path.name not in (PLACES, NUMBERS):  # Python may have left its bytecode there
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UnknownModel, match=r"code of its own \(auto_map\), which levelhead does not run"):
        load(str(tmp_path))


@pytest.mark.parametrize(
    ("family", "head", "task"),
    [
        ("bert", "mlm", "fill-mask"),
        ("bert", "nsp", "fill-mask"),
        ("bert", "nli", "text-classification"),
        ("gpt2", "", "text-generation"),
    ],
)
def test_an_adapter_folder_serves_a_pipeline_and_survives_being_saved_again(
    family: str, head: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    model = tiny(family, head)
    edits = (tokens(model),)
    export(model, edits, tmp_path / "out")
    make_pipeline: Any = transformers.pipeline
    served = make_pipeline(task, model=str(tmp_path / "out"), trust_remote_code=True)
    texts = {"fill-mask": "The nurse said that [MASK] was tired."}
    assert served(texts.get(task, "The nurse"), **({"max_new_tokens": 2} if family == "gpt2" else {}))
    served.model.save_pretrained(tmp_path / "again")
    again = type(served.model).from_pretrained(tmp_path / "again").eval()
    inputs = {"input_ids": torch.arange(5, 12)[None]}
    with torch.no_grad():
        with model.edited(*edits):
            out = model.hf(**inputs)
        expected = out.prediction_logits if head == "nsp" else out.logits
        for reloaded in (served.model, again):
            assert (reloaded(**inputs).logits - expected).abs().max() < TOLERANCE
        assert (model.hf(**inputs)[0] - expected).abs().max() > TOLERANCE
