"""Nodes of a Ray cluster that are killed, stall, leave and join in the middle of studies: the same bytes.

    python -m benchmarks.cluster --nodes 3 --workers 2 --kills 10 --joins 3
    python -m benchmarks.cluster --only heads --nodes 2 --workers 1 --kills 2 --joins 1
    python -m benchmarks.cluster --speed

All nodes are on this machine and listen on 127.0.0.1, each with a home, a temporary folder and a working
folder of its own; none sees the models, which are sent. A study runs once in one process, then on the
cluster, where at random moments a node is killed (SIGKILL of all its processes) or stalls, and others join.
It is begun again where it ends with one line, and runs anew until everything has happened that was planned.
--speed compares 2 nodes of one worker, one node, and one process. Beside cards, hide them first:
CUDA_VISIBLE_DEVICES= python -m benchmarks.cluster
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.cluster import Cluster, Node, cluster

from benchmarks.claims import Claim, bert_base
from benchmarks.jobs import JOBS, prepare, resolved
from benchmarks.kills import contents
from levelhead.errors import CannotDo

STUDIES = ("heads", "audit", "generate", "planted", "survey")
LIMIT = 1800.0  # seconds in which a disturbed run ends


@dataclass
class Outcome:
    """What happened to a study's nodes, and how it ended."""

    kills: int = 0
    stalls: int = 0
    joins: int = 0
    lines: int = 0  # drivers that ended with one, and were begun again
    runs: int = 0
    fault: str = ""


def ended(driver: subprocess.Popen[str]) -> str:
    """What is wrong with how a driver ended, "again" where it ended with one line behind its notes."""
    _, text = driver.communicate()
    if driver.returncode == 0:
        return ""
    one = "Traceback" not in text and text.splitlines()[-1].startswith("levelhead: ")
    return "again" if one and driver.returncode == CannotDo.exit_code else f"{text[-400:]!r}"


def disturbed(
    made: Cluster, arguments: list[str], rng: Random, events: list[str], pause: float, done: Outcome
) -> None:
    """Run a command to its end, beginning it again where it ends with one line, while events happen."""
    started, size, driver = time.monotonic(), len(made.nodes), made.driver(*arguments)
    stalled: Node | None = None
    following = time.monotonic() + rng.uniform(0, pause)
    try:
        while True:
            if driver.poll() is not None:
                done.fault = ended(driver)
                if done.fault != "again":
                    return
                done.lines, done.fault = done.lines + 1, ""
                driver = made.driver(*arguments)
            if time.monotonic() - started > LIMIT:
                done.fault = f"it did not end in {LIMIT:.0f} s"
                return
            time.sleep(0.2)
            if time.monotonic() < following or not events:
                continue
            following = time.monotonic() + rng.uniform(pause / 2, pause)
            live = [each for each in made.nodes[1:] if each.process.poll() is None]
            if stalled is not None:
                stalled.stop(go_on=True)
                stalled = None
            event = events.pop()
            if event == "join" or not live:
                made.add(cpus=made.cpus)
                done.joins += 1
            elif event == "stall":
                stalled, done.stalls = rng.choice(live), done.stalls + 1
                stalled.stop()
            else:
                rng.choice(live).kill()
                done.kills += 1
                if len(live) < size - 1:  # an empty cluster would be waited for in vain
                    made.add(cpus=made.cpus)
    finally:
        if stalled is not None:
            stalled.stop(go_on=True)
        if driver.poll() is None:
            driver.kill()
            driver.communicate()


def compared(
    name: str, made: Cluster, inputs: dict[str, str], events: list[str], rng: Random, pause: float
) -> Outcome:
    """A study alone, then on the cluster until all events have happened; the fault says what differs."""
    place, workers = made.place / "driver", (len(made.nodes) - 1) * made.cpus
    arguments = resolved(JOBS[name], inputs)
    environment = made.environment(place)
    alone = [sys.executable, "-m", "levelhead", *arguments, "-o", "alone"]
    done = subprocess.run(alone, env=environment, cwd=place, capture_output=True, text=True, check=False)
    outcome = Outcome(fault=f"alone: {done.stderr[-400:]!r}" if done.returncode else "")
    while (events or not outcome.runs) and not outcome.fault:
        outcome.runs += 1
        whole = [*arguments, "--workers", str(workers), "-o", f"cluster-{outcome.runs}"]
        disturbed(made, whole, rng, events, pause, outcome)
        first, second = (contents(place / each) for each in ("alone", whole[-1]))
        names = [each for each in sorted({**first, **second}) if first.get(each) != second.get(each)]
        names = [each for each in names if each.rpartition("/")[2] not in ("report.html", "places.csv")]
        outcome.fault = outcome.fault or (f"differing: {names[:4]}" if names else "")
    return outcome


def speed() -> list[Claim]:
    """Sentence vectors of BERT-base's shape: by 2 nodes of one worker, by one, and by one process."""
    program = """
import sys, time
from benchmarks.engine import mixed_sentences
from levelhead.engine.readings import SentenceVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.model import load
workers, address = int(sys.argv[2]), sys.argv[3]
options = {"workers": workers, "ray": address} if workers else {}
model = load(sys.argv[1], device="cpu", batch_tokens=256, **options)
texts = [Text(sentence) for sentence in mixed_sentences(400)]
read_one(model, SentenceVectors(texts[:40]))
spent = []
for _ in range(3):
    start = time.perf_counter()
    read_one(model, SentenceVectors(texts))
    spent.append(time.perf_counter() - start)
print(min(spent))
"""
    with tempfile.TemporaryDirectory(prefix="levelhead-cluster-") as folder:
        root = Path(folder)
        model = bert_base()
        model.hf.save_pretrained(root / "models/bert")
        model.tokenizer.save_pretrained(root / "models/bert")
        del model
        with cluster(root / "c", 2, [root / "models"]) as made:
            taken = {}
            for workers in (2, 1, 0):
                command = [
                    sys.executable,
                    "-c",
                    program,
                    str(root / "models/bert"),
                    str(workers),
                    made.address,
                ]
                place = made.place / "driver"
                environment = made.environment(place)
                done = subprocess.run(
                    command, env=environment, cwd=place, check=True, capture_output=True, text=True
                )
                taken[workers] = float(done.stdout)
    note = "400 sentences in batches of 256 tokens, BERT-base's shape, wall time"
    return [
        Claim("two nodes of one worker against one", taken[1] / taken[2], 1.7, True, note),
        Claim("a cluster of one worker against one process, time", taken[1] / taken[0], 1.1, False, note),
    ]


def main() -> int:
    """Exit 1 where bytes differ, or a driver ends otherwise than well or with one line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster")
    for name, default in (
        ("nodes", 3),
        ("workers", 2),
        ("kills", 10),
        ("stalls", 1),
        ("joins", 3),
        ("seed", 0),
        ("pause", 12),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default=";".join(STUDIES), help="studies by their names, with semicolons")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    if given.speed:
        claims = speed()
        for claim in claims:
            print(f"{claim.name}: {claim.measured:.2f} (promised {claim.bound}; {claim.note})")
        return int(not all(claim.holds for claim in claims))
    rng, faults = Random(given.seed), 0
    for name in given.only.split(";"):
        with tempfile.TemporaryDirectory(prefix="levelhead-cluster-") as folder:
            root = Path(folder)
            inputs = prepare(root / "models")
            with cluster(root / "c", given.nodes, [root / "models"], cpus=given.workers) as made:
                (root / "c/driver").mkdir(exist_ok=True)
                planned = {"kill": given.kills, "stall": given.stalls, "join": given.joins}
                events = [each for each, times in planned.items() for _ in range(times)]
                rng.shuffle(events)
                start = time.monotonic()
                outcome = compared(name, made, inputs, events, rng, given.pause)
        faults += bool(outcome.fault)
        told = outcome.fault or "the same bytes"
        print(
            f"{name}: {outcome.runs} runs, {outcome.kills} kills, {outcome.stalls} stalls, "
            f"{outcome.joins} joins, {outcome.lines} begun again, {time.monotonic() - start:.0f} s: {told}",
            flush=True,
        )
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
