"""The embedded Valkey: there, private, and back after every kind of end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from foldline.ops.broker import answers, broker_program, server_binary, set_aside_data
from foldline.ops.supervisor import Supervisor, SupervisorError
from tests.redis_server import free_port


class Valkey:
    """A broker in `folder`, started and stopped as `manage.py up` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://:hush@127.0.0.1:{self.port}/0"
        self.lines: list[str] = []
        self.supervisor = Supervisor(
            say=lambda _sentence: None, write=lambda _name, line: self.lines.append(line)
        )

    def start(self) -> None:
        self.supervisor.start(
            broker_program(folder=self.folder, port=self.port, password="hush", url=self.url)
        )

    def stop(self, *, urgent: bool = False) -> None:
        self.supervisor.stop(urgent=lambda: urgent)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    made = Valkey(tmp_path / "a folder" / "valkey")
    yield made
    made.stop(urgent=True)


def fill(valkey: Valkey) -> None:
    with valkey.client() as client:
        client.lpush("tickets", *range(100))
        on_disk, _copies = client.execute_command("WAITAOF", 1, 0, 60_000)
        assert on_disk == 1


def filled(valkey: Valkey) -> int:
    with valkey.client() as client:
        return int(client.llen("tickets"))


def test_there_is_a_server_without_any_installation() -> None:
    assert os.access(server_binary(), os.X_OK)


def test_nobody_gets_in_without_the_password(valkey: Valkey) -> None:
    valkey.start()
    assert answers(valkey.url)
    assert not answers(f"redis://127.0.0.1:{valkey.port}/0")
    assert stat.S_IMODE((valkey.folder / "valkey.conf").stat().st_mode) == 0o600


@pytest.mark.parametrize("urgent", [False, True], ids=["stopped", "killed"])
def test_tickets_are_kept_over_an_end(valkey: Valkey, urgent: bool) -> None:  # noqa: FBT001 - pytest's way
    valkey.start()
    fill(valkey)
    valkey.stop(urgent=urgent)
    valkey.start()
    assert filled(valkey) == 100


def appended(valkey: Valkey) -> Path:
    return next((valkey.folder / "appendonlydir").glob("*.incr.aof"))


def test_a_file_cut_short_by_a_crash_is_harmless(valkey: Valkey) -> None:
    valkey.start()
    fill(valkey)
    valkey.stop()
    file = appended(valkey)
    os.truncate(file, file.stat().st_size - 7)
    valkey.start()


def test_a_file_that_cannot_be_read_is_set_aside(valkey: Valkey) -> None:
    valkey.start()
    fill(valkey)
    valkey.stop()
    appended(valkey).write_bytes(b"not what it was" * 100)
    with pytest.raises(SupervisorError, match="valkey ended with status 1"):
        valkey.start()
    valkey.stop()
    aside = set_aside_data(valkey.folder)
    valkey.start()
    assert filled(valkey) == 0
    assert list(aside.iterdir())
