"""`scripts/test` on a small suite of its own: what a second try forgives, and what it does not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from foldline.environment import ROOT

pytestmark = pytest.mark.processes

PASSES = """
import pytest

@pytest.mark.processes
def test_of_processes(): pass

@pytest.mark.django_db
def test_of_rows(): pass

@pytest.mark.django_db
@pytest.mark.processes
def test_of_both(): pass

@pytest.mark.chaos
def test_of_chaos(): pass
"""
FAILS_ONCE = """
import pathlib, pytest

@pytest.mark.processes
def test_slow_to_come():
    seen = pathlib.Path("seen")
    known = seen.exists()
    seen.touch()
    assert known
"""
FAILS = """
import pytest

@pytest.mark.processes
@pytest.mark.parametrize("case", range({cases}))
def test_broken(case): assert False
"""
SETTINGS = """
[pytest]
testpaths = tests
addopts = -p no:django -p no:randomly --import-mode=importlib -W ignore
markers =
    processes
    weights
    chaos
    django_db
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "test", tmp_path / "scripts")
    stand_in = tmp_path / "scripts" / "with-postgres"
    stand_in.write_text('#!/bin/sh\nexec "$@"\n')
    stand_in.chmod(0o755)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for folder in ("tasks", "scaler", "model_plugins", "foldline/faults", "else"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / "test_sound.py").write_text(PASSES)
    return tmp_path


def said(suite: Path, *options: str) -> tuple[int, str]:
    command = ["scripts/test", *options]
    done = subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [[], ["--long"]])
def test_a_sound_suite_passes(suite: Path, options: list[str]) -> None:
    status, told = said(suite, *options)
    assert (status, "failed" in told) == (0, False), told


@pytest.mark.parametrize("folder", ["tasks", "else"])
def test_a_test_that_passes_alone_is_named_as_one_to_mend(suite: Path, folder: str) -> None:
    (suite / "tests" / folder / "test_unsteady.py").write_text(FAILS_ONCE)
    status, told = said(suite)
    last = told.splitlines()[-1]
    assert status == 0, told
    assert "test_slow_to_come" in last
    assert "passed alone: mend it" in last


@pytest.mark.parametrize("beside", ["", FAILS_ONCE])
def test_a_test_that_fails_twice_fails_the_suite(suite: Path, beside: str) -> None:
    (suite / "tests" / "tasks" / "test_unsteady.py").write_text(beside)
    (suite / "tests" / "else" / "test_broken.py").write_text(FAILS.format(cases=1))
    status, told = said(suite)
    assert status == 1, told
    assert told.splitlines()[-1].endswith("failed twice")


def test_many_failures_are_not_tried_again(suite: Path) -> None:
    (suite / "tests" / "else" / "test_broken.py").write_text(FAILS.format(cases=4))
    status, told = said(suite)
    assert status == 1, told
    assert "twice" not in told


def test_a_suite_that_cannot_be_read_is_not_tried_again(suite: Path) -> None:
    (suite / "tests" / "else" / "test_broken.py").write_text("import nothing_of_that_name")
    (suite / "tests" / "tasks" / "test_unsteady.py").write_text(FAILS_ONCE)
    status, told = said(suite)
    assert status != 0, told
    assert "mend it" not in told
