"""A page as PDF, printed by the user's own Chromium with the page's print styles."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from levelhead.errors import CannotDo
from levelhead.pages.chapters import Chapter
from levelhead.safe_files import read_bytes, refuse_foreign, write_whole

_ON_PATH = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_PLAYWRIGHT = (  # where playwright keeps its own, from the newest version
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/Chromium.app/Contents/MacOS/Chromium",
    "chromium-*/chrome-win*/chrome.exe",
    "chromium_headless_shell-*/chrome-linux*/headless_shell",
)
_CACHES = (".cache/ms-playwright", "Library/Caches/ms-playwright", "AppData/Local/ms-playwright")
_MARKS = ("levelhead", "levelhead".encode("utf-16-be").hex().upper())  # in a page's title, plain or as a PDF
_DRAWING_MS = 30_000  # virtual time for the charts, which passes as fast as they are drawn
_LIMIT_S = 300


def write_pdfs(page: Path, force: bool = False, out: Path | None = None) -> list[Path]:
    """Print a page beside itself, or to `out`: PAGE.pdf and, where paper leaves something out,
    PAGE-appendix.pdf."""
    first = out or page.with_suffix(".pdf")
    outs = {"": first}
    if f'id="{Chapter.APPENDIX}"'.encode() in (read_bytes(page.parent, page.name) or b""):
        outs[Chapter.APPENDIX] = first.with_name(f"{first.stem}-{Chapter.APPENDIX}.pdf")
    for out in outs.values():
        refuse_foreign(out, _MARKS, force)
    return [write_pdf(page, out, force, part) for part, out in outs.items()]


def write_pdf(page: Path, out: Path, force: bool = False, part: str = "") -> Path:
    """Print an HTML page of ours to a PDF file; it appears whole or not at all.

    force: replace a file at `out` that is no page of levelhead. part: the fragment of the address, by which
    the page knows that its appendix is meant.
    """
    refuse_foreign(out, _MARKS, force)
    browser = find_chromium()
    if browser is None:
        raise CannotDo(
            f"No Chromium to print {page.name} with: {', '.join(_ON_PATH[:3])} are not on the PATH, and "
            "playwright has none. Install one, or open the page in a browser and print it there."
        )
    with tempfile.TemporaryDirectory(prefix="levelhead-pdf-") as scratch:
        printed = Path(scratch) / "page.pdf"
        options = [
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--no-pdf-header-footer",
            f"--virtual-time-budget={_DRAWING_MS}",
            f"--user-data-dir={printed.parent / 'profile'}",
            f"--print-to-pdf={printed}",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--no-sandbox")  # Chromium refuses to start for root otherwise
        address = page.resolve().as_uri() + (f"#{part}" if part else "")
        command = [str(browser), *options, address]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False, text=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotDo(
                f"{browser} did not print {page.name}: {error}. Print the page in a browser."
            ) from None
        if not printed.is_file():
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise CannotDo(f"{browser} did not print {page.name}: {lines[-1]}. Print the page in a browser.")
        return write_whole(out, lambda work: shutil.copyfile(printed, work))


def find_chromium() -> Path | None:
    """The browser of the user: on the PATH, else the newest of playwright; None where there is none."""
    for name in _ON_PATH:
        if (path := shutil.which(name)) is not None:
            return Path(path)
    own = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    folders = [Path(own)] if own else [Path.home() / cache for cache in _CACHES]
    kept = (sorted(folder.glob(each), reverse=True) for folder in folders for each in _PLAYWRIGHT)
    return next((path for paths in kept for path in paths), None)
