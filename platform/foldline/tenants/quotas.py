"""What a tenant may use: the rows of `Quota`, read as numbers and kept for two seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from foldline.fresh import Fresh
from foldline.tenants.models import Quota, Tenant


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """One row of a quota; None is no limit. The fields are those of `Quota`."""

    requests_per_minute: int | None = None
    polls_per_minute: int | None = None
    waiting: int | None = None
    running: int | None = None
    gpu_seconds_day: int | None = None
    gpu_seconds_month: int | None = None
    artifact_bytes: int | None = None
    input_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a tenant may use of one model: `whole` over all models, `model` of this one."""

    active: bool
    allowed: bool
    weight: float
    whole: Allowance
    model: Allowance


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """All rows of one tenant."""

    active: bool = True
    whole: Allowance = field(default_factory=Allowance)
    all_models: bool = True
    weight: float = 1.0
    models: Mapping[UUID, tuple[Allowance, bool, float | None]] = field(default_factory=dict)

    def of(self, model_id: UUID) -> Limits:
        model, allowed, weight = self.models.get(model_id, (Allowance(), self.all_models, None))
        return Limits(
            active=self.active,
            allowed=allowed,
            weight=weight or self.weight,
            whole=self.whole,
            model=model,
        )


quotas_kept: Fresh[UUID, Quotas] = Fresh()


def quotas_of(tenant_id: UUID) -> Quotas:
    """A tenant's quotas, at most two seconds old. One that is gone has none and is not active."""
    return quotas_kept.get(tenant_id, lambda: read_quotas([tenant_id])[tenant_id])


def limits_of(tenant_id: UUID, *, model_id: UUID) -> Limits:
    """What a tenant may use of a model, at most two seconds old."""
    return quotas_of(tenant_id).of(model_id)


def read_quotas(tenant_ids: Iterable[UUID]) -> Mapping[UUID, Quotas]:
    """The quotas of several tenants as they are now. Two queries."""
    wanted = list(tenant_ids)
    active = dict(Tenant.objects.filter(id__in=wanted).values_list("id", "active"))
    rows: dict[UUID, list[Quota]] = {tenant_id: [] for tenant_id in wanted}
    for row in Quota.objects.filter(tenant_id__in=wanted):
        rows[row.tenant_id].append(row)
    return {
        tenant_id: _quotas(rows[tenant_id], active=active.get(tenant_id, False))
        for tenant_id in wanted
    }


_NAMES = tuple(Allowance.__dataclass_fields__)


def _quotas(rows: Iterable[Quota], *, active: bool) -> Quotas:
    whole: Quota | None = None
    models: dict[UUID, tuple[Allowance, bool, float | None]] = {}
    for row in rows:
        if row.model_id is None:
            whole = row
        else:
            models[row.model_id] = (_allowance(row), row.allowed, row.weight)
    if whole is None:
        return Quotas(active=active, models=models)
    return Quotas(
        active=active,
        whole=_allowance(whole),
        all_models=whole.allowed,
        weight=whole.weight or 1.0,
        models=models,
    )


def _allowance(row: Quota) -> Allowance:
    return Allowance(**{name: getattr(row, name) for name in _NAMES})
