"""The tables of data/swap as text: the one place that opens them, which an exported folder replaces."""

from __future__ import annotations

from levelhead.probes import DATA

FOLDER = DATA / "swap"


def table_text(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")
