"""The catalog of measures under the names that the pages use."""

from __future__ import annotations

from levelhead.measures.catalog import measure_info, verdict

__all__ = ["measure_of", "verdict"]
measure_of = measure_info
