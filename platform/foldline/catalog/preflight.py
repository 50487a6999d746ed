"""What a plugin says of inputs before they become a job, asked in a process that can be killed.

A helper holds the plugin's code and nothing of ours: `model_plugins/preflight.py`. It is started by
the first call of its revision, answers one call at a time, and is killed when it is too slow.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field

import model_plugins
from foldline.catalog.selectors import LiveModel

log = logging.getLogger(__name__)

PROGRAM = Path(model_plugins.__file__).with_name("preflight.py")
MOST_HELPERS = 16
MOST_ANSWER_BYTES = 2 * 2**20
FAILURES = 3
REST_S = 30.0
PR_SET_DUMPABLE = 4

Json = Mapping[str, Any]


_UNSTORABLE = re.compile(rb"\\u(?:0000|d[89ab])", re.I)


class Warned(BaseModel):
    code: str = Field(max_length=64)
    message: str = Field(max_length=1000)


class Refused(BaseModel):
    code: str
    message: str = Field(max_length=1000)
    details: dict[str, Any] = {}


class Told(BaseModel):
    """A helper's line. The plugin shares its process, so that it may be anything."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    ready: bool | None = None
    reason: str = ""
    inputs: dict[str, Any] | None = None
    warnings: list[Warned] = []
    error: Refused | None = None


class Skipped(Exception):
    """The plugin was not asked, or gave no usable answer in time; the text says why."""


class Helper:
    """The process of one revision, and whether it is worth asking. Thread-safe."""

    def __init__(self, model: LiveModel) -> None:
        self._name = model.name
        self._command = [
            *(sys.executable, "-I", "-S", str(PROGRAM)),
            *(model.name, model.folder, model.entry, str(settings.PREFLIGHT_S)),
        ]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._rest_until = 0.0

    def ask(self, inputs: Json, *, until: float) -> Told:
        """The plugin's answer before `until` (of the monotonic clock). Raises Skipped."""
        if time.monotonic() < self._rest_until:
            raise Skipped("it failed several times and rests")
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            raise Skipped("too many calls at once")
        try:
            answer = self._asked(inputs, until=until)
        except (OSError, ValueError) as error:
            self._note_failure(str(error) or type(error).__name__)
            raise Skipped("no answer in time") from error
        finally:
            self._lock.release()
        self._failures = 0
        return answer

    def close(self) -> None:
        """End the process, and with it whatever it has started."""
        process, self._process = self._process, None
        if process is not None:
            self._channel.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _asked(self, inputs: Json, *, until: float) -> Told:
        if self._process is None:
            self._start()
            told = self._line(until)
            if not told.ready:
                self.close()
                self._rest_until = time.monotonic() + REST_S
                log.warning("no preflight", extra={"model": self._name, "reason": told.reason})
                raise Skipped("it cannot be asked")
        self._channel.settimeout(_left(until))
        self._channel.sendall(json.dumps({"inputs": inputs}).encode() + b"\n")
        return self._line(until)

    def _start(self) -> None:
        # The helper is of the same user: what this process was given is not for a plugin to read.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                start_new_session=True,
            )

    def _line(self, until: float) -> Told:
        """The next line. Raises OSError when it does not come, ValueError for nonsense."""
        parts = bytearray()
        while not parts.endswith(b"\n"):
            self._channel.settimeout(_left(until))
            part = self._channel.recv(65_536)
            if not part:
                raise ConnectionError("the process ended")
            parts += part
            if len(parts) > MOST_ANSWER_BYTES:
                raise ValueError("the answer is too long")
        if _UNSTORABLE.search(parts):
            raise ValueError("the answer holds characters that cannot be stored")
        return Told.model_validate_json(parts)

    def _note_failure(self, reason: str) -> None:
        self.close()
        self._failures += 1
        log.warning("preflight failed", extra={"model": self._name, "reason": reason})
        if self._failures >= FAILURES:
            self._failures = 0
            self._rest_until = time.monotonic() + REST_S


class Helpers:
    """The helpers of this process, by revision; the one asked longest ago makes room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[UUID, Helper] = OrderedDict()

    def of(self, model: LiveModel) -> Helper:
        left = None
        with self._lock:
            helper = self._kept.get(model.revision_id) or Helper(model)
            self._kept[model.revision_id] = helper
            self._kept.move_to_end(model.revision_id)
            if len(self._kept) > MOST_HELPERS:
                _, left = self._kept.popitem(last=False)
        if left is not None:
            left.close()
        return helper

    def clear(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, OrderedDict()
        for helper in kept.values():
            helper.close()


helpers = Helpers()


def judged(model: LiveModel, inputs: Json) -> Told:
    """What the model's plugin says of inputs in which files are paths: `inputs` tidied up, or why
    it refuses them. Raises Skipped."""
    told = helpers.of(model).ask(inputs, until=time.monotonic() + settings.PREFLIGHT_S)
    wrong = told.error
    if wrong is not None and wrong.code != "invalid_input":
        log.warning("preflight failed", extra={"model": model.name, "reason": wrong.message})
        raise Skipped("it failed")
    if wrong is None and told.inputs is None:
        raise Skipped("its answer cannot be read")
    return told


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left
