"""What we ask: texts and words, no tensors."""

from pathlib import Path

DATA = Path(__file__).parent / "data"  # texts, words and tables that ship; all of them are our own
OURS = "shipped"  # the source of data that ship
