"""The files of a result, into a folder of the person's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foldline.client.cli.door import fail, say
from foldline.client.cli.words import clean
from foldline.client.landing import safe_name, sha256_of
from foldline.client.sync import Foldline


def save_files(
    foldline: Foldline, files: Sequence[Mapping[str, Any]], folder: Path, *, overwrite: bool
) -> list[Path]:
    """Download each under its own name; two of one name are told apart by a number.

    A file that is there with the same content stays. Another in its place is an error, unless
    `overwrite`.
    """
    saved: list[Path] = []
    for file in _each_once(files):
        target = _target(folder, file, saved)
        if not (target.is_file() and sha256_of(target) == file["sha256"]):
            if target.exists() and not overwrite:
                fail(f"{clean(target)} exists and is another file: --overwrite, or another folder.")
            foldline.download(str(file["artifact"]), target)
        saved.append(target)
        say(f"Saved {clean(target)}")
    return saved


def _each_once(files: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({str(file["artifact"]): file for file in files}.values())


def _target(folder: Path, file: Mapping[str, Any], taken: Sequence[Path]) -> Path:
    otherwise = safe_name(str(file["artifact"]), otherwise="file")
    target = folder / safe_name(str(file.get("name", "")), otherwise=otherwise)
    first, number = target, 1
    # Not every file system tells upper from lower case.
    lower = {path.name.lower() for path in taken}
    while target.name.lower() in lower:
        number += 1
        target = first.with_name(f"{first.stem}-{number}{first.suffix}")
    return target
