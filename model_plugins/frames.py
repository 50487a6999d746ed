"""The wire between a plugin host and a plugin process: length-prefixed JSON, bounded, versioned.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON, an object with `v`
and `type`. Standard library only: both ends import it, each with its own interpreter.

Host to plugin
    load    {plugin: {name, folder, entry}, device, threads, weights, limits}
    infer   {call, items: [{job, attempt, inputs, seed, scratch, checkpoints, ran_out}]}
    cancel  {call, job}
Plugin to host
    ready   {phases, device, peak_rss_bytes, peak_gpu_bytes}
    broken  {error}                          the plugin could not be loaded
    progress {job, fraction, stage, message}
    checkpoint {job, step, file}             a file in the item's folder `checkpoints`
    done    {call, items: [{job, result, files, warnings} | {job, error, warnings}],
             peak_rss_bytes, peak_gpu_bytes}
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any, NoReturn

VERSION = 1
MAX_FRAME_BYTES = 32 * 1024 * 1024
MAX_RESULT_BYTES = 64 * 1024
MAX_CHECKPOINT_BYTES = 64 * 1024 * 1024
HEADER = struct.Struct(">I")
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""Output files: one plain name that is safe in a path, a URL and a download header."""
RESUME_FILE = "resume"
"""In an item's folder `checkpoints`: what the attempt before saved, if anything."""
FILE_KEY = "$file"
"""`{"$file": name}` inside a result stands for an output file."""

Frame = dict[str, Any]


class FrameError(Exception):
    """The other end does not speak this protocol, or a value cannot be said in it."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def dump(value: Any) -> bytes:
    """Compact UTF-8 JSON that every database can store.

    Raises FrameError for NaN and infinities, lone surrogates, NUL characters, reference
    cycles and types that are not JSON.
    """
    try:
        text = _encoder.encode(value)
        body = text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError(f"not representable as JSON: {error}") from error
    # Only control characters are written as escapes; a look at the parts settles which.
    if "\\u0000" in text and _holds_nul(value):
        raise FrameError("not representable as JSON: a text holds a NUL character")
    return body


def encode(kind: str, **fields: Any) -> bytes:
    """One frame, header included. Raises FrameError as `dump` does, and when it is too big."""
    body = dump({"v": VERSION, "type": kind, **fields})
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(body)} bytes is larger than {MAX_FRAME_BYTES}")
    return HEADER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """Length announced by a header; FrameError when beyond the bound."""
    (length,) = HEADER.unpack(header)
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"announced {length} bytes, more than {MAX_FRAME_BYTES}")
    return int(length)


def decode(body: bytes) -> Frame:
    """The frame in a body; FrameError for anything that is not one of ours."""
    try:
        frame = _decoder.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise FrameError("a frame is an object with a type")
    if frame.get("v") != VERSION:
        raise FrameError(f"frame version {frame.get('v')!r}, this side speaks {VERSION}")
    return frame


def plain_text(text: object, *, limit: int) -> str:
    """Text from model code made fit to store and show: no NUL, no surrogates, bounded."""
    clean = str(text).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _holds_nul(value: Any) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "\0" in part:
                return True
        elif isinstance(part, dict):
            waiting.extend(part)
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return False
