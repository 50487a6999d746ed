"""Rows of everything that the admin has a page for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model as Row

from foldline.artifacts.models import Artifact
from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import ModelPolicy, ScalingDecision, Worker
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.models import Attempt, Event, Fault, Job, QueueState
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.tenants.models import ApiKey, AuditEntry, LedgerLine, Quota, Tenant, User
from tests.conftest import MakeLive

ERROR = {"code": "model_error", "detail": "ValueError: too hot", "details": {"digest": "d1"}}


def one_more_of_everything(number: int, *, live_revision: MakeLive) -> Mapping[type[Row], Row]:
    """A row of each kind, none of which belongs to one of another number."""
    now = database_now()
    tenant = Tenant.objects.create(slug=f"lab-{number}", name=f"Laboratory {number}")
    revision = live_revision(name=f"toy{number}")
    job = _job(tenant, revision)
    endpoint = WebhookEndpoint.objects.create(
        tenant=tenant, url=f"https://lab-{number}.example.com/", created_at=now
    )
    rows: list[Row] = [
        *(tenant, revision.model, revision, job, endpoint),
        User.objects.create(username=f"user-{number}", password="!"),
        Group.objects.create(name=f"group {number}"),
        Fault.objects.create(part=f"sweep: {number}", times=3, last_at=now, words="KeyError: 'x'"),
        ApiKey.objects.create(tenant=tenant, name="key", prefix=f"fl_{number}", digest="0" * 64),
        Quota.objects.create(tenant=tenant, model=revision.model, waiting=3),
        *_of_revision(revision),
        Artifact.objects.create(
            tenant=tenant, sha256=f"{number:064}", size=7, media_type="text/plain", name="a.txt"
        ),
        Delivery.objects.create(
            endpoint=endpoint, event=job.id, type="job.failed", body="{}", created_at=now
        ),
        LedgerLine.objects.create(
            **{"at": now, "kind": "compute", "tenant_id": tenant.id, "tenant": tenant.slug},
            **{"model": revision.model.name, "job_id": job.id, "gpu_seconds": 1.5},
        ),
        AuditEntry.objects.create(
            **{"actor": "admin", "action": "change", "kind": "tenants.tenant"},
            **{"object_id": str(tenant.id), "label": tenant.slug, "changes": {"name": ["a", "b"]}},
        ),
    ]
    return {type(row): row for row in rows}


def _of_revision(revision: Revision) -> list[Row]:
    now = database_now()
    ScalingDecision.objects.create(
        revision=revision, at=now, as_of=now, desired=2, reason="3 jobs wait"
    )
    crashing = Breaker().opened(Cause.STARTS, "Its last 5 starts failed.", now=now)
    return [
        QueueState.objects.create(model=revision.model, breaker=written(crashing)),
        ModelPolicy.objects.create(model=revision.model),
        Worker.objects.create(
            **{"name": f"worker of {revision}", "revision": revision, "state": "ready"},
            **{"node": "n1", "pid": 1, "started_at": now, "last_seen": now},
        ),
    ]


def _job(tenant: Tenant, revision: Revision) -> Job:
    """A dead letter, with an attempt and an event."""
    now = database_now()
    fields: dict[str, Any] = {"inputs": {}, "normalized_input": {}, "seed": 0, "created_at": now}
    job = Job.objects.create(
        **{"tenant": tenant, "model": revision.model, "revision": revision, **fields},
        **{"state": "failed", "dead_letter": True, "error": ERROR, "finished_at": now},
    )
    Attempt.objects.create(job=job, number=1, worker="w1", started_at=now, outcome="model_error")
    Event.objects.create(job=job, sequence=1, kind="failed", at=now)
    return job
