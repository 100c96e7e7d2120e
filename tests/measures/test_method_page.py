"""The pages on methods: code and tests cite their sections, and their figures are the papers'."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.probes.published import published_heads, published_projections

ROOT = Path(__file__).resolve().parents[2]
INDEX = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "method").glob("*.md")}
PAGE = "\n".join(PAGES.values())
SECTIONS = [
    "Word vectors",
    "SEAT",
    "SEAT rows",
    "Exchanged pairs",
    "SEAT excess",
    "LPBS",
    "Head gate",
    "Neuron gate",
    "Head scores",
    "Objectives",
    "Ablation",
    "Counter-stereotypes",
    "Targeted debiasing",
    "Triples",
    "Next-sentence probability",
    "Preference",
    "Strength and Distance",
    "Next-sentence ability",
    "NLI fairness",
    "Fluency",
    "GLUE",
    "Cloze prompts",
    "Verbalizer",
    "Log-odds",
    "Cloze scores",
    "Common random numbers",
    "Mirror divergence",
    "Who appears",
    "Paired gap",
    "Excess distance",
    "Decisions",
    "Marked words",
    "Refusals",
    "Planning",
    "Scores of other tools",
    "How a text opens",
    "Gender subspace",
    "Projection",
    "Sweep",
    "Choosing a projection",
    "Export",
    "Symmetrization",
    "Merged word vectors",
    "Distillation",
    "Refitted head",
    "Other weights",
    "Steering",
    "Self-Debias",
    "DAMA",
    "FASP",
    "Certified mitigations",
    "Statistics",
    "False alarms and power",
]
CITED = re.compile(r"\(docs/method(?:/([\w-]+))?\.md, ([^)]+)\)")


def anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.M)


def test_the_index_leads_to_every_section_where_it_stands() -> None:
    assert headings(INDEX) == SECTIONS
    for heading in SECTIONS:
        (page,) = (name for name, text in PAGES.items() if heading in headings(text))
        assert f"[{heading}](method/{page}#{anchor(heading)})" in INDEX


def test_every_citation_names_a_section_of_the_page_that_it_names() -> None:
    sections = {heading.casefold() for heading in SECTIONS}
    cited: set[str] = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml")]:
        text = re.sub(r"\s+#?\s*", " ", path.read_text(encoding="utf-8"))
        for page, names in CITED.findall(text):
            there = sections if not page else {each.casefold() for each in headings(PAGES[f"{page}.md"])}
            for name in names.split(";"):
                assert name.strip().casefold() in there, f"{path}: {name}"
                cited.add(name.strip().casefold())
    assert {"seat", "lpbs", "statistics"} <= cited


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
