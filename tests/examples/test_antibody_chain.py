"""The example agent's words when something is missing. `make demo` runs all of it."""

from __future__ import annotations

import os
import subprocess
import sys

from foldline.environment import ROOT
from tests.redis_server import free_port


def run(**changes: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "FOLDLINE_API_KEY"}
    return subprocess.run(
        [sys.executable, ROOT / "examples" / "antibody_chain.py"],
        env={**kept, **changes},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_key_is_told() -> None:
    done = run()
    assert (done.returncode, done.stderr) == (2, "Set FOLDLINE_API_KEY to your API key.\n")


def test_a_silent_address_is_told() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = run(FOLDLINE_API_KEY="fl_live_none", FOLDLINE_URL=url)
    assert done.returncode == 1
    assert f"Nothing answers at {url}" in done.stderr
    assert "Traceback" not in done.stderr
