from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from foldline.environment import ROOT
from tests.worker_process import wait_until

SCRIPT = ROOT / "scripts" / "with-postgres"


def has_postgres() -> bool:
    return bool(shutil.which("initdb") or [*Path("/usr/lib/postgresql").glob("*/bin/initdb")])


needs_postgres = pytest.mark.skipif(
    not has_postgres() and os.environ.get("CI") != "true", reason="PostgreSQL is not installed"
)


@needs_postgres
def test_the_command_gets_a_database_and_its_status_is_kept() -> None:
    done = subprocess.run(
        [SCRIPT, "sh", "-c", 'echo "$DATABASE_URL"; exit 7'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    assert done.stdout.startswith("postgres:////tmp/foldline-pg.")
    assert not folder_of(done.stdout).exists()


@needs_postgres
def test_nothing_is_left_after_an_interruption() -> None:
    with subprocess.Popen(
        [SCRIPT, "sh", "-c", 'echo "$DATABASE_URL"; exec sleep 60'],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        folder = folder_of(process.stdout.readline())
        assert folder.is_dir()
        os.killpg(process.pid, signal.SIGINT)
        process.wait(120)
    wait_until(lambda: not folder.exists())


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_without_postgres_it_is_skipped_at_home_and_fails_in_ci(
    tmp_path: Path, ci: str, status: int
) -> None:
    script = tmp_path / "with-postgres"
    script.write_text(SCRIPT.read_text().replace("/usr/lib/postgresql", str(tmp_path)))
    done = subprocess.run(
        ["/bin/sh", script, "echo", "ran"],
        env={"PATH": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert "PostgreSQL is not installed here: skipped 'echo ran'" in done.stderr


def folder_of(url: str) -> Path:
    return Path(url.strip().removeprefix("postgres:///")).parent
