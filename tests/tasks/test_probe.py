"""A kubelet asks whether a worker is loaded and alive."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from foldline.environment import ROOT
from foldline.ids import uuid7
from tasks.heartbeat import Heartbeat
from tasks.probe import SILENT_S, is_well, leave_sign


@pytest.fixture(autouse=True)
def _signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SIGNS", str(tmp_path))


@pytest.mark.parametrize(
    ("state", "loaded"),
    [("starting", False), ("loading", False), ("ready", True), ("busy", True), ("draining", True)],
)
def test_ready_means_loaded_and_not_idle(state: str, *, loaded: bool) -> None:
    leave_sign(state)
    assert is_well("loaded", now=time.monotonic()) is loaded
    assert is_well("alive", now=time.monotonic())


def test_a_worker_that_left_no_sign_is_neither() -> None:
    assert not is_well("loaded", now=time.monotonic())
    assert not is_well("alive", now=time.monotonic())


def test_a_sign_that_cannot_be_left_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SIGNS", "/nowhere")
    leave_sign("ready")


def test_a_worker_that_falls_silent_is_not_alive() -> None:
    leave_sign("busy")
    assert is_well("alive", now=time.monotonic() + SILENT_S / 2)
    assert not is_well("alive", now=time.monotonic() + SILENT_S)


def test_a_heartbeat_leaves_a_sign_also_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heartbeat, "beat", lambda _self: None)
    heartbeat = Heartbeat(uuid7())
    heartbeat.say(state="ready")
    heartbeat.start()
    heartbeat.end()
    heartbeat.join()
    assert is_well("loaded", now=time.monotonic())


def test_it_is_asked_as_a_program_that_needs_the_standard_library_only() -> None:
    def ask() -> int:
        command = [sys.executable, "-S", "-m", "tasks.probe", "loaded"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode

    assert ask() == 1
    leave_sign("ready")
    assert ask() == 0
