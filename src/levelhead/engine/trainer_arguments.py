"""What every training has in common: what Trainer is told, random numbers of its own, models that refuse."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainingArguments

from levelhead.errors import CannotDo
from levelhead.models.model import Model

LARGE = 50_000_000  # parameters; smaller models need a higher learning rate (Turc et al. 2019)


def is_large(model: Model) -> bool:
    """Whether a model is trained at the learning rate of large ones."""
    return bool(sum(weight.numel() for weight in model.hf.parameters()) >= LARGE)


def check_trainable(model: Model) -> None:
    """Refuse to train where that cannot end well."""
    if find_spec("accelerate") is None:
        raise CannotDo("Fine-tuning needs the package accelerate: pip install 'levelhead[glue]'.")
    if model.hf.dtype == torch.float16:
        raise CannotDo(f"{model.name} is float16, in which training overflows. Load it as float32.")


def train_all(model: Model, words: Sequence[int] | None = None) -> None:
    """Let all weights be trained. words: of the vectors of words only those of these tokens; None: all.

    Adam moves a row by about the learning rate however small its gradient is, so that the rows of words which
    no text has would drift; a row whose gradient is 0 stays bit for bit.
    """
    model.hf.requires_grad_(True)
    if words is None:
        return
    tables = (model.hf.get_input_embeddings(), model.hf.get_output_embeddings())
    for rows in {id(table.weight): table.weight for table in tables if table is not None}.values():
        kept = torch.zeros(len(rows), 1, dtype=rows.dtype, device=rows.device)
        kept[list(words)] = 1
        rows.register_hook(partial(torch.mul, kept))


def arguments(model: Model, folder: Path, seed: int, **own: Any) -> TrainingArguments:
    """Trainer's arguments: quiet, seeded, its files in this folder, checkpoints when a callback says so."""
    return TrainingArguments(
        output_dir=str(folder),
        optim="adamw_torch_fused",  # a tenth faster on a CPU
        seed=seed,
        data_seed=seed,
        save_strategy="no",
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        logging_nan_inf_filter=False,  # it would hide that a training diverges
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=model.device.type == "cpu",
        **own,
    )


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Trainer seeds Python's, numpy's and torch's random numbers; afterwards they are as they were."""
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
