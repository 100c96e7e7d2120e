"""A classifier that begins with a model's own weights: what fine-tuning trains."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoModelForSequenceClassification

from levelhead.errors import CannotDo
from levelhead.models.checkpoint import quiet
from levelhead.models.concurrency import MAKING, asking
from levelhead.models.model import Model
from levelhead.models.sources import Source

_POOLER = "pooler"  # the only part of a base model that some of its heads do without


def new_classifier(model: Model, labels: Sequence[str], seed: int) -> Model:
    """The model's network, a copy of its weights, under a new classification head; no labels: one score.

    Encoders keep their pooler where they have one; causal models are read at their last token. The head, and
    a pooler that the model lacks, are drawn from the seed; the caller's random state stays as it was.
    """
    config = copy.deepcopy(model.hf.config)
    if type(config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise CannotDo(
            f"{model.name} cannot be fine-tuned: transformers has no text classifier of type "
            f"{config.model_type!r}."
        )
    if model.fixed_weights:
        raise CannotDo(f"{model.name} cannot be fine-tuned: {model.fixed_weights}. Load it whole, in floats.")
    names = list(labels) or ["score"]
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    config.problem_type = "single_label_classification" if labels else "regression"
    config.pad_token_id = model.tokenizer.pad_token_id
    kind: Any = AutoModelForSequenceClassification  # its methods are not typed
    own = {"dtype": model.hf.dtype, "attn_implementation": model.hf.config._attn_implementation}
    with MAKING.asking(), quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        hf = kind.from_config(config, **own)
    with asking(model.hf):
        _take_weights(hf, model)
    hf = hf.to(model.device).eval().requires_grad_(False)
    origin = f"classifier from {model.origin}"
    about = origin, (), model.adapter, model.placement.alone()
    return Model(Source(model.name, hf, model.tokenizer, *about, opening=model.opening))


def new_weights(classifier: Model, model: Model) -> list[str]:
    """Names of the classifier's weights that the model did not have: its head, perhaps its pooler."""
    prefix = f"{classifier.hf.base_model_prefix}."
    own = {f"{prefix}{name}" for name, _ in model.base.named_parameters()}
    return [name for name, _ in classifier.hf.named_parameters() if name not in own]


def _take_weights(hf: torch.nn.Module, model: Model) -> None:
    """Copy the model's network into the classifier's; all but a pooler must fit."""
    base: torch.nn.Module = hf.base_model  # type: ignore[assignment]
    try:
        fit = base.load_state_dict(model.base.state_dict(), strict=False)
    except RuntimeError as error:
        raise CannotDo(f"{model.name} cannot be fine-tuned: {str(error).splitlines()[0]}") from error
    strange = [name for name in (*fit.missing_keys, *fit.unexpected_keys) if _POOLER not in name]
    if strange:
        raise CannotDo(f"{model.name} cannot be fine-tuned: its classifier keeps {strange[0]} elsewhere.")
