"""A mitigated model as an ordinary folder: folded into the weights where that is exact, else as an adapter.

Reference: docs/method.md, export.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Edit, Variant
from levelhead.edits.symmetry import Symmetrized, coin_of
from levelhead.edits.weights import besides_weights, weights_of
from levelhead.engine.outputs import OwnForward
from levelhead.errors import BadOption, CannotDo, NoEffect
from levelhead.mitigation.adapter_folder import EDITS, MODULE, auto_classes, imported, write_adapter_folder
from levelhead.mitigation.folding import Folding, affine, folded, plan_folding
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.mitigation.symmetrized_folder import (
    SymmetryProof,
    set_coin,
    unaligned,
    without_exchange,
    write_symmetrized,
)
from levelhead.models.adapter import AffineEdit
from levelhead.models.checkpoint import new_model_folder, quiet
from levelhead.models.concurrency import MAKING, TOKENIZING, asking
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.opening import write_opening
from levelhead.ordinary import read_bytes
from levelhead.probes.group_swap import GroupSwap
from levelhead.probes.pairs import gender_sentence_pairs, nli_pair_inputs

RECIPE_FILE = "levelhead_recipe.toml"
_SENTENCES = 4
# of the largest output: float32 rounding through many layers stays below; a wrong fold does not
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 5e-2}


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
        """The report as plain data, which `--json` prints."""
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
    swap, others = without_exchange(edits)
    if swap is None:
        return write_model(model, edits, folder, recipe)
    coin = coin_of(tuple(edits))
    to = Path(folder), recipe, None if coin is None else int(coin.coin.seed)
    with asking(model.hf):
        return _symmetrized(model, swap, others, to)


def write_model(
    model: Model, edits: Sequence[Edit], folder: str | Path, recipe: Recipe | None = None
) -> ExportReport:
    """As `export`; without edits, a model that was trained here is written as it is."""
    with asking(model.hf):
        return _written(model, edits, Path(folder), recipe)


def _written(model: Model, edits: Sequence[Edit], folder: Path, recipe: Recipe | None) -> ExportReport:
    every = [affine(edit) for edit in (*model.adapter, *besides_weights(tuple(edits)))]
    folding = plan_folding(model, every)
    # a folded CLS edit is read by the pooled path only: token outputs at that place stay unedited
    forward = OwnForward(
        model, _texts(model), first_token=not (folding.first_token and not folding.obstacles)
    )
    with model.edited(*edits):
        edited = forward.outputs(model.hf)
    effect = _difference(forward.outputs(model.hf), edited)
    if edits and effect == 0:
        raise NoEffect(
            f"These edits change no output of {model.name} on {_SENTENCES} sentences: nothing to export."
        )
    with new_model_folder(folder) as work:
        with model.edited(*weights_of(tuple(edits))):
            _write_model(model, every, folding, work)
        with _reloaded(model, work, folding) as again:
            difference = _difference(forward.outputs(again), edited)
        _check(difference, edited, model)
        report = _report(model, folder, folding, (difference, effect))
        _finish(model, report, recipe, work)
    return report


def _symmetrized(
    model: Model, swap: GroupSwap, others: Variant, to: tuple[Path, Recipe | None, int | None]
) -> ExportReport:
    """The model that is asked at every turn of the groups; other edits are folded into its weights.

    to: the folder, the recipe, and the seed of a coin that decides on one turn.
    """
    folder, recipe, seed = to
    folding = plan_folding(model, [affine(edit) for edit in (*model.adapter, *besides_weights(others))])
    if folding.obstacles:
        raise CannotDo(
            f"A symmetrized model is written with edits that fold into its weights; {folding.obstacles[0]}."
        )
    proof = SymmetryProof(model, swap)
    edited = proof.expected((*others, Symmetrized(swap)))
    effect = _largest(proof.expected(()), edited)
    with new_model_folder(folder) as work:
        with model.edited(*weights_of(others)), folded(model, folding):
            model.hf.save_pretrained(work, save_original_format=False)
        _write_tokenizer(model, work)
        write_symmetrized(model, swap, work)
        why = f"answers to {swap.groups} texts are mixed"
        with _reloaded(model, work, replace(folding, obstacles=(why,))) as again:
            difference = _largest(proof.answered(again), edited)
            slower = proof.slower(again) if seed is None else (None, None)
        _check(difference, {str(i): torch.tensor(each) for i, each in enumerate(edited)}, model)
        if seed is not None:
            set_coin(work, seed)
            why = f"each text is asked at one of {swap.groups} turns, by a coin of seed {seed}"
        report = _report(model, folder, replace(folding, obstacles=(why,)), (difference, effect))
        report = replace(report, note=unaligned(model, swap), opens_here=False)
        report = replace(report, per_answer=slower[0], per_token=slower[1])
        _finish(model, report, recipe, work)
    return report


def _largest(some: Sequence[NDArray[np.float64]], others: Sequence[NDArray[np.float64]]) -> float:
    return max(float(np.abs(one - other).max()) for one, other in zip(some, others, strict=True))


def _finish(model: Model, report: ExportReport, recipe: Recipe | None, work: Path) -> None:
    """The card and the recipe, in files that others may read."""
    config = json.loads(read_bytes(work, "config.json") or "{}")
    autos = [name for name in config.get("auto_map", ()) if name != "AutoConfig"]
    (work / "README.md").write_text(_card(model, report, recipe, autos), encoding="utf-8")
    if recipe is not None:
        (work / RECIPE_FILE).write_text(recipe_text(recipe), encoding="utf-8")
    for path in work.iterdir():  # safetensors makes its files private; an export is to be shared
        path.chmod(work.stat().st_mode & 0o666)


def _texts(model: Model) -> list[Text]:
    """The shipped sentences on which the reloaded model is compared with the edited one."""
    texts = [Text(*pair.feminine) for pair in gender_sentence_pairs()[:_SENTENCES]]
    if model.classification_head is not None:
        texts += [Text(*pair.masculine) for pair in nli_pair_inputs()[:_SENTENCES]]
    return texts


def _write_model(model: Model, edits: Sequence[AffineEdit], folding: Folding, work: Path) -> None:
    if folding.obstacles:
        about = {"made_for": {"name": model.name, "fingerprint": model.fingerprint}}
        write_adapter_folder(model, edits, work, about)
    else:
        with folded(model, folding):
            model.hf.save_pretrained(work)
    _write_tokenizer(model, work)


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


def _card(model: Model, report: ExportReport, recipe: Recipe | None, autos: Sequence[str]) -> str:
    """The folder's README: what this is, how to load it, what was checked. autos: classes for its own code"""
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
    return (
        f"# {model.name}, written by levelhead\n\n{how}\n\n```python\nmodel = {load_with}\n"
        f"tokenizer = {tokenizer}\n```\n\n{others}{note}"
        f"Made from weights {model.fingerprint}. Reloaded with transformers and compared on shipped "
        f"sentences: largest difference from the edited model {report.max_difference:.2g}; the edits "
        f"themselves change outputs by up to {report.effect:.3g}.\n\n{what}"
    )
