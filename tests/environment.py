"""Loaded by pytest before anything of Django (`-p tests.environment`, pyproject.toml): the
whole run has a state folder of its own, which its subprocesses inherit."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_home = tempfile.mkdtemp(prefix="foldline-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["FOLDLINE_HOME"] = _home
