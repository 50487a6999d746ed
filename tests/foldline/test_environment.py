from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from foldline.environment import keep_secret, secret, secret_path


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "state with blanks"))


def test_a_secret_is_made_once_and_only_its_owner_reads_it() -> None:
    made = secret("thing")
    assert len(made) >= 43
    assert secret("thing") == made
    assert stat.S_IMODE(secret_path("thing").stat().st_mode) == 0o600
    assert stat.S_IMODE(secret_path("thing").parent.stat().st_mode) == 0o700


def test_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_THING", "given")
    assert secret("thing") == "given"
    assert not secret_path("thing").exists()


def test_asking_without_making_leaves_nothing() -> None:
    assert secret("thing", make=False) == ""
    assert not secret_path("thing").exists()


def test_a_kept_secret_replaces_the_old_one() -> None:
    secret("thing")
    keep_secret("thing", "new")
    assert secret("thing") == "new"
    assert stat.S_IMODE(secret_path("thing").stat().st_mode) == 0o600


def test_processes_that_race_agree_on_one_secret() -> None:
    seen: set[str] = set()
    threads = [threading.Thread(target=lambda: seen.add(secret("thing"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1
