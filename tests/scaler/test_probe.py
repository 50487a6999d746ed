"""A kubelet asks whether the scaler's rounds go on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from foldline.environment import ROOT
from scaler.probe import SILENT_S, is_alive, leave_sign


def ask() -> int:
    command = [sys.executable, "-S", "-m", "scaler.probe"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def test_it_lives_while_its_rounds_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SIGNS", str(tmp_path))
    assert ask() == 1
    leave_sign()
    assert ask() == 0
    assert not is_alive(now=time.monotonic() + SILENT_S)


def test_a_sign_that_cannot_be_left_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SIGNS", "/nowhere")
    leave_sign()
    assert not is_alive(now=time.monotonic())
