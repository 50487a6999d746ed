"""Limits are set in the admin, and what cannot be is refused in words."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client

from foldline.catalog.models import Model
from foldline.tenants.models import Quota, Tenant
from foldline.tenants.quota_admin import PROPOSED
from foldline.tenants.quotas import quotas_kept, quotas_of

pytestmark = pytest.mark.django_db
QUOTAS = "/admin/tenants/quota/"


@pytest.fixture
def model() -> Model:
    return Model.objects.create(name="toy")


def add(client: Client, tenant: Tenant, **form: Any) -> str:
    """ "" when the row was stored, else the page."""
    sent = {"tenant": str(tenant.pk), "allowed": "on", **form}
    answer = client.post(f"{QUOTAS}add/", sent)
    return "" if answer.status_code == 302 else html.unescape(answer.content.decode())


def test_a_new_row_proposes_sensible_values(admin_client: Client, tenant: Tenant) -> None:
    shown = admin_client.get(f"{QUOTAS}add/?tenant={tenant.pk}")
    form = shown.context["adminform"].form
    assert {name: form[name].value() for name in PROPOSED} == PROPOSED
    assert form["tenant"].value() == str(tenant.pk)
    assert add(admin_client, tenant, **PROPOSED) == ""
    assert Quota.objects.filter(tenant=tenant, **PROPOSED).exists()


def test_a_new_row_of_a_model_begins_empty(
    admin_client: Client, tenant: Tenant, model: Model
) -> None:
    url = f"{QUOTAS}add/?tenant={tenant.pk}&model={model.pk}"
    form = admin_client.get(url).context["adminform"].form
    assert not any(form[name].value() for name in PROPOSED)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"weight": "0"}, "Between 0.01 and 100. To stop a tenant, untick `allowed`."),
        ({"weight": "1000"}, "Between 0.01 and 100."),
        ({"weight": "nan"}, "Enter a number."),
        ({"waiting": "-1"}, "greater than or equal to 0"),
        ({"waiting": "many"}, "Enter a whole number."),
        ({"running": "9" * 25}, "less than or equal to"),
        ({"of": "toy", "artifact_bytes": "1"}, "This is counted over all models"),
        ({"of": "toy", "polls_per_minute": "1"}, "This is counted over all models"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_is_refused_in_words(
    admin_client: Client, tenant: Tenant, model: Model, form: dict[str, str], said: str
) -> None:
    of = {"model": str(model.pk)} if form.pop("of", "") else {}
    assert said in add(admin_client, tenant, **of, **form)
    assert not Quota.objects.exists()


@pytest.mark.parametrize("of_model", [False, True], ids=["whole", "model"])
def test_a_second_row_of_a_kind_is_refused_in_words(
    admin_client: Client, tenant: Tenant, model: Model, *, of_model: bool
) -> None:
    of = {"model": str(model.pk)} if of_model else {}
    assert add(admin_client, tenant, waiting="1", **of) == ""
    assert "There is a row of this already" in add(admin_client, tenant, waiting="2", **of)
    assert Quota.objects.get().waiting == 1


def test_a_row_is_changed_and_removed_and_that_takes_effect(
    admin_client: Client, tenant: Tenant
) -> None:
    quota = Quota.objects.create(tenant=tenant, waiting=5)
    here = f"{QUOTAS}{quota.pk}/"
    admin_client.post(f"{here}change/", {"allowed": "on", "waiting": "2"})
    quotas_kept.clear()
    assert quotas_of(tenant.pk).whole.waiting == 2
    admin_client.post(f"{here}delete/", {"post": "yes"})
    quotas_kept.clear()
    assert quotas_of(tenant.pk).whole.waiting is None


def test_the_list_tells_whose_and_of_what(
    admin_client: Client, tenant: Tenant, model: Model
) -> None:
    Quota.objects.create(tenant=tenant, waiting=12345)
    Quota.objects.create(tenant=tenant, model=model)
    shown = admin_client.get(QUOTAS).content.decode()
    for part in ("lab-a", "all models", "toy", "12345"):
        assert part in shown
