"""The page on methods: its sections are those that code and tests cite, and its figures are the papers'."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.probes.published import published_heads, published_projections

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
SECTIONS = [
    "Head gate",
    "Neuron gate",
    "Word vectors",
    "How a text opens",
    "SEAT",
    "SEAT rows",
    "Exchanged pairs",
    "SEAT excess",
    "Head scores",
    "Objectives",
    "Ablation",
    "Counter-stereotypes",
    "Targeted debiasing",
    "GLUE",
    "Fluency",
    "LPBS",
    "Triples",
    "Next-sentence probability",
    "Preference",
    "Strength and Distance",
    "Next-sentence ability",
    "NLI fairness",
    "Gender subspace",
    "Projection",
    "Sweep",
    "Choosing a projection",
    "Symmetrization",
    "Merged word vectors",
    "Distillation",
    "Refitted head",
    "Other weights",
    "Certified mitigations",
    "Steering",
    "Self-Debias",
    "DAMA",
    "FASP",
    "Cloze prompts",
    "Verbalizer",
    "Log-odds",
    "Cloze scores",
    "Export",
    "Statistics",
    "False alarms and power",
]
CITED = re.compile(r"\(docs/method\.md, ([^)]+)\)")


def test_the_page_has_its_sections_and_its_links_lead_to_them() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.M)
    assert headings == SECTIONS
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) == anchors


def test_every_citation_of_the_page_names_one_of_its_sections() -> None:
    sections = {section.casefold() for section in SECTIONS}
    cited: dict[str, Path] = {}
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml")]:
        text = re.sub(r"\s+#?\s*", " ", path.read_text(encoding="utf-8"))
        for names in CITED.findall(text):
            cited |= {name.strip().casefold(): path for name in names.split(";")}
    assert {"seat", "lpbs", "statistics"} <= cited.keys()
    assert {name: path for name, path in cited.items() if name not in sections} == {}


def test_figures_of_the_page_are_the_papers() -> None:
    base = published_projections().models[0]
    assert f"S {base.strength:.4f}, D {base.distance:.4f}" in PAGE
    assert f"parity {base.parity:.4f}, accuracy {base.accuracy:.4f}" in PAGE
    assert f"η {base.fairness:.4f}, SNLI {base.ability:.4f}" in PAGE
    for masking in published_heads().debiasing:
        assert f"{masking.seat:.2f} / {masking.pppl:.2f}" in PAGE
    for result in published_heads().counter_stereotypes:
        assert str(result.t).replace("-", "−") in PAGE
    for model in published_heads().models:
        assert str(model.seat) in PAGE
    first = published_heads().lpbs[0]
    assert f"{first.career:.2f} (career), {first.math:.2f} (math), {first.science:.2f} (science)" in PAGE
