"""Bringing a plugin process up: from the interpreter's file to the `ready` frame."""

from __future__ import annotations

import os
import time

from model_plugins.frames import FrameError
from tasks.channel import Closed
from tasks.messages import Loaded, PluginSpec, StartFailure
from tasks.plugin_frames import START_CODES, load_frame, read_error, read_loaded
from tasks.process import PluginProcess


class StartFailed(Exception):
    """The plugin did not come up; its process may still run."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def spawn(spec: PluginSpec) -> PluginProcess:
    """Raises StartFailed when there is no interpreter or no process to be had."""
    # The file itself, not where it points to: a virtual environment's python is a link.
    if not (spec.python.is_file() and os.access(spec.python, os.X_OK)):
        raise StartFailed(
            "interpreter_missing",
            f"The interpreter of the model {spec.name} is missing: {spec.python}. "
            "Install its runtime with `manage.py runtime install`.",
        )
    try:
        return PluginProcess(spec)
    except OSError as error:
        raise StartFailed(
            "load_failed", f"No process could be started for the model {spec.name}: {error}."
        ) from error


def load(process: PluginProcess, spec: PluginSpec) -> Loaded:
    """Wait until the plugin is loaded. Raises StartFailed."""
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > spec.load_timeout_s:
            raise StartFailed(
                "load_timeout",
                f"The model {spec.name} was not loaded after {spec.load_timeout_s:g} s.",
            )

    try:
        process.channel.send(load_frame(spec), check=check)
        frame = process.channel.receive(check=check)
        if frame["type"] == "ready":
            return read_loaded(frame, seconds=time.monotonic() - began)
        if frame["type"] == "broken":
            error = read_error(frame.get("error"), codes=START_CODES, otherwise="load_failed")
            raise StartFailed(error["code"], error["message"])
        raise FrameError(f"`ready` was due, not {frame['type'][:40]!r}")
    except Closed:
        death = process.wait_after_closing()
        raise StartFailed(death.code, f"While it loaded: {death.message}") from None
    except FrameError as error:
        raise StartFailed(
            "protocol_broken", f"The model's process broke the protocol: {error}."
        ) from error


def failure(error: StartFailed, process: PluginProcess | None) -> StartFailure:
    """What is told of a failed start; the process, if there was one, has ended."""
    log = process.log.tail() if process is not None else ()
    return StartFailure(code=error.code, message=error.message, log=log)
