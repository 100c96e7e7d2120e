"""Figures as files of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import vl_convert as vlc

from levelhead.files import write_inside, write_text_inside
from levelhead.results import layout


def write_svgs(folder: Path, drawings: Mapping[str, str]) -> list[Path]:
    """Write SVG texts by name into RUN/figures, and each as PDF beside it, for papers; a file appears whole
    or not at all."""
    return [_write(folder, f"{layout.FIGURES}/{name}", svg) for name, svg in drawings.items()]


def _write(folder: Path, name: str, svg: str) -> Path:
    path = write_text_inside(folder, f"{name}.svg", svg)
    pdf = vlc.svg_to_pdf(svg)
    write_inside(folder, f"{name}.pdf", lambda work: work.write_bytes(pdf))
    return path
