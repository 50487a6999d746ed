"""The disk of the artifacts is full: a retriable error, not ready, and well again by itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.house import House, built
from tests.redis_server import RedisServer, running_redis
from tests.worker_process import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

KIB = 1024


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of 1 MiB. Only root may mount one."""
    folder = tmp_path_factory.mktemp("small-disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, redis: RedisServer, small_disk: Path
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with built(folder, redis=redis, FOLDLINE_ARTIFACTS=str(small_disk)) as house:
        house.start_gateway()
        yield house


@pytest.fixture
def full(small_disk: Path) -> Iterator[Path]:
    """A file that leaves no room."""
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4 * KIB)
        except OSError:
            pass
    yield filler
    filler.unlink(missing_ok=True)


def upload(house: House, content: bytes) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", house.port, timeout=PATIENCE_S)
    headers = {
        "Authorization": f"Bearer {house.key}",
        "Content-Type": "application/octet-stream",
    }
    try:
        connection.request("POST", "/v1/artifacts?name=x.bin", body=content, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def drafts(disk: Path) -> list[Path]:
    return list((disk / "incoming").glob("*")) if (disk / "incoming").exists() else []


def test_an_upload_is_a_503_that_may_be_repeated_and_leaves_nothing_behind(
    house: House, small_disk: Path, full: Path
) -> None:
    before = house.count("artifacts_artifact")
    status, told = upload(house, os.urandom(100 * KIB))
    assert status == 503
    assert b'"code":"storage"' in told.replace(b" ", b"")
    assert b'"retryable":true' in told.replace(b" ", b"")
    assert drafts(small_disk) == []
    assert house.count("artifacts_artifact") == before


def test_readiness_goes_and_comes_back_by_itself(house: House, full: Path) -> None:
    answer = house.get("/readyz")
    assert answer.status == 503
    assert answer.body["reasons"] == ["artifacts: No space left on device"]
    full.unlink()
    assert house.get("/readyz").status == 200
    assert upload(house, os.urandom(100 * KIB))[0] in (200, 201)


def test_a_job_whose_file_finds_no_room_is_tried_again_and_succeeds_when_there_is(
    house: House, small_disk: Path, full: Path
) -> None:
    worker = house.start_worker()
    house.start_sweeper()
    job = house.accepted(seconds=0, file=True)
    wait_until(lambda: house.job(job)[0::2] == ("queued", "storage"))
    assert house.count("artifacts_artifact where name = 'echo.txt'") == 0
    assert drafts(small_disk) == []
    full.unlink()
    assert house.until(job, "succeeded")[1] >= 2
    assert worker.alive()
