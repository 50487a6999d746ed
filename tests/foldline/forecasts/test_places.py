from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from foldline.forecasts.places import Places, Reason, arranged
from foldline.ids import uuid7
from foldline.scheduling.fairness import Head
from foldline.scheduling.walk import Place as InTurn

A, B = uuid7(), uuid7()


def head(tenant: UUID = A, *, attempt: int = 0) -> Head:
    return Head(
        job_id=uuid7(),
        attempt=attempt,
        tenant_id=tenant,
        priority="interactive",
        estimate_gpu_s=10.0,
        since=datetime.now(UTC),
    )


def walked(
    *line: Head,
    before: Places | None = None,
    held: Sequence[UUID] = (),
    told: Callable[[Head], int | None] = lambda head: None,
) -> Places:
    places = [InTurn(head=h, position=n, ahead_s=20.0 * n) for n, h in enumerate(line)]
    ids = [job_id.bytes for job_id in held]
    known = (before or Places()).rows()
    return arranged(places, held=ids, share=0.5, before=known, told=told).places


def seen(places: Places, job: Head) -> tuple[int | None, Reason | None]:
    place = places.get(job.job_id)
    assert place is not None
    return place.position, place.reason


def test_a_job_is_found_by_its_id() -> None:
    line = [head() for _ in range(50)]
    places = walked(*line)
    for number, job in enumerate(line):
        place = places.get(job.job_id)
        assert place is not None
        assert (place.position, place.ahead_gpu_s) == (number + 1, 10.0 * number)
    assert places.get(uuid7()) is None
    assert Places().get(uuid7()) is None


def test_a_place_that_falls_needs_no_reason() -> None:
    first, second = head(), head()
    before = walked(first, second)
    assert seen(walked(second, before=before), second) == (1, None)


def test_a_place_that_rises_says_why_until_it_stands_where_it_stood() -> None:
    first, second, third = head(), head(), head()
    other = head(B)
    places = walked(first, second, third)
    places = walked(first, other, second, third, before=places)
    assert seen(places, first) == (1, None)
    assert seen(places, third) == (4, Reason.FAIR_SHARE)
    places = walked(other, second, third, before=places)
    assert seen(places, third) == (3, None)
    places = walked(head(B), other, second, third, before=places)
    places = walked(head(B), second, third, before=places)
    assert seen(places, third) == (3, None)
    assert seen(places, second) == (2, None)


def test_the_reason_stays_while_the_place_is_above_its_lowest() -> None:
    job, others = head(), [head(B) for _ in range(3)]
    places = walked(job)
    places = walked(*others, job, before=places)
    places = walked(*others[1:], job, before=places)
    assert seen(places, job) == (3, Reason.FAIR_SHARE)
    assert seen(walked(job, before=places), job) == (1, None)


def test_a_job_that_is_tried_again_and_goes_first_is_the_reason() -> None:
    job, again = head(), head(attempt=1)
    places = walked(again, job, before=walked(job))
    assert seen(places, job) == (2, Reason.RETRY)
    assert seen(places, again) == (1, None)


def test_a_new_job_behind_others_than_it_was_told_of_says_so() -> None:
    job, other = head(), head(B)
    places = walked(other, job, told=lambda head: 1)
    assert seen(places, other) == (1, None)
    assert seen(places, job) == (2, Reason.FAIR_SHARE)
    assert seen(walked(job, before=places), job) == (1, None)


def test_a_new_job_where_it_was_told_needs_no_reason() -> None:
    job = head()
    assert seen(walked(head(B), job, told=lambda head: 2), job) == (2, None)


def test_a_job_that_a_limit_holds_has_no_place_and_remembers_where_it_stood() -> None:
    job = head()
    places = walked(held=[job.job_id], before=walked(job))
    assert seen(places, job) == (None, None)
    places = walked(head(B), job, before=places)
    assert seen(places, job) == (2, Reason.FAIR_SHARE)


def test_jobs_that_no_walk_has_seen_are_named() -> None:
    old, new, again = head(), head(), head(attempt=1)
    places = [InTurn(head=h, position=0, ahead_s=0.0) for h in (old, again, new)]
    found = arranged(
        places, held=[], share=1, before=walked(old).rows(), told=lambda head: None
    ).newcomers
    assert list(found) == [new]
