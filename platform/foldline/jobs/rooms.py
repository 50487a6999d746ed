"""What each tenant may start of a model now: its running limits, its budgets, its switch.

Claims, tickets, forecasts and what callers are told all go by this. A limit on one model is
exact because claims of a model follow each other; one over all models needs `keeps_whole`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Sum

from foldline.catalog.models import Model
from foldline.clock import database_now, day_of
from foldline.fresh import Fresh
from foldline.jobs.blocked import Blocked
from foldline.jobs.limits import DAY, MONTH, RUNNING, is_free, limits_set
from foldline.jobs.models import Attempt, Job
from foldline.jobs.states import State
from foldline.scheduling.fairness import bend
from foldline.tenants.models import DailyUse, Quota
from foldline.tenants.quotas import Limits, Quotas, quotas_of
from foldline.tenants.usage import Spent, spent

KEEP_USE_S = 60.0

past_use_kept: Fresh[str, Mapping[UUID, float]] = Fresh(keep_s=KEEP_USE_S)


@dataclass(frozen=True, kw_only=True)
class Room:
    """`places`: how many jobs of the model the tenant may start now, None for any number."""

    places: int | None = None
    held_by: Blocked | None = None
    """Why there is no place."""
    weight: float = 1.0
    """Its share beside other tenants, bent by what it used yesterday and today."""
    over_all_models: bool = False
    """Jobs of other models count, too: ask `keeps_whole` before one is started."""

    @property
    def is_open(self) -> bool:
        return self.places != 0

    def after_one(self) -> Room:
        return self if self.places is None else replace(self, places=self.places - 1)


@dataclass(frozen=True, kw_only=True)
class _Used:
    """GPU-seconds of one tenant: of attempts that have ended, and of those that run up to now."""

    ended: Spent
    running: Mapping[UUID, float]

    def of(self, limit: str, place: int, *, model_id: UUID, model: str) -> float:
        done = self.ended.day if limit == DAY else self.ended.month
        if place:
            return done.get(model, 0.0) + self.running.get(model_id, 0.0)
        return sum(done.values()) + sum(self.running.values())


def rooms(quotas: Mapping[UUID, Quotas], *, model_id: UUID, now: datetime) -> dict[UUID, Room]:
    """The room of each tenant. No query where no tenant has a limit on what it starts."""
    limits = {tenant_id: each.of(model_id) for tenant_id, each in quotas.items()}
    limited = {tenant_id: each for tenant_id, each in limits.items() if not is_free(each)}
    running = _running(_with_any(limited, RUNNING))
    used = _used(_with_any(limited, DAY, MONTH), now=now)
    model = Model.objects.get(id=model_id).name if used else ""
    found = {}
    for tenant_id, each in limits.items():
        room = Room(
            weight=weight_of(tenant_id, each), over_all_models=each.whole.running is not None
        )
        mine = used.get(tenant_id)
        if not each.active or (mine and _is_used_up(each, mine, model_id=model_id, model=model)):
            room = replace(room, places=0, held_by=Blocked.QUOTA)
        elif tenant_id in running:
            room = _within(room, each, running[tenant_id], model_id=model_id)
        found[tenant_id] = room
    return found


def rooms_of_jobs(jobs: Iterable[Job], *, now: datetime) -> dict[tuple[UUID, UUID], Room]:
    """The rooms that jobs wait for, by (tenant, model). By quotas that may be two seconds old."""
    tenants: defaultdict[UUID, set[UUID]] = defaultdict(set)
    for job in jobs:
        tenants[job.model_id].add(job.tenant_id)
    return {
        (tenant_id, model_id): room
        for model_id, its in tenants.items()
        for tenant_id, room in rooms(
            {tenant_id: quotas_of(tenant_id) for tenant_id in its}, model_id=model_id, now=now
        ).items()
    }


def _with_any(limits: Mapping[UUID, Limits], *names: str) -> list[UUID]:
    return [tenant for tenant, each in limits.items() if any(limits_set(each, names=names))]


def _within(room: Room, limits: Limits, running: Mapping[UUID, int], *, model_id: UUID) -> Room:
    used = (sum(running.values()), running.get(model_id, 0))
    free = (limit.allowed - used[limit.place] for limit in limits_set(limits, names=(RUNNING,)))
    places = max(0, min(free))
    return replace(room, places=places, held_by=None if places else Blocked.RUNNING_LIMIT)


def _is_used_up(limits: Limits, used: _Used, *, model_id: UUID, model: str) -> bool:
    return any(
        used.of(limit.name, limit.place, model_id=model_id, model=model) >= limit.allowed
        for limit in limits_set(limits, names=(DAY, MONTH))
    )


def _running(tenants: Collection[UUID]) -> dict[UUID, Counter[UUID]]:
    """Running jobs by tenant and model."""
    found: dict[UUID, Counter[UUID]] = {tenant: Counter() for tenant in tenants}
    if tenants:
        jobs = Job.objects.filter(tenant_id__in=tenants, state=State.RUNNING).order_by()
        for tenant, model, number in jobs.values_list("tenant_id", "model_id").annotate(
            Count("id")
        ):
            found[tenant][model] = number
    return found


def _used(tenants: Collection[UUID], *, now: datetime) -> dict[UUID, _Used]:
    if not tenants:
        return {}
    ended, running = spent(tenants, today=day_of(now)), _so_far(tenants, now=now)
    return {tenant: _Used(ended=ended[tenant], running=running[tenant]) for tenant in tenants}


def _so_far(tenants: Collection[UUID], *, now: datetime) -> Mapping[UUID, Mapping[UUID, float]]:
    found: defaultdict[UUID, defaultdict[UUID, float]] = defaultdict(lambda: defaultdict(float))
    attempts = Attempt.objects.filter(
        job__tenant_id__in=tenants, job__state=State.RUNNING, ended_at=None
    )
    for tenant, model, began, share in attempts.values_list(
        "job__tenant_id", "job__model_id", "started_at", "share"
    ):
        found[tenant][model] += max(0.0, (now - began).total_seconds()) * share
    return found


def keeps_whole(tenant_id: UUID, *, wait: bool) -> bool:
    """Whether one job more keeps the tenant's running limit over all models, which stays so
    until the transaction ends: its quota is locked and its jobs are counted again.

    Without `wait`, False also when another transaction holds the quota. Whoever holds one quota
    must not wait for a second one: another claim may hold that and wait for the first.
    """
    rows = Quota.objects.filter(tenant_id=tenant_id, model=None)
    quota = rows.select_for_update(skip_locked=not wait).first()
    if quota is None:
        return wait or not rows.exists()
    if quota.running is None:
        return True
    running = Job.objects.filter(tenant_id=tenant_id, state=State.RUNNING)
    return running.count() < quota.running


def weight_of(tenant_id: UUID, limits: Limits) -> float:
    """The tenant's weight in fair order: its quota's, bent by its past use."""
    use = past_use_kept.get("", _past_use)
    if not use:
        return limits.weight
    typical = sum(use.values()) / len(use)
    return limits.weight * bend(use.get(tenant_id, 0.0), typical_gpu_s=typical)


def _past_use() -> Mapping[UUID, float]:
    """GPU-seconds of yesterday and today by tenant, of those that used any."""
    yesterday = day_of(database_now()) - timedelta(days=1)
    used = DailyUse.objects.filter(day__gte=yesterday).order_by().values_list("tenant_id")
    return dict(used.annotate(Sum("gpu_seconds")).filter(gpu_seconds__sum__gt=0))
