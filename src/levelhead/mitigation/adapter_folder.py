"""A folder for edits that do not fold: weights, an adapter, and code that applies it without levelhead.

Reference: docs/method.md, export.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto  # names of transformers itself take half a second to list

from levelhead.mitigation.vendoring import detached, write_modules
from levelhead.models.adapter import EDITED, REMOTE, AffineEdit, write_adapter
from levelhead.models.hooks import split_qkv
from levelhead.models.model import Model

MODULE = "modeling_levelhead"
EDITS = "levelhead_edits"  # the module of an exported network that holds the numbers of its edits
_TEMPLATES = Path(__file__).parent / "remote"
# A model type that transformers knows, and loads no language model for. Of one that it does not know, it asks
# on the terminal whether code may run, even for a tokenizer; under the model's own, it leaves the edits out.
BORROWED_TYPE = "superpoint"
_CONFIG_LINE = "from transformers import PreTrainedConfig as Config\n"
_MODEL_LINE = "from transformers import PreTrainedModel as Base\n"


def write_adapter_folder(
    model: Model, edits: Sequence[AffineEdit], folder: Path, about: Mapping[str, object]
) -> None:
    """Weights as they are, the adapter's two files, and remote code that needs nothing of levelhead."""
    kind = type(model.hf.config)
    places = [_place(model, edit) for edit in edits]
    with _numbers_inside(model.hf, [{**edit.tensors, **_index(model, edit)} for edit in edits]):
        # in the names of the live model: transformers renames old ones for its own classes only
        model.hf.save_pretrained(folder, save_original_format=False)
    write_adapter(folder, edits, {"model_type": kind.model_type, **about})
    write_remote(model, folder, f"{MODULE}.py", {"shared_blocks": _shared_blocks(model), "edits": places})


def write_remote(model: Model, folder: Path, template: str, settings: Mapping[str, object]) -> None:
    """Code from a template beside weights that are there, and a config that leads to it."""
    kind, base = type(model.hf.config), type(model.hf)
    _write_code(folder, kind, base, (_TEMPLATES / template).read_text(encoding="utf-8"))
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["model_type"], config["architectures"] = BORROWED_TYPE, [edited_name(base)]
    config["auto_map"] = {"AutoConfig": f"{MODULE}.EditedConfig"} | {
        auto: f"{MODULE}.{edited_name(each)}"
        for each in (base, *_filling_class(base))
        for auto in auto_classes(kind, each)
    }
    config[REMOTE] = dict(settings)
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def edited_name(base: type) -> str:
    """The name of the class in the remote code; it ends like the original's, which transformers looks at."""
    return f"{EDITED}{base.__name__}"


def auto_classes(kind: type, base: type) -> list[str]:
    """The Auto classes that lead to this class: AutoModelForSequenceClassification ..."""
    names = []
    for name in sorted(name for name in dir(modeling_auto) if name.startswith("AutoModel")):
        mapping = getattr(getattr(modeling_auto, name), "_model_mapping", None)
        if mapping is None or kind not in mapping:
            continue
        classes = mapping[kind]
        if base in (classes if isinstance(classes, tuple) else (classes,)):
            names.append(name)
    return names


@contextmanager
def imported(folder: Path, base: type) -> Iterator[Any]:
    """The remote class of a folder, imported from its file; the interpreter forgets it afterwards."""
    package = ModuleType(f"{MODULE}_{abs(hash(folder))}")
    package.__path__ = [str(folder)]
    spec = spec_from_file_location(f"{package.__name__}.{MODULE}", folder / f"{MODULE}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules |= {package.__name__: package, module.__name__: module}
    try:
        spec.loader.exec_module(module)
        yield getattr(module, edited_name(base))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == package.__name__]:
            del sys.modules[name]


def _filling_class(base: type) -> list[type]:
    """The class that fills blanks with the weights of one with a next-sentence head, too: pipeline() asks
    for it."""
    name = base.__name__.replace("ForPreTraining", "ForMaskedLM")
    return [getattr(transformers, name)] if name != base.__name__ and hasattr(transformers, name) else []


def _write_code(folder: Path, kind: type, base: type, code: str) -> None:
    write_modules(folder, code)
    changes = {
        _CONFIG_LINE: _CONFIG_LINE.replace("PreTrainedConfig", kind.__name__),
        _MODEL_LINE: _MODEL_LINE.replace("PreTrainedModel", base.__name__),
        'model_type = "levelhead"': f'model_type = "{BORROWED_TYPE}"',
        "class EditedModel(": f"class {edited_name(base)}(",
    }
    for old, new in changes.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    start = code.index(f"class {edited_name(base)}(")
    for filling in _filling_class(base):
        twin = code[start:].replace(edited_name(base), edited_name(filling)).replace("(Base)", "(Filling)")
        own = changes[_MODEL_LINE]
        code = code.replace(own, f"{own}from transformers import {filling.__name__} as Filling\n")
        code += f"\n\n{twin}"
    (folder / f"{MODULE}.py").write_text(detached(code), encoding="utf-8")


def _place(model: Model, edit: AffineEdit) -> dict[str, Any]:
    """Where an edit acts, as the remote code reads it: a module's path and a side, no families."""
    part, layer = edit.site.part, edit.site.layer
    shapes = {name: list(value.shape) for name, value in {**edit.tensors, **_index(model, edit)}.items()}
    if part == "pooled":
        head = model.classification_head
        side = "pooler" if head is None else "input"
        return {"module": _path(model, head or model.base), "side": side, "tensors": shapes}
    if part in ("block", "cls"):
        place = {"module": _path(model, model.blocks[layer]), "side": "output", "first_token": part == "cls"}
    elif part in ("neurons", "mlp"):
        side = "input" if part == "neurons" else "output"
        place = {"module": _path(model, model.down_projection(layer)), "side": side}
    elif part == "heads":
        place = {"module": _path(model, model.output_projection(layer)), "side": "input"}
    else:
        place = {"module": _path(model, model.qkv_module(layer, part)), "side": "output"}
    return {**place, **({"layer": layer} if model.shares_blocks else {}), "tensors": shapes}


def _index(model: Model, edit: AffineEdit) -> dict[str, Tensor]:
    """Which coordinates of a projection belong to which head, [head, dim]; {} if an edit takes them all."""
    part = edit.site.part
    if part == "heads":
        return {
            "index": torch.arange(model.heads * model.head_dim).unflatten(0, (model.heads, model.head_dim))
        }
    if part not in ("query", "key", "value"):
        return {}
    module = cast(Any, model.qkv_module(edit.site.layer, part))
    own = getattr(module, "out_features", None)  # of a linear layer, quantized or not; GPT-2's has none
    width = module.weight.shape[1] if own is None else own
    which = ("query", "key", "value").index(part)
    return {"index": split_qkv(model, torch.arange(width), which)[which].contiguous()}


def _shared_blocks(model: Model) -> list[str]:
    return [_path(model, block) for block in model.block_list] if model.shares_blocks else []


def _path(model: Model, module: nn.Module) -> str:
    return next(str(name) for name, other in model.hf.named_modules() if other is module)


@contextmanager
def _numbers_inside(hf: Any, tensors: Sequence[Mapping[str, Tensor]]) -> Iterator[None]:
    """The model with the edits' numbers among its buffers, so that `save_pretrained` writes them too."""
    changes = nn.ModuleList()
    for named in tensors:
        change = nn.Module()
        for name, value in named.items():
            change.register_buffer(name, value.detach().clone().contiguous())
        changes.append(change)
    hf.add_module(EDITS, changes)
    try:
        yield
    finally:
        del hf._modules[EDITS]
