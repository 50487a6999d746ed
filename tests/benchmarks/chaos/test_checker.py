"""The checker on histories that were written by hand: it must see what is wrong with each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.chaos.checker import doubled, lost, violations
from benchmarks.chaos.evidence import AttemptRow, Evidence, JobRow

JOB = JobRow(
    id="j1",
    key="k",
    token="k",
    state="succeeded",
    attempt=1,
    gpu_seconds=2.0,
    result={"file": {"sha256": "aa"}},
    events=(
        ("queued", {}, 1.0),
        ("running", {"attempt": 1}, 2.0),
        ("succeeded", {}, 4.0),
    ),
    attempts=(
        AttemptRow(
            number=1, worker="w1", outcome="succeeded", gpu_seconds=2.0, began=2.0, ended=4.0
        ),
    ),
)
FENCE = {"job_id": "j1", "attempt": 1, "owner": "w1"}


def submitted(**changes: Any) -> dict[str, Any]:
    told = {"token": "k", "key": "k", "status": 202, "altered": False, "job": "j1"}
    return {"event": "submitted", "by": "caller", "t": 1.0, **told, **changes}


HISTORY = [
    submitted(),
    {"event": "claim", "by": "w1", "t": 2.0, **FENCE, "ticket": "t1"},
    {"event": "stored", "by": "w1", "t": 3.0, "sha256": "aa"},
    {"event": "finish", "by": "w1", "t": 4.0, **FENCE},
    {"event": "acknowledge", "by": "w1", "t": 5.0, "ticket": "t1"},
    {"event": "seen", "by": "caller", "t": 6.0, "job": "j1", "state": "succeeded"},
]


def evidence(
    *jobs: JobRow, history: list[dict[str, Any]] | None = None, files: dict[str, str] | None = None
) -> Evidence:
    return Evidence(
        history=HISTORY if history is None else history,
        jobs={job.id: job for job in jobs or (JOB,)},
        files={"aa": "aa"} if files is None else files,
    )


def promises(found: Evidence) -> set[str]:
    return {violation.promise for violation in violations(found)}


def at_once(*times: tuple[float, float, float]) -> Evidence:
    """Jobs that were queued, claimed and done at these times; two may run, three may wait."""
    jobs = [
        replace(
            JOB,
            id=f"j{n}",
            key="",
            token=f"t{n}",
            result=None,
            events=(
                ("queued", {}, queued),
                ("running", {"attempt": 1}, claimed),
                ("succeeded", {}, done),
            ),
        )
        for n, (queued, claimed, done) in enumerate(times)
    ]
    found = evidence(*jobs, history=[])
    return replace(found, limits={"waiting": 3, "running": 2})


def test_more_running_jobs_than_allowed_are_seen() -> None:
    assert promises(at_once((0, 1, 5), (0, 2, 6), (0, 5, 9))) == set()
    assert promises(at_once((0, 1, 5), (0, 2, 6), (0, 4, 9))) == {"P6"}


def test_more_waiting_jobs_than_allowed_are_seen() -> None:
    assert promises(at_once((0, 1, 2), (0, 2, 3), (0, 3, 4), (1, 4, 5))) == set()
    assert promises(at_once((0, 1, 2), (0, 2, 3), (0, 3, 4), (0.5, 4, 5))) == {"P6"}


def test_a_job_that_waits_for_another_attempt_was_let_in_before() -> None:
    found = at_once((0, 1, 2), (0, 2, 3), (0, 3, 4))
    again = replace(
        JOB,
        key="",
        token="again",
        result=None,
        gpu_seconds=2.0,
        events=(("queued", {}, -3.0), ("running", {"attempt": 1}, -2.0), ("queued", {}, -1.0)),
    )
    jobs = {**found.jobs, "again": replace(again, id="again", state="queued", attempts=())}
    assert "P6" not in promises(replace(found, jobs=jobs))


def without(kind: str) -> list[dict[str, Any]]:
    return [event for event in HISTORY if event["event"] != kind]


def test_a_run_in_which_all_went_well_has_no_violation() -> None:
    assert violations(evidence()) == []
    assert lost(evidence()) == 0


def test_an_accepted_job_that_is_gone_is_lost() -> None:
    gone = evidence(replace(JOB, id="j2", key=""), history=[submitted()])
    assert "P1" in promises(gone)
    assert lost(gone) == 1


def test_a_job_that_never_ended_is_lost() -> None:
    open_job = replace(JOB, state="queued", events=(("queued", {}, 1.0),), attempts=())
    stuck = evidence(replace(open_job, gpu_seconds=0.0), history=[submitted()])
    assert promises(stuck) == {"P1"}
    assert lost(stuck) == 1


def test_two_jobs_of_one_key_are_seen_and_counted_as_double() -> None:
    twice = evidence(JOB, replace(JOB, id="j2"))
    assert {"P2", "P10"} <= promises(twice)
    assert doubled(violations(twice)) == 1


def test_another_payload_that_was_accepted_under_a_key_is_seen() -> None:
    assert promises(evidence(history=[*HISTORY, submitted(altered=True)])) == {"P2"}


def test_two_results_of_one_job_are_seen() -> None:
    again = {"event": "finish", "by": "w2", "t": 4.5, **FENCE}
    assert "P3" in promises(evidence(history=[*HISTORY, again]))


def test_a_result_without_its_file_is_seen() -> None:
    assert promises(evidence(history=without("stored"))) == {"P4"}
    assert "P4" in promises(evidence(files={"aa": "bb"}))


def test_an_acknowledgement_before_the_outcome_is_seen() -> None:
    assert promises(evidence(history=without("finish"))) == {"P4"}


@pytest.mark.parametrize("kind", ["failed", "running"])
def test_something_after_the_end_is_seen(kind: str) -> None:
    after = (*JOB.events, (kind, {"attempt": 2}, 5.0))
    assert "P5" in promises(evidence(replace(JOB, events=after)))


def test_an_end_that_a_caller_saw_and_that_changed_is_seen() -> None:
    seen = {"event": "seen", "by": "caller", "t": 6.0, "job": "j1", "state": "cancelled"}
    assert promises(evidence(history=[*HISTORY, seen])) == {"P5"}


def test_a_claim_after_a_cancel_is_seen() -> None:
    events = (JOB.events[0], ("cancel_requested", {}, 1.5), *JOB.events[1:])
    assert promises(evidence(replace(JOB, events=events))) == {"P7"}


def test_a_write_of_a_stale_attempt_is_seen() -> None:
    newer = {"event": "claim", "by": "w2", "t": 3.5, **FENCE, "attempt": 2, "ticket": "t2"}
    assert promises(evidence(history=[*HISTORY[:3], newer, *HISTORY[3:]])) == {"P8"}


def test_a_bill_that_is_not_the_sum_of_its_attempts_is_seen() -> None:
    assert promises(evidence(replace(JOB, gpu_seconds=4.0))) == {"P9"}


def test_two_jobs_of_one_request_are_seen() -> None:
    one, two = replace(JOB, key=""), replace(JOB, key="", id="j2")
    assert promises(evidence(one, two)) == {"P10"}
