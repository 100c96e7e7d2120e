"""The most memory of a driver without weights while workers score the heads of a model of 7 B parameters.

    CUDA_VISIBLE_DEVICES=0 python -m benchmarks.driver_memory      # one card; the promise is 2 GiB
    python -m benchmarks.driver_memory --width 2048 --inner 5504 --layers 8 --cards 0

Weights are random, written to a folder first. The driver's peak is what the kernel has as VmHWM.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch
from tests.tiny import tiny
from transformers import LlamaConfig, LlamaForCausalLM

GIB, PROMISE = 1 << 30, 2.0


def peak_of(process: subprocess.Popen[bytes]) -> float:
    """GiB of a process at its peak, when it has ended."""
    peak = 0
    while process.poll() is None:
        with suppress(OSError, IndexError):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))])
        time.sleep(0.1)
    return peak * 1024 / GIB


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driver_memory")
    sizes = (("width", 4096), ("inner", 11008), ("layers", 32), ("heads", 32), ("cards", 1))
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="levelhead-bench-") as place:
        folder = Path(place) / "model"
        tokenizer = tiny("llama", "").tokenizer
        config = LlamaConfig(
            hidden_size=given.width,
            intermediate_size=given.inner,
            num_hidden_layers=given.layers,
            num_attention_heads=given.heads,
            vocab_size=32_000,
            pad_token_id=tokenizer.pad_token_id,
        )
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda" if given.cards else "cpu"):
            model = cast(Any, LlamaForCausalLM)(config)
        parameters = sum(weight.numel() for weight in model.parameters())
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        del model
        if given.cards:
            torch.cuda.empty_cache()
        options = ["--bias", "gender", "--experiments", "scores", "--null", "0", "--dtype", "bfloat16"]
        options += ["--workers", "1", "--gpus-per-worker", str(given.cards), "--per-word", "2"]
        for weights in ("none", "full"):
            command = [sys.executable, "-m", "levelhead", "heads", str(folder), *options]
            command += ["--driver-weights", weights, "-o", str(Path(place) / weights)]
            began = time.monotonic()
            said = Path(place) / "said"
            with said.open("wb") as errors:
                process = subprocess.Popen(command, stderr=errors)
                peak = peak_of(process)
            print(
                f"{parameters / 1e9:.2f} B parameters, --driver-weights {weights}: {peak:.2f} GiB at its "
                f"peak, {time.monotonic() - began:.0f} s, exit {process.returncode}",
                flush=True,
            )
            if process.returncode:
                print(said.read_text()[-600:])
                return 1
            if weights == "none" and peak > PROMISE:
                print(f"more than the {PROMISE:g} GiB that are promised for 7 B")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
