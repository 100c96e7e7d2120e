"""Mistakes on the command line: found before torch is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MISTAKES = (
    "audit lh:brt-mini",
    "audit lh:bert-mini --nil x",
    "audit lh:bert-mini --bias gendr",
    "audit /nope/dir",
    "audit lh:bert-mini --nli lh:nli-min",
    "audit lh:bert-mini --text /nope.txt",
    "audit lh:bert-mini --glue /nope",
    "audit lh:bert-mini --measure /nope.py",
    "heads lh:bert-mini -o run --bias nope",
    "heads lh:bert-mini -o run --experiments scroes",
    "heads lh:bert-mini -o run --sentences /nope",
    "seat lh:brt-mini x.jsonl",
    "seat lh:bert-mini gendr",
    "seat lh:bert-mini /nope.jsonl",
    "lpbs lh:bert-mini --bias carer",
    "lpbs lh:bert-mini --templates /nope",
    "fluency lh:bert-mini --text /nope",
    "nsp lh:bert-mini --triples /nope",
    "nli lh:nli-mini --ability /nope",
    "nli lh:nli-mini --probe /nope",
    "projections lh:bert-mini --nli lh:nli-min -o run",
    "counteracts lh:bert-mini --prompts foo -o run",
    "counteracts lh:bert-min -o run",
    "planted lh:bert-min -o run",
    "debias lh:bert-mini --recipe /nope -o out",
    "debias pypi:smollm --heads 1-1 -o out",
    "glue lh:bert-mini --data /nope -o run",
    "models lh:foo",
    "check /nope --max seat=1",
    "compare /nope /nope",
    "card /nope",
)
HARNESS = """
import contextlib, io, json, sys
from levelhead.cli.main import main
results = {}
for line in json.loads(sys.argv[1]):
    sys.argv = ["levelhead", *line.split()]
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as end:
        results[line] = [end.code, len(stderr.getvalue().splitlines()), "torch" in sys.modules]
print(json.dumps(results))
"""


def test_a_typo_never_imports_torch(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HARNESS, json.dumps(MISTAKES)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    results = json.loads(ended.stdout)
    assert list(results) == list(MISTAKES)
    for line, (code, lines, torch) in results.items():
        assert code in (2, 4), (line, code)
        assert not torch, line
        assert lines == 1, line
    assert list(tmp_path.iterdir()) == []
