"""Is the share of CrowS-Pairs that of lm-evaluation-harness? It runs in an environment of its own.

    python -m benchmarks.against_lm_eval MODEL... --data crows_pairs_anonymized.csv [--pairs 200]

A virtual environment is made in a temporary folder, which sees the packages of this one (torch is not fetched
again), and gets lm-eval with what it lacks here. There the harness runs its own task, its own functions on
our file, on the model that levelhead has loaded; levelhead measures by its rule `lm-eval`. Differences
are printed. The harness puts a token before every text, levelhead what the model's own files name; where
these differ, transformers alone shows that nothing else does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = "0.4.13"
NEEDED = (
    *(f"lm-eval=={VERSION}", "evaluate", "pytablewriter", "rouge-score", "sacrebleu", "sqlitedict"),
    *("word2number", "more_itertools", "DataProperty", "mbstrdecoder", "pathvalidate", "tabledata"),
    *("tcolorpy", "typepy", "absl-py", "nltk", "portalocker", "colorama", "lxml", "tabulate"),
)
Doubles = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[1]


def environment(folder: Path) -> Path:
    """The Python of an environment that has lm-eval and sees the packages of this one."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        places = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
        (Path(places["purelib"]) / "beside.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *NEEDED], check=True)
    return python


def task(folder: Path, pairs: list[tuple[str, str]]) -> Any:
    """The harness's task crows_pairs_english with its own functions, on these pairs."""
    lines = [json.dumps({"sent_more": more, "sent_less": less}) for more, less in pairs]
    file = folder / "pairs.jsonl"
    file.write_text("\n".join(lines) + "\n")
    shipped: Any = import_module("lm_eval.tasks.crows_pairs.utils")
    return {
        "task": "crows_pairs_of_ours",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(file)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "",
        "doc_to_target": 0,
        "doc_to_choice": shipped.doc_to_choice,
        "target_delimiter": "",
        "process_results": shipped.process_results,
        "metric_list": [
            {"metric": name, "aggregation": "mean", "higher_is_better": False}
            for name in ("likelihood_diff", "pct_stereotype")
        ],
    }


def of_harness(model: Any, pairs: list[tuple[str, str]]) -> tuple[float, Doubles, int]:
    """The share by the harness, its log-likelihoods [pair, sentence], and the token it puts before a text."""
    lm_eval: Any = import_module("lm_eval")
    hf: Any = import_module("lm_eval.models.huggingface")
    with tempfile.TemporaryDirectory() as folder:
        asked = hf.HFLM(pretrained=model.hf, tokenizer=model.tokenizer, batch_size=16)
        found = lm_eval.simple_evaluate(asked, tasks=[task(Path(folder), pairs)], log_samples=True)
    (name,) = found["samples"]
    samples = sorted(found["samples"][name], key=lambda sample: sample["doc_id"])
    logs = np.asarray([[float(each[0][0]) for each in sample["resps"]] for sample in samples])
    return float(found["results"][name]["pct_stereotype,none"]), logs, int(asked.prefix_token_id)


def plain(model: Any, texts: list[str], first: list[int]) -> Doubles:
    """Log-likelihoods after some first tokens, by transformers alone: [pair, sentence]."""
    import torch

    sums = []
    for text in texts:
        own = model.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*first, *own]])
        with torch.inference_mode():
            logs = model.hf(ids).logits.log_softmax(-1)
        sums.append(float(logs[0, :-1].gather(1, ids[0, 1:, None]).sum()))
    return np.asarray(sums).reshape(-1, 2)


def share_of(logs: Doubles) -> float:
    """The share of pairs whose first sentence is the likelier one."""
    return float(np.mean(logs[:, 0] > logs[:, 1]))


def compare(name: str, data: str, limit: int | None) -> None:
    """Print both shares, and how far likelihoods lie apart."""
    from levelhead.engine.readings import SpanLikelihoods
    from levelhead.engine.run import read_one
    from levelhead.models.model import load
    from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
    from levelhead.scoring.benchmarks.protocol import Selection

    model = load(name, device="cpu", dtype="float32")
    pairs = [(pair.more, pair.less) for pair in CROWS_PAIRS.load(data, Selection(limit=limit)).items]
    texts = [text for pair in pairs for text in pair]
    ours = read_one(model, SpanLikelihoods(texts))[0].reshape(-1, 2)
    share, theirs, prefix = of_harness(model, pairs)
    other = int(((ours[:, 0] > ours[:, 1]) != (theirs[:, 0] > theirs[:, 1])).sum())
    print(f"{name}, {len(pairs)} pairs: share {share_of(ours):.4f} here, {share:.4f} by lm-eval {VERSION}")
    print(f"  likelihoods differ by {np.abs(ours - theirs).max():.2e} nats at most; {other} pairs otherwise")
    opening = list(model.opening.tokens or ())
    print(f"  before every text here: {opening or 'nothing'}; there: {[prefix]}")
    if opening != [prefix]:
        for who, logs, first in (("here", ours, opening), ("lm-eval", theirs, [prefix])):
            known = plain(model, texts, first)
            off = np.abs(known - logs).max()
            print(f"  transformers after {first}: share {share_of(known):.4f}, {off:.1e} nats from {who}")


def main() -> None:
    """Make the environment and compare every model in it; inside it, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "lm-eval-env")
    given = parser.parse_args()
    python = environment(given.environment)
    if Path(sys.prefix).resolve() != given.environment.resolve():
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        again = [str(python), "-m", "benchmarks.against_lm_eval", *sys.argv[1:]]
        raise SystemExit(subprocess.run(again, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT).returncode)
    for name in given.models:
        compare(name, given.data, given.pairs)


if __name__ == "__main__":
    main()
