"""Run folders with made-up numbers, written as the studies write them: small, complete, with hostile strings.

Everything goes through the records and names of levelhead.results, so a drift from what studies write is a
type error here.
"""

from tests.report.synthetic.audit import write_audit
from tests.report.synthetic.glue import write_glue_run
from tests.report.synthetic.heads import heads_settings, write_heads
from tests.report.synthetic.measurements import HOSTILE, measured
from tests.report.synthetic.prompts import write_prompts
from tests.report.synthetic.sweep import write_sweep

__all__ = [
    "HOSTILE",
    "heads_settings",
    "measured",
    "write_audit",
    "write_glue_run",
    "write_heads",
    "write_prompts",
    "write_sweep",
]
