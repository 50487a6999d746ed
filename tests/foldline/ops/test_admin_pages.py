"""What holds for every page of the admin, whichever room it belongs to."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from foldline.tenants.models import User

pytestmark = pytest.mark.django_db

PAGES = sorted(admin.site._registry, key=lambda model: model._meta.label)


@pytest.mark.parametrize("model", PAGES, ids=lambda model: model._meta.label)
def test_a_page_of_something_that_is_no_id_sends_back_to_the_start(
    admin_user: User, model: type[Model]
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin_user)
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
    answer = client.get(reverse(name, args=["garbage"]))
    assert (answer.status_code, answer.headers["Location"]) == (302, reverse("admin:index"))
