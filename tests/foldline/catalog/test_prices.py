from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from foldline.catalog.models import Model, Revision
from foldline.catalog.selectors import live_model

pytestmark = pytest.mark.django_db
LIST = "/admin/catalog/model/"
# What the page sends along of the table below the price, which stays as it is.
NO_ALTERNATIVES = {"alternatives-TOTAL_FORMS": "0", "alternatives-INITIAL_FORMS": "0"}


@pytest.fixture
def model(live_revision: Callable[..., Revision]) -> Model:
    return live_revision().model


def test_a_price_is_changed_and_holds_at_once(
    admin_client: Client, model: Model, django_capture_on_commit_callbacks: Any
) -> None:
    assert live_model("toy").price == 0
    with django_capture_on_commit_callbacks(execute=True):
        answer = admin_client.post(
            f"{LIST}{model.pk}/change/", {"price": "0.0006", **NO_ALTERNATIVES}
        )
    assert answer.status_code == 302
    assert live_model("toy").price == Decimal("0.0006")


@pytest.mark.parametrize("price", ["-1", "1000.1", "0.0000001", "NaN", "x", ""])
def test_a_wrong_price_is_refused(admin_client: Client, model: Model, price: str) -> None:
    answer = admin_client.post(f"{LIST}{model.pk}/change/", {"price": price, **NO_ALTERNATIVES})
    assert answer.status_code == 200
    assert Model.objects.get().price == 0


def test_nothing_else_of_a_model_is_changed_there(admin_client: Client, model: Model) -> None:
    admin_client.post(
        f"{LIST}{model.pk}/change/", {"price": "1", "name": "other", **NO_ALTERNATIVES}
    )
    assert Model.objects.get().name == "toy"
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}{model.pk}/delete/", {"post": "yes"}).status_code == 403


def test_who_may_only_look_changes_no_price(
    client: Client, model: Model, django_user_model: Any
) -> None:
    client.force_login(django_user_model.objects.create_user("bob", is_staff=True))
    answer = client.post(f"{LIST}{model.pk}/change/", {"price": "1", **NO_ALTERNATIVES})
    assert answer.status_code == 403
