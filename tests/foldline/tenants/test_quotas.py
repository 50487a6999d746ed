from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from foldline import fresh
from foldline.catalog.models import Model
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quotas import (
    Allowance,
    limits_of,
    quotas_of,
    read_quotas,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def model() -> Model:
    return Model.objects.create(name="toy")


def test_a_tenant_without_rows_has_no_limits(tenant: Tenant, model: Model) -> None:
    limits = limits_of(tenant.pk, model_id=model.pk)
    assert (limits.active, limits.allowed, limits.weight) == (True, True, 1.0)
    assert limits.whole == limits.model == Allowance()


def test_both_rows_of_a_call_are_read(tenant: Tenant, model: Model) -> None:
    Quota.objects.create(tenant=tenant, waiting=10, weight=2, artifact_bytes=7)
    Quota.objects.create(tenant=tenant, model=model, waiting=3, running=0)
    limits = limits_of(tenant.pk, model_id=model.pk)
    assert limits.whole == Allowance(waiting=10, artifact_bytes=7)
    assert limits.model == Allowance(waiting=3, running=0)
    assert limits.weight == 2
    other = limits_of(tenant.pk, model_id=Model.objects.create(name="other").pk)
    assert (other.model, other.whole.waiting) == (Allowance(), 10)


def test_a_models_own_weight_comes_first(tenant: Tenant, model: Model) -> None:
    Quota.objects.create(tenant=tenant, weight=2)
    Quota.objects.create(tenant=tenant, model=model, weight=0.5)
    assert limits_of(tenant.pk, model_id=model.pk).weight == 0.5


@pytest.mark.parametrize(
    ("whole", "own", "may"),
    [
        (True, None, True),
        (False, None, False),
        (False, True, True),
        (True, False, False),
        (None, False, False),
    ],
)
def test_a_model_without_a_row_goes_by_the_whole(
    tenant: Tenant, model: Model, whole: bool | None, own: bool | None, may: bool  # noqa: FBT001 - parameters
) -> None:  # fmt: skip
    if whole is not None:
        Quota.objects.create(tenant=tenant, allowed=whole)
    if own is not None:
        Quota.objects.create(tenant=tenant, model=model, allowed=own)
    assert limits_of(tenant.pk, model_id=model.pk).allowed is may


def test_a_tenant_that_is_off_or_gone_is_not_active(tenant: Tenant) -> None:
    Tenant.objects.update(active=False)
    assert not quotas_of(tenant.pk).active
    assert not quotas_of(uuid4()).active


def test_quotas_of_many_tenants_cost_two_queries(
    tenant: Tenant, other_tenant: Tenant, django_assert_num_queries: Callable[..., object]
) -> None:
    Quota.objects.create(tenant=tenant, waiting=1)
    with django_assert_num_queries(2):  # type: ignore[attr-defined]  # a context manager
        read = read_quotas([tenant.pk, other_tenant.pk])
    assert [read[t.pk].whole.waiting for t in (tenant, other_tenant)] == [1, None]


def test_a_change_takes_effect_within_two_seconds(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    Quota.objects.create(tenant=tenant, waiting=10)
    assert quotas_of(tenant.pk).whole.waiting == 10
    Quota.objects.update(waiting=1)
    assert quotas_of(tenant.pk).whole.waiting == 10
    assert fresh.KEEP_S <= 2
    now += fresh.KEEP_S
    assert quotas_of(tenant.pk).whole.waiting == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": 0},
        {"weight": 101},
        {"waiting": -1},
        {"of_model": True, "artifact_bytes": 1},
        {"of_model": True, "polls_per_minute": 1},
    ],
    ids=str,
)
def test_the_database_refuses_what_no_quota_can_be(
    tenant: Tenant, model: Model, wrong: dict[str, int]
) -> None:
    of_model = {"model": model} if wrong.pop("of_model", False) else {}
    with pytest.raises(IntegrityError), transaction.atomic():
        Quota.objects.create(tenant=tenant, **of_model, **wrong)


@pytest.mark.parametrize("of_model", [False, True], ids=["whole", "model"])
def test_there_is_one_row_of_a_kind(tenant: Tenant, model: Model, *, of_model: bool) -> None:
    row = {"tenant": tenant, "model": model if of_model else None}
    Quota.objects.create(**row)
    with pytest.raises(IntegrityError), transaction.atomic():
        Quota.objects.create(**row)
