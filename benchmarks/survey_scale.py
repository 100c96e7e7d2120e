"""A survey of many models by nodes of a Ray cluster: seconds against models and nodes, and of its page.

    python -m benchmarks.survey_scale --models 100 300 1000 --nodes 1 2 3

Tiny models with weights of their own, one in a hundred of them broken; nodes of one worker each, on this
machine. The survey of the most models is shared by the most nodes, smaller ones by each number of nodes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any, cast

from tests.cluster import cluster
from tests.tiny import saved

from benchmarks.jobs import prepare
from levelhead import open_run

BROKEN = 100  # one of so many models has no weights
OPTIONS = ("--quick", "--measures", "seat")


def written(folder: Path, models: int) -> list[str]:
    """Folders of tiny models."""
    found = []
    for seed in range(models):
        found.append(saved(folder / f"m{seed:04}", "bert", "mlm", layers=1, seed=seed))
        if seed % BROKEN == 0:
            Path(found[-1], "model.safetensors").unlink()
    return found


def surveyed(models: list[str], words: str, nodes: int) -> str:
    """How long a survey and its page took, and how many tasks were done and failed."""
    with (
        tempfile.TemporaryDirectory(prefix="levelhead-survey-") as place,
        cluster(Path(place), nodes) as made,
    ):
        driver = Path(place) / "driver"
        environment = made.environment(driver)
        command = [sys.executable, "-m", "levelhead"]
        options = [*OPTIONS, "--biases", words, "--workers", str(nodes), "--ray", made.address]
        start = time.monotonic()
        whole = [*command, "survey", *models, *options, "-o", "run"]
        subprocess.run(whole, env=environment, cwd=driver, check=True, capture_output=True)
        seconds, start = time.monotonic() - start, time.monotonic()
        again = [*command, "report", "run"]
        subprocess.run(again, env=environment, cwd=driver, check=True, capture_output=True)
        drawn = time.monotonic() - start
        run = cast(Any, open_run(driver / "run"))
        done, failed = len(run.tasks) - len(run.failures), len(run.failures)
    return f"{seconds:.0f} s; page {drawn:.1f} s; {done} tasks done, {failed} failed"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survey_scale")
    parser.add_argument("--models", type=int, nargs="+", default=[100, 300, 1_000])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="levelhead-survey-"))
    try:
        words = prepare(folder / "given")["WORDS"]
        models = written(folder, max(given.models))
        for count, nodes in product(sorted(given.models), sorted(given.nodes)):
            if count < max(given.models) or nodes == max(given.nodes):
                found = surveyed(models[:count], words, nodes)
                print(f"{count} models, {nodes} nodes: {found}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
