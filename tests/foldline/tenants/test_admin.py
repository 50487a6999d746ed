from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

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


def rotate(admin_client: Client, key: ApiKey, **form: Any) -> str:
    """What the admin sees after the dialog."""
    url = f"{KEYS}{key.pk}/rotate/"
    return admin_client.post(url, {"_form_submitted": "on", **form}, follow=True).content.decode()


def test_a_key_is_rotated_and_its_successor_shown_once(
    admin_client: Client, make_key: MakeKey
) -> None:
    key, old = make_key(scopes=["read"])
    assert f"{KEYS}{key.pk}/rotate/" in admin_client.get(f"{KEYS}{key.pk}/change/").content.decode()
    assert 'value="24"' in admin_client.get(f"{KEYS}{key.pk}/rotate/").content.decode()
    new = KEY.search(rotate(admin_client, key, overlap_h=2))
    assert new is not None
    assert authenticate(new[0]).scopes == authenticate(old).scopes == {"read"}
    made = ApiKey.objects.get(pk=authenticate(new[0]).key_id)
    assert made.name == key.name
    assert new[0] not in admin_client.get(f"{KEYS}{made.pk}/change/").content.decode()
    key.refresh_from_db()
    assert key.expires_at is not None
    assert key.expires_at <= timezone.now() + timedelta(hours=2)
    said = rotate(admin_client, made, overlap_h=2)
    assert "another key of its name is active" in said
    assert KEY.search(said) is None


@pytest.mark.parametrize("overlap", ["-1", "721", "soon", ""])
def test_an_overlap_is_hours_up_to_a_month(
    admin_client: Client, make_key: MakeKey, overlap: str
) -> None:
    key, _ = make_key()
    rotate(admin_client, key, overlap_h=overlap)
    assert ApiKey.objects.count() == 1


def test_a_third_key_of_a_name_is_refused_in_words(admin_client: Client, tenant: Tenant) -> None:
    for _ in range(2):
        make(admin_client, tenant)
    shown = make(admin_client, tenant)
    assert "Two keys named agent are active" in shown.content.decode()
    assert ApiKey.objects.count() == 2


def test_the_list_tells_active_expired_and_revoked_keys_apart(
    admin_client: Client, make_key: MakeKey
) -> None:
    make_key(name="one", expires_at=timezone.now() + timedelta(days=1))
    for expected in ("active", "expired", "revoked"):
        shown = admin_client.get(KEYS).content.decode()
        badges = [word for word in ("active", "expired", "revoked") if f">{word}<" in
                  re.sub(r"\s+", "", shown)]  # fmt: skip
        assert badges == [expected]
        if expected == "active":
            ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        elif expected == "expired":
            ApiKey.objects.update(revoked_at=timezone.now())


def test_what_has_ended_is_not_rotated(admin_client: Client, make_key: MakeKey) -> None:
    key, _ = make_key(expires_at=timezone.now() - timedelta(seconds=1))
    assert "/rotate/" not in admin_client.get(f"{KEYS}{key.pk}/change/").content.decode()
    answer = admin_client.post(
        f"{KEYS}{key.pk}/rotate/", {"_form_submitted": "on", "overlap_h": "1"}
    )
    assert answer.status_code == 403


@pytest.mark.parametrize("page", ["tenants/user/", "tenants/user/add/", "auth/group/", ""])
def test_the_other_pages_open(admin_client: Client, page: str) -> None:
    assert admin_client.get(f"/admin/{page}").status_code == 200
