"""Folders with code: for edits that do not fold, and for models that run at every orientation of the
groups.

Weights, the edits' numbers, and code (remote/) that applies them without levelhead. transformers follows
relative imports between the files of a folder, so what the code needs of levelhead is written beside it:
`from levelhead.probes.group_swap import ...` becomes `from .levelhead_probes_group_swap import ...`.
Reference: docs/method/projections.md, export.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.models.auto import modeling_auto  # names of transformers itself take half a second to list

from levelhead.edits.sites import Variant
from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.own_forward import network_outputs
from levelhead.engine.readings import Pooled, SentenceVectors, TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.symmetry import token_classes
from levelhead.models.adapter import EDITED, REMOTE, AffineEdit, write_adapter
from levelhead.models.encoding import Text, encode, token_id
from levelhead.models.hooks import split_qkv
from levelhead.models.model import Model
from levelhead.probes.group_swap import GroupSwap, RowSwap
from levelhead.probes.swap.tables import FOLDER, table_text

MODULE = "modeling_levelhead"
EDITS = "levelhead_edits"  # the module of an exported network that holds the numbers of its edits
_TEMPLATES = Path(__file__).parent / "remote"
# A model type that transformers knows, and loads no language model for. Of one that it does not know, it asks
# on the terminal whether code may run, even for a tokenizer; under the model's own, it leaves the edits out.
BORROWED_TYPE = "superpoint"
_GENERATED, _ROUNDS = 16, 3  # tokens of a generation that is timed, and how often


# ---- edits that do not fold


def write_adapter_folder(
    model: Model, edits: Sequence[AffineEdit], folder: Path, about: Mapping[str, object]
) -> None:
    """Weights as they are, the adapter's two files, and remote code that needs nothing of levelhead."""
    path_of = {id(module): str(name) for name, module in model.hf.named_modules()}
    places = []
    # the edits' numbers become buffers for a moment, so that `save_pretrained` writes them too
    changes = nn.ModuleList()
    for edit in edits:
        module, place, index = _place(model, edit)
        change, tensors = nn.Module(), {**edit.tensors, **index}
        for name, value in tensors.items():
            change.register_buffer(name, value.detach().clone().contiguous())
        changes.append(change)
        shapes = {name: list(value.shape) for name, value in tensors.items()}
        places.append({"module": path_of[id(module)], **place, "tensors": shapes})
    model.hf.add_module(EDITS, changes)
    try:
        # in the names of the live model: transformers renames old ones for its own classes only
        model.hf.save_pretrained(folder, save_original_format=False)
    finally:
        del model.hf._modules[EDITS]
    write_adapter(folder, edits, {"model_type": type(model.hf.config).model_type, **about})
    shared = [path_of[id(block)] for block in model.block_list] if model.shares_blocks else []
    _write_remote(model, folder, f"{MODULE}.py", {"shared_blocks": shared, "edits": places})


def _place(model: Model, edit: AffineEdit) -> tuple[nn.Module, dict[str, Any], dict[str, Tensor]]:
    """The module at which an edit acts, and where there, as the remote code reads it: no families; and which
    coordinates of a projection belong to which head, [head, dim], where the edit does not take them all."""
    part, layer = edit.site.part, edit.site.layer
    if part == "pooled":
        head = model.classification_head
        return head or model.base, {"side": "pooler" if head is None else "input"}, {}
    at_layer: dict[str, Any] = {"layer": layer} if model.shares_blocks else {}
    index: dict[str, Tensor] = {}
    if part in ("block", "cls"):
        return model.blocks[layer], {"side": "output", "first_token": part == "cls", **at_layer}, index
    if part in ("neurons", "mlp"):
        module, side = model.down_projection(layer), "input" if part == "neurons" else "output"
    elif part == "heads":
        module, side = model.output_projection(layer), "input"
        by_head = (model.heads, model.head_dim)
        index["index"] = torch.arange(model.heads * model.head_dim).unflatten(0, by_head)
    else:
        module, side = model.qkv_module(layer, part), "output"
        own = getattr(module, "out_features", None)  # of a linear layer, quantized or not; GPT-2's has none
        width = cast(Any, module).weight.shape[1] if own is None else own
        which = ("query", "key", "value").index(part)
        index["index"] = split_qkv(model, torch.arange(width), which)[which].contiguous()
    return module, {"side": side, **at_layer}, index


# ---- the code


def _write_remote(model: Model, folder: Path, template: str, settings: Mapping[str, object]) -> None:
    """Code from a template beside weights that are there, and a config that leads to it."""
    kind, base = type(model.hf.config), type(model.hf)
    code = (_TEMPLATES / template).read_text(encoding="utf-8")
    beside = _write_modules(folder, code)
    own = f"from transformers import {base.__name__} as Base\n"
    changes = {
        "from transformers import PreTrainedConfig as Config\n": (
            f"from transformers import {kind.__name__} as Config\n"
        ),
        "from transformers import PreTrainedModel as Base\n": own,
        'model_type = "levelhead"': f'model_type = "{BORROWED_TYPE}"',
        "class EditedModel(": f"class {EDITED}{base.__name__}(",
    }
    for old, new in changes.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    # named like the originals, whose ends transformers reads
    edited = {base: f"{EDITED}{base.__name__}"}
    # pipeline() fills blanks with a class of its own, with the weights of one with a next-sentence head too
    name = base.__name__.replace("ForPreTraining", "ForMaskedLM")
    if name != base.__name__ and hasattr(transformers, name):
        filling = getattr(transformers, name)
        edited[filling] = f"{EDITED}{filling.__name__}"
        same = code[code.index(f"class {edited[base]}(") :]
        same = same.replace(edited[base], edited[filling]).replace("(Base)", "(Filling)")
        code = code.replace(own, f"{own}from transformers import {filling.__name__} as Filling\n")
        code += f"\n\n{same}"
    if beside:  # transformers 5.0 copies the files that this one imports, and none that those import
        code += "\n\n" + "".join(f"from .{name} import __name__ as _\n" for name in beside)
    (folder / f"{MODULE}.py").write_text(_detached(code), encoding="utf-8")
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["model_type"], config["architectures"] = BORROWED_TYPE, [edited[base]]
    config["auto_map"] = {"AutoConfig": f"{MODULE}.EditedConfig"} | {
        auto: f"{MODULE}.{name}" for each, name in edited.items() for auto in auto_classes(kind, each)
    }
    config[REMOTE] = dict(settings)
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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
        yield getattr(module, f"{EDITED}{base.__name__}")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == package.__name__]:
            del sys.modules[name]


def _detached(code: str) -> str:
    """Code that imports levelhead_probes_pairs, its neighbor, instead of levelhead.probes.pairs."""
    return re.sub(
        r"^from levelhead\.([\w.]+) import",
        lambda found: f"from .{_beside(found[1])} import",
        code,
        flags=re.MULTILINE,
    )


def _write_modules(folder: Path, code: str) -> list[str]:
    """Write what the code needs of levelhead beside it, each module as a file of its own; their names.

    Of a module only those statements are written that define a needed name: what is imported from it, and
    what those statements use themselves. So a file does not grow with the rest of its module.
    """

    def imported_by(statement: ast.stmt, aliases: Sequence[ast.alias]) -> list[tuple[str, str]]:
        origin = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        package, _, module = origin.partition(".")
        return [(module, alias.name) for alias in aliases] if package == "levelhead" else []

    modules: dict[str, tuple[str, ast.Module]] = {}
    kept: dict[str, set[ast.stmt | ast.alias]] = defaultdict(set)
    wanted = [
        each
        for statement in ast.parse(code).body
        if isinstance(statement, ast.ImportFrom)
        for each in imported_by(statement, statement.names)
    ]
    while wanted:
        module, name = wanted.pop()
        if module not in modules:
            source = _source(module)
            modules[module] = source, ast.parse(source)
        for statement in modules[module][1].body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                bound = [each for each in statement.names if (each.asname or each.name.split(".")[0]) == name]
                wanted += imported_by(statement, [each for each in bound if each not in kept[module]])
                kept[module].update(bound)
                continue
            nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
            defined = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                defined = {statement.name}
            if name in defined and statement not in kept[module]:
                kept[module].add(statement)
                wanted += [(module, each) for each in dict.fromkeys(node.id for node in nodes)]
    for module, (source, tree) in modules.items():
        lines, head, body = source.splitlines(), ["from __future__ import annotations"], []
        if ast.get_docstring(tree) is not None:
            head = [*lines[: tree.body[0].end_lineno], *head]
        for statement in tree.body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                if names := [alias for alias in statement.names if alias in kept[module]]:
                    origin = f"from {statement.module} " if isinstance(statement, ast.ImportFrom) else ""
                    head.append(f"{origin}import {', '.join(map(ast.unparse, names))}")
            elif statement in kept[module]:
                decorators = [each.lineno for each in getattr(statement, "decorator_list", [])]
                body += ["", "", *lines[min([statement.lineno, *decorators]) - 1 : statement.end_lineno]]
        text = "\n".join([*head, *body]) + "\n"
        (folder / f"{_beside(module)}.py").write_text(_detached(text), encoding="utf-8")
    return sorted(map(_beside, modules))


def _beside(module: str) -> str:
    """The name of a module of levelhead in a folder."""
    return f"levelhead_{module.replace('.', '_')}"


def _source(module: str) -> str:
    """The text of a module; the function that opens the tables of the swapper becomes one that holds them."""
    spec = find_spec(f"levelhead.{module}")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    if spec.name != table_text.__module__:
        return source
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}
    name, lines = table_text.__name__, source.splitlines()
    (opens,) = (
        each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == name
    )
    first = min([opens.lineno, *(each.lineno for each in opens.decorator_list)])
    holds = [f"TABLES = {texts!r}", "", "", f"def {name}(file: str) -> str:", "    return TABLES[file]"]
    return "\n".join([*lines[: first - 1], *holds, *lines[opens.end_lineno :]]) + "\n"


# ---- models that run at every orientation of the groups


def write_symmetrized(model: Model, swap: GroupSwap, folder: Path) -> None:
    settings = {
        "words": swap.name,
        "rows": [list(row) for row in swap.rows] if isinstance(swap, RowSwap) else None,
        "classes": [[list(group) for group in each] for each in token_classes(model, swap).classes],
        "causal": "causal" in model.abilities,
        "vocabulary": int(model.config.vocab_size),
        "coin": None,
        "opening": None if model.opening.tokens is None else list(model.opening.tokens),
        "own_opening": model.opening.own,
    }
    _write_remote(model, folder, "modeling_symmetrized.py", settings)


class SymmetryProof:
    """A few texts that show whether a reloaded folder answers as the symmetrized model in memory does."""

    def __init__(self, model: Model, swap: GroupSwap) -> None:
        self._model = model
        kept = token_classes(model, swap).classes
        self._tokens = sorted({token for groups in kept[:20] for group in groups for token in group})
        # others are shared out over their tokens in memory, which no network does
        single = [groups for groups in swap.classes() if all(len(group) == 1 for group in groups)]
        rows = [[min(group) for group in groups] for groups in single]
        told = "The {} said that it was late."
        plain = [row for row in rows if swap(told.format(row[0])).text == told.format(row[1])]
        whole = [row for row in plain if all(token_id(model, word) is not None for word in row)]
        words = ["nurse", *[row[0] for row in whole or plain][:4]]
        mask = model.tokenizer.mask_token
        self._blanks = [Text(f"The {word} said that {mask} was tired.") for word in words]
        self._sentences = [Text(told.format(word)) for word in words]
        self._pairs = [Text(f"The {word} is here.", f"The {word} is a nurse.") for word in words]

    def expected(self, variant: Variant) -> list[NDArray[np.float64]]:
        """What the model in memory answers, for each kind of answer that it gives."""
        model, found = self._model, []
        if "mlm" in model.abilities and self._tokens:
            found.append(read_one(model, TokenLogProbs(self._blanks, self._tokens), [variant])[0])
        if "causal" in model.abilities:
            scores = read_one(model, TokenLikelihoods(self._sentences), [variant])
            found.append(np.asarray([float(np.sum(own)) for own in scores.values[0]]))
        if model.classification_head is not None:
            given = read_one(model, Pooled(self._pairs), [variant])[0]
            logits = torch.tensor(given)  # a copy: it is read-only
            found.append(logits.log_softmax(-1).numpy())
        if not found:
            found.append(read_one(model, SentenceVectors(self._sentences), [variant])[0])
        return [np.asarray(each, np.float64) for each in found]

    def answered(self, hf: Any) -> list[NDArray[np.float64]]:
        """The same from a network's own forward pass."""
        model, found = self._model, []

        def outputs(texts: Sequence[Text], *names: str) -> tuple[Tensor, dict[str, Tensor]]:
            # the output under the first of these names that the network returns
            batch = inputs(model, [Tokens(row.ids, row.types) for row in encode(model, texts)])
            out: Mapping[str, Any] = network_outputs(hf, batch)
            return next(out[name] for name in names if name in out), batch

        if "mlm" in model.abilities and self._tokens:
            logits, batch = outputs(self._blanks, "prediction_logits", "logits")
            places = batch["input_ids"] == model.tokenizer.mask_token_id
            found.append(logits.log_softmax(-1)[places][:, self._tokens])
        if "causal" in model.abilities:
            logits, batch = outputs(self._sentences, "prediction_logits", "logits")
            ids, real = batch["input_ids"][:, 1:, None], batch["attention_mask"][:, 1:]
            found.append((logits.log_softmax(-1)[:, :-1].gather(-1, ids)[..., 0] * real).sum(1))
        if model.classification_head is not None:
            found.append(outputs(self._pairs, "seq_relationship_logits", "logits")[0].log_softmax(-1))
        if not found:
            hidden, _ = outputs(self._sentences, "last_hidden_state")
            own = [row.part != -1 for row in encode(model, self._sentences)]
            states = zip(hidden, own, strict=True)
            found.append(torch.stack([h[: len(o)][torch.from_numpy(o)].mean(0) for h, o in states]))
        return [each.double().cpu().numpy() for each in found]

    def slower(self, hf: Any) -> tuple[float, float | None]:
        """How many times as long as the model itself a network takes for an answer, and for a generated token
        of a causal one: wall time, alternating, medians."""

        def ratio(works: Sequence[Callable[[], object]]) -> float:
            times = []
            for _ in range(_ROUNDS):
                marks = [perf_counter()]
                for work in works:
                    work()
                    marks.append(perf_counter())
                times.append(np.diff(marks))
            one, other = np.median(times, axis=0)
            return float(other / one)

        model, networks = self._model, (self._model.hf, hf)
        answer = ratio([partial(self.answered, network) for network in networks])
        if "causal" not in model.abilities:
            return answer, None
        first = self._sentences[1:2] or self._sentences
        batch = inputs(model, [Tokens(row.ids, row.types) for row in encode(model, first)])
        given = {name: batch[name] for name in ("input_ids", "attention_mask")}
        length = {"max_new_tokens": _GENERATED, "min_new_tokens": _GENERATED, "do_sample": False}
        return answer, ratio([partial(network.generate, **given, **length) for network in networks])
