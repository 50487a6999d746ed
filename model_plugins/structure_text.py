"""Turns an uploaded structure file into plain PDB lines, or says why it is none.

Shared by the plugins that read structures; standard library only, so that inputs can be
checked before any model is loaded.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path

from model_plugins.base import InvalidInput

MAX_BYTES = 32 * 1024 * 1024
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"

Warnings = list[tuple[str, str]]
"""Pairs of code and message, in the order in which they were noticed."""


def read_lines(path: Path, *, pointer: str, warnings: Warnings) -> Sequence[str]:
    """The lines of a PDB file: gzip unpacked (bounded), BOM and CR line ends gone.

    Raises InvalidInput for what is no PDB file. Appends to `warnings` what was changed.
    """
    body = _bytes(path, pointer=pointer, warnings=warnings)
    text = _decoded(body, warnings=warnings)
    _refuse_other_formats(text, pointer=pointer)
    return text.splitlines()


def _bytes(path: Path, *, pointer: str, warnings: Warnings) -> bytes:
    with path.open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    if body.startswith(_GZIP):
        body = _unpacked(body, pointer=pointer)
        warnings.append(("decompressed", f"{pointer}: the file was gzip-compressed."))
    if len(body) > MAX_BYTES:
        raise InvalidInput(
            f"The file is larger than {MAX_BYTES} bytes.",
            pointer=pointer,
            reason="file_too_large",
            expected=f"at most {MAX_BYTES} bytes, unpacked",
            hint="Keep one model and only the chains that matter.",
        )
    return body


def _unpacked(body: bytes, *, pointer: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(
            f"The gzip file cannot be unpacked: {error}.",
            pointer=pointer,
            reason="gzip_broken",
            expected="a complete gzip file or plain text",
            hint="Upload it again, unpacked.",
        ) from error


def _decoded(body: bytes, *, warnings: Warnings) -> str:
    try:
        return body.removeprefix(_BOM).decode()
    except UnicodeDecodeError:
        warnings.append(("decoded_as_latin1", "The file is not UTF-8; it was read as Latin-1."))
        return body.decode("latin-1")


def _refuse_other_formats(text: str, *, pointer: str) -> None:
    head = text[:2048].lstrip().lower()
    if head.startswith(("<!doctype", "<html", "<?xml")):
        raise InvalidInput(
            "The file is a web page, not a structure.",
            pointer=pointer,
            reason="no_atoms",
            got="HTML or XML",
            expected="a PDB file",
            hint="A download link may have answered with an error page; fetch the file again.",
        )
    if head.startswith("data_") or "_atom_site." in head:
        raise InvalidInput(
            "The file is mmCIF, which this model does not read.",
            pointer=pointer,
            reason="format_unsupported",
            got="mmCIF",
            expected="PDB",
            hint="Convert it to PDB format and upload that.",
        )
