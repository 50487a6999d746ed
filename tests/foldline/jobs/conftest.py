"""A tenant, a live revision and jobs in its line, made directly so that a test reads short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest

from foldline.catalog.models import Model, Revision
from foldline.ids import uuid7
from foldline.jobs import tickets
from foldline.jobs.admission import Submission
from foldline.jobs.services import submit
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import quotas_kept, read_quotas

MakeJob = Callable[..., UUID]
MakeSubmission = Callable[..., Submission]
Limit = Callable[..., None]


@pytest.fixture
def owner_of_jobs() -> Tenant:
    return Tenant.objects.create(slug="lab", name="A laboratory")


@pytest.fixture
def revision() -> Revision:
    return Revision.objects.create(
        model=Model.objects.create(name="sleepy"),
        number=1,
        state=Revision.State.LIVE,
        folder="/nowhere",
        digest="0" * 64,
        manifest={},
        input_schema={},
        output_schema={},
        weights_digest="0" * 64,
        runtime="test",
        title="Sleepy",
        description="Sleeps.",
        lane="online",
        seed_default="fixed",
        load_timeout_s=10,
        run_timeout_s=60,
        memory_mb=100,
    )


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues that tickets were sent to."""
    queues: list[str] = []

    def send(queue: str, *, count: int = 1) -> bool:
        queues.extend([queue] * count)
        return True

    def send_all(counts: Mapping[str, int]) -> bool:
        return all(send(queue, count=count) for queue, count in counts.items())

    monkeypatch.setattr(tickets, "send", send)
    monkeypatch.setattr(tickets, "send_all", send_all)
    return queues


@pytest.fixture
def make_submission(owner_of_jobs: Tenant, revision: Revision) -> MakeSubmission:
    """A call within its tenant's quota as it is now; keywords override the fields."""

    def make(**changes: Any) -> Submission:
        tenant_id = changes.get("tenant_id", owner_of_jobs.id)
        model_id = changes.get("model_id", revision.model_id)
        fields: dict[str, Any] = {
            "tenant_id": tenant_id,
            "model_id": model_id,
            "model": "sleepy",
            "limits": read_quotas([tenant_id])[tenant_id].of(model_id),
            "revision_id": revision.id,
            "queue": tickets.queue_name("sleepy", number=1),
            "inputs": {"seconds": 1},
            "normalized_input": {"seconds": 1, "echo": None},
            "seed": 0,
            "seed_origin": "default",
            "fingerprint": uuid7().hex * 2,
            "payload_digest": "d" * 64,
        }
        return Submission(**{**fields, **changes})

    return make


@pytest.fixture
def make_job(make_submission: MakeSubmission, sent: list[str]) -> MakeJob:
    """Submit a job; keywords override the submission's fields."""
    return lambda **changes: submit(make_submission(**changes)).job_id


@pytest.fixture
def limit(owner_of_jobs: Tenant) -> Limit:
    """Set limits of the tenant: as a whole, or of the `model`."""

    def to(*, model: Model | None = None, **limits: Any) -> None:
        Quota.objects.update_or_create(tenant=owner_of_jobs, model=model, defaults=limits)
        quotas_kept.clear()

    return to


@pytest.fixture
def other_revision(revision: Revision) -> Revision:
    """A live revision of another model."""
    fields = {f.attname: getattr(revision, f.attname) for f in Revision._meta.fields}
    del fields["id"]
    return Revision.objects.create(**{**fields, "model_id": Model.objects.create(name="other").id})
