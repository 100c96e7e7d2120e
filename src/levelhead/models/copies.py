"""Models that begin with another model's weights: a copy, and a classifier, which fine-tuning trains."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoModelForSequenceClassification

from levelhead.errors import CannotDo
from levelhead.models.concurrency import MAKING, asking
from levelhead.models.model import Model
from levelhead.models.sources import Source, quiet


def why_no_copy(model: Model) -> str:
    """Why a model's weights cannot be copied; empty where they can."""
    return "it comes with an adapter" if model.adapter else model.fixed_weights


def copied(model: Model, name: str, otherwise: str) -> Model:
    """A copy of a model for what changes its weights, which stands beside the model in memory.

    otherwise: what to do where there is no copy.
    """
    if obstacle := why_no_copy(model):
        raise CannotDo(f"{model.name}: {obstacle}; {otherwise}.")
    with asking(model.hf):
        hf = deepcopy(model.hf)
    about = model.origin, model._missing
    alone, opening = model.placement.alone(), model.opening
    return Model(Source(name, hf, model.tokenizer, *about, placement=alone, opening=opening))


def new_classifier(model: Model, labels: Sequence[str], seed: int) -> Model:
    """The model's network, a copy of its weights, under a new classification head; no labels: one score.

    Encoders keep their pooler where they have one; causal models are read at their last token. The head, and
    a pooler that the model lacks, are drawn from the seed; the caller's random state stays as it was.
    """
    config = deepcopy(model.hf.config)
    refusal = f"{model.name} cannot be fine-tuned: "
    if type(config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise CannotDo(f"{refusal}transformers has no text classifier of type {config.model_type!r}.")
    if model.fixed_weights:
        raise CannotDo(f"{refusal}{model.fixed_weights}. Load it whole, in floats.")
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
    # all but a pooler, the only part of a base model that some of its heads do without, must fit
    with asking(model.hf):
        try:
            fit = hf.base_model.load_state_dict(model.base.state_dict(), strict=False)
        except RuntimeError as error:
            raise CannotDo(f"{refusal}{str(error).splitlines()[0]}") from error
    strange = [name for name in (*fit.missing_keys, *fit.unexpected_keys) if "pooler" not in name]
    if strange:
        raise CannotDo(f"{refusal}its classifier keeps {strange[0]} elsewhere.")
    hf = hf.to(model.device).eval().requires_grad_(False)
    origin = f"classifier from {model.origin}"
    about = origin, (), model.adapter, model.placement.alone()
    return Model(Source(model.name, hf, model.tokenizer, *about, opening=model.opening))


def new_weights(classifier: Model, model: Model) -> list[str]:
    """Names of the classifier's weights that the model did not have: its head, perhaps its pooler."""
    prefix = f"{classifier.hf.base_model_prefix}."
    own = {f"{prefix}{name}" for name, _ in model.base.named_parameters()}
    return [name for name, _ in classifier.hf.named_parameters() if name not in own]
