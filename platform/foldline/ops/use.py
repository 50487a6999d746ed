"""What a tenant uses beside what it may use, as the admin shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Q

from foldline.artifacts.selectors import stored_bytes
from foldline.catalog.models import Model
from foldline.clock import database_now, day_of
from foldline.jobs.limits import DAY, MINUTE_S, MONTH, REQUESTS, RUNNING, WAITING
from foldline.jobs.models import Job
from foldline.jobs.recent import made_since
from foldline.jobs.states import OPEN, State
from foldline.tenants.models import Quota
from foldline.tenants.usage import spent

Numbers = Mapping[str, Any]

# The limits that have a use to be told, by their names in `Quota`.
COUNTED = {
    WAITING: "Waiting",
    RUNNING: "Running",
    REQUESTS: "Jobs in the last minute",
    DAY: "GPU-seconds today",
    MONTH: "GPU-seconds this month",
}
OF_WHOLE = {"artifact_bytes": "Bytes of files"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A limit: used, and allowed (None: no limit)."""

    name: str
    used: float
    allowed: int | None

    @property
    def full(self) -> bool:
        return self.allowed is not None and self.used >= self.allowed


@dataclass(frozen=True, kw_only=True)
class Line:
    """All limits of a model; `model` is None for the tenant as a whole."""

    model: Model | None
    quota: Quota | None
    cells: list[Cell]


def use_beside_limits(tenant_id: UUID) -> list[Line]:
    """The tenant as a whole, then each model that it uses or that has limits of its own."""
    quotas = {quota.model_id: quota for quota in Quota.objects.filter(tenant_id=tenant_id)}
    used = _used(tenant_id, now=database_now())
    whole = {name: sum(numbers.get(name, 0) for numbers in used.values()) for name in COUNTED}
    models = Model.objects.filter(Q(id__in=filter(None, quotas)) | Q(name__in=used))
    return [
        _line(None, quotas.get(None), {**whole, "artifact_bytes": stored_bytes(tenant_id)}),
        *(
            _line(model, quotas.get(model.id), used.get(model.name, {}))
            for model in models.order_by("name")
        ),
    ]


def _line(model: Model | None, quota: Quota | None, used: Numbers) -> Line:
    names = COUNTED if model else {**COUNTED, **OF_WHOLE}
    cells = [
        Cell(name=name, used=used.get(name, 0), allowed=getattr(quota, name, None))
        for name in names
    ]
    return Line(model=model, quota=quota, cells=cells)


def _used(tenant_id: UUID, *, now: datetime) -> dict[str, dict[str, Any]]:
    """By model. Jobs are counted as a submit counts them, GPU-seconds as they were posted."""
    open_jobs = Job.objects.filter(tenant_id=tenant_id, state__in=OPEN).values_list("model__name")
    newest = made_since(now - timedelta(seconds=MINUTE_S), now=now).filter(tenant_id=tenant_id)
    used: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, waiting, running in open_jobs.annotate(
        waiting=Count("id", filter=Q(state=State.QUEUED)),
        running=Count("id", filter=Q(state=State.RUNNING)),
    ):
        used[name] |= {WAITING: waiting, RUNNING: running}
    for name, number in newest.values_list("model__name").annotate(Count("id")):
        used[name][REQUESTS] = number
    gpu_seconds = spent([tenant_id], today=day_of(now))[tenant_id]
    for limit, by_name in ((DAY, gpu_seconds.day), (MONTH, gpu_seconds.month)):
        for name, number in by_name.items():
            used[name][limit] = number
    return used
