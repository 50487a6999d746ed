"""What holds for every page of the admin, whichever room it belongs to."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from foldline.jobs.models import Job
from foldline.tenants.models import User
from tests.conftest import MakeLive
from tests.foldline.ops.full_house import one_more_of_everything

pytestmark = pytest.mark.django_db

PAGES = sorted(admin.site._registry, key=lambda model: model._meta.label)
every_page = pytest.mark.parametrize("model", PAGES, ids=lambda model: model._meta.label)

# What a page leads to: links, forms, and what unfold's dialogs ask for by htmx.
ADDRESS = re.compile(r'(?:href|action|hx-get|hx-post)="([^"#]+)"')


def url_of(model: type[Model], page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@pytest.fixture
def onlooker(django_user_model: type[User]) -> Client:
    """Staff who may see everything and change nothing."""
    user = django_user_model.objects.create(username="bob", password="!", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


@every_page
def test_a_page_of_something_that_is_no_id_sends_back_to_the_start(
    admin_user: User, model: type[Model]
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin_user)
    answer = client.get(url_of(model, "change", "garbage"))
    assert (answer.status_code, answer.headers["Location"]) == (302, reverse("admin:index"))


@every_page
def test_a_longer_list_takes_no_more_queries(
    admin_client: Client, live_revision: MakeLive, model: type[Model]
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(url_of(model, "changelist")).status_code == 200
        return len(captured)

    for number in range(2):
        one_more_of_everything(number, live_revision=live_revision)
    queries()  # what is made or read once
    few = queries()
    for number in range(2, 12):
        one_more_of_everything(number, live_revision=live_revision)
    assert model._default_manager.count() >= 12
    assert queries() == few


@every_page
@pytest.mark.parametrize("who", ["admin_client", "onlooker"])
def test_nobody_is_shown_a_link_or_a_button_that_fails(
    request: pytest.FixtureRequest, live_revision: MakeLive, model: type[Model], who: str
) -> None:
    client: Client = request.getfixturevalue(who)
    row = one_more_of_everything(1, live_revision=live_revision)[model]
    lists = (reverse("admin:index"), url_of(model, "changelist"))
    for url in (*lists, url_of(model, "change", row.pk)):
        for address in addresses(client, url):
            answer = client.get(address)
            assert answer.status_code in (200, 302, 405), (url, address)  # 405: takes a POST only


def addresses(client: Client, url: str) -> Iterator[str]:
    """Where one gets to from a page, beside files."""
    answer = client.get(url)
    assert answer.status_code == 200, url
    for found in set(ADDRESS.findall(answer.content.decode())):
        address = html.unescape(found)
        if address.startswith("?"):
            yield f"{url}{address}"
        elif address.startswith("/") and not address.startswith("/static/"):
            yield address


@every_page
def test_every_row_has_a_name(
    admin_client: Client, live_revision: MakeLive, model: type[Model]
) -> None:
    row = one_more_of_everything(1, live_revision=live_revision)[model]
    for url in (url_of(model, "changelist"), url_of(model, "change", row.pk)):
        assert f"{model.__name__} object (" not in admin_client.get(url).content.decode()


def test_times_are_told_to_the_second_and_in_which_zone(
    admin_client: Client, live_revision: MakeLive
) -> None:
    job = one_more_of_everything(1, live_revision=live_revision)[Job]
    Job.objects.update(created_at=datetime(2026, 3, 1, 16, 5, 9, tzinfo=UTC))
    for url in (url_of(Job, "changelist"), url_of(Job, "change", job.pk)):
        assert "2026-03-01 16:05:09\xa0UTC" in admin_client.get(url).content.decode()


def test_a_list_of_jobs_does_not_read_their_inputs(
    admin_client: Client, live_revision: MakeLive
) -> None:
    one_more_of_everything(1, live_revision=live_revision)
    with CaptureQueriesContext(connection) as captured:
        admin_client.get(url_of(Job, "changelist"))
    assert not [query for query in captured if '"jobs_job"."inputs"' in query["sql"]]
