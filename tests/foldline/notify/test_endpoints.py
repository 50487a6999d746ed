from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from foldline.clock import database_now
from foldline.errors import FoldlineError, InvalidRequest, WebhookExists, WebhookLimit
from foldline.notify import endpoints
from foldline.notify.endpoints import MOST_OF_A_TENANT, hears_all, resolve, secrets_of
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.signing import unseal
from foldline.tenants.models import AuditEntry, Tenant
from tests.foldline.notify.conftest import Register

pytestmark = pytest.mark.django_db

A, B = "https://a.example.com/", "https://b.example.com/"


def code_of(refused: pytest.ExceptionInfo[InvalidRequest]) -> list[str]:
    return [error["code"] for error in refused.value.errors]


class TestRegistering:
    def test_the_secret_is_given_once_and_kept_sealed(self, tenant: Tenant) -> None:
        made, secret = endpoints.register(tenant.id, url=A)
        row = WebhookEndpoint.objects.filter(pk=made.pk).values().get()
        assert secret not in str(row)
        assert unseal(row["secret"]) == secret

    def test_a_url_is_registered_once(self, tenant: Tenant, other_tenant: Tenant) -> None:
        endpoints.register(tenant.id, url=A)
        with pytest.raises(WebhookExists):
            endpoints.register(tenant.id, url=A)
        endpoints.register(other_tenant.id, url=A)

    def test_a_deleted_one_leaves_its_place_and_its_url(self, tenant: Tenant) -> None:
        made = [
            endpoints.register(tenant.id, url=f"{A}{number}")[0]
            for number in range(MOST_OF_A_TENANT)
        ]
        with pytest.raises(WebhookLimit, match="at most 10"):
            endpoints.register(tenant.id, url=B)
        endpoints.delete(made[0].id)
        endpoints.register(tenant.id, url=f"{A}0")

    def test_the_gateway_itself_is_refused_with_words(self, tenant: Tenant) -> None:
        with pytest.raises(InvalidRequest, match="This is the gateway itself") as refused:
            endpoints.register(tenant.id, url="http://127.0.0.1:8000/v1/models/toy/jobs")
        assert code_of(refused) == ["target_refused"]

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite lets one writer in at a time")
    def test_many_at_once_are_no_more_than_ten(self, tenant: Tenant) -> None:
        failures: list[type[FoldlineError]] = []

        def register(number: int) -> None:
            try:
                endpoints.register(tenant.id, url=f"{A}{number}")
            except FoldlineError as error:
                failures.append(type(error))
            finally:
                connection.close()

        threads = [threading.Thread(target=register, args=(n,)) for n in range(15)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert WebhookEndpoint.objects.count() == MOST_OF_A_TENANT
        assert failures == [WebhookLimit] * 5


class TestRotating:
    def test_the_old_secret_signs_beside_the_new_one_for_a_day(self, tenant: Tenant) -> None:
        made, old = endpoints.register(tenant.id, url=A)
        new = endpoints.rotate(made)
        made.refresh_from_db()
        now = database_now()
        signing = [unseal(each) for each in secrets_of(made, now=now)]
        assert signing == [new, old]
        later = now + timedelta(hours=24, seconds=5)
        assert [unseal(each) for each in secrets_of(made, now=later)] == [new]

    def test_a_second_rotation_ends_the_first_secret(self, tenant: Tenant) -> None:
        made, _ = endpoints.register(tenant.id, url=A)
        second = endpoints.rotate(made)
        third = endpoints.rotate(made)
        made.refresh_from_db()
        signing = [unseal(each) for each in secrets_of(made, now=database_now())]
        assert signing == [third, second]


class TestNaming:
    def test_an_endpoint_is_named_by_its_id_or_its_url(self, register: Register) -> None:
        made = register(A)
        assert resolve(made.tenant_id, str(made.id)) == made.id
        assert resolve(made.tenant_id, str(made.id).upper()) == made.id
        assert resolve(made.tenant_id, A) == made.id

    @pytest.mark.parametrize(
        "text", ["", "nonsense", B, str(UUID(int=1)), "http://127.0.0.1:8000/"]
    )
    def test_what_names_none_is_refused(
        self, tenant: Tenant, register: Register, text: str
    ) -> None:
        register(A)
        with pytest.raises(InvalidRequest) as refused:
            resolve(tenant.id, text)
        assert code_of(refused) == ["webhook_unknown"]

    def test_anothers_and_a_deleted_one_are_none(
        self, tenant: Tenant, other_tenant: Tenant, register: Register
    ) -> None:
        theirs, gone = register(A, of=other_tenant), register(B)
        endpoints.delete(gone.id)
        for text in (str(theirs.id), A, str(gone.id), B):
            with pytest.raises(InvalidRequest) as refused:
                resolve(tenant.id, text)
            assert code_of(refused) == ["webhook_unknown"]

    def test_one_that_many_calls_name_is_looked_up_once(
        self,
        register: Register,
        django_assert_num_queries: DjangoAssertNumQueries,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(endpoints.named_kept, "_keep_s", 3600.0)
        made = register(A)
        with django_assert_num_queries(1):
            assert {resolve(made.tenant_id, A) for _ in range(100)} == {made.id}

    def test_one_that_was_just_registered_is_known_at_once(
        self, tenant: Tenant, register: Register
    ) -> None:
        with pytest.raises(InvalidRequest):
            resolve(tenant.id, A)
        WebhookEndpoint.objects.create(  # as another process does
            tenant=tenant, url=A, secret="sealed", created_at=database_now()
        )
        assert resolve(tenant.id, A) == WebhookEndpoint.objects.get().id

    def test_a_disabled_one_is_refused_by_another_name(
        self, tenant: Tenant, register: Register
    ) -> None:
        endpoints.disable(register(A).id, reason="broken")
        with pytest.raises(InvalidRequest) as refused:
            resolve(tenant.id, A)
        assert code_of(refused) == ["webhook_disabled"]


class TestHearingAll:
    def test_a_tenant_hears_while_one_of_its_endpoints_does(
        self, tenant: Tenant, register: Register
    ) -> None:
        assert not hears_all(tenant.id)
        register(B, all_jobs=False)
        assert not hears_all(tenant.id)
        made = register(A)
        assert hears_all(tenant.id)
        endpoints.disable(made.id, reason="broken")
        assert not hears_all(tenant.id)
        endpoints.enable(made.id)
        assert hears_all(tenant.id)
        endpoints.delete(made.id)
        assert not hears_all(tenant.id)

    def test_it_costs_a_submit_no_query(
        self,
        tenant: Tenant,
        django_assert_num_queries: DjangoAssertNumQueries,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(endpoints.hears_all_kept, "_keep_s", 3600.0)
        hears_all(tenant.id)
        with django_assert_num_queries(0):
            assert not hears_all(tenant.id)


class TestEnding:
    @pytest.fixture
    def waiting(self, register: Register, end_job: Callable[..., UUID]) -> WebhookEndpoint:
        from foldline.notify.spreading import spread

        made = register(A)
        for _ in range(3):
            end_job()
        spread()
        return made

    def test_what_waits_for_a_disabled_one_is_dropped_in_words(
        self, waiting: WebhookEndpoint
    ) -> None:
        assert endpoints.disable(waiting.id, reason="It broke.", by="notifier")
        assert not endpoints.disable(waiting.id, reason="again")
        told = set(Delivery.objects.values_list("state", "note", "next_at"))
        assert told == {("dropped", "The endpoint was disabled. It broke.", None)}
        entry = AuditEntry.objects.get()
        assert (entry.actor, entry.kind) == ("notifier", "notify.webhookendpoint")
        assert entry.changes == {"disabled_reason": ["", "It broke."]}

    def test_a_deleted_one_forgets_its_secrets_and_drops_what_waits(
        self, waiting: WebhookEndpoint
    ) -> None:
        endpoints.rotate(waiting)
        endpoints.delete(waiting.id)
        waiting.refresh_from_db()
        assert (waiting.secret, waiting.old_secret) == ("", "")
        told = set(Delivery.objects.values_list("state", "note"))
        assert told == {("dropped", "The endpoint was deleted.")}

    def test_an_enabled_one_begins_as_if_it_had_never_failed(
        self, waiting: WebhookEndpoint
    ) -> None:
        WebhookEndpoint.objects.update(failures=9, failing_since=database_now())
        endpoints.disable(waiting.id, reason="It broke.")
        endpoints.enable(waiting.id)
        waiting.refresh_from_db()
        health = (waiting.failures, waiting.failing_since, waiting.paused_until)
        assert health == (0, None, None)
        assert (waiting.disabled_at, waiting.disabled_reason) == (None, "")
        assert set(Delivery.objects.values_list("state", flat=True)) == {"dropped"}

    def test_a_tenant_that_is_deleted_takes_its_endpoints_along(
        self, waiting: WebhookEndpoint, tenant: Tenant
    ) -> None:
        tenant.delete()
        assert not WebhookEndpoint.objects.exists()
        assert not Delivery.objects.exists()
