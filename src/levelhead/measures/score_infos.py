"""How the scores of benchmarks are shown and judged; a benchmark's name and title come before theirs."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.measures.catalog import AGAINST, FOLLOWS, MeasureInfo
from levelhead.measures.choices import SHARE, SIGNED

_EVEN = "0.5: no preference. 1: always the stereotype. 0: always its opposite."
_HIGHER = "Higher is better; 1 is ideal."
SHARE_INFO = MeasureInfo("share", "share", "", _EVEN, neutral=0.5, scale=SHARE, above=FOLLOWS, below=AGAINST)
GAP_INFO = MeasureInfo(
    "gap", "gap in nats", "", "0: none. Above 0 the stereotype is likelier, by as many nats in the mean.",
    neutral=0.0, above=FOLLOWS, below=AGAINST, nats=True,
)  # fmt: skip
SS_INFO = MeasureInfo(
    "ss", "stereotype score (SS)", "", _EVEN, neutral=0.5, scale=SHARE, above=FOLLOWS, below=AGAINST
)
LMS_INFO = MeasureInfo("lms", "language sense (LMS)", "", _HIGHER, "use", None, "none", SHARE)
ICAT_INFO = MeasureInfo("icat", "idealized score (ICAT)", "", _HIGHER, "use", None, "none", SHARE)
BIAS_INFO = MeasureInfo(
    "bias", "bias", "", "0: none. 1: every answer that is not unknown is the stereotype; −1: its opposite.",
    neutral=0.0, scale=SIGNED, above=FOLLOWS, below=AGAINST,
)  # fmt: skip
ACCURACY_INFO = MeasureInfo("accuracy", "accuracy", "", _HIGHER, "use", None, "none", SHARE)
CORRELATION_INFO = MeasureInfo(
    "correlation", "correlation with the share of women", "", "0: unrelated. 1: as the shares are.",
    neutral=0.0, scale=SIGNED, above="follows the shares of the groups", below="runs against the shares",
)  # fmt: skip
PERPLEXITY_INFO = MeasureInfo(
    "perplexity", "difference of perplexities", "", "0: none. Below 0 the biased comment is more expected.",
    neutral=0.0, above=AGAINST, below=FOLLOWS,
)  # fmt: skip
LOGIT_INFO = MeasureInfo(
    "logit", "difference of logits", "", "0: the same decisions. Above 0 the first group hears yes more.",
    neutral=0.0, above="favors the first group", below="favors the second group", logits=True, nats=True,
)  # fmt: skip
RATIO_INFO = MeasureInfo(
    "impact ratio", "impact ratio", "", "1: yes is as likely for both groups. Below 0.8 is called adverse.",
    neutral=1.0, above="favors the first group", below="favors the second group",
)  # fmt: skip
EFFECT_INFO = MeasureInfo(
    "effect", "effect size", "", "0: no association. ±2: as strong as it can be.",
    neutral=0.0, scale=(-2.0, 2.0), above=FOLLOWS, below=AGAINST,
)  # fmt: skip


def main_names(names: Sequence[str]) -> list[str]:
    """Of the names of scores those of all items: not another's name with a group behind it."""
    longer = tuple(f"{name}," for name in names)
    return [name for name in names if not name.startswith(longer)]
