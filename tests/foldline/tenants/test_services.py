from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from foldline import fresh
from foldline.errors import KeyMissing, KeyRefused, KeyRotation
from foldline.tenants.models import ApiKey, Tenant
from foldline.tenants.services import (
    KEY,
    authenticate,
    callers,
    ensure_tenant,
    issue_key,
    revoke_key,
    rotate_key,
)

pytestmark = pytest.mark.django_db
MakeKey = Callable[..., tuple[ApiKey, str]]


def test_a_key_is_kept_only_as_prefix_and_hash(make_key: MakeKey) -> None:
    key, plaintext = make_key()
    shape = KEY.fullmatch(plaintext)
    assert shape is not None
    assert shape[1] == key.prefix
    stored = ApiKey.objects.values().get(pk=key.pk)
    assert plaintext not in str(stored)
    assert plaintext[-43:] not in str(stored)
    assert stored["digest"] == hashlib.sha256(plaintext.encode()).hexdigest()


def test_a_key_gives_its_tenant_and_scopes(tenant: Tenant, make_key: MakeKey) -> None:
    key, plaintext = make_key(scopes=["read"])
    caller = authenticate(plaintext)
    assert (caller.tenant_id, caller.key_id, caller.scopes) == (
        tenant.pk,
        key.pk,
        frozenset({"read"}),
    )


def test_two_keys_work_side_by_side_for_rotation(make_key: MakeKey) -> None:
    (_, one), (_, other) = make_key(), make_key()
    assert authenticate(one).tenant_id == authenticate(other).tenant_id


def test_a_third_active_key_of_one_name_is_refused(tenant: Tenant, make_key: MakeKey) -> None:
    (first, _), _ = make_key(), make_key()
    with pytest.raises(KeyRotation, match="Two keys named further are active"):
        make_key()
    make_key(name="another")
    issue_key(ensure_tenant("lab-c", name="C"), name="further")
    revoke_key(first)
    make_key()
    assert ApiKey.objects.filter(tenant=tenant, name="further").count() == 3


def test_an_expired_key_is_not_in_the_way_of_a_new_one(make_key: MakeKey) -> None:
    make_key(expires_at=timezone.now() - timedelta(seconds=1))
    make_key()
    make_key()


def test_a_rotated_key_works_on_for_a_while_beside_its_successor(
    tenant: Tenant, make_key: MakeKey
) -> None:
    key, old = make_key(scopes=["read"])
    before = timezone.now()
    made, new = rotate_key(key, overlap=timedelta(hours=2))
    key.refresh_from_db()
    assert (made.name, made.scopes, made.expires_at) == (key.name, ["read"], None)
    assert key.expires_at is not None
    assert timedelta(0) <= key.expires_at - before - timedelta(hours=2) < timedelta(minutes=1)
    assert authenticate(old).scopes == authenticate(new).scopes
    assert authenticate(new).key_id == made.pk
    ApiKey.objects.filter(pk=key.pk).update(expires_at=before)
    callers.clear()
    with pytest.raises(KeyRefused):
        authenticate(old)
    assert authenticate(new).tenant_id == tenant.pk


def test_a_successor_lives_as_long_as_its_forerunner_was_to(make_key: MakeKey) -> None:
    key, _ = make_key(expires_at=timezone.now() + timedelta(days=90))
    made, _ = rotate_key(key)
    ends = key.expires_at
    key.refresh_from_db()
    assert ends is not None
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == pytest.approx(
        timedelta(days=90), abs=timedelta(minutes=1)
    )
    assert key.expires_at is not None
    assert key.expires_at < ends


def test_an_overlap_never_makes_a_key_live_longer(make_key: MakeKey) -> None:
    soon = timezone.now() + timedelta(minutes=5)
    key, _ = make_key(expires_at=soon)
    rotate_key(key)
    key.refresh_from_db()
    assert key.expires_at == soon


@pytest.mark.django_db(transaction=True)
def test_without_an_overlap_the_old_key_ends_at_once(make_key: MakeKey) -> None:
    key, old = make_key()
    authenticate(old)
    rotate_key(key, overlap=timedelta(0))
    with pytest.raises(KeyRefused):
        authenticate(old)


def test_a_key_is_rotated_by_one_successor_at_a_time(make_key: MakeKey) -> None:
    key, _ = make_key()
    made, _ = rotate_key(key)
    for either in (key, made):
        with pytest.raises(KeyRotation, match="another key of its name is active"):
            rotate_key(either)
    revoke_key(key)
    with pytest.raises(KeyRotation, match="not active any more"):
        rotate_key(key)
    rotate_key(made)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
        lambda key: key[:-1],
        lambda key: key + "\x00",
        lambda key: "fl_live_" + "x" * 8 + key[16:],
        lambda key: "Ω" * 60,
    ],
    ids=["last letter", "too short", "NUL", "unknown prefix", "other letters"],
)
def test_a_wrong_key_is_refused(make_key: MakeKey, spoil: Callable[[str], str]) -> None:
    with pytest.raises(KeyRefused):
        authenticate(spoil(make_key()[1]))


def test_no_key_is_told_apart_from_a_wrong_one() -> None:
    with pytest.raises(KeyMissing):
        authenticate("")


def test_an_expired_key_is_refused(make_key: MakeKey) -> None:
    _, plaintext = make_key(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(KeyRefused):
        authenticate(plaintext)


def test_the_keys_of_an_inactive_tenant_are_refused(tenant: Tenant, make_key: MakeKey) -> None:
    _, plaintext = make_key()
    Tenant.objects.filter(pk=tenant.pk).update(active=False)
    with pytest.raises(KeyRefused):
        authenticate(plaintext)


@pytest.mark.django_db(transaction=True)
def test_a_revoked_key_is_refused_at_once_here(make_key: MakeKey) -> None:
    key, plaintext = make_key()
    authenticate(plaintext)
    assert revoke_key(key)
    assert not revoke_key(key)
    with pytest.raises(KeyRefused):
        authenticate(plaintext)


def test_a_key_revoked_by_another_process_is_refused_within_five_seconds(
    make_key: MakeKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    key, plaintext = make_key()
    authenticate(plaintext)
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    authenticate(plaintext)
    now += fresh.KEEP_S
    assert fresh.KEEP_S < 5
    with pytest.raises(KeyRefused):
        authenticate(plaintext)


@pytest.mark.usefixtures("clock_stands_still")
def test_a_known_key_costs_no_query(
    make_key: MakeKey, django_assert_num_queries: Callable[..., object]
) -> None:
    _, plaintext = make_key()
    authenticate(plaintext)
    with django_assert_num_queries(0):  # type: ignore[attr-defined]  # a context manager
        authenticate(plaintext)


def test_the_last_use_is_noted_at_most_once_a_minute(make_key: MakeKey) -> None:
    key, plaintext = make_key()
    authenticate(plaintext)
    key.refresh_from_db()
    first = key.last_used_at
    assert first is not None
    callers.clear()
    authenticate(plaintext)
    key.refresh_from_db()
    assert key.last_used_at == first
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=first - timedelta(seconds=61))
    callers.clear()
    authenticate(plaintext)
    key.refresh_from_db()
    assert key.last_used_at is not None
    assert key.last_used_at >= first


def test_a_tenant_is_made_once() -> None:
    assert ensure_tenant("demo", name="Demo") == ensure_tenant("demo", name="Other")
