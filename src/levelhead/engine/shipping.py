"""A model's files on their way to machines that do not see them, and what a machine has of levelhead.

Files are read in parts on the driver's machine, when a worker asks for them. One worker per machine writes
them into the user's cache (models/cache.py, mode 0700), where they stay for the next run; all compare
fingerprints.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from levelhead.engine import machines
from levelhead.errors import BadRun, CannotDo
from levelhead.models.cache import Held, obtain
from levelhead.models.catalog import PICKLES, PREFIX
from levelhead.models.checkpoint_files import Trust

PART = 32 << 20  # bytes that are in memory at once
_READ = (".json", ".txt", ".model", ".safetensors", ".gguf", ".jinja")  # by transformers, of a model's folder
_WEIGHTS = (".safetensors", ".gguf", *PICKLES)
Part = Callable[[str, int, int], bytes]  # of a file of the driver's machine, from a byte on, so many
Digest = Callable[[str], str]  # of a file of the driver's machine


@dataclass(frozen=True)
class Shipment:
    """What a model's files are on the driver's machine, and how another machine gets them."""

    place: Path  # a folder, or a .gguf file
    files: tuple[tuple[str, int, int], ...]  # names beside each other, sizes, when they were written (ns)
    part: Part
    always: bool  # also to a machine that has something at that place
    digest: Digest = machines.digest

    @classmethod
    def of(
        cls, place: Path, trust: Trust, part: Part, always: bool, digest: Digest = machines.digest
    ) -> Shipment:
        """What loading a model may read of its folder."""
        kinds = (*_READ, *((".py",) if trust.remote_code else ()), *(PICKLES if trust.pickle else ()))
        if place.is_file():  # beside it only what says how its tokenizer works
            found = [place, *place.parent.glob("*.json")]
        else:
            found = [path for path in place.iterdir() if path.suffix in kinds and path.is_file()]
        facts = ((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found)
        return cls(place, tuple(sorted(facts)), part, always, digest)

    def received(self, name: str, fingerprint: str, in_memory: bool) -> tuple[str, Held | None]:
        """Where this machine has the model, and what keeps the files there; they are fetched if need be.

        in_memory: whether the weights go into the machine's own memory, and not on a card.
        """
        if name.startswith(PREFIX):  # it comes with levelhead
            return name, None
        if self.place.exists() and not self.always:
            # a survey knows no fingerprint beforehand: another model at that path would pass for this one
            if not fingerprint and (differs := self._differing()):
                raise CannotDo(
                    f"{differs} on {platform.node()} is not the driver's. Give all machines the same files, "
                    "or let them be sent (--ship-model)."
                )
            return str(self.place), None
        size = sum(length for _, length, _ in self.files)
        weights = sum(length for file, length, _ in self.files if file.endswith(_WEIGHTS))
        if in_memory and weights > (free := free_memory()):
            raise CannotDo(
                f"{name} has {weights / 2**30:.1f} GiB of weights; {free / 2**30:.1f} GiB of memory are free."
            )

        def write(work: Path) -> None:
            for file, length, _ in self.files:
                with (work / file).open("xb") as to:
                    for start in range(0, length, PART):
                        to.write(self.part(str(self._source / file), start, min(PART, length - start)))
                    if to.tell() != length:
                        raise BadRun(f"{file} changed on the driver's machine while it was sent")

        facts = ["shipped", fingerprint, *map(str, self.files)]
        # in a survey; files of one size and time, as in images of containers, may differ
        if not fingerprint:
            facts += [self.digest(str(self._source / file)) for file, *_ in self.files]
        key = hashlib.sha256("\n".join(facts).encode()).hexdigest()
        try:
            held = obtain(key, {"source": self.place.name, "dtype": "shipped"}, size, write)
        except BadRun as error:
            raise CannotDo(f"{name} cannot be written here: {str(error).rstrip('.')}.") from error
        return str(held.folder / self.place.name if self.place.suffix == ".gguf" else held.folder), held

    @property
    def _source(self) -> Path:
        """The folder of the files."""
        return self.place.parent if self.place.suffix == ".gguf" else self.place

    def _differing(self) -> str:
        """The first file that this machine has otherwise than the driver's; "" where it has them all."""
        for name, length, written in self.files:
            own = self._source / name
            if not own.is_file() or own.stat().st_size != length:
                return str(own)
            # where all machines see one disk, nothing is read; copies have times of their own
            if own.stat().st_mtime_ns != written and machines.digest(str(own)) != self.digest(str(own)):
                return str(own)
        return ""


def free_memory() -> int:
    """Bytes that programs can still get, also where a container has a limit of its own."""
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")]
        root = Path("/sys/fs/cgroup")
        most, used = (int((root / f"memory.{name}").read_text()) for name in ("max", "current"))
        # files that were read or written are counted as used, and go where a program needs the room
        stated = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
        limits.append(most - used + int(stated.get("inactive_file", 0)))
    except (OSError, ValueError, IndexError):  # another system, or "max": no limit
        pass
    return min(limits, default=1 << 60)
