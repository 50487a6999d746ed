from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from foldline.errors import KeyRefused
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import KEY, authenticate, callers

pytestmark = pytest.mark.django_db
KEYS = "/admin/tenants/apikey/"
MakeKey = Callable[..., tuple[ApiKey, str]]


def make(admin_client: Client, tenant: Tenant, **changes: Any) -> Any:
    form = {"tenant": str(tenant.pk), "name": "agent", "scopes": ["read"], **changes}
    return admin_client.post(f"{KEYS}add/", form, follow=True)


def test_a_new_key_is_shown_this_once_only(admin_client: Client, tenant: Tenant) -> None:
    shown = make(admin_client, tenant).content.decode()
    found = re.findall(KEY.pattern, shown)
    assert len(found) == 1
    plaintext = KEY.search(shown)
    assert plaintext is not None
    caller = authenticate(plaintext[0])
    assert (caller.tenant_id, caller.scopes) == (tenant.pk, frozenset({"read"}))
    for url in (KEYS, f"{KEYS}{caller.key_id}/change/", f"{KEYS}{caller.key_id}/history/"):
        later = admin_client.get(url).content.decode()
        assert plaintext[0] not in later
        assert ApiKey.objects.get().digest not in later
    assert plaintext[0] not in str(LogEntry.objects.values())


def test_a_key_needs_a_known_scope(admin_client: Client, tenant: Tenant) -> None:
    for scopes in ([], ["everything"]):
        assert make(admin_client, tenant, scopes=scopes).status_code == 200
    assert not ApiKey.objects.exists()


def test_a_key_cannot_be_changed_or_deleted(admin_client: Client, make_key: MakeKey) -> None:
    key, _ = make_key()
    change = admin_client.post(f"{KEYS}{key.pk}/change/", {"name": "other"})
    assert change.status_code == 403
    assert admin_client.post(f"{KEYS}{key.pk}/delete/", {"post": "yes"}).status_code == 403


def test_a_key_is_revoked_by_its_button(admin_client: Client, make_key: MakeKey) -> None:
    key, plaintext = make_key()
    page = admin_client.get(f"{KEYS}{key.pk}/change/").content.decode()
    assert f"{KEYS}{key.pk}/revoke/" in page
    asked = admin_client.get(f"{KEYS}{key.pk}/revoke/")
    assert "refused within five seconds" in asked.content.decode()
    authenticate(plaintext)
    admin_client.post(f"{KEYS}{key.pk}/revoke/", {"_form_submitted": "on"})
    callers.clear()
    with pytest.raises(KeyRefused):
        authenticate(plaintext)
    assert LogEntry.objects.filter(object_id=str(key.pk), change_message="Revoked.").exists()


def test_keys_are_revoked_from_the_list(admin_client: Client, make_key: MakeKey) -> None:
    keys = [make_key()[0] for _ in range(2)]
    selected = [str(key.pk) for key in keys]
    admin_client.post(KEYS, {"action": "revoke_selected", "_selected_action": selected})
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_who_may_only_look_revokes_nothing(
    client: Client, make_key: MakeKey, django_user_model: Any
) -> None:
    key, _ = make_key()
    client.force_login(django_user_model.objects.create_user("bob", is_staff=True))
    answer = client.post(f"{KEYS}{key.pk}/revoke/", {"_form_submitted": "on"})
    assert answer.status_code == 403
    assert ApiKey.objects.get().revoked_at is None


def test_a_tenant_is_switched_off_and_never_deleted(admin_client: Client, tenant: Tenant) -> None:
    url = f"/admin/tenants/tenant/{tenant.pk}/"
    admin_client.post(f"{url}change/", {"slug": tenant.slug, "name": tenant.name})
    tenant.refresh_from_db()
    assert not tenant.active
    assert admin_client.post(f"{url}delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("page", ["tenants/user/", "tenants/user/add/", "auth/group/", ""])
def test_the_other_pages_open(admin_client: Client, page: str) -> None:
    assert admin_client.get(f"/admin/{page}").status_code == 200
