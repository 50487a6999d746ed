"""The real services on a real database, called in any order that chance and hypothesis like.

Workers here never forget an old fence: a write with it must be refused, whatever happened to
the job meanwhile. After each call the tables must hold every promise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models import Sum
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.errors import IdempotencyKeyReused, QuotaExceeded, job_error
from foldline.jobs import services
from foldline.jobs.admission import Submission
from foldline.jobs.claims import Fence, Fenced
from foldline.jobs.models import Attempt, Event, Job
from foldline.jobs.retries import RULES
from foldline.jobs.states import OPEN, TERMINAL, State
from foldline.jobs.sweeper import expire_due, requeue_lost
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import Allowance, Limits

pytestmark = pytest.mark.django_db

Run = Callable[..., None]
WAITING, RUNNING = 4, 2
"""What each tenant may have at once."""

LIMITS: dict[str, Any] = {
    "stateful_step_count": 40,
    "deadline": None,
    "database": None,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}


class Jobs(RuleBasedStateMachine):
    """Each example is rolled back. `revision` and `tenants` are set for the test."""

    revision: Revision
    tenants: list[Tenant]

    jobs = Bundle("jobs")
    fences = Bundle("fences")

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[tuple[UUID, str], tuple[UUID, str]] = {}
        self.submitted: set[UUID] = set()
        self.ended: dict[UUID, tuple[str, Any]] = {}
        self.example = transaction.atomic()
        self.example.__enter__()

    @rule(
        target=jobs,
        tenant=st.integers(0, 1),
        key=st.sampled_from(["", "k1", "k2"]),
        call=st.sampled_from(["a", "b"]),
        priority=st.sampled_from(["interactive", "batch"]),
        shared=st.booleans(),
    )
    def submit(self, tenant: int, key: str, call: str, priority: str, *, shared: bool) -> Any:
        tenant_id = self.tenants[tenant].id
        submission = self._submission(
            tenant_id=tenant_id,
            idempotency_key=key,
            fingerprint=call * 64,
            payload_digest=call * 64,
            priority=priority,
            shared=shared,
        )
        first, payload = self.by_key.get((tenant_id, key), (None, call))
        full = self._waiting(tenant_id) >= WAITING
        try:
            job_id = services.submit(submission).job_id
        except QuotaExceeded:
            assert full, "P6: a job was refused for which there was room"
            assert first is None, "P2: a known key was refused"
            return multiple()
        except IdempotencyKeyReused:
            assert first is not None, "P2: a new key was refused"
            assert payload != call, "P2: the same payload was refused"
            return first
        assert payload == call, "P2: another payload was accepted"
        assert first in (None, job_id), "P2: one key made two jobs"
        if key:
            self.by_key[tenant_id, key] = (job_id, call)
        self.submitted.add(job_id)
        return job_id

    @rule(target=fences, owner=st.sampled_from(["w1", "w2"]), limit=st.integers(1, 2))
    def claim(self, owner: str, limit: int) -> Any:
        claimed = services.claim(revision_id=self.revision.id, owner=owner, limit=limit)
        return multiple(*(job.fence for job in claimed))

    @rule(fence=fences)
    def heartbeat(self, fence: Fence) -> None:
        self._write(fence, lambda: services.heartbeat(fence))

    @rule(fence=fences)
    def progress(self, fence: Fence) -> None:
        self._write(fence, lambda: services.progress(fence, fraction=0.5))

    @rule(fence=fences)
    def finish(self, fence: Fence) -> None:
        also = {State.QUEUED}  # lost meanwhile, and nobody has claimed it since
        result = {"by": fence.owner, "attempt": fence.attempt}
        self._write(fence, lambda: services.finish(fence, result=result), also=also)

    @rule(fence=fences, code=st.sampled_from([*RULES, "unheard_of"]))
    def fail(self, fence: Fence, code: str) -> None:
        self._write(fence, lambda: services.fail(fence, error=job_error(code)))

    @rule(fence=fences)
    def stopped(self, fence: Fence) -> None:
        self._write(fence, lambda: services.stopped(fence))

    @rule(job=jobs)
    def cancel(self, job: UUID) -> None:
        before = Job.objects.get(id=job)
        state = services.cancel(tenant_id=before.tenant_id, job_id=job)
        assert before.open or state == before.state
        assert state in {State.CANCELLED, State.RUNNING, before.state}

    @rule(fence=fences)
    def cancel_what_runs(self, fence: Fence) -> None:
        self.cancel(fence.job_id)

    @rule(target=fences, fence=fences, next_owner=st.sampled_from(["", "w1", "w2"]))
    def the_lease_passes(self, fence: Fence, next_owner: str) -> Any:
        past = database_now() - timedelta(seconds=1)
        Job.objects.filter(id=fence.job_id, state=State.RUNNING).update(lease_until=past)
        requeue_lost(now=database_now())
        return self.claim(next_owner, 1) if next_owner else multiple()

    @rule(job=jobs)
    def the_time_to_start_passes(self, job: UUID) -> None:
        Job.objects.filter(id=job, state=State.QUEUED).update(start_by=database_now())
        expire_due(now=database_now())

    @rule()
    def the_delay_of_retries_passes(self) -> None:
        Job.objects.filter(not_before__isnull=False).update(not_before=database_now())

    @invariant()
    def promises_hold(self) -> None:
        jobs = {job.id: job for job in Job.objects.all()}
        assert self.submitted <= set(jobs), "P1: a job is gone"
        for job in jobs.values():
            self._check_state(job, jobs)
            self._check_attempts(job)
            self._check_events(job)
        self._check_quotas(list(jobs.values()))

    def teardown(self) -> None:
        try:
            self._drain()
        finally:
            transaction.set_rollback(True)
            self.example.__exit__(None, None, None)

    def _submission(self, **changes: Any) -> Submission:
        fields: dict[str, Any] = {
            "model_id": self.revision.model_id,
            "revision_id": self.revision.id,
            "queue": "foldline.sleepy.r1",
            "inputs": {"seconds": 1},
            "normalized_input": {"seconds": 1},
            "seed": 0,
            "seed_origin": "default",
            "limits": Limits(
                active=True,
                allowed=True,
                weight=1.0,
                whole=Allowance(waiting=WAITING),
                model=Allowance(running=RUNNING),
            ),
        }
        return Submission(**{**fields, **changes})

    def _write(
        self, fence: Fence, write: Callable[[], object], *, also: set[State] | None = None
    ) -> None:
        """A write passes exactly when its fence is the one that holds the run."""
        holds = self._holds(fence, {State.RUNNING, *(also or ())})
        try:
            write()
        except Fenced:
            assert not holds, "a write of the worker that holds the job was refused"
        else:
            assert holds, "P8: a stale attempt wrote"

    def _holds(self, fence: Fence, states: set[State]) -> bool:
        job = Job.objects.get(id=fence.job_id)
        if (job.attempt, job.owner) != (fence.attempt, fence.owner):
            return False
        if job.state == State.CANCELLED and job.attached_to_id is not None:
            heir = Fence(job_id=job.attached_to_id, attempt=fence.attempt, owner=fence.owner)
            return self._holds(heir, states)
        return job.state in states

    def _check_state(self, job: Job, jobs: dict[UUID, Job]) -> None:
        told = (job.state, job.result)
        assert self.ended.get(job.id, told) == told, "P5: a terminal job changed"
        if State(job.state) in TERMINAL:
            self.ended[job.id] = told
        elif job.attached_to_id is not None:
            leader = jobs[job.attached_to_id]
            assert leader.open, "P1: attached to a run that is over"
            assert leader.attached_to_id is None, "P1: attached to a job that is attached"

    def _check_quotas(self, jobs: list[Job]) -> None:
        for tenant in self.tenants:
            mine = [job for job in jobs if job.tenant_id == tenant.id]
            running = sum(job.state == State.RUNNING for job in mine)
            assert running <= RUNNING, "P6: a tenant has more running jobs than its limit"
            # One that is back in line for another attempt was not let in by a submit.
            waiting = sum(job.state == State.QUEUED and not job.attempt for job in mine)
            assert waiting <= WAITING, "P6: a tenant has more waiting jobs than its limit"

    def _waiting(self, tenant_id: UUID) -> int:
        return Job.objects.filter(tenant_id=tenant_id, state=State.QUEUED).count()

    def _check_attempts(self, job: Job) -> None:
        attempts = list(Attempt.objects.filter(job=job).order_by("number"))
        outcomes = Counter(attempt.outcome for attempt in attempts)
        assert outcomes["succeeded"] <= 1, "P3: two results of one job"
        assert outcomes[""] == (job.state == State.RUNNING), "an attempt was left open"
        assert job.attempt == max((attempt.number for attempt in attempts), default=0), "P8"
        billed = Attempt.objects.filter(job=job).aggregate(all=Sum("gpu_seconds"))["all"] or 0.0
        assert job.gpu_seconds == pytest.approx(billed, abs=1e-6), "P9: billed other than used"

    def _check_events(self, job: Job) -> None:
        events = list(Event.objects.filter(job=job).order_by("sequence"))
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        seen: dict[str, int] = defaultdict(int)
        for event in events:
            if event.kind == "running":
                assert not seen["cancel_requested"], "P7: claimed after a cancel was answered"
            assert not any(seen[state] for state in TERMINAL), "P5: something followed the end"
            seen[event.kind] += 1

    def _drain(self) -> None:
        """Everything that is left comes to an end once workers do their work."""
        self.the_delay_of_retries_passes()
        past = database_now() - timedelta(seconds=1)
        Job.objects.filter(state=State.RUNNING).update(lease_until=past)
        requeue_lost(now=database_now())
        while claimed := services.claim(revision_id=self.revision.id, owner="drain"):
            services.finish(claimed[0].fence, result={})
        left = Job.objects.filter(state__in=OPEN)
        assert not left.exists(), f"P1: never came to an end: {left.values('state', 'attempt')}"
        self.promises_hold()


@pytest.fixture
def run_machine(revision: Revision, owner_of_jobs: Tenant, other_tenant: Tenant) -> Run:
    class Machine(Jobs):
        pass

    for tenant in (owner_of_jobs, other_tenant):
        Quota.objects.create(tenant=tenant, waiting=WAITING)
        Quota.objects.create(tenant=tenant, model=revision.model, running=RUNNING)
    Machine.revision = revision
    Machine.tenants = [owner_of_jobs, other_tenant]

    def run(**changes: Any) -> None:
        limits = settings(**{**LIMITS, **changes})
        run_state_machine_as_test(Machine, settings=limits)

    return run


@pytest.mark.timeout(1800)  # so many statements took 300 s of a machine with much else to do
def test_no_order_of_calls_breaks_a_promise(run_machine: Run) -> None:
    run_machine(max_examples=100)


def test_the_machine_catches_a_weakened_fence(
    run_machine: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        services,
        "_held",
        lambda fence: Job.objects.filter(id=fence.job_id, state=State.RUNNING),
    )
    with pytest.raises(AssertionError, match=r"P8|an attempt was left open"):
        run_machine(max_examples=300, phases=[Phase.generate], derandomize=True)
