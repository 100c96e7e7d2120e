"""A run on the Hugging Face hub: a model card's section on bias, the card's metadata, .eval_results/*.yaml.

Forms: modelcard.md of https://github.com/huggingface/hub-docs (`model-index`), and
https://huggingface.co/docs/hub/eval-results. Strings in YAML are written as JSON, which YAML reads as the
same.
"""

from __future__ import annotations

import html
import json
import re

from levelhead.errors import CannotDo
from levelhead.escaping import escaped
from levelhead.inference.claims import floor_text
from levelhead.inference.contents import Contents, changes, main_scores, measurements, openings_text, variants
from levelhead.inference.head_claims import bias_text
from levelhead.inference.mitigating import costs, findings, reached, sentence, verdict
from levelhead.inference.verdicts import info_of, verdict_of
from levelhead.measures.choices import RULE
from levelhead.pages.about import EMPTY, about_of, scenario_fields, stated_fields
from levelhead.pages.presented import summary
from levelhead.pages.sections.closing import limits
from levelhead.pages.tables import probability, shown
from levelhead.runs.again import command
from levelhead.runs.common import BASE, SAME_ITEMS
from levelhead.studies.glue import Glue

HEADING = "## Bias evaluation"  # by which a card of ours is known
INDEX_MARK = "type: levelhead/"  # by which a card that begins with our metadata is known
EVALUATED_MARK = "# Written by levelhead"  # by which a file of .eval_results is known
_TASKS = {"nli": "text-classification", "causal": "text-generation", "mlm": "fill-mask"}  # by ability
_HUB = "hub:"

# ---- the section of a model card


def card(contents: Contents) -> str:
    """Figures with intervals and n, what was changed, limits, and how to get the numbers again."""
    first, data = summary(contents), contents.run.data
    lines = [HEADING, "", _safe(first.text), ""]
    lines += [f"- {_safe(finding.text)}" for finding in first.findings]
    version = _safe(data.versions.get("levelhead", ""))
    lines += ["", f"Measured with levelhead {version} on {_safe(contents.model)}.", ""]
    if opens := openings_text(contents.run):
        lines += [f"Texts open with: {_safe(opens)}.", ""]
    if bias := bias_text(contents.heads):
        lines += [f"Bias: {_safe(bias)}.", ""]
    lines += _measures(contents, BASE, "Unmodified model")
    for name in variants(contents) if contents.audit is not None or contents.study == Glue.name else ():
        if name != BASE:
            same = "Unmodified model, on the items of the changed ones"
            lines += _measures(contents, name, same if name == SAME_ITEMS else f"Changed: {name}")
    for run in contents.arenas:
        # a card without an audit opens with these sentences already
        said = (
            [] if contents.audit is None else [f"- {_safe(text)}" for text in (sentence(run), *findings(run))]
        )
        whose = f" of {_safe(run.model)}" if len(contents.arenas) > 1 else ""
        lines += [f"### Mitigations{whose}, on held-out items", "", *said, ""]
        lines += ["| Mitigation | Bias | Gain | 95 % interval | Cost | p | Verdict |"]
        lines += ["|---|---|---:|---|---|---:|---|"]
        for each in run.candidates:
            tested = each.certificate
            ends = "" if tested.interval is None else "[{:+.3f}, {:+.3f}]".format(*tested.interval)
            gained = f"{tested.gain:+.3f}", ends, costs(each)
            cells = (each.name, f"{tested.bias} {reached(tested)}", *gained, probability(tested.p).text)
            lines.append(f"| {' | '.join(_safe(cell) for cell in (*cells, verdict(run, each)))} |")
        lines.append("")
    if (about := about_of(contents)) is not None:
        stated = [f"- {title}: {_safe(text)}" for title, text in stated_fields(about)]
        lines += ["### Documentation", "", *stated, ""]
        if about.scenarios:
            rows = [
                [_safe(text or EMPTY) for text in scenario_fields(each).values()] for each in about.scenarios
            ]
            columns = tuple(scenario_fields(about.scenarios[0]))
            lines += ["### Bias scenarios", "", *(f"| {' | '.join(row)} |" for row in (columns, *rows)), ""]
            lines.insert(-1 - len(rows), "|---" * len(columns) + "|")
    warnings = [f"- {_safe(limit)}" for limit in limits(contents)]
    lines += ["### What these numbers do not show", "", *warnings, ""]
    # the fence is longer than any run of backticks inside it
    again = command(contents.run)
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall(r"`+", again)), default=0))
    lines += ["### Reproduce", "", f"{fence}sh", again, fence, ""]
    versions = ", ".join(f"{package} {number}" for package, number in data.versions.items())
    hashes = ", ".join(f"{name} `{_safe(digest[:16])}`" for name, digest in data.hashes.items())
    lines += [f"Seed {contents.run.settings.seed}; {_safe(versions)}; hashes: {hashes or 'none'}."]
    return escaped("\n".join(lines)) + "\n"


def _measures(contents: Contents, variant: str, title: str) -> list[str]:
    """A line for each measure of a variant: value, interval, n, neutral value, and what it says."""
    lines = []
    for each in (*measurements(contents, variant), *changes(contents, variant).values()):
        measurement, info = each.measurement, info_of(contents, each.name)
        ends = [shown(end, info.digits) for end in measurement.interval or ()]
        if measurement.value is None:
            value, verdict = "not measured", measurement.reason
        else:
            value, verdict = shown(measurement.value, info.digits), verdict_of(contents, each)
        neutral = "" if measurement.neutral is None else shown(float(measurement.neutral), 1)
        floor = "" if measurement.null is None else shown(measurement.null.floor, info.digits)
        p = "" if (own := measurement.p_value) is None else probability(own).text
        cells = [_safe(f"{info.title} ({each.name})"), value, " to ".join(ends), shown(measurement.n)]
        lines.append(f"| {' | '.join([*cells, neutral, floor, p, _safe(verdict)])} |")
    if not lines:
        return []
    columns = "| Measure | Value | 95 % interval | n | Neutral | Null models | p | What it says |"
    return [f"### {_safe(title)}", "", columns, "|---|---:|---|---:|---:|---:|---:|---|", *lines, ""]


def _safe(text: str) -> str:
    """Strings from models and data stay text: neither HTML nor Markdown, on one line."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


# ---- metadata at the head of the card


def model_index(contents: Contents) -> str:
    """YAML front matter with every number of the unmodified model, its interval and n beside it."""
    lines = ["---", "model-index:", f"- name: {json.dumps(contents.model)}", "  results:"]
    run = contents.audit or contents.benchmark
    abilities = () if run is None else run.settings.abilities
    task = next((task for ability, task in _TASKS.items() if ability in abilities), "feature-extraction")
    for each in measurements(contents):
        measurement, info = each.measurement, info_of(contents, each.name)
        if measurement.value is None:
            continue
        data = str(measurement.settings.get("data") or bias_text(contents.heads) or contents.study)
        revision = measurement.settings.get("data_hash")
        stated = {
            "interval": measurement.interval,
            "n": measurement.n,
            "neutral": measurement.neutral,
            "rule": measurement.settings.get(RULE),
            "unscored": sum(measurement.unscored.values()) or None,
        }
        known = {name: value for name, value in stated.items() if value is not None}
        lines += [
            "  - task:",
            f"      type: {task}",
            "      name: Bias evaluation",
            "    dataset:",
            f"      type: levelhead/{contents.study}",
            f"      name: {json.dumps(data, ensure_ascii=False)}",
            *([f"      revision: {json.dumps(str(revision))}"] if revision else []),
            "    metrics:",
            f"    - type: {json.dumps(each.name)}",
            f"      name: {json.dumps(info.title, ensure_ascii=False)}",
            f"      value: {measurement.value!r}",
            f"      args: {json.dumps(known)}",
        ]
    return escaped("\n".join([*lines, "---", ""]))


# ---- results of a benchmark


def eval_results(contents: Contents) -> tuple[str, str]:
    """Where the results of a run lie in a model repository, and YAML with the scores of all items of a
    benchmark; rule, interval, n and null models in the notes."""
    used, about = None if contents.benchmark is None else contents.benchmark.used, about_of(contents)
    if used is None:
        raise CannotDo(
            f"{contents.folder} is no whole run of `levelhead benchmark`: the hub files results by benchmark."
        )
    date = [] if about is None or not about.date else [f"  date: {json.dumps(about.date)}"]
    lines = [f"{EVALUATED_MARK} {contents.run.data.versions.get('levelhead', '')}"]
    # the data set on the hub: the one that was evaluated, else the one that the benchmark declares
    given = "" if contents.benchmark is None else contents.benchmark.settings.data
    data = (
        given.removeprefix(_HUB).partition("@")[0].partition(":")[0] if given.startswith(_HUB) else used.hub
    )
    for each in main_scores(measurements(contents)):
        measurement = each.measurement
        if measurement.value is not None:
            if not data:
                raise CannotDo(f"{used.title} is no data set on the hub, by which results are filed there.")
            notes = [f"rule {used.rule}", f"n {measurement.n}"]
            if measurement.interval is not None:
                notes.append("95 % interval {:.4g} to {:.4g}".format(*measurement.interval))
            if measurement.neutral is not None:
                notes.append(f"neutral {measurement.neutral:g}")
            if measurement.null is not None:
                notes.append(floor_text(measurement.null))
            if left := sum(measurement.unscored.values()):
                notes.append(f"{left} not scored")
            # the hub files a score by the data set, and by its name within the benchmark
            task = each.name.removeprefix(f"{used.benchmark} ").replace(", ", "_").replace(" ", "_")
            lines += [
                "- dataset:",
                f"    id: {json.dumps(data)}",
                f"    task_id: {json.dumps(task)}",
                f"  value: {measurement.value!r}",
                *date,
                f"  notes: {json.dumps('; '.join(notes), ensure_ascii=False)}",
            ]
    return f".eval_results/levelhead-{used.benchmark}.yaml", escaped("\n".join([*lines, ""]))
