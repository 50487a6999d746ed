"""`scripts/test` on a small suite of its own: what a second try forgives, and what it does not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from foldline.environment import ROOT
from tests.worker_process import PATIENCE_S, wait_until

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
KNOWN = """
import os, pathlib, pytest

def is_known():
    seen = pathlib.Path("seen by " + __name__)
    return seen.exists() or seen.touch()
"""
# What a try of its own would pass, or would leave out.
NOT_MENDED = {
    "absent": """
@pytest.mark.processes
def test_skipped_the_second_time():
    if is_known():
        pytest.skip()
    assert False
""",
    "renamed": """
@pytest.mark.processes
@pytest.mark.parametrize("name", [os.getpid()])
def test_of_another_name_each_time(name): assert is_known()
""",
    "spoiled": """
left = []

@pytest.mark.processes
def test_leaves_something(): left.append(1)

@pytest.mark.processes
def test_is_spoiled_by_the_one_before(): assert not left
""",
}
NOT_SOUND = {
    "in_a_mess": """
@pytest.fixture
def broken():
    yield
    assert False

@pytest.mark.processes
def test_is_not_cleaned_up(broken): pass
""",
    "in_turn": """
@pytest.mark.processes
def test_fails_first():
    assert is_known()

@pytest.mark.processes
def test_fails_then():
    assert not pathlib.Path("then").exists()
    pathlib.Path("then").touch()
""",
}
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


def said(suite: Path, *options: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        ["scripts/test", *options],
        cwd=suite,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
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


def written(suite: Path, tests: Mapping[str, str]) -> None:
    for name, body in tests.items():
        (suite / "tests" / "else" / f"test_{name}.py").write_text(KNOWN + body)


def test_what_does_not_pass_among_the_tests_of_its_file_has_failed_twice(suite: Path) -> None:
    written(suite, NOT_MENDED)
    status, told = said(suite)
    assert status == 1, told
    assert told.count("failed twice") == len(NOT_MENDED), told
    assert "mend it" not in told


def test_what_else_fails_in_these_files_fails_the_suite(suite: Path) -> None:
    written(suite, NOT_SOUND)
    status, told = said(suite)
    assert status == 1, told
    assert "test_is_not_cleaned_up failed twice" in told
    assert "test_fails_first failed, then passed alone" in told
    assert "test_fails_then failed at the second try" in told


def test_a_pytest_that_ends_without_a_word_is_not_tried_again(suite: Path) -> None:
    ends = "import os, pytest\n\n@pytest.mark.processes\ndef test_ends(): os._exit(1)\n"
    (suite / "tests" / "else" / "test_ends.py").write_text(ends)
    (suite / "tests" / "tasks" / "test_unsteady.py").write_text(FAILS_ONCE)
    status, told = said(suite)
    assert status == 1, told
    assert "mend it" not in told


def test_without_postgresql_the_suite_fails_at_once(suite: Path) -> None:
    (suite / "scripts" / "with-postgres").write_text("#!/bin/sh\nexit 1\n")
    (suite / "tests" / "tasks" / "test_unsteady.py").write_text(FAILS_ONCE)
    status, told = said(suite)
    assert status == 1, told
    assert "mend it" not in told


def test_a_run_goes_on_after_a_failure_whatever_the_environment_says(suite: Path) -> None:
    (suite / "tests" / "else" / "test_a_unsteady.py").write_text(FAILS_ONCE)
    (suite / "tests" / "else" / "test_broken.py").write_text(FAILS.format(cases=1))
    status, told = said(suite, PYTEST_ADDOPTS="-x")
    assert status == 1, told
    assert "test_broken" in told


def test_what_chaos_finds_once_is_found(suite: Path) -> None:
    found = FAILS_ONCE.replace("mark.processes", "mark.chaos")
    (suite / "tests" / "else" / "test_found.py").write_text(found)
    status, told = said(suite, "--long")
    assert status == 1, told
    assert "mend it" not in told


def test_an_interrupted_run_fails_and_nothing_is_tried_again(suite: Path) -> None:
    sleeps = "\n@pytest.mark.processes\ndef test_sleeps():\n    import time; time.sleep(600)\n"
    (suite / "tests" / "else" / "test_unsteady.py").write_text(FAILS_ONCE + sleeps)
    with subprocess.Popen(
        ["scripts/test"], cwd=suite, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        wait_until((suite / "seen").exists)
        os.killpg(running.pid, signal.SIGINT)  # a terminal's Ctrl-C reaches the whole group
        told, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130, told
    assert "mend it" not in told
