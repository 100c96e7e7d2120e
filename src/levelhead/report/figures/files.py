"""Figures as files of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelhead.files import write_text
from levelhead.results import layout


def write_svgs(folder: Path, drawings: Mapping[str, str]) -> list[Path]:
    """Write SVG texts by name into RUN/figures; each file appears whole or not at all."""
    return [_write(folder / layout.FIGURES / f"{name}.svg", svg) for name, svg in drawings.items()]


def _write(path: Path, svg: str) -> Path:
    return write_text(path, svg)
