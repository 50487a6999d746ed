"""Each attempt is a line of the ledger, and so is each job that needed none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Q, Sum

from foldline.catalog.models import Model, Revision
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.fleet import services as fleet
from foldline.fleet.models import Worker
from foldline.jobs import services
from foldline.jobs.bill import attempt_of, close_attempt
from foldline.jobs.claims import Fence, Fenced
from foldline.jobs.models import Attempt, Job
from foldline.jobs.redrive import redrive
from foldline.jobs.sweeper import expire_due, requeue_lost
from foldline.tenants.models import DailyUse, LedgerLine, Tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_day")]
MakeJob = Callable[..., UUID]
RUN_S = 1000.0
SLOW_S = 45.0
"""What a test may take, and its attempts with it."""


@pytest.fixture(autouse=True)
def price(revision: Revision) -> Decimal:
    price = Decimal("0.25")
    Model.objects.update(price=price)
    return price


@pytest.fixture
def call(make_job: MakeJob) -> MakeJob:
    """Submit a call that is equal to all others made with this."""
    return lambda **changes: make_job(**{"fingerprint": "f" * 64, **changes})


def claim_one(revision: Revision, *, owner: str = "w1") -> Fence:
    (claimed,) = services.claim(revision_id=revision.id, owner=owner)
    return claimed.fence


def work(seconds: float = RUN_S) -> None:
    """Let the attempts that are open have taken that much longer."""
    for attempt in Attempt.objects.filter(ended_at=None):
        began = attempt.started_at - timedelta(seconds=seconds)
        Attempt.objects.filter(pk=attempt.pk).update(started_at=began)


def lose(fence: Fence) -> None:
    past = database_now() - timedelta(seconds=1)
    Job.objects.filter(id=fence.job_id).update(lease_until=past)
    assert requeue_lost(now=database_now()) == 1


def lines(job_id: UUID) -> list[tuple[str, float]]:
    """(kind, GPU-seconds) of a job, to the hundred, in the order they were written."""
    rows = LedgerLine.objects.filter(job_id=job_id).order_by("id")
    return [(line.kind, round(line.gpu_seconds, -2)) for line in rows]


def check_sums() -> None:
    """The lines of a job are its bill, and those of a day are the day's use."""
    used = Q(kind__in=["compute", "wasted"])
    for job in Job.objects.all():
        of_job = LedgerLine.objects.filter(used, job_id=job.id).aggregate(all=Sum("gpu_seconds"))
        assert (of_job["all"] or 0.0) == pytest.approx(job.gpu_seconds, abs=1e-6)
    for tenant in Tenant.objects.all():
        by_day: dict[Any, float] = {}
        for line in LedgerLine.objects.filter(used, tenant_id=tenant.id):
            key = (line.model, line.at.astimezone(UTC).date())
            by_day[key] = by_day.get(key, 0.0) + line.gpu_seconds
        rows = DailyUse.objects.filter(tenant=tenant)
        assert {(row.model, row.day): row.gpu_seconds for row in rows} == pytest.approx(by_day)


class TestAnAttempt:
    def test_that_answers_is_a_compute_line_with_everything_it_is_about(
        self, make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        job_id = make_job(session="round-1")
        fence = claim_one(revision)
        Attempt.objects.update(share=0.5)
        work()
        services.finish(fence, result={})
        line = LedgerLine.objects.get()
        assert (line.kind, line.job_id, line.attempt) == ("compute", job_id, 1)
        assert (line.tenant_id, line.tenant) == (owner_of_jobs.id, "lab")
        assert (line.model, line.session, line.worker) == ("sleepy", "round-1", "w1")
        assert line.gpu_seconds == pytest.approx(RUN_S * 0.5, abs=SLOW_S)
        assert line.gpu_seconds == Attempt.objects.get().gpu_seconds
        assert line.at == Attempt.objects.get().ended_at
        check_sums()

    @pytest.mark.parametrize("code", ["model_error", "plugin_crashed", "invalid_input"])
    def test_that_fails_is_wasted(self, make_job: MakeJob, revision: Revision, code: str) -> None:
        job_id = make_job()
        fence = claim_one(revision)
        work()
        services.fail(fence, error=job_error(code))
        assert lines(job_id) == [("wasted", RUN_S)]
        check_sums()

    def test_that_was_lost_or_stopped_is_wasted(
        self, make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        job_id = make_job()
        first = claim_one(revision)
        work()
        lose(first)
        second = claim_one(revision, owner="w2")
        work(500)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id)
        services.stopped(second)
        assert lines(job_id) == [("wasted", RUN_S), ("wasted", 500)]
        check_sums()

    def test_costs_the_price_of_the_time_and_no_later_one(
        self, make_job: MakeJob, revision: Revision, price: Decimal
    ) -> None:
        make_job()
        fence = claim_one(revision)
        work()
        services.finish(fence, result={})
        Model.objects.update(price=9)
        line = LedgerLine.objects.get()
        cost = (Decimal(line.gpu_seconds) * price).quantize(Decimal("0.000001"))
        assert line.cost == cost

    def test_across_midnight_counts_to_the_day_it_ended(
        self, make_job: MakeJob, revision: Revision, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_job()
        fence = claim_one(revision)
        ended = datetime(2026, 3, 2, 0, 0, 30, tzinfo=UTC)
        Attempt.objects.update(started_at=ended - timedelta(minutes=10))
        monkeypatch.setattr(services, "database_now", lambda: ended)
        services.finish(fence, result={})
        use = DailyUse.objects.get()
        assert use.day == date(2026, 3, 2)
        assert use.gpu_seconds == pytest.approx(600)

    def test_of_a_model_is_added_to_its_day(self, make_job: MakeJob, revision: Revision) -> None:
        for _ in range(3):
            make_job()
            fence = claim_one(revision)
            work()
            services.finish(fence, result={})
        assert DailyUse.objects.get().gpu_seconds == pytest.approx(3 * RUN_S, abs=SLOW_S)
        check_sums()


class TestLostAndFinishedAllTheSame:
    def test_is_billed_once(self, make_job: MakeJob, revision: Revision) -> None:
        job_id = make_job()
        fence = claim_one(revision)
        work()
        lose(fence)
        Attempt.objects.update(started_at=database_now() - timedelta(seconds=1500))
        services.finish(fence, result={})
        assert lines(job_id) == [("wasted", RUN_S), ("wasted", -RUN_S), ("compute", 1500)]
        assert Job.objects.get().gpu_seconds == Attempt.objects.get().gpu_seconds
        check_sums()

    def test_takes_back_what_it_cost_then(self, make_job: MakeJob, revision: Revision) -> None:
        make_job()
        fence = claim_one(revision)
        work()
        lose(fence)
        Model.objects.update(price=2)
        services.finish(fence, result={})
        wasted = LedgerLine.objects.filter(kind="wasted")
        assert sum(line.cost for line in wasted) == 0

    def test_at_the_very_same_moment(self, make_job: MakeJob, revision: Revision) -> None:
        """The sweeper was faster by a moment: this attempt was read while it was still open."""
        make_job()
        fence = claim_one(revision)
        work()
        read = attempt_of(fence)
        lose(fence)
        close_attempt(read, "succeeded", now=database_now())
        check_sums()
        assert Job.objects.get().gpu_seconds == pytest.approx(RUN_S, abs=SLOW_S)


class TestHandOver:
    def test_each_pays_its_part_with_the_share_of_the_run(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        first, heir = call(), call()
        fence = claim_one(revision)
        Attempt.objects.update(share=0.5)
        work()
        services.cancel(tenant_id=owner_of_jobs.id, job_id=first)
        work(600)
        services.finish(fence, result={})
        assert lines(first) == [("compute", RUN_S / 2)]
        assert lines(heir) == [("compute", 300)]
        check_sums()

    def test_the_part_of_the_heir_is_charged_to_its_flow_once_it_has_ended(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        first, heir = call(), call()
        claim_one(revision)
        services.cancel(tenant_id=owner_of_jobs.id, job_id=first)
        attempt = Attempt.objects.get(job=heir)
        assert (attempt.charged_gpu_s, attempt.settled) == (0.0, False)


class TestSaved:
    @pytest.fixture
    def answered(self, call: MakeJob, revision: Revision) -> UUID:
        """A run that failed once and then answered two that are attached to it."""
        run, *_ = call(), call(session="s1"), call(session="s2")
        first = claim_one(revision)
        work(500)
        services.fail(first, error=job_error("plugin_crashed"))
        second = claim_one(revision)
        work()
        services.finish(second, result={})
        return run

    def test_an_attached_job_saved_the_seconds_of_the_attempt_that_answered(
        self, answered: UUID
    ) -> None:
        saved = LedgerLine.objects.filter(kind="coalesced").order_by("session")
        assert [(line.session, round(line.gpu_seconds, -2)) for line in saved] == [
            ("s1", RUN_S),
            ("s2", RUN_S),
        ]
        assert not LedgerLine.objects.filter(job_id=answered, kind="coalesced").exists()
        check_sums()

    def test_so_did_one_that_was_answered_from_the_cache(
        self, answered: UUID, call: MakeJob
    ) -> None:
        cached = call(session="later")
        line = LedgerLine.objects.get(kind="cache")
        assert (line.job_id, line.session) == (cached, "later")
        assert line.gpu_seconds == LedgerLine.objects.get(kind="compute").gpu_seconds
        assert line.cost == LedgerLine.objects.get(kind="compute").cost
        check_sums()

    @pytest.mark.parametrize("estimate", [400.0, None])
    def test_a_job_cancelled_before_it_started_saved_its_estimate(
        self, make_job: MakeJob, owner_of_jobs: Tenant, estimate: float | None
    ) -> None:
        job_id = make_job()
        Job.objects.update(estimate_gpu_s=estimate)
        for _ in range(2):
            services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id)
        assert lines(job_id) == [("cancelled", estimate or 0.0)]

    def test_a_job_that_expired_before_it_started_saved_its_estimate(
        self, make_job: MakeJob
    ) -> None:
        job_id = make_job(start_within_s=30)
        Job.objects.update(estimate_gpu_s=400, start_by=database_now())
        assert expire_due(now=database_now()) == 1
        assert lines(job_id) == [("expired", 400)]

    @pytest.mark.parametrize("end", ["cancel", "expire"])
    def test_one_that_had_started_saved_nothing(
        self, make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant, end: str
    ) -> None:
        job_id = make_job()
        fence = claim_one(revision)
        work()
        services.fail(fence, error=job_error("plugin_crashed"))
        if end == "cancel":
            services.cancel(tenant_id=owner_of_jobs.id, job_id=job_id)
        else:
            Job.objects.update(start_by=database_now())
            expire_due(now=database_now())
        assert lines(job_id) == [("wasted", RUN_S)]

    def test_a_follower_that_becomes_the_run_saves_nothing_and_pays_for_its_own(
        self, call: MakeJob, revision: Revision, owner_of_jobs: Tenant
    ) -> None:
        first, heir = call(), call()
        services.cancel(tenant_id=owner_of_jobs.id, job_id=first)
        fence = claim_one(revision)
        work()
        services.finish(fence, result={})
        assert lines(first) == [("cancelled", 0)]
        assert lines(heir) == [("compute", RUN_S)]

    def test_a_follower_that_fails_with_its_run_has_no_line(
        self, call: MakeJob, revision: Revision
    ) -> None:
        call(), call()
        services.fail(claim_one(revision), error=job_error("invalid_input"))
        assert [line.kind for line in LedgerLine.objects.all()] == ["wasted"]


def test_a_redriven_job_pays_for_itself_and_the_dead_letter_is_not_billed_again(
    make_job: MakeJob, live_revision: Callable[..., Revision]
) -> None:
    revision = live_revision(name="other")
    inputs = {"sequence": "EVQ"}
    made = {"model_id": revision.model_id, "revision_id": revision.id, "inputs": inputs}
    old = make_job(**made, normalized_input={**inputs, "copies": 1})
    fence = claim_one(revision)
    work()
    services.fail(fence, error=job_error("model_error"))
    redriven = redrive([old], by="admin").made[old]
    fence = claim_one(revision)
    work(500)
    services.finish(fence, result={})
    assert lines(old) == [("wasted", RUN_S)]
    assert lines(redriven) == [("compute", 500)]
    check_sums()


def test_the_lines_of_a_tenant_that_was_deleted_stay(
    make_job: MakeJob, revision: Revision, owner_of_jobs: Tenant
) -> None:
    make_job()
    fence = claim_one(revision)
    services.finish(fence, result={})
    make_job()
    running = claim_one(revision)
    owner_of_jobs.delete()
    with pytest.raises(Fenced):
        services.finish(running, result={})
    assert LedgerLine.objects.get().tenant == "lab"


def test_a_worker_that_was_gone_before_its_job_was_lost_is_settled_again(
    make_job: MakeJob, revision: Revision
) -> None:
    now = database_now()
    fleet.register(name="w1", revision_id=revision.id, node="n", pid=1)
    make_job()
    fence = claim_one(revision)
    work()
    Worker.objects.update(
        started_at=now - timedelta(seconds=3000),
        last_seen=now - timedelta(seconds=60),
        load_seconds={"total": 20},
    )
    assert fleet.bury_silent_workers(before=now - timedelta(seconds=30)) == 1
    lose(fence)
    sums = LedgerLine.objects.filter(worker="w1").values_list("kind").annotate(Sum("gpu_seconds"))
    held = dict(sums.order_by())
    # Held until its job was taken from it.
    assert sum(held.values()) == pytest.approx(3000, abs=SLOW_S)
    assert held["wasted"] == pytest.approx(RUN_S, abs=SLOW_S)
    assert held["cold_start"] == pytest.approx(20)
