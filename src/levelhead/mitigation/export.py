"""A mitigated model as an ordinary folder: folded into the weights where that is exact, else as an adapter.

Folded weights compute what the edited model does, without hooks. An edit x' = s x − (x Rᵀ) W + o stands
either behind a linear layer or before one:

    y = x Aᵀ + b, y edited    each column of A is edited like a y, and so is b     query, key, value, mlp
    x edited, y = x' Aᵀ + b   each row of A is edited, R and W swapped, b += A o   heads, neurons, pooled, cls

What stands between two blocks (tokens, an earlier CLS) has no linear layer of its own and cannot be folded,
nor can an edit of one application of a block that ALBERT shares between layers.

Reference: docs/method/projections.md, export.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from levelhead.edits.gates import HeadGates, NeuronGates
from levelhead.edits.output import Coined, Symmetrized, besides_weights, edit_of, weights_of
from levelhead.edits.sites import INSIDE, Edit
from levelhead.edits.steering import Steering
from levelhead.edits.subspace import AffineErasure, Projection, describe
from levelhead.engine.effort import speed_of
from levelhead.engine.own_forward import OwnForward
from levelhead.engine.symmetry import token_classes
from levelhead.engine.trunk import first_token_linear
from levelhead.errors import BadOption, CannotDo, NoEffect
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.mitigation.remote_folder import (
    EDITS,
    MODULE,
    SymmetryProof,
    auto_classes,
    imported,
    write_adapter_folder,
    write_symmetrized,
)
from levelhead.models.adapter import REMOTE, AffineEdit
from levelhead.models.concurrency import MAKING, TOKENIZING, asking, holding
from levelhead.models.encoding import Text
from levelhead.models.hooks import changed_qkv
from levelhead.models.model import Model
from levelhead.models.opening import write_opening
from levelhead.models.sources import new_model_folder, quiet
from levelhead.probes.pairs import gender_sentence_pairs, nli_pair_inputs
from levelhead.progress import plan_ends, tokens_in
from levelhead.safe_files import read_bytes

RECIPE_FILE = "levelhead_recipe.toml"
_SENTENCES = 4
_SHOWN = 5  # words that are named among those that cannot be exchanged in predictions
# of the largest output: float32 rounding through many layers stays below; a wrong fold does not
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 5e-2}


@dataclass(frozen=True, eq=False)
class Fold:
    """The edits that go into one linear layer, in the order in which they act."""

    module: nn.Module
    edits: tuple[AffineEdit, ...]


@dataclass(frozen=True, eq=False)
class Folding:
    """How a variant folds; `obstacles` says, one line each, why it does not."""

    folds: tuple[Fold, ...]
    obstacles: tuple[str, ...]
    first_token: bool = False  # a CLS edit goes into the layer that reads it: token outputs stay unedited


def affine(edit: Edit) -> AffineEdit:
    """An edit in the form that can be folded and stored."""
    if isinstance(edit, AffineEdit):
        return edit
    if isinstance(edit, HeadGates):
        return AffineEdit(edit.site, scale=torch.tensor(edit.values, dtype=torch.float32)[:, None])
    if isinstance(edit, NeuronGates):
        return AffineEdit(edit.site, scale=edit.scale.float())
    if isinstance(edit, Projection):
        return AffineEdit(edit.site, read=edit.basis, write=edit.weights[..., None] * edit.basis)
    if isinstance(edit, AffineErasure):
        bare = AffineEdit(edit.site, read=edit.right, write=edit.left.mT.contiguous())
        center = edit.center.double()
        return replace(bare, offset=(center - bare(center)).float())
    if isinstance(edit, Steering) and edit.probe is None:
        return AffineEdit(edit.site, offset=edit.strength * edit.vector)
    kind = "Steering with a probe" if isinstance(edit, Steering) else type(edit).__name__
    raise CannotDo(f"A {kind} cannot be exported: gates, projections, LEACE, INLP and plain steering can.")


def plan_folding(model: Model, edits: Sequence[Edit]) -> Folding:
    """Where each edit goes. Nothing is changed yet."""
    forms = [affine(edit) for edit in edits]
    by_module: dict[tuple[nn.Module, bool], list[AffineEdit]] = defaultdict(list)
    obstacles: list[str] = []
    for form in forms:
        module, why = _target(model, form)
        if model.fixed_weights:
            obstacles.append(f"{describe(form.site)}: {model.fixed_weights}")
        elif module is None:
            obstacles.append(f"{describe(form.site)}: {why}")
        elif getattr(module, "bias", None) is None and form.offset is not None:
            obstacles.append(f"{describe(form.site)}: an offset needs a bias, which this layer does not have")
        else:
            by_module[module, form.site.part == "mlp"].append(form)  # behind the layer, or before it
    folds = []
    for (module, _), some in by_module.items():
        once = _same_everywhere(model, some) if some[0].site.part in INSIDE else some
        if once is None:
            obstacles.append(
                f"{describe(some[0].site)}: its weights serve other layers, which are edited otherwise"
            )
        else:
            folds.append(Fold(module, tuple(once)))
    return Folding(tuple(folds), tuple(obstacles), any(form.site.part == "cls" for form in forms))


def _target(model: Model, edit: AffineEdit) -> tuple[nn.Module | None, str]:
    """The linear layer that an edit goes into; or None, and why there is none."""
    part, layer = edit.site.part, edit.site.layer
    model.check_site(edit.site)
    if part == "heads":
        return model.output_projection(layer), ""
    if part in ("query", "key", "value"):
        return model.qkv_module(layer, part), ""
    if part in ("neurons", "mlp"):
        return model.down_projection(layer), ""
    if part == "pooled":
        return model.classification_head, "the sentence vector is itself an output of this model"
    if part == "cls" and layer == model.layers - 1:
        with asking(model.hf):
            return first_token_linear(model), "no single linear layer reads it"
    return None, "the residual stream carries it on"


def _same_everywhere(model: Model, edits: list[AffineEdit]) -> list[AffineEdit] | None:
    """Edits of a shared module, once, if they are the same at every layer where it runs."""
    blocks = {model.blocks[edit.site.layer] for edit in edits}
    layers = [layer for layer, block in enumerate(model.blocks) if block in blocks]
    first, *others = [[edit for edit in edits if edit.site.layer == layer] for layer in layers]
    for other in others:
        if len(first) != len(other):
            return None
        for mine, theirs in ((one.tensors, two.tensors) for one, two in zip(first, other, strict=True)):
            if mine.keys() != theirs.keys() or not all(torch.equal(mine[n], theirs[n]) for n in mine):
                return None
    return first


@contextmanager
def folded(model: Model, folding: Folding) -> Iterator[Model]:
    """The model with changed weights; afterwards they are bit for bit what they were."""
    if folding.obstacles:
        raise CannotDo(f"These edits cannot be folded into the weights: {'; '.join(folding.obstacles)}.")
    weights = [weight for fold in folding.folds for weight in fold.module.parameters(recurse=False)]
    with holding(model.hf):
        kept = [(weight, weight.detach().clone()) for weight in weights]
        try:
            with torch.no_grad():
                for fold in folding.folds:
                    _fold(model, fold)
            yield model
        finally:
            with torch.no_grad():
                for weight, before in kept:
                    weight.copy_(before)


def _fold(model: Model, fold: Fold) -> None:
    """Change one layer's weights; in float64, so that several edits of one layer round only once."""
    module = cast(Any, fold.module)
    linear = isinstance(fold.module, nn.Linear)
    # [out, in]; GPT-2's Conv1D has it the other way round
    weight = (module.weight if linear else module.weight.T).double()
    bias = None if getattr(module, "bias", None) is None else module.bias.double()

    def behind(edit: AffineEdit, out: Tensor, change: Any) -> Tensor:
        whole = edit.site.part == "mlp"
        return cast(Tensor, change(out)) if whole else changed_qkv(model, edit.site.part, out, change)

    if fold.edits[0].site.part in ("query", "key", "value", "mlp"):
        for edit in fold.edits:
            weight = behind(edit, weight.T, edit.linear).T
            bias = None if bias is None else behind(edit, bias, edit)
    else:
        for edit in reversed(fold.edits):  # the last to act stands next to the layer
            if bias is not None and edit.offset is not None:
                bias = bias + weight @ edit.offset.to(weight).flatten()
            if edit.site.part == "heads":
                by_head = weight.unflatten(-1, (model.heads, model.head_dim))
                weight = edit.transposed(by_head).flatten(-2)
            else:
                weight = edit.transposed(weight)
    module.weight.copy_(weight if linear else weight.T)
    if bias is not None:
        module.bias.copy_(bias)


@dataclass(frozen=True)
class ExportReport:
    """What was written, and the proof that it computes what the edited model computes."""

    folder: Path
    folded: bool  # a plain folder; otherwise an adapter with remote code
    max_difference: float  # largest |reloaded − edited| over all outputs on shipped sentences
    effect: float  # largest |edited − untouched|: what the edits change there
    obstacles: tuple[str, ...]  # why it was not folded
    load_with: str  # the line of Python that loads it
    note: str = ""
    opens_here: bool = False  # whether levelhead.load opens it without its code
    # how many times as long as the model itself it takes, measured; None: not measured
    per_answer: float | None = None
    per_token: float | None = None  # that it generates

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "folder": str(self.folder), "obstacles": list(self.obstacles)}


def export(
    model: Model, edits: Sequence[Edit], folder: str | Path, recipe: Recipe | None = None
) -> ExportReport:
    """Write the edited model, reload it with plain transformers, and compare the outputs of the two.

    The folder appears only if they are equal; the model itself stays as it is. recipe: written beside the
    weights, so that the folder says what was done.
    """
    if not edits:
        raise BadOption("No edits to export: give gates or projections.")
    symmetry, coin = edit_of(Symmetrized, tuple(edits)), edit_of(Coined, tuple(edits))
    others = tuple(edit for edit in edits if not isinstance(edit, Symmetrized | Coined))
    swap = symmetry.swap if symmetry is not None else coin.coin.swap if coin is not None else None
    if swap is None:
        return write_model(model, edits, folder, recipe)
    seed = None if coin is None else int(coin.coin.seed)
    # the model runs at every orientation of the groups; other edits are folded into its weights
    with asking(model.hf):
        folding = plan_folding(model, [affine(edit) for edit in (*model.adapter, *besides_weights(others))])
        if folding.obstacles:
            raise CannotDo(
                "A symmetrized model is written with edits that fold into its weights; "
                f"{folding.obstacles[0]}."
            )

        def largest(some: Sequence[NDArray[np.float64]], than: Sequence[NDArray[np.float64]]) -> float:
            return max(float(np.abs(one - other).max()) for one, other in zip(some, than, strict=True))

        proof = SymmetryProof(model, swap)
        edited = proof.expected((*others, Symmetrized(swap)))
        effect = largest(proof.expected(()), edited)
        with new_model_folder(Path(folder)) as work:
            with model.edited(*weights_of(others)), folded(model, folding):
                model.hf.save_pretrained(work, save_original_format=False)
            _write_tokenizer(model, work)
            write_symmetrized(model, swap, work)
            why = f"answers to {swap.groups} texts are mixed"
            with _reloaded(model, work, replace(folding, obstacles=(why,))) as again:
                difference = largest(proof.answered(again), edited)
                slower = proof.slower(again) if seed is None else (None, None)
            _check(difference, {str(i): torch.tensor(each) for i, each in enumerate(edited)}, model)
            if seed is not None:
                config = json.loads(read_bytes(work, "config.json") or "{}")
                config[REMOTE]["coin"] = seed
                text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
                (work / "config.json").write_text(text, encoding="utf-8")
                why = f"each text is run at one of {swap.groups} orientations, by a coin of seed {seed}"
            report = _report(model, Path(folder), replace(folding, obstacles=(why,)), (difference, effect))
            note, split = "", token_classes(model, swap).split
            if split:
                named = ", ".join(split[:_SHOWN]) + (" ..." if len(split) > _SHOWN else "")
                note = (
                    f"{len(split)} words of {swap.name}, or their counterparts, are several tokens here "
                    f"({named}): they are exchanged in texts, not in predictions."
                )
            report = replace(report, note=note, opens_here=False)
            report = replace(report, per_answer=slower[0], per_token=slower[1])
            _finish(model, report, recipe, work)
    return report


def write_model(
    model: Model, edits: Sequence[Edit], folder: str | Path, recipe: Recipe | None = None
) -> ExportReport:
    """As `export`; without edits, a model that was trained here is written as it is."""
    with asking(model.hf):
        every = [affine(edit) for edit in (*model.adapter, *besides_weights(tuple(edits)))]
        folding = plan_folding(model, every)
        # the shipped sentences on which the reloaded model is compared with the edited one
        texts = [Text(*pair.feminine) for pair in gender_sentence_pairs()[:_SENTENCES]]
        if model.classification_head is not None:
            texts += [Text(*pair.masculine) for pair in nli_pair_inputs()[:_SENTENCES]]
        # as it is, edited and reloaded
        plan_ends(lambda: speed_of(model).plan(estimated=3 * tokens_in(text.first for text in texts)))
        # a folded CLS edit is read by the pooled path only: token outputs at that place stay unedited
        forward = OwnForward(model, texts, first_token=not (folding.first_token and not folding.obstacles))
        with model.edited(*edits):
            edited = forward.outputs(model.hf)
        effect = _difference(forward.outputs(model.hf), edited)
        if edits and effect == 0:
            raise NoEffect(
                f"These edits change no output of {model.name} on {_SENTENCES} sentences: nothing to export."
            )
        with new_model_folder(Path(folder)) as work:
            with model.edited(*weights_of(tuple(edits))):
                if folding.obstacles:
                    about = {"made_for": {"name": model.name, "fingerprint": model.fingerprint}}
                    write_adapter_folder(model, every, work, about)
                else:
                    with folded(model, folding):
                        model.hf.save_pretrained(work)
                _write_tokenizer(model, work)
            with _reloaded(model, work, folding) as again:
                difference = _difference(forward.outputs(again), edited)
            _check(difference, edited, model)
            report = _report(model, Path(folder), folding, (difference, effect))
            _finish(model, report, recipe, work)
        return report


def _write_tokenizer(model: Model, work: Path) -> None:
    with TOKENIZING:
        model.tokenizer.save_pretrained(work)
    write_opening(model.opening, model.tokenizer, work)


def _difference(outputs: dict[str, Tensor], edited: dict[str, Tensor]) -> float:
    if outputs.keys() != edited.keys():
        raise CannotDo(f"The reloaded model gives {', '.join(outputs)} instead of {', '.join(edited)}.")
    return max(float((outputs[name] - value).abs().max()) for name, value in edited.items())


def _check(difference: float, edited: dict[str, Tensor], model: Model) -> None:
    largest = max(1.0, *(float(value.abs().max()) for value in edited.values()))
    allowed = _TOLERANCE.get(model.hf.dtype, 1e-4) * largest
    if not difference <= allowed:
        raise CannotDo(
            f"The reloaded model differs from the edited one by {difference:.2g} (allowed {allowed:.2g}), so "
            "nothing was written. Export in float32; if it is, please report this model."
        )


@contextmanager
def _reloaded(model: Model, work: Path, folding: Folding) -> Iterator[Any]:
    """The folder loaded by transformers alone, as its users will."""
    options = {"dtype": model.hf.dtype, "local_files_only": True}
    options["attn_implementation"] = model.hf.config._attn_implementation
    with MAKING.asking(), quiet():
        if not folding.obstacles:
            yield type(model.hf).from_pretrained(work, **options).to(model.device).eval()
            return
        with imported(work, type(model.hf)) as kind:
            if not model.fixed_weights:
                yield kind.from_pretrained(work, **options).to(model.device).eval()
                return
            places = getattr(model.hf, "hf_device_map", None) or {"": str(model.device)}
            with TemporaryDirectory() as offloaded:
                own = {"device_map": {**places, EDITS: str(model.device)}, "offload_folder": offloaded}
                yield kind.from_pretrained(work, **own, **options).eval()


def _report(model: Model, folder: Path, folding: Folding, measured: tuple[float, float]) -> ExportReport:
    autos = auto_classes(type(model.hf.config), type(model.hf))
    auto = next((name for name in autos if name != "AutoModelForPreTraining"), next(iter(autos), "AutoModel"))
    remote = ", trust_remote_code=True" if folding.obstacles else ""
    note = ""
    if folding.first_token and not folding.obstacles and "mlm" in model.abilities:
        note = (
            "The CLS edit was folded into the layer that reads it; word predictions at the CLS token itself, "
            "which nobody reads, are those of the unmodified model."
        )
    return ExportReport(
        folder=folder,
        folded=not folding.obstacles,
        max_difference=measured[0],
        effect=measured[1],
        obstacles=folding.obstacles,
        load_with=f"transformers.{auto}.from_pretrained({str(folder)!r}{remote})",
        note=note,
        opens_here=bool(folding.obstacles),
    )


def _finish(model: Model, report: ExportReport, recipe: Recipe | None, work: Path) -> None:
    """The card (what this is, how to load it, what was checked) and the recipe, for others to read."""
    config = json.loads(read_bytes(work, "config.json") or "{}")
    autos = [name for name in config.get("auto_map", ()) if name != "AutoConfig"]
    if report.effect == 0:
        how = "An ordinary checkpoint."
    elif report.folded:
        how = "The edits are folded into the weights: an ordinary checkpoint."
    elif not report.opens_here:
        how = (
            f"A symmetrized model: {report.obstacles[0]}, by `{MODULE}.py` and the files beside it "
            "(trust_remote_code; Python 3.11 or newer). Loading the weights in any other way gives the model "
            "as it was."
        )
    else:
        how = (
            f"The edits are applied while the model runs, by `{MODULE}.py` (trust_remote_code) or by "
            "`levelhead.load`, which runs no remote code. Loading the weights in any other way leaves the "
            f"edits out.\n\nNot folded: {'; '.join(report.obstacles)}."
        )
    what = f"## Recipe\n\n```toml\n{recipe_text(recipe)}```\n" if recipe is not None else ""
    note = f"{report.note}\n\n" if report.note else ""
    # by its name alone, since folders are moved
    load_with = report.load_with.replace(repr(str(report.folder)), repr(report.folder.name))
    tokenizer = f"transformers.AutoTokenizer.from_pretrained({report.folder.name!r})"
    others = (
        f"Loaded by {', '.join(autos)}; the tokenizer, without code, by AutoTokenizer.\n\n" if autos else ""
    )
    card = (
        f"# {model.name}, written by levelhead\n\n{how}\n\n```python\nmodel = {load_with}\n"
        f"tokenizer = {tokenizer}\n```\n\n{others}{note}"
        f"Made from weights {model.fingerprint}. Reloaded with transformers and compared on shipped "
        f"sentences: largest difference from the edited model {report.max_difference:.2g}; the edits "
        f"themselves change outputs by up to {report.effect:.3g}.\n\n{what}"
    )
    (work / "README.md").write_text(card, encoding="utf-8")
    if recipe is not None:
        (work / RECIPE_FILE).write_text(recipe_text(recipe), encoding="utf-8")
    for path in work.iterdir():  # safetensors makes its files private; an export is to be shared
        path.chmod(work.stat().st_mode & 0o666)
