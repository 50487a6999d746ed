"""The gateway as it runs: gunicorn, its settings file, two processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import httpx
import psutil
import pytest

from tests.foldline.ops.conftest import Command, StartCommand, get, wait_until
from tests.redis_server import free_port

pytestmark = pytest.mark.processes

COUNTED = re.compile(
    r'^django_http_requests_total_by_view_transport_method_total\{.*view="foldline\.ops\.health'
    r'\.healthz"\} (\d+)',
    re.MULTILINE,
)
Gateway = Callable[..., Command]


def answers(url: str) -> bool:
    try:
        return get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def url(environment: Mapping[str, str]) -> str:
    return f"http://127.0.0.1:{environment['FOLDLINE_PORT']}"


@pytest.fixture
def gateway(start: StartCommand, url: str) -> Gateway:
    def run(**changes: str) -> Command:
        command = start("-m", "gunicorn", **changes)
        wait_until(lambda: answers(url) or command.process.poll() is not None)
        assert command.process.poll() is None, command.text
        return command

    return run


def test_both_processes_count_into_one_total(gateway: Gateway, url: str) -> None:
    command = gateway()
    wait_until(lambda: len(psutil.Process(command.process.pid).children()) == 2)
    before = counted(url)
    for _ in range(40):  # a new connection each, so that both processes serve some
        assert get(f"{url}/healthz").status_code == 200
    assert {counted(url) for _ in range(6)} == {before + 40}


def counted(url: str) -> int:
    found = COUNTED.search(get(f"{url}/metrics").text)
    assert found is not None
    return int(found[1])


def test_a_new_run_counts_from_nothing(gateway: Gateway, url: str) -> None:
    for _ in range(2):
        command = gateway()
        for _ in range(5):
            get(f"{url}/healthz")
        assert counted(url) < 10
        command.process.terminate()
        command.ended()


def test_without_a_database_it_is_alive_and_not_ready(gateway: Gateway, url: str) -> None:
    gateway(DATABASE_URL=f"postgres://nobody@127.0.0.1:{free_port()}/none")
    answer = get(f"{url}/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["database: OperationalError"]


def test_a_first_start_warns_of_nothing(gateway: Gateway) -> None:
    command = gateway()
    command.process.terminate()
    assert command.ended() == 0
    assert "Warning" not in command.text


def test_it_ends_in_order_and_leaves_no_socket_in_the_home_folder(
    gateway: Gateway, environment: Mapping[str, str], tmp_path: object
) -> None:
    command = gateway(HOME=str(tmp_path), XDG_RUNTIME_DIR="")
    command.note_family()
    command.process.terminate()
    assert command.ended() == 0, command.text
    command.until_alone()
    assert "Traceback" not in command.text
