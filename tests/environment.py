"""Loaded by pytest before anything of Django (`-p tests.environment`, pyproject.toml): the
whole run has a state folder of its own, which its subprocesses inherit, and so do they Ctrl-C,
which some tests send: a shell's `&` would have it ignored."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

_home = tempfile.mkdtemp(prefix="foldline-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["FOLDLINE_HOME"] = _home

signal.signal(signal.SIGINT, signal.default_int_handler)
