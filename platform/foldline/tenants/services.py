"""API keys: issued once, recognised on every request, revoked within seconds."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from foldline.errors import KeyMissing, KeyRefused, KeyRotation
from foldline.fresh import Fresh
from foldline.tenants.models import ApiKey, Tenant

KEY = re.compile(r"fl_live_([A-Za-z0-9]{8})_([A-Za-z0-9_-]{43})")
USE_NOTED_EVERY = timedelta(minutes=1)
MOST_OF_ONE_NAME = 2  # the old and the new one of a rotation
OVERLAP = timedelta(hours=24)

_PREFIX_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who a request comes from."""

    tenant_id: UUID
    key_id: UUID
    scopes: frozenset[str]


# By the key's hash, so that no plaintext stays in memory. Revoking takes effect in other
# processes once their entry is two seconds old.
callers: Fresh[str, Caller] = Fresh()


def ensure_tenant(slug: str, *, name: str) -> Tenant:
    """The tenant of this slug; made when there is none."""
    tenant, _ = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
    return tenant


def issue_key(
    tenant: Tenant,
    *,
    name: str,
    scopes: Iterable[str] = tuple(ApiKey.Scope.values),
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its plaintext, which is kept nowhere and can be shown this once only.

    Raises KeyRotation when two keys of this name are active.
    """
    with transaction.atomic():
        _lock(tenant.pk)
        if active_keys().filter(tenant=tenant, name=name).count() >= MOST_OF_ONE_NAME:
            raise KeyRotation(f"Two keys named {name} are active: revoke one of them first.")
        return _new_key(tenant.pk, name=name, scopes=scopes, expires_at=expires_at)


def rotate_key(key: ApiKey, *, overlap: timedelta = OVERLAP) -> tuple[ApiKey, str]:
    """A successor of the same name, scopes and lifetime, and its plaintext; the old key ends
    after `overlap`. Raises KeyRotation when the key is not active, or not the only one."""
    with transaction.atomic():
        _lock(key.tenant_id)
        old = active_keys().filter(pk=key.pk).first()
        if old is None:
            raise KeyRotation(f"{key} is not active any more.")
        if active_keys().filter(tenant_id=old.tenant_id, name=old.name).count() > 1:
            raise KeyRotation(f"{key} is being rotated: another key of its name is active.")
        now = timezone.now()
        ends = now + (old.expires_at - old.created_at) if old.expires_at else None
        made = _new_key(old.tenant_id, name=old.name, scopes=old.scopes, expires_at=ends)
        old.expires_at = min(old.expires_at or now + overlap, now + overlap)
        old.save(update_fields=["expires_at"])
        transaction.on_commit(callers.clear)
        return made


def active_keys() -> QuerySet[ApiKey]:
    """Keys that are neither revoked nor expired."""
    return ApiKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now()), revoked_at=None
    )


def ended_keys(keys: Collection[UUID]) -> set[UUID]:
    """Those of the keys that are refused by now. When there are any, this process looks every
    key up anew."""
    good = active_keys().filter(id__in=keys, tenant__active=True).values_list("id", flat=True)
    if ended := set(keys) - set(good):
        callers.clear()
    return ended


def _lock(tenant_id: UUID) -> None:
    """One at a time counts a tenant's keys. Not in the way of new jobs, which name the tenant;
    on SQLite the transaction itself is alone."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant_id)


def _new_key(
    tenant_id: UUID, *, name: str, scopes: Iterable[str], expires_at: datetime | None
) -> tuple[ApiKey, str]:
    prefix = "".join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(8))
    plaintext = f"fl_live_{prefix}_{secrets.token_urlsafe(32)}"
    key = ApiKey.objects.create(
        tenant_id=tenant_id,
        name=name,
        prefix=prefix,
        digest=_digest(plaintext),
        scopes=sorted(scopes),
        expires_at=expires_at,
    )
    return key, plaintext


def revoke_key(key: ApiKey) -> bool:
    """End a key now; False when it was revoked before."""
    revoked = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
    transaction.on_commit(callers.clear)
    return bool(revoked)


def authenticate(plaintext: str) -> Caller:
    """The caller a key belongs to. Raises KeyMissing or KeyRefused."""
    if not plaintext:
        raise KeyMissing
    digest = _digest(plaintext)
    return callers.get(digest, lambda: _look_up(plaintext, digest))


def _digest(plaintext: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(plaintext.encode()).hexdigest()


def _look_up(plaintext: str, digest: str) -> Caller:
    shape = KEY.fullmatch(plaintext)
    if shape is None:
        raise KeyRefused
    key = active_keys().filter(prefix=shape[1], tenant__active=True).first()
    if key is None or not hmac.compare_digest(key.digest, digest):
        raise KeyRefused
    _note_use(key, now=timezone.now())
    return Caller(tenant_id=key.tenant_id, key_id=key.pk, scopes=frozenset(key.scopes))


def _note_use(key: ApiKey, *, now: datetime) -> None:
    if key.last_used_at is None or key.last_used_at < now - USE_NOTED_EVERY:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
