"""What each cloze prompt was: its kind of knowledge, its occupation, and the side of its stereotype."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadProbe
from levelhead.measures.cloze.top_k import Ints

BASE = "base"


@dataclass(frozen=True)
class PromptTable:
    """What each prompt was: prompt i belongs to line i of TopK."""

    kinds: NDArray[np.str_]  # [prompt] kind of knowledge, "base" for none
    occupations: NDArray[np.str_]  # [prompt]
    own: Ints  # [prompt] +1 where the occupation belongs to the first group, else -1
    groups: tuple[str, str]
    shares: Mapping[str, float] = field(default_factory=dict)  # occupation -> percent of the first group

    @cached_property
    def base(self) -> Ints:
        """[prompt] the number of the base prompt of the same occupation."""
        bases = {self.occupations[prompt]: prompt for prompt in np.flatnonzero(self.kinds == BASE)}
        missing = sorted({str(name) for name in self.occupations if name not in bases})
        if missing:
            raise BadProbe(
                f"No base prompt for {missing[0]!r}. Changes are against base: ask base for every occupation."
            )
        return np.array([bases[name] for name in self.occupations], dtype=np.int64)

    @cached_property
    def clusters(self) -> Ints:
        """[prompt] a number for each occupation."""
        return np.unique(self.occupations, return_inverse=True)[1].astype(np.int64)
