"""Where an audit's time goes: tokens through all blocks and CPU seconds, stage by stage, in plain passes.

    python -m benchmarks.audit_cost                              # make demo's audit
    python -m benchmarks.audit_cost --model lh:gpt-mini --nli "" --quick

A plain pass is one forward pass over all contexts of the gender list (11,264), as SEAT reads them. Seconds
are those of the process on all its threads; they do not hang on what else the machine does, and a ratio of
two of them hardly hangs on the machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.claims import Claim
from levelhead import progress
from levelhead.engine.run import read_one
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.progress import Stage
from levelhead.scoring.seat import word_table
from levelhead.studies.audit.run import audit
from levelhead.studies.audit.settings import AuditSettings

WHOLE, FIRST_LOOK = 7.0, 1.2  # plain passes that an audit and its first look may take
REST = "loading, hashes, intervals, pages"


@dataclass
class Recorder:
    """Counts what the engine does, in the place of a progress bar."""

    tokens: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    looked: float = 0.0  # seconds until the first look was there
    _stages: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.process_time)
    _last: float = field(default_factory=time.process_time)

    @property
    def _now(self) -> str:
        return self._stages[0] if self._stages else REST

    def worked(self, tokens: float) -> None:
        self.tokens[self._now] += tokens

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        self._tick()
        self._stages.append(name)
        try:
            yield
        finally:
            self._tick()
            if self._stages.pop() == Stage.LOOK:
                self.looked = self._last - self._began

    def _tick(self) -> None:
        now = time.process_time()
        self.seconds[self._now] += now - self._last
        self._last = now


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Inside, all work is counted by what comes back."""
    recorder = Recorder()
    token = progress._whole.set(recorder)  # type: ignore[arg-type]
    try:
        yield recorder
    finally:
        recorder._tick()
        progress._whole.reset(token)


def plain_pass(model: Model) -> tuple[float, float]:
    """Tokens and CPU seconds of one forward pass over all contexts of the gender list."""
    test = load_words("gender")
    table = word_table(test, template_contexts(test))
    read_one(model, word_table(test, template_contexts(test, 1)).each())  # the first call prepares things
    with recorded() as recorder:
        start = time.process_time()
        read_one(model, table.each())
        return sum(recorder.tokens.values()), time.process_time() - start


@dataclass(frozen=True)
class Cost:
    """What an audit took."""

    model: str
    tokens: dict[str, float]
    seconds: dict[str, float]
    plain: tuple[float, float]  # tokens and seconds of a plain pass
    looked: float  # seconds until the first look was there, loading included

    @property
    def passes(self) -> float:
        """The whole, in plain passes, by CPU time."""
        return sum(self.seconds.values()) / self.plain[1]

    @property
    def first_look(self) -> float:
        """The first look, loading included, in plain passes."""
        return self.looked / self.plain[1]

    def lines(self) -> Iterator[str]:
        """A Markdown table."""
        yield "| stage | tokens | passes of tokens | CPU seconds | passes of time |"
        yield "|---|---:|---:|---:|---:|"
        for stage in {**self.seconds, **self.tokens}:
            yield self._line(stage, self.tokens.get(stage, 0.0), self.seconds.get(stage, 0.0))
        yield self._line("**whole**", sum(self.tokens.values()), sum(self.seconds.values()))
        yield self._line("a plain pass over 11,264 contexts", *self.plain)

    def _line(self, stage: str, tokens: float, seconds: float) -> str:
        of_tokens, of_time = tokens / self.plain[0], seconds / self.plain[1]
        return f"| {stage} | {tokens:,.0f} | {of_tokens:.2f} | {seconds:.0f} | {of_time:.2f} |"


def measured(name: str, settings: AuditSettings) -> Cost:
    """The cost of an audit, in a folder that is gone afterwards."""
    plain = plain_pass(load(name, device="cpu"))
    with tempfile.TemporaryDirectory() as place, recorded() as recorder:
        audit(name, settings, Path(place) / "run", first_look=lambda *_: None, device="cpu")
    return Cost(name, dict(recorder.tokens), dict(recorder.seconds), plain, recorder.looked)


def bench() -> list[Claim]:
    """The two promises, of the audit of `make demo`."""
    cost = measured("lh:bert-mini", AuditSettings(nli="lh:nli-mini"))
    on = "lh:bert-mini with lh:nli-mini, CPU seconds"
    return [
        Claim("audit, in passes over its contexts", cost.passes, WHOLE, False, on),
        Claim("first look, in passes over its contexts", cost.first_look, FIRST_LOOK, False, on),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="lh:bert-mini")
    parser.add_argument("--nli", default="lh:nli-mini")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    settings = AuditSettings(nli=given.nli or None, quick=given.quick, full=given.full)
    cost = measured(given.model, settings)
    print(*cost.lines(), sep="\n")


if __name__ == "__main__":
    main()
