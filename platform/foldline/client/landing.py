"""Where a download comes down: a file with a safe name, whole and with the right hash, or none."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

MOST_NAME_BYTES = 180
BLOCK_BYTES = 256 * 1024
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_FORBIDDEN = frozenset('/\\:*?"<>|')


class Landing:
    """Takes the bytes of a file. They may begin anew: a download that broke off is repeated."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.begin()

    def begin(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()

    def take(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._hash.update(chunk)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def landing(target: Path) -> Iterator[Landing]:
    """`target` appears at the end of the block, whole; if the block raises, it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.parent / f".foldline-{secrets.token_hex(8)}.part"
    try:
        with part.open("x+b") as file:
            yield Landing(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write(target: Path, text: str) -> None:
    """Write a text file as a download lands: whole or not at all."""
    with landing(target) as file:
        file.take(text.encode())


def blocks(file: Path) -> Iterator[bytes]:
    """A file in pieces, never held whole."""
    with file.open("rb") as content:
        while block := content.read(BLOCK_BYTES):
            yield block


async def ablocks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as content:
        while block := await asyncio.to_thread(content.read, BLOCK_BYTES):
            yield block


def sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def safe_name(name: str, *, otherwise: str) -> str:
    """A name from the server as the name of a file in a folder: it cannot leave the folder, hide
    itself, or mean a device; `otherwise` when nothing is left of it."""
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(c for c in last if c.isprintable() and c not in _FORBIDDEN)
    kept = _cut(kept.strip(" .-~"))
    return kept if kept and not _RESERVED.fullmatch(kept) else otherwise


def files_in(result: Any) -> list[Mapping[str, Any]]:
    """Every file that a result names, wherever it stands: objects with `artifact` and `sha256`."""
    if isinstance(result, Mapping):
        if isinstance(result.get("artifact"), str) and "sha256" in result:
            return [result]
        return [file for value in result.values() for file in files_in(value)]
    if isinstance(result, list):
        return [file for value in result for file in files_in(value)]
    return []


def _cut(name: str) -> str:
    """A name that every file system takes, with its ending."""
    stem, ending = os.path.splitext(name)
    ending = ending[:20]
    return stem.encode()[: MOST_NAME_BYTES - len(ending.encode())].decode(errors="ignore") + ending
