from __future__ import annotations

import gzip

import pytest

from foldline.artifacts.sniff import media_type


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"HEADER    IMMUNE SYSTEM\n", "chemical/x-pdb"),
        (b"ATOM      1  N   GLU A   1", "chemical/x-pdb"),
        (b"data_1ABC\n#\nloop_\n", "chemical/x-mmcif"),
        (b"# by a program\ndata_1ABC\n", "chemical/x-mmcif"),
        (b">heavy\nEVQLV\n", "text/x-fasta"),
        (b'  {"a": 1}', "application/json"),
        (b"[1]", "application/json"),
        (gzip.compress(b"x"), "application/gzip"),
        (b"PK\x03\x04....", "application/zip"),
        (b"<!DOCTYPE html><html>", "text/html"),
        (b"\n<script>alert(1)</script>", "text/html"),
        (b"<?xml version='1.0'?>", "application/xml"),
        (b"just words", "text/plain"),
        ("é".encode() * 255 + b"\xc3", "text/plain"),
        (b"\xff\xfe\x00x", "application/octet-stream"),
        (b"text\x00with nul", "application/octet-stream"),
        (b"", "text/plain"),
    ],
)
def test_a_file_is_judged_by_its_first_bytes(head: bytes, found: str) -> None:
    assert media_type(head) == found
