"""Keeping files for tenants. The same bytes twice are the same artifact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import RestrictedError
from django.utils import timezone

from foldline.artifacts import sniff, storage
from foldline.artifacts.models import Artifact
from foldline.artifacts.selectors import stored_bytes
from foldline.errors import InvalidRequest, QuotaForbids, finding
from foldline.tenants.models import Quota
from foldline.tenants.quotas import quotas_of

NAME_CHARACTERS = 128
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,59}/[a-z0-9][a-z0-9.+-]{0,59}")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An artifact as it is kept; `created` is False when the tenant had these bytes already."""

    id: UUID
    name: str
    media_type: str
    size: int
    sha256: str
    created: bool


def store_upload(*, tenant_id: UUID, chunks: Iterable[bytes], name: str) -> Stored:
    """Keep what a caller sends. Its kind is judged by its content.

    Raises InvalidRequest for a name that is none, BodyTooLarge, QuotaForbids, Storage.
    """
    if not is_name(name):
        raise InvalidRequest(
            "The name of the file cannot be used.",
            errors=[
                finding(
                    "?name",
                    "invalid_name",
                    got=name,
                    expected=f"1 to {NAME_CHARACTERS} printable characters without / and \\",
                    hint="Send only the file's own name as `?name=`.",
                )
            ],
        )
    with (
        storage.received(chunks, most=settings.MAX_UPLOAD_BYTES) as kept,
        _room_for(tenant_id, kept),
    ):
        storage.name(tenant_id, kept)
        return _row(tenant_id, kept, name=name, media_type=sniff.media_type(kept.head))


@contextmanager
def _room_for(tenant_id: UUID, kept: storage.Kept) -> Iterator[None]:
    """Nobody else's upload uses the room that these bytes take. Bytes that the tenant has take
    none. Raises QuotaForbids."""
    if quotas_of(tenant_id).whole.artifact_bytes is None:
        yield
        return
    with transaction.atomic():
        # PostgreSQL locks the row; SQLite lets one transaction write at a time.
        locked = Quota.objects.select_for_update().filter(tenant_id=tenant_id, model=None)
        allowed = locked.values_list("artifact_bytes", flat=True).first()
        known = Artifact.objects.filter(tenant_id=tenant_id, sha256=kept.sha256).exists()
        if allowed is not None and not known:
            used = stored_bytes(tenant_id)
            if used + kept.size > allowed:
                raise QuotaForbids.of("artifact_bytes", used=used, allowed=allowed)
        yield


def store_file(*, tenant_id: UUID, path: Path, name: str, media_type: str) -> Stored:
    """Keep a file that a model left behind; durable when this returns.

    Whatever the tenant's quota says, because the job was accepted. Raises Storage when it is no
    plain file, BodyTooLarge.
    """
    with storage.open_untrusted(path) as source:
        chunks = storage.read_chunks(source)
        kept = storage.keep(tenant_id, chunks, most=settings.MAX_UPLOAD_BYTES)
    known = media_type if _MEDIA_TYPE.fullmatch(media_type) else sniff.media_type(kept.head)
    return _row(tenant_id, kept, name=name if is_name(name) else "output", media_type=known)


def materialise(*, tenant_id: UUID, sha256: str, target: Path) -> None:
    """Lay a read-only copy of an artifact at `target`. Raises Storage."""
    storage.copy_to(target, tenant_id=tenant_id, sha256=sha256)


def reference(stored: Stored, *, name: str) -> dict[str, str | int]:
    """How a result refers to a file; `name` is what this job calls it, and `artifact` can be the
    input of a next one."""
    return {
        "artifact": str(stored.id),
        "name": name,
        "media_type": stored.media_type,
        "size": stored.size,
        "sha256": stored.sha256,
    }


def remove(artifact_id: UUID, *, unused_since: datetime) -> bool:
    """Remove a file and its row, unless it was used since or a job needs it."""
    try:
        with transaction.atomic():
            row = (
                Artifact.objects.select_for_update()
                .filter(id=artifact_id, used_at__lt=unused_since)
                .first()
            )
            if row is None:
                return False
            row.delete()
            aside = storage.set_aside(row.tenant_id, row.sha256)
    except RestrictedError:
        return False
    aside.unlink(missing_ok=True)
    return True


def is_name(name: str) -> bool:
    """Whether a text can suggest a file's name: it is shown, and never used as a path."""
    return (
        0 < len(name) <= NAME_CHARACTERS
        and name.isprintable()
        and not set(name) & {"/", "\\"}
        and name not in (".", "..")
    )


def _row(tenant_id: UUID, kept: storage.Kept, *, name: str, media_type: str) -> Stored:
    draft = Artifact(
        tenant_id=tenant_id,
        sha256=kept.sha256,
        size=kept.size,
        name=name,
        media_type=media_type,
    )
    mine = Artifact.objects.filter(tenant_id=tenant_id, sha256=kept.sha256)
    # 0 rows: it was removed as unused between the two statements.
    while not mine.update(used_at=timezone.now()):
        Artifact.objects.bulk_create([draft], ignore_conflicts=True)
    storage.require(tenant_id, kept.sha256)
    row = mine.get()
    return Stored(
        id=row.id,
        name=row.name,
        media_type=row.media_type,
        size=row.size,
        sha256=row.sha256,
        created=row.id == draft.id,
    )
