"""The counting of `make calibrate`: shares of claims, and a run that goes on where it was cut."""

from __future__ import annotations

from pathlib import Path

from benchmarks.calibrate import (
    FILE,
    Asking,
    Outcome,
    Subject,
    finished,
    outcomes_of,
    printed,
    shares,
    subjects,
)

BASES = ("lh:bert-mini", "lh:gpt-mini", "lh:nli-mini")


def outcome(seed: int, kind: str = "null model", rise: float = 0.0, **claims: bool) -> Outcome:
    return Outcome(Subject(BASES[0], kind, seed, rise), claims, seconds=10.0)


def test_a_share_counts_the_models_in_which_the_claim_was_tested() -> None:
    some = [outcome(0, association=True, preference=False), outcome(1, association=False)]
    assert [(share.claim, share.made, share.models) for share in shares(some)] == [
        ("association", 1, 2),
        ("preference", 0, 1),
        ("any claim of the page", 1, 2),
    ]
    assert str(shares(some)[0]).endswith("1 of   2   50 % [1, 99]")  # Clopper and Pearson: 0.0126, 0.9874


def test_power_is_printed_for_each_rise_and_false_alarms_for_each_kind() -> None:
    lines = list(
        printed(
            [
                outcome(0, association=False),
                outcome(1, "planted", 0.3, association=False, preference=True),
                outcome(2, "planted", 0.5, association=True),
                Outcome(Subject(BASES[0], "planted", 3, 0.5), {}, 2.0, "No heads can"),
            ]
        )
    )
    assert [line.split()[0] for line in lines] == ["null", "null", "planted", "planted", "1", "4"]
    assert "association" in lines[2]
    assert "0 of   1" in lines[2]
    assert "1 of   1" in lines[3]
    assert lines[-1] == "4 models, 8 s of CPU each"


def test_subjects_are_shared_out_over_the_bases_and_no_two_are_the_same() -> None:
    chosen = list(subjects(BASES, 4, 2, 2, (0.3, 0.5)))
    assert [each.kind for each in chosen] == ["null model"] * 4 + ["random weights"] * 2 + ["planted"] * 4
    assert [each.base for each in chosen[:4]] == [*BASES, BASES[0]]
    assert len(set(chosen)) == len(chosen)


def test_a_cut_run_keeps_what_was_finished_and_asks_only_the_rest(tmp_path: Path) -> None:
    file = tmp_path / FILE
    first, second = outcome(0, association=True), outcome(1, association=False)
    file.write_text(first.line() + second.line()[:20], encoding="utf-8")
    assert finished(file) == {first.subject: first}
    assert outcomes_of([first.subject], file, 1, Asking()) == {first.subject: first}
    assert file.read_text(encoding="utf-8") == first.line()
    assert finished(tmp_path / "none") == {}
