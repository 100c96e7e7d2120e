"""A model's files on machines that do not see them, and a driver without weights."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

import pytest

from levelhead.engine import jobs, machines, shipping
from levelhead.engine.effort import askable_tokens
from levelhead.engine.jobs import Copy, held
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.shipping import Shipment
from levelhead.errors import BadOption, CannotDo
from levelhead.models.checkpoint_files import Trust
from levelhead.models.model import load
from levelhead.models.placement import placement
from levelhead.models.sources import NO_TRUST
from tests.tiny import saved, tiny


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: its cache, and no model in memory."""
    monkeypatch.setenv("LEVELHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jobs, "_HELD", {})
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shipping") / "bert"
    model = tiny("bert", "nsp", layers=2)
    model.hf.save_pretrained(place)
    model.tokenizer.save_pretrained(place)
    (place / "optimizer.pt").write_bytes(b"not read")
    (place / "code.py").write_text("raise SystemExit")
    return place


def sent_from(place: Path) -> Shipment:
    """The files of a folder that has moved: nobody sees them where they were."""
    shipment = Shipment.of(place, NO_TRUST, machines.part, always=False)
    moved = place.with_name("driver's")
    shutil.copytree(place, moved, dirs_exist_ok=True)

    def part(path: str, start: int, size: int) -> bytes:
        return machines.part(str(moved / Path(path).name), start, size)

    def digest(path: str) -> str:
        return machines.digest(str(moved / Path(path).name))

    return Shipment(place.with_name("nowhere"), shipment.files, part, shipment.always, digest)


def test_only_what_loading_reads_is_sent(written: Path) -> None:
    names = {name for name, _, _ in Shipment.of(written, NO_TRUST, machines.part, False).files}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not names & {"optimizer.pt", "code.py"}
    trusted = {name for name, _, _ in Shipment.of(written, Trust(True, True), machines.part, False).files}
    assert trusted - names == {"optimizer.pt", "code.py"}


def test_a_model_that_is_sent_is_the_same_and_only_the_user_can_read_it(
    written: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "PART", 1000)  # many parts of each file
    model = load(written, device="cpu")
    copy = Copy(str(written.with_name("nowhere")), {"device": "cpu"}, model.fingerprint, sent_from(written))
    there = held(copy)
    assert there.fingerprint == model.fingerprint
    assert there.name == copy.name
    (folder,) = [each for each in (cache / "gguf").iterdir() if each.is_dir()]
    assert [stat.S_IMODE(each.stat().st_mode) for each in (cache / "gguf", folder)] == [0o700, 0o700]


def test_a_machine_is_sent_a_model_once(written: Path, cache: Path) -> None:
    shipment = sent_from(written)
    first, kept = shipment.received("m", "fingerprint", True)
    asked: list[str] = []

    def refusing(path: str, start: int, size: int) -> bytes:
        asked.append(path)
        return b""

    again = Shipment(shipment.place, shipment.files, refusing, False)
    assert again.received("m", "fingerprint", True)[0] == first
    assert asked == []
    assert kept is not None


def test_models_of_a_survey_whose_files_have_one_size_and_time_are_told_apart_by_what_they_hold(
    written: Path, cache: Path
) -> None:
    shipment = sent_from(written)
    first, _ = shipment.received("m", "", False)
    assert shipment.received("m", "", False)[0] == first
    other = Shipment(shipment.place, shipment.files, shipment.part, False, lambda path: f"another {path}")
    assert other.received("m", "", False)[0] != first
    held_of = hashlib.sha256((written / "config.json").read_bytes()).hexdigest()
    assert machines.digest(str(written / "config.json")) == held_of


def test_a_survey_refuses_another_model_that_stands_at_the_path_of_the_drivers(
    written: Path, tmp_path: Path
) -> None:
    seen = Shipment.of(written, NO_TRUST, machines.part, False)
    assert seen.received("m", "", False) == (str(written), None)  # one disk for all
    here = tmp_path / "bert"
    shutil.copytree(written, here)  # a copy of the same files, written later
    os.utime(here / "model.safetensors", ns=(0, 1))
    own = {each.name: machines.digest(str(each)) for each in here.iterdir()}
    there = Shipment(here, seen.files, seen.part, False, lambda path: own[Path(path).name])
    assert there.received("m", "", False) == (str(here), None)
    weights = bytearray((here / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (here / "model.safetensors").write_bytes(weights)  # as long, another model
    with pytest.raises(CannotDo, match=r"model\.safetensors on .* is not the driver's"):
        there.received("m", "", False)


def test_memory_that_holds_files_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "/proc/meminfo": "MemTotal: 9999 kB\nMemAvailable: 9000 kB\n",
        "/sys/fs/cgroup/memory.max": "5000000\n",
        "/sys/fs/cgroup/memory.current": "4000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 1400000\ninactive_file 2500000\n",
    }
    monkeypatch.setattr(Path, "read_text", lambda self, *_, **__: told[str(self)])
    assert shipping.free_memory() == 3_500_000
    told["/sys/fs/cgroup/memory.max"] = "max\n"
    assert shipping.free_memory() == 9000 << 10


def test_a_machine_that_sees_the_files_is_sent_none_unless_all_are(written: Path, cache: Path) -> None:
    seen = Shipment.of(written, NO_TRUST, machines.part, False)
    assert seen.received("m", "f", True) == (str(written), None)
    assert not cache.exists()
    place, _ = Shipment.of(written, NO_TRUST, machines.part, True).received("m", "f", True)
    assert Path(place).is_relative_to(cache)
    assert seen.received("lh:bert-mini", "f", True) == ("lh:bert-mini", None)


def test_other_weights_than_the_drivers_are_refused(written: Path, cache: Path) -> None:
    copy = Copy(str(written), {"device": "cpu"}, "another fingerprint", sent_from(written))
    with pytest.raises(CannotDo, match="is another model where a worker loads it"):
        held(copy)


def test_no_room_on_disk_or_in_memory_is_one_line(
    written: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipment = sent_from(written)
    with monkeypatch.context() as patch:
        patch.setenv("LEVELHEAD_CACHE_GIB", "0.00000001")
        with pytest.raises(
            CannotDo, match=r"^m cannot be written here: .* GiB are more than LEVELHEAD_CACHE"
        ):
            shipment.received("m", "f", True)
    monkeypatch.setattr(shipping, "free_memory", lambda: 10)
    with pytest.raises(CannotDo, match=r"^m has 0\.0 GiB of weights; 0\.0 GiB of memory are free\.$"):
        shipment.received("m", "f", True)
    assert shipment.received("m", "f", False)[1] is not None  # weights that go on a card need none


def test_a_file_that_changes_while_it_is_sent_is_refused_and_nothing_is_kept(
    written: Path, cache: Path
) -> None:
    shipment = sent_from(written)
    shorter = Shipment(shipment.place, shipment.files, lambda *_: b"", False)
    with pytest.raises(CannotDo, match="changed on the driver's machine while it was sent"):
        shorter.received("m", "f", True)
    assert not [each for each in (cache / "gguf").iterdir() if each.is_dir()]


def test_a_path_that_a_machine_does_not_see_is_named_where_nothing_is_sent(cache: Path) -> None:
    with pytest.raises(CannotDo, match=r"^/nowhere/bert is not there\. .*--ship-model"):
        held(Copy("/nowhere/bert", {"device": "cpu"}, "f"))


# ---- a driver without weights


def test_a_driver_without_weights_has_the_same_fingerprint_and_nothing_in_memory(written: Path) -> None:
    pytest.importorskip("accelerate")
    full = load(written, device="cpu")
    model = load(written, workers=1, gpus_per_worker=0, driver_weights="none")
    assert {weight.device.type for weight in model.hf.parameters()} == {"meta"}
    assert model.fingerprint == full.fingerprint
    assert (model.opening, model.abilities) == (full.opening, full.abilities)
    assert model.is_as_loaded
    assert Copy.of(model).options.get("device_map") is None  # workers hold all of it
    assert Copy.of(model).options.get("device") == "cpu"


def test_a_driver_without_weights_tries_and_plans_for_a_causal_model_as_one_with_them(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    folder = saved(tmp_path / "llama", "llama", "")
    full = load(folder, device="cpu")
    model = load(folder, workers=1, gpus_per_worker=0, driver_weights="none")
    assert model.attends_back_only
    reading = TokenLogProbs(["The nurse was tired.", "She"], [5, 6])
    assert askable_tokens(model, reading) == askable_tokens(full, reading)


def test_the_driver_holds_no_weights_where_workers_alone_have_cards() -> None:
    pytest.importorskip("accelerate")
    options = {"device": "cpu", "workers": 2, "ray": "auto"}
    for given, full in (({}, True), ({"gpus_per_worker": 2}, False)):
        placed = placement({**options, **given})  # type: ignore[typeddict-item]
        assert placed.workers is not None
        assert placed.workers.driver_weights is full
        assert placed.own_map == (None if full else {"": "disk"})
    spread = placement({"device_map": "auto", "workers": 2, "gpus_per_worker": 4, "ray": "auto"})
    assert (spread.device_map, spread.own_map) == ("auto", {"": "disk"})


def test_options_of_clusters_that_would_change_nothing_are_refused() -> None:
    with pytest.raises(BadOption, match="ship_model would change nothing without a cluster"):
        placement({"workers": 1, "ship_model": True})
    with pytest.raises(BadOption, match="driver_weights would change nothing without workers"):
        placement({"driver_weights": "none"})
    with pytest.raises(BadOption, match=r"driver_weights must be one of full, none \(got 'some'\)"):
        placement({"workers": 1, "driver_weights": "some"})
