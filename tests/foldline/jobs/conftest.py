"""A tenant, a live revision and jobs in its line, made directly so that a test reads short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from foldline.catalog.models import Model, Revision
from foldline.ids import uuid7
from foldline.jobs import tickets
from foldline.jobs.admission import Submission
from foldline.jobs.services import submit
from foldline.tenants.models import Tenant

MakeJob = Callable[..., UUID]


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

    monkeypatch.setattr(tickets, "send", send)
    return queues


@pytest.fixture
def make_job(owner_of_jobs: Tenant, revision: Revision, sent: list[str]) -> MakeJob:
    """Submit a job; keywords override the submission's fields."""

    def make(**changes: Any) -> UUID:
        fields: dict[str, Any] = {
            "tenant_id": owner_of_jobs.id,
            "model_id": revision.model_id,
            "revision_id": revision.id,
            "queue": tickets.queue_name("sleepy", number=1),
            "inputs": {"seconds": 1},
            "normalized_input": {"seconds": 1, "echo": None},
            "seed": 0,
            "seed_origin": "default",
            "fingerprint": uuid7().hex * 2,
            "payload_digest": "d" * 64,
        }
        return submit(Submission(**{**fields, **changes})).job_id

    return make
