"""The wire between a plugin host and a plugin process: length-prefixed JSON, bounded, versioned.

A frame is 4 bytes (big-endian length) and that many bytes of UTF-8 JSON, an object with `v`
and `type`. Standard library only: both ends import it, each with its own interpreter.

Host to plugin
    load    {plugin, device, threads, weights, limits}
    infer   {call, items: [{job, attempt, inputs, seed, scratch}]}
    cancel  {job}
Plugin to host
    ready   {seconds, phases, device, peak_rss_bytes}
    broken  {error}                          the plugin could not be loaded
    progress {job, fraction, stage, message}
    done    {call, items: [{job, result, files, warnings} | {job, error}], peak_rss_bytes}
"""

from __future__ import annotations

import json
import struct
from typing import Any

VERSION = 1
MAX_FRAME_BYTES = 32 * 1024 * 1024
HEADER = struct.Struct(">I")

Frame = dict[str, Any]


class FrameError(Exception):
    """The other end does not speak this protocol."""


def encode(kind: str, **fields: Any) -> bytes:
    """One frame, header included. Raises FrameError when it is too big or holds NaN."""
    try:
        body = json.dumps({"v": VERSION, "type": kind, **fields}, allow_nan=False).encode()
    except ValueError as error:
        raise FrameError(f"not representable as JSON: {error}") from error
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
        frame = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise FrameError("a frame is an object with a type")
    if frame.get("v") != VERSION:
        raise FrameError(f"frame version {frame.get('v')!r}, this side speaks {VERSION}")
    return frame
