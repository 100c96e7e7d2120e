"""Run folders in the form that the studies write, with made-up numbers: small, complete, with hostile
strings."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from levelhead.results.folder import Run, text_hash

HOSTILE = "<script>alert(1)</script>"
KINDS = ("base", "target counter semantic", "unrelated")
LAYERS, HEADS = 4, 5
Row = dict[str, Any]


def measured(name: str, value: float | None, half: float = 0.1, n: int = 120, **more: Any) -> Row:
    """A measurement as Measurement.to_json writes it."""
    interval = None if value is None or half < 0 else [value - half, value + half]
    row = {
        "name": name,
        "value": value,
        "interval": interval,
        "n": n if value is not None else 0,
        "unscored": {},
        "neutral": None,
        "details": {},
        "settings": {},
        "reason": "" if value is not None else "no such head",
    }
    return {**row, **more}


def battery(variant: str, shift: float, model: str) -> dict[str, list[Row]]:
    """Groups of measures of one variant, as the audit asks them."""
    groups = {
        "seat": [measured("seat", 1.23456789 + shift, neutral=0.0, n=1304, details={"p_value": 0.0004})],
        "lpbs": [
            measured("lpbs career", 0.2 + shift, 0.6, 20, neutral=0.0),
            measured("lpbs math", None, neutral=0.0),
        ],
        "triples": [
            measured(
                "ss", 0.61 + shift / 10, 0.04, 170, neutral=0.5, unscored={"triple <b>without</b> a twin": 3}
            ),
            measured("strength", 0.4111 + shift / 3, 0.05, neutral=0.0),
            measured("lms", 0.8, 0.03, neutral=1.0),
        ],
        "inference": [
            measured("fairness", 0.1234, 0.02, 41, neutral=1.0),
            measured("ability", 0.75, 0.04, 330),
            measured("accuracy", None, neutral=1.0, reason="not asked & <i>skipped</i>"),
        ],
        "prompts": [measured("margin", 0.05 + shift / 20, 0.01, 58, neutral=0.0)],
        "fluency": [measured("fluency", 21.987654, 1.5, 4000)],
    }
    label = {"study": "audit", "variant": variant, "model": model}
    return {group: [{**label, **row} for row in rows] for group, rows in groups.items()}


def write_audit(folder: Path, model: str = "lh:tiny", seed: int = 0, shift: float = 0.0) -> Path:
    """A whole audit: measures, candidates, two changed models, heads, prompts and arcs."""
    settings = {
        "study": "audit",
        "model": model,
        "abilities": ["mlm", "nsp"],
        "layers": LAYERS,
        "heads": HEADS,
        "large": False,
        "bias": "gender",
        "nli": None,
        "top": 2,
        "full": False,
        "seed": seed,
    }
    closed = "without heads 4-5, 1-2"
    projected = f"tokens: soft, 2-d {HOSTILE}"
    with Run.open(folder, settings, hashes={"weights": "ab" * 32, "words": "12" * 8}) as run:
        for group, rows in battery("base", shift, model).items():
            run.result(f"measure/{group}", lambda rows=rows: rows)
        run.result("candidates", lambda: _candidates(projected))
        run.result("mitigate", lambda: _plans(closed, projected))
        for name, change in ((closed, -0.5), (projected, -1.1)):
            for group, rows in battery(name, shift + change, model).items():
                run.result(f"verify/{name}/{group}", lambda rows=rows: rows)
            cost = {"study": "audit", "variant": name, "model": model}
            cost |= measured("fluency change", 1.0234, 0.01, neutral=1.0)
            run.result(f"verify/{name}/costs", lambda cost=cost: cost)
        run.result(
            "headline",
            lambda: {"text": f"{model} leans: SEAT 1.23.", "findings": ["One & two <b>three</b>."]},
        )
        sheets = {"sentences": [_arcs(i) for i in range(2)]}
        run.artifact("arcs.json", lambda path: path.write_text(json.dumps(sheets), encoding="utf-8"))
    write_heads(folder / "heads", model, seed)
    write_prompts(folder / "prompts", model, seed)
    return folder


def _plans(closed: str, projected: str) -> list[Row]:
    return [
        {
            "variant": closed,
            "what": "The 2 heads with the highest scores are removed.",
            "heads": ["4-5", "1-2"],
            "recipe": "[[gate]]\nlayer = 4\nhead = 5\nvalue = 0.0\n",
            "viable": None,
            "chosen": True,
        },
        {
            "variant": projected,
            "what": "Directions are projected out.",
            "heads": None,
            "recipe": f'title = "{HOSTILE}"\n',
            "viable": True,
            "chosen": True,
        },
    ]


def _candidates(chosen: str) -> list[Row]:
    names = [("base", "base"), ("sent-debias", "sent-debias"), ("sent: soft", "SENT"), (chosen, "layer 3")]
    return [
        {
            "variant": name,
            "level": level,
            "code": "",
            "bias": {"name": "strength", "value": 0.41 - 0.09 * i},
            "ability": {"name": "lms", "value": 0.8 - 0.03 * i},
            "viable": i < 2,
            "gain": 0.1 * i,
            "recipe": f"title = '{name}'\n" if i else "",
            "chosen": name == chosen,
        }
        for i, (name, level) in enumerate(names)
    ]


def _arcs(number: int) -> Row:
    rng = np.random.default_rng(number)
    sheet: Row = {
        "text": f"The women are emotional {number} <b>x</b>.",
        "counter": f"The men are emotional {number}.",
    }
    for prefix, word in (("", "women"), ("counter_", "men")):
        tokens = ["", "The", word, "are", "emo", "tional", str(number), "<b>x</b>", ".", ""]
        weights = rng.random((LAYERS, HEADS, len(tokens))).round(4)
        found = [
            [[None if i in (0, 8, 9) else v for i, v in enumerate(h)] for h in layer]
            for layer in weights.tolist()
        ]
        sheet |= {f"{prefix}tokens": tokens, f"{prefix}target": [4, 5], f"{prefix}attribute": [2]}
        sheet[f"{prefix}attention"] = found
    return sheet


def write_heads(folder: Path, model: str = "lh:tiny", seed: int = 0) -> Path:
    """A heads run with all experiments."""
    rng = np.random.default_rng(seed)
    settings = {
        "study": "heads",
        "model": model,
        "layers": LAYERS,
        "heads": HEADS,
        "bias": "gender",
        "contexts": "templates",
        "experiments": ["scores", "ablation", "counter"],
        "per_word": None,
        "sentences": None,
        "n_sentences": 500,
        "trim": False,
        "resamples": 200,
        "seed": seed,
    }
    scores = rng.normal(0, 0.1, (LAYERS, HEADS))
    rank = (-scores).ravel().argsort().argsort().reshape(scores.shape) + 1
    rows = [
        {
            "layer": layer + 1,
            "head": head + 1,
            "score": float(scores[layer, head]),
            "stderr": 0.02,
            "p": 0.01,
            "q": 0.00001 if head == 0 else 0.2,
            "rank": int(rank[layer, head]),
            "objective": 1.2,
        }
        for layer, head in np.ndindex(scores.shape)
    ]
    with Run.open(folder, settings, hashes={"weights": "ab" * 32, "words": "12" * 8}) as run:
        run.result(
            "words",
            lambda: {"test": HOSTILE, "labels": list("ABXY"), "words": 22, "contexts": 44, "missing": []},
        )
        run.result(
            "seat", lambda: {"study": "heads", "variant": "base", **measured("seat", 1.23456789, neutral=0.0)}
        )
        run.result("scores", lambda: rows)
        removals = [
            {**{k: r[k] for k in ("layer", "head")}, "abs_seat": 1.2, "change": -0.9 * r["score"]}
            for r in rows
        ]
        run.result("ablation/1-1 to 4-5", lambda: removals)
        run.result(
            "ablation",
            lambda: measured("spearman", 0.93, 0.04, 20, neutral=0.0, details={"p_value": 1.2e-28}),
        )
        run.result("counter/heads", lambda: [])
        run.result("counter/example", list)
        details = {"t": 2.5, "p_value": 0.007, "mean_original": 0.31, "mean_counter": 0.27, "heads": 9.0}
        groups = [
            {
                "group": "biased",
                **measured("attention change, biased heads", 0.04, 0.01, 140, details=details),
            },
            {"group": "regular", **measured("attention change, regular heads", None)},
        ]
        run.result("counter", lambda: groups)
        sides = [
            {
                "group": "biased",
                "side": side,
                **measured("attention change, biased heads", value, 0.01, 70, details=own),
            }
            for side, value, own in (("A", 0.09, details), ("B", -0.03, {**details, "t": -1.5}))
        ]
        run.result("counter/sides", lambda: sides)
        for key, found in debias_rows().items():
            run.result(f"debias/{key}", lambda found=found: found)
    return folder


def debias_rows() -> dict[str, list[Row]]:
    """Targeted debiasing as studies/heads/debias.py writes it, of a model that has every measure."""

    def rows(strategy: str, seat: float, ratio: float, **more: Any) -> list[Row]:
        values = {
            "seat": seat,
            "lpbs career": 0.4,
            "lpbs math": 0.5,
            "fluency": 20 * ratio,
            "fluency change": ratio,
        }
        about = {"study": "heads", "strategy": strategy, "masked": 2, "heads": []}
        return [{**about, "measure": name, **measured(name, value), **more} for name, value in values.items()]

    random = rows("random-2", 1.22, 1.03)
    random[0]["mean_abs"] = 1.25
    learned = rows("base", 1.23, 1.0) + rows("learned, at most 1.05", -1.02, 1.04)
    unseen = {**learned[0], "contexts": "not learned on", **measured("seat", 9.0)}
    won = {
        "strategy": "learned, at most 1.05",
        "abs_seat": 1.02,
        "ratio": 1.04,
        "rival": "top-1",
        "beats": True,
    }
    return {
        "table": rows("base", 1.23, 1.0) + rows("top-2", 1.0, 1.1) + rows("bottom-2", 1.5, 2.0),
        "random": random,
        "sweep": rows("top-0", 1.23, 1.0) + rows("top-1", 1.1, 1.02) + rows("top-2", 1.0, 1.1),
        "learned": [*learned, unseen],
        "tradeoff": [{**won, "rival_abs_seat": 1.1, "rival_ratio": 1.02}],
    }


def write_prompts(folder: Path, model: str = "lh:tiny", seed: int = 0, drift: float = 0.0) -> Path:
    """A CounterActs run of one model, untouched and changed."""
    variants = ["base", "without heads 4-5, 1-2"]
    settings = {
        "study": "counteracts",
        "models": [model],
        "variants": variants,
        "prompts": "gender-occupation",
        "verbalizer": None,
        "seed": seed,
        "per_background": 2,
        "ks": [3, 5, 10],
        "draws": 2000,
        "remove_heads": [],
        "groups": ["female", "male"],
        "kinds": list(KINDS),
        "n_prompts": 754,
    }
    with Run.open(
        folder, settings, hashes={f"weights of {model}": "ab" * 32, "prompts and words": "cd" * 8}
    ) as run:
        for number, variant in enumerate(variants):
            label = {"study": "counteracts", "model": model, "variant": variant}
            rows = [{"name": "how it was asked", "form": "sentence pair", "absent": ["mums"]}]
            rows += [row for k in (3, 5, 10) for row in _cloze_rows(k, drift + number / 50)]
            run.result(
                f"{model} | {variant}", lambda label=label, rows=rows: [{**label, **row} for row in rows]
            )
        for number, variant in enumerate(variants):
            name = f"occupations/x-{text_hash(f'{model} | {variant}')[:6]}.csv"
            run.artifact(
                name, lambda path, number=number: _write_occupations(path, seed, drift + number / 50)
            )
    return folder


def _cloze_rows(k: int, drift: float) -> list[Row]:
    rows = []
    for kind in KINDS:
        for group in ("", "female", "male"):
            cell = {"k": k, "kind": kind, "group": group, "occupation": ""}
            names = {"female mass": 0.03 * k, "male mass": 0.02 * k + drift, "margin": 0.01 * k + drift}
            rows += [{**cell, **measured(name, value, 0.01, 58)} for name, value in names.items()]
            rows.append({**cell, **measured("share without group words", 0.5 / k, -1, 58)})
            if kind != "base":
                details = {"base": 0.01 * k, "margin": 0.01 * k + drift}
                change = measured("margin change", drift, 0.02, 58, details=details)
                rows.append({**cell, **change, "verdict": "no change", "expected": "weakens"})
    return rows


def _write_occupations(path: Path, seed: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["k", "kind", "group", "occupation", "name", "value", "low", "high", "n", "reason"])
        for i in range(20):
            value = "" if i == 0 else float(rng.normal(0.05, 0.01) + drift)
            reason = "no prompt has a word of either group in its top 5" if i == 0 else ""
            table.writerow([5, "base", "female", f"occupation {i}", "margin", value, "", "", 1, reason])


def write_sweep(folder: Path, flips: int = 0, model: str = "lh:tiny") -> Path:
    """A sweep of three settings; `flips` answers about women differ."""
    occupations, contexts = 6, 4
    settings = {
        "study": "projections",
        "model": model,
        "nli_model": "lh:tiny-nli",
        "fit": "base",
        "depth": False,
        "labels": None,
        "triples": "ours",
        "ability": "ours",
        "occupations": occupations,
        "contexts": contexts,
        "words": ["woman", "man"],
        "seed": 0,
        "resamples": 200,
    }
    names = [("base", "base", ""), ("sent: hard", "SENT", "0"), ("sent: soft", "SENT", "1")]
    labels = np.ones((occupations, contexts, 2), int)
    labels[:flips, :, 0] = 0
    digits = "".join(map(str, labels.ravel()))
    with Run.open(folder, settings, hashes={"model": "ab" * 32, "probe": "ef" * 8}) as run:

        def rows(i: int, measures: dict[str, float], extra: Row) -> list[Row]:
            name, level, code = names[i]
            label = {"study": "projections", "variant": name, "level": level, "code": code, "model": model}
            return [{**label, **measured(m, v), **extra} for m, v in measures.items()]

        nsp = [row for i in range(3) for row in rows(i, {"strength": 0.4 - i / 10, "lms": 0.8}, {})]
        run.result("nsp", lambda: nsp)
        half = len(digits) // 2
        run.result("nli answers 1-24", lambda: [{"labels": digits[:half]}] * 3)
        run.result("nli answers 25-48", lambda: [{"labels": digits[half:]}] * 3)
        nli = [
            row
            for i in range(3)
            for row in rows(i, {"fairness": 0.5 + i / 10, "ability": 0.7}, {"viable": i < 2})
        ]
        run.result("nli", lambda: nli)
        seen = {
            "observation": "Weighting at SENT raises ability",
            "holds": True,
            "agree": 1,
            "cases": 1,
            "paper": "37 of 37",
        }
        run.result("observations", lambda: seen)
        run.result(
            "correlation", lambda: measured("strength and fairness", -0.4, 0.3, 3, details={"p_value": 0.2})
        )
        run.artifact(
            "recipes/01-a.toml", lambda path: path.write_text('title = "sent: hard"\n', encoding="utf-8")
        )
    return folder
