from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldline.environment import ROOT


@pytest.mark.processes
def test_it_outlives_a_database_that_is_of_no_use_and_ends_when_asked(tmp_path: Path) -> None:
    """The database has no tables yet, as while `migrate` runs."""
    url = f"sqlite:///{tmp_path / 'db.sqlite3'}"
    program = subprocess.Popen(
        [sys.executable, "manage.py", "forecaster"],
        cwd=ROOT,
        env={**os.environ, "FOLDLINE_HOME": str(tmp_path), "DATABASE_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    try:
        assert "walk failed" in program.stderr.readline()
        assert program.poll() is None
        program.terminate()
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.stderr.close()
        program.wait()
