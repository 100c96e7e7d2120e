"""Make a checkpoint small enough to ship: int8 rows with one float32 scale each, the rest float16.

python -m training.quantize CHECKPOINT OUT

levelhead.models.sources.restore_int8 is the way back.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig

from levelhead.models.catalog import SCALE, WEIGHTS_FILE

SMALLEST = 4096  # matrices of at most this many elements are not worth a scale a row
FORMAT = "int8 rows with float32 scales: weight = int8 * scale[:, None]"


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """int8 rows and their scales: scale = max |row| / 127, so that no number is clipped and zero stays
    zero."""
    scale = weight.float().abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
    return (weight.float() / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale


def quantize(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All weights as they are stored."""
    stored = {}
    for name, weight in weights.items():
        if weight.ndim == 2 and weight.numel() > SMALLEST:
            stored[name], stored[name + SCALE] = quantize_rows(weight)
        else:
            stored[name] = weight.half().contiguous()
    return stored


def untied(model: Any) -> dict[str, Tensor]:
    """Each weight once: what is tied to another is restored by tying."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def main() -> None:
    """Quantize a checkpoint of training.pretrain or training.finetune."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    config = AutoConfig.from_pretrained(asked.checkpoint)
    kind = getattr(transformers, config.architectures[0])
    asked.out.mkdir(parents=True)
    for path in asked.checkpoint.glob("*.json"):
        shutil.copy(path, asked.out)
    weights = untied(kind.from_pretrained(asked.checkpoint))
    save_file(quantize(weights), asked.out / WEIGHTS_FILE, metadata={"format": FORMAT})


if __name__ == "__main__":
    main()
