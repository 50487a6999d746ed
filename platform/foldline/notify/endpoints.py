"""Endpoints of a tenant: registered, rotated, disabled, found again by id or URL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from foldline.clock import database_now
from foldline.errors import (
    InvalidRequest,
    WebhookExists,
    WebhookLimit,
    WebhookNotFound,
    finding,
)
from foldline.fresh import Fresh
from foldline.notify.models import NOTE_CHARACTERS, Delivery, WebhookEndpoint
from foldline.notify.signing import new_secret, seal
from foldline.notify.targets import Refused, target_of
from foldline.tenants import audit
from foldline.tenants.models import Tenant

MOST_OF_A_TENANT = 10
OVERLAP = timedelta(hours=24)
NOTIFIER = "notifier"

# The answers that every submit asks for; a new endpoint may stay unknown for two seconds.
hears_all_kept: Fresh[UUID, bool] = Fresh()
# A batch names the same one a hundred times. What is unknown is looked up each time.
named_kept: Fresh[tuple[UUID, str], UUID] = Fresh()


def register(
    tenant_id: UUID,
    *,
    url: str,
    events: Sequence[str] = (),
    all_jobs: bool = False,
    description: str = "",
) -> tuple[WebhookEndpoint, str]:
    """A new endpoint and its secret, which can be shown this once only.

    Raises InvalidRequest for a URL that is never called, WebhookExists, WebhookLimit.
    """
    _check_target(url)
    secret = new_secret()
    with transaction.atomic():
        # One at a time counts a tenant's endpoints; new jobs, which name the tenant, may pass.
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant_id)
        there = set(_kept(tenant_id).values_list("url", flat=True))
        if url in there:
            raise WebhookExists
        if len(there) >= MOST_OF_A_TENANT:
            raise WebhookLimit(f"A tenant has at most {MOST_OF_A_TENANT} endpoints.")
        made = WebhookEndpoint.objects.create(
            tenant_id=tenant_id,
            url=url,
            description=description,
            events=sorted(set(events)),
            all_jobs=all_jobs,
            secret=seal(secret),
            created_at=database_now(),
        )
    _look_again()
    return made, secret


def _check_target(url: str) -> None:
    try:
        target_of(url)
    except Refused as reason:
        raise InvalidRequest(
            f"This URL is never called: {reason}",
            errors=[
                finding(
                    "/url",
                    "target_refused",
                    got=url,
                    expected="https://, a public host name, port 443",
                    hint=str(reason),
                )
            ],
        ) from None


def endpoints_of(tenant_id: UUID) -> Sequence[WebhookEndpoint]:
    """The tenant's endpoints, in the order they were made."""
    return list(_kept(tenant_id).order_by("id"))


def endpoint_of(*, tenant_id: UUID, endpoint_id: UUID) -> WebhookEndpoint:
    """Raises WebhookNotFound, also for another's and for a deleted one."""
    found = _kept(tenant_id).filter(id=endpoint_id).first()
    if found is None:
        raise WebhookNotFound
    return found


def resolve(tenant_id: UUID, text: str) -> UUID:
    """The endpoint that a submit names, by its id or its URL; kept for two seconds. Raises
    InvalidRequest when there is none, or a disabled one."""
    return named_kept.get((tenant_id, text), lambda: _named(tenant_id, text))


def _named(tenant_id: UUID, text: str) -> UUID:
    named = Q(url=text)
    with suppress(ValueError):
        named |= Q(id=UUID(text))
    found = _kept(tenant_id).filter(named).first()
    if found is not None and found.disabled_at is None:
        return found.id
    disabled = found is not None
    raise InvalidRequest(
        errors=[
            finding(
                "/webhook",
                "webhook_disabled" if disabled else "webhook_unknown",
                got=text,
                expected="the id or the URL of an endpoint of yours",
                hint="Enable it again first."
                if disabled
                else "Register it at /v1/webhook-endpoints first.",
            )
        ]
    )


def hears_all(tenant_id: UUID) -> bool:
    """Whether the tenant has an endpoint that hears of all its jobs; kept for two seconds."""

    def look_up() -> bool:
        return _kept(tenant_id).filter(all_jobs=True, disabled_at=None).exists()

    return hears_all_kept.get(tenant_id, look_up)


def rotate(endpoint: WebhookEndpoint) -> str:
    """The new secret, shown this once only; the one before it signs too, for `OVERLAP`."""
    secret, now = new_secret(), database_now()
    with transaction.atomic():
        current = WebhookEndpoint.objects.select_for_update().get(pk=endpoint.pk)
        endpoint.old_secret, endpoint.old_secret_until = current.secret, now + OVERLAP
        endpoint.secret = seal(secret)
        endpoint.save(update_fields=["secret", "old_secret", "old_secret_until"])
    return secret


def secrets_of(endpoint: WebhookEndpoint, *, now: datetime) -> Sequence[str]:
    """The sealed secrets that sign now, the current one first."""
    until = endpoint.old_secret_until
    old = [endpoint.old_secret] if endpoint.old_secret and until and until > now else []
    return [endpoint.secret, *old]


def disable(endpoint_id: UUID, *, reason: str, by: str = "") -> bool:
    """Send it nothing more, and drop what waits for it; False when it was so already.

    `by`: who the audit names, where no admin's page does.
    """
    now, reason = database_now(), reason[:NOTE_CHARACTERS]
    with transaction.atomic():
        rows = WebhookEndpoint.objects.filter(pk=endpoint_id, disabled_at=None, deleted_at=None)
        if not rows.update(disabled_at=now, disabled_reason=reason):
            return False
        drop_waiting(endpoint_id, note=f"The endpoint was disabled. {reason}", now=now)
        if by:
            row = WebhookEndpoint.objects.get(pk=endpoint_id)
            audit.note(row, actor=by, changes={"disabled_reason": ["", reason]})
    _look_again()
    return True


def enable(endpoint_id: UUID) -> None:
    """Send to it again, as if it had never failed. What was dropped stays so until asked for."""
    WebhookEndpoint.objects.filter(pk=endpoint_id, deleted_at=None).update(
        disabled_at=None, disabled_reason="", failures=0, failing_since=None, paused_until=None
    )
    _look_again()


def delete(endpoint_id: UUID) -> None:
    """Forget its secrets and drop what waits for it; its log stays for the admin to see."""
    now = database_now()
    with transaction.atomic():
        WebhookEndpoint.objects.filter(pk=endpoint_id, deleted_at=None).update(
            deleted_at=now, all_jobs=False, secret="", old_secret=""
        )
        drop_waiting(endpoint_id, note="The endpoint was deleted.", now=now)
    _look_again()


def drop_waiting(endpoint_id: UUID, *, note: str, now: datetime) -> None:
    Delivery.objects.filter(endpoint_id=endpoint_id, state=Delivery.State.WAITING).update(
        state=Delivery.State.DROPPED, note=note[:NOTE_CHARACTERS], next_at=None, ended_at=now
    )


def _look_again() -> None:
    """What this process knows of endpoints may have changed."""
    hears_all_kept.clear()
    named_kept.clear()


def _kept(tenant_id: UUID) -> QuerySet[WebhookEndpoint]:
    return WebhookEndpoint.objects.filter(tenant_id=tenant_id, deleted_at=None)
