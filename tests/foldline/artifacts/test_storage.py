"""What is durable, and that it costs no more than it must."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pytest_django import Settings

from foldline.artifacts import storage


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were synced, in order; they still are."""
    seen: list[Path] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        seen.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", note)
    return seen


def keep(content: bytes, *, tenant: UUID) -> Path:
    kept = storage.keep(tenant, [content], most=10_000)
    return storage.path_of(tenant, kept.sha256)


def test_bytes_are_synced_before_their_name_and_every_new_folder_with_the_one_above(
    settings: Settings, synced: list[Path]
) -> None:
    path = keep(b"first", tenant=uuid4())
    draft, *folders = synced
    assert draft.parent == settings.ARTIFACTS_DIR / "incoming"
    assert set(folders) == {
        path.parent,
        path.parent.parent,
        settings.ARTIFACTS_DIR,
        settings.ARTIFACTS_DIR.parent,
    }
    assert folders[-1] == path.parent


def test_a_further_file_in_a_known_folder_syncs_only_itself_and_the_folder(
    synced: list[Path],
) -> None:
    tenant = uuid4()
    path = keep(b"again", tenant=tenant)
    synced.clear()
    assert keep(b"again", tenant=tenant) == path
    assert [place.parent.name for place in synced[:1]] == ["incoming"]
    assert synced[1:] == [path.parent]


def test_a_folder_that_somebody_removed_is_made_again(synced: list[Path]) -> None:
    tenant = uuid4()
    path = keep(b"gone", tenant=tenant)
    path.unlink()
    path.parent.rmdir()
    synced.clear()
    assert keep(b"gone", tenant=tenant).read_bytes() == b"gone"
    assert path.parent.parent in synced


def test_a_write_that_fails_leaves_no_draft(settings: Settings) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise ConnectionError("the sender is gone")

    with pytest.raises(ConnectionError):
        storage.keep(uuid4(), chunks(), most=10)
    assert list((settings.ARTIFACTS_DIR / "incoming").iterdir()) == []
