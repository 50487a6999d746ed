"""Judges inputs before they become a job: a small process beside the gateway, one per revision.

Started as `python -I -S preflight.py NAME FOLDER ENTRY SECONDS`. Its standard input is a socket:
one line of JSON says whether the plugin can be asked, then each line that comes in, `{inputs}`, is
answered by one line, `{inputs, warnings}` or `{error}`. It has the standard library and the
plugin's folder, loads no weights, writes no files, and may hold 1 GiB. Whoever started it kills it
when an answer takes too long; it ends by itself when that one is gone.
"""

from __future__ import annotations

import json
import math
import os
import queue
import resource
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # started without a search path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model_plugins.answers import describe
from model_plugins.base import Preflights
from model_plugins.frames import FrameError, dump, plain_text
from model_plugins.loading import import_plugin

MEMORY_BYTES = 2**30
OPEN_FILES = 64
MOST_WARNINGS = 20

Answer = dict[str, Any]


def main(name: str, folder: str, entry: str, seconds: str) -> None:
    channel = _own_channel()
    _limit()
    plugin = _plugin(channel, name=name, folder=Path(folder), entry=entry)
    if plugin is None:
        return
    for call in _calls(channel):
        _allow_cpu(math.ceil(float(seconds)))
        _send(channel, judge(plugin, call["inputs"]))


def _plugin(channel: socket.socket, *, name: str, folder: Path, entry: str) -> Preflights | None:
    """The plugin, announced; None when it cannot be asked, which is told instead."""
    try:
        plugin = import_plugin(name=name, folder=folder, entry=entry)
    except Exception as error:
        _send(channel, {"ready": False, "reason": plain_text(error, limit=500)})
        return None
    if not isinstance(plugin, Preflights):
        _send(channel, {"ready": False, "reason": "it has no preflight"})
        return None
    _send(channel, {"ready": True})
    return plugin


def judge(plugin: Preflights, inputs: Mapping[str, Any]) -> Answer:
    """What the plugin says of a call's inputs."""
    try:
        tidied, warnings = plugin.preflight(inputs)
        told = [_warning(text) for text in islice(warnings, MOST_WARNINGS)]
        return {"inputs": dict(tidied), "warnings": told}
    except Exception as error:
        return {"error": describe(error)}


def _warning(text: str) -> dict[str, str]:
    code, _, message = plain_text(text, limit=1000).partition(": ")
    return {"code": code, "message": message}


def _own_channel() -> socket.socket:
    """The socket, out of the way of a plugin that reads its standard input."""
    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


def _send(channel: socket.socket, answer: Answer) -> None:
    try:
        line = dump(answer)
    except FrameError as error:
        line = dump({"error": {"code": "model_error", "message": str(error)}})
    channel.sendall(line + b"\n")


def _calls(channel: socket.socket) -> Iterator[Mapping[str, Any]]:
    """One call after the other, read in a thread that notices the end in the middle of one."""
    waiting: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(channel, waiting), daemon=True).start()
    while True:
        yield waiting.get()


def _read(channel: socket.socket, waiting: queue.SimpleQueue[Mapping[str, Any]]) -> None:
    try:
        with channel.makefile("rb") as lines:
            for line in lines:
                waiting.put(json.loads(line))
    finally:
        os._exit(0)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _allow_cpu(seconds: int) -> None:
    """So much more than was used until now; then the kernel ends the process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    allowed = math.ceil(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
