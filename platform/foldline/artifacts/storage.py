"""Bytes on disk, named by what they contain. A file is there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings

from foldline.artifacts.sniff import HEAD_BYTES
from foldline.errors import BodyTooLarge, Storage

CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Bytes that are safely on disk; at `path` until they have a name."""

    sha256: str
    size: int
    head: bytes
    path: Path


def path_of(tenant_id: UUID, sha256: str) -> Path:
    """Where a tenant's bytes lie. No part of the path comes from a caller's name."""
    return settings.ARTIFACTS_DIR / tenant_id.hex / sha256[:2] / sha256


def keep(tenant_id: UUID, chunks: Iterable[bytes], *, most: int) -> Kept:
    """Write bytes down durably: synced, then renamed. Raises BodyTooLarge, Storage."""
    with received(chunks, most=most) as kept:
        name(tenant_id, kept)
    return kept


@contextmanager
def received(chunks: Iterable[bytes], *, most: int) -> Iterator[Kept]:
    """Bytes that are safely on disk and have no name yet; gone after the block unless it gave
    them one. Raises BodyTooLarge, Storage."""
    incoming = settings.ARTIFACTS_DIR / "incoming"
    draft = incoming / secrets.token_hex(16)
    with _as_storage_error():
        incoming.mkdir(parents=True, exist_ok=True)
    try:
        yield _write(draft, chunks, most=most)
    finally:
        draft.unlink(missing_ok=True)


def name(tenant_id: UUID, kept: Kept) -> None:
    """Give bytes their place in the tenant's store, durably. Raises Storage."""
    with _as_storage_error():
        _settle(kept.path, path_of(tenant_id, kept.sha256))


def open_bytes(tenant_id: UUID, sha256: str) -> BinaryIO:
    """The bytes, for reading. Raises Storage when they are not where the row says."""
    with _as_storage_error():
        return path_of(tenant_id, sha256).open("rb")


def copy_to(target: Path, *, tenant_id: UUID, sha256: str) -> None:
    """A read-only copy. Raises Storage when the bytes are not what their name says.

    A copy and no link: what a model does to its file must not reach the store.
    """
    digest = hashlib.sha256()
    with open_bytes(tenant_id, sha256) as source, _as_storage_error(), target.open("xb") as copy:
        for chunk in read_chunks(source):
            digest.update(chunk)
            copy.write(chunk)
    if digest.hexdigest() != sha256:
        raise Storage(f"The stored file {sha256[:12]}… is damaged.")
    target.chmod(0o444)


def require(tenant_id: UUID, sha256: str) -> None:
    """Raises Storage when the bytes are not there: a removal was faster. Trying again helps."""
    if not path_of(tenant_id, sha256).exists():
        raise Storage("The file was removed while it was stored.")


def set_aside(tenant_id: UUID, sha256: str) -> Path:
    """Take bytes out of their place, to be deleted once that is committed; gives where they are."""
    aside = settings.ARTIFACTS_DIR / "incoming" / f"removed-{secrets.token_hex(16)}"
    with _as_storage_error(), suppress(FileNotFoundError):
        path_of(tenant_id, sha256).rename(aside)
    return aside


def open_untrusted(path: Path) -> BinaryIO:
    """Open a file that a model left behind: a plain file, never where a link leads."""
    with _as_storage_error():
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Storage(f"{path.name} is not a plain file.")
    return os.fdopen(descriptor, "rb")


def read_chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(CHUNK_BYTES):
        yield chunk


def _write(draft: Path, chunks: Iterable[bytes], *, most: int) -> Kept:
    digest, size, head = hashlib.sha256(), 0, b""
    with _as_storage_error():
        # Without a buffer: one that a full disk left behind would fail again on closing.
        file = draft.open("xb", buffering=0)
    with file:
        for chunk in chunks:
            size += len(chunk)
            if size > most:
                raise BodyTooLarge(f"A file has at most {most} bytes.")
            if len(head) < HEAD_BYTES:
                head += chunk[:HEAD_BYTES]
            digest.update(chunk)
            with _as_storage_error():
                _write_whole(file, chunk)
        with _as_storage_error():
            os.fsync(file.fileno())
    return Kept(sha256=digest.hexdigest(), size=size, head=head[:HEAD_BYTES], path=draft)


def _write_whole(file: FileIO, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[file.write(rest) :]


def _settle(draft: Path, target: Path) -> None:
    """Give the bytes their name and make the name durable."""
    _found(target.parent)
    draft.replace(target)
    _sync(target.parent)


_founded: set[Path] = set()


def _found(folder: Path) -> None:
    """Make a folder whose own place is durable, too: its name is an entry of the one above.

    Once a process for each folder. Who made it may not have come to syncing it yet.
    """
    if folder in _founded and folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for above in (folder.parent, settings.ARTIFACTS_DIR, settings.ARTIFACTS_DIR.parent):
        _sync(above)
    _founded.add(folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _as_storage_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Storage(f"The file store failed: {error.strerror or error}.") from error
