from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from foldline.ops.sole import Occupied, require_port, sole_run
from tests.redis_server import free_port


def test_a_second_run_is_told_about_the_first(tmp_path: Path) -> None:
    with (
        sole_run(tmp_path),
        pytest.raises(Occupied, match=f"already running in .*process {os.getpid()}") as refusal,
        sole_run(tmp_path),
    ):
        pass
    assert "FOLDLINE_HOME" in str(refusal.value)


def test_the_next_run_may_start_when_one_is_over(tmp_path: Path) -> None:
    for _ in range(2):
        with sole_run(tmp_path):
            pass


def test_what_a_crashed_run_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "up.lock").write_text("99999999")
    with sole_run(tmp_path):
        assert (tmp_path / "up.lock").read_text() == str(os.getpid())


def test_a_taken_port_is_told_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Occupied, match=f"Port {port} is taken .* Set FOLDLINE_PORT"):
            require_port(port, variable="FOLDLINE_PORT", within_s=0.2)


def test_a_free_port_is_fine() -> None:
    require_port(free_port(), variable="FOLDLINE_PORT", within_s=0)
