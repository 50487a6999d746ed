"""What a tenant uses beside what it may use, as the admin shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q, Sum

from foldline.artifacts.selectors import stored_bytes
from foldline.catalog.models import Model
from foldline.clock import database_now
from foldline.ids import first_id
from foldline.jobs.models import Job
from foldline.jobs.states import State
from foldline.tenants.models import DailyUse, Quota

Numbers = Mapping[str, Any]

# The limits that have a use to be told, by their names in `Quota`.
COUNTED = {
    "waiting": "Waiting",
    "running": "Running",
    "requests_per_minute": "Jobs in the last minute",
    "gpu_seconds_day": "GPU-seconds today",
    "gpu_seconds_month": "GPU-seconds this month",
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


def use_of(tenant_id: UUID) -> list[Line]:
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
    """By model. From the indexes of a tenant's open and newest jobs, and the ledger's sums."""
    jobs = Job.objects.filter(tenant_id=tenant_id)
    newest = jobs.filter(id__gte=first_id(now - timedelta(minutes=1)))
    use = DailyUse.objects.filter(tenant_id=tenant_id, day__gte=now.date().replace(day=1))
    open_jobs = jobs.filter(state__in=[State.QUEUED, State.RUNNING])
    tables: list[Iterable[Mapping[str, Any]]] = [
        open_jobs.values(name=F("model__name")).annotate(
            waiting=Count("id", filter=Q(state=State.QUEUED)),
            running=Count("id", filter=Q(state=State.RUNNING)),
        ),
        newest.values(name=F("model__name")).annotate(requests_per_minute=Count("id")),
        use.values(name=F("model")).annotate(
            gpu_seconds_day=Sum("gpu_seconds", filter=Q(day=now.date()), default=0),
            gpu_seconds_month=Sum("gpu_seconds"),
        ),
    ]
    found: dict[str, dict[str, Any]] = {}
    for table in tables:
        for row in table:
            found.setdefault(row["name"], {}).update(row)
    return found
