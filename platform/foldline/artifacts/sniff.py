"""What a file is, judged by its first bytes; what its sender says is not believed."""

from __future__ import annotations

import re

HEAD_BYTES = 512

_MAGIC = (
    (b"\x1f\x8b", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n", "image/png"),
    (b"\x93NUMPY", "application/x-npy"),
    (b"\x89HDF\r\n", "application/x-hdf5"),
)
_PDB = re.compile(rb"(HEADER|TITLE |REMARK|CRYST1|MODEL |ATOM  |HETATM|SEQRES|COMPND|EXPDTA)")
_TEXT = (
    (re.compile(rb"\s*<(!doctype html|html|head|body|script)\b", re.I), "text/html"),
    (re.compile(rb"\s*<(\?xml|svg|!doctype)", re.I), "application/xml"),
    (re.compile(rb"\s*[{\[]"), "application/json"),
    (re.compile(rb"(#[^\n]*\n)*data_\S", re.I), "chemical/x-mmcif"),
    (_PDB, "chemical/x-pdb"),
    (re.compile(rb">\S"), "text/x-fasta"),
)


def media_type(head: bytes) -> str:
    """The media type of a file that begins with `head` (its first 512 bytes are enough)."""
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return found
    if b"\x00" in head or not _is_text(head):
        return "application/octet-stream"
    return next((found for pattern, found in _TEXT if pattern.match(head)), "text/plain")


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # A character cut in two by the end of the head is still text.
        return error.reason == "unexpected end of data"
    return True
