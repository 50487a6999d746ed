"""`manage.py up` as a person meets it: ports, interruptions, crashes, two at once."""

from __future__ import annotations

import signal
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.foldline.ops.conftest import PATIENCE_S, Command, StartCommand, get, wait_until
from tests.redis_server import free_port
from tests.worker_process import link_plain_runtime

pytestmark = pytest.mark.processes

UP = ("manage.py", "up")
ALL_UP = "Ctrl-C stops everything"
STEPS = ["valkey is ready", "forecaster is ready", "notifier is ready", "gateway is ready", ALL_UP]


def stopped_cleanly(command: Command, *, status: int = 130) -> None:
    assert command.ended() == status, command.text
    assert "stopped: nothing of it is running any more" in command.text
    assert "Traceback" not in command.text
    command.until_alone()


def started(command: Command, word: str) -> psutil.Process:
    """The program that was started with this word on its command line."""
    command.note_family()
    programs = psutil.Process(command.process.pid).children()
    return next(program for program in programs if word in program.cmdline())


@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_at_any_step_leaves_nothing_running(start: StartCommand, step: str) -> None:
    command = start(*UP)
    command.wait_for(step)
    command.note_family()
    command.process.send_signal(signal.SIGINT)
    stopped_cleanly(command)


def test_sigterm_stops_it_too(start: StartCommand) -> None:
    command = start(*UP)
    command.wait_for(ALL_UP)
    command.note_family()
    command.process.terminate()
    stopped_cleanly(command, status=143)


def test_a_second_ctrl_c_ends_it_at_once(start: StartCommand) -> None:
    command = start(*UP)
    command.wait_for(ALL_UP)
    gateway = started(command, "gunicorn")
    gateway.suspend()  # it will not answer SIGTERM
    command.process.send_signal(signal.SIGINT)
    command.wait_for("stopping")
    command.process.send_signal(signal.SIGINT)
    stopped_cleanly(command)


def test_a_taken_port_is_told_in_a_sentence(
    start: StartCommand, environment: Mapping[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", int(environment["FOLDLINE_PORT"]))):
        command = start(*UP)
        assert command.ended() == 1
    assert "Set FOLDLINE_PORT to a free one." in command.text
    assert "Traceback" not in command.text


def test_two_at_once_are_told_in_a_sentence(start: StartCommand) -> None:
    first = start(*UP)
    first.wait_for("valkey is ready")
    second = start(*UP)
    assert second.ended() == 1
    assert "already running in" in second.text
    assert str(first.process.pid) in second.text
    assert "Traceback" not in second.text


def test_a_redis_that_is_named_and_not_there_is_told_without_its_password(
    start: StartCommand,
) -> None:
    command = start(*UP, REDIS_URL=f"redis://:hush@127.0.0.1:{free_port()}/0")
    assert command.ended() == 1
    assert "no Redis answers there" in command.text
    assert "hush" not in command.text


def test_a_database_that_does_not_answer_is_told_in_a_sentence(start: StartCommand) -> None:
    command = start(*UP, DATABASE_URL=f"postgres://me:hush@127.0.0.1:{free_port()}/foldline")
    assert command.ended() == 1
    assert "The database foldline (127.0.0.1) could not be brought up to date" in command.text
    assert "hush" not in command.text
    assert "Traceback" not in command.text


def test_after_a_crash_nothing_is_left_and_it_starts_again(start: StartCommand) -> None:
    command = start(*UP)
    command.wait_for(ALL_UP)
    command.note_family()
    command.process.kill()
    command.ended()
    command.until_alone()
    again = start(*UP)
    again.wait_for(ALL_UP)


def test_a_gateway_that_dies_comes_back(
    start: StartCommand, environment: Mapping[str, str]
) -> None:
    command = start(*UP)
    command.wait_for(ALL_UP)
    gateway = started(command, "gunicorn")
    gateway.kill()
    command.wait_for("gateway was ended by signal 9")
    url = f"http://127.0.0.1:{environment['FOLDLINE_PORT']}/healthz"
    wait_until(lambda: command.text.count("gateway is ready") == 2, why=lambda: command.text)
    assert get(url).status_code == 200


def test_flower_asks_who_you_are(
    start: StartCommand, environment: Mapping[str, str], home: Path
) -> None:
    command = start(*UP)
    command.wait_for(ALL_UP)
    url = f"http://127.0.0.1:{environment['FOLDLINE_FLOWER_PORT']}"
    password = (home / "secrets" / "flower_password").read_text()
    assert get(f"{url}/workers").status_code == 401
    assert get(f"{url}/workers", auth=("ops", "wrong")).status_code == 401
    assert get(f"{url}/workers", auth=("ops", password)).status_code == 200
    flower = started(command, "flower")
    assert password not in " ".join(flower.cmdline())


def test_secrets_are_said_once_and_kept_to_their_owner(start: StartCommand, home: Path) -> None:
    first, second = start("manage.py", "migrate", "--verbosity", "0"), None
    assert first.ended() == 0, first.text
    first = start("manage.py", "seed_demo")
    assert first.ended() == 0, first.text
    second = start("manage.py", "seed_demo")
    assert second.ended() == 0, second.text
    for name in ("demo_api_key", "admin_password", "flower_password"):
        file = home / "secrets" / name
        assert file.read_text() in first.text
        assert file.read_text() not in second.text
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_everything_it_starts_listens_on_this_machine_only(start: StartCommand) -> None:
    command = start(*UP)
    command.wait_for(ALL_UP)
    family = command.note_family() | {psutil.Process(command.process.pid)}
    assert {address for process in family for address in listening(process)} == {"127.0.0.1"}


def listening(process: psutil.Process) -> Iterator[str]:
    with suppress(psutil.NoSuchProcess):  # not all of them stay
        for connection in process.net_connections():
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.ip


PUBLISHED = """
from foldline.catalog.models import Revision
from foldline.catalog.services import publish, sync
from foldline.tenants.services import ensure_tenant, issue_key
from model_plugins.registry import discover
from pathlib import Path
sync(discover([Path("tests/plugins")]))
publish(Revision.objects.get(model__name="sleepy"), by=None)
print("key", issue_key(ensure_tenant("lab", name="Lab"), name="test")[1])
"""


def test_a_model_that_goes_live_gets_its_worker_with_its_first_job(
    start: StartCommand, environment: Mapping[str, str], home: Path
) -> None:
    link_plain_runtime(home)
    command = start(*UP)
    command.wait_for(ALL_UP)
    assert "Workers come with the first job" in command.text
    published = start("manage.py", "shell", "--command", PUBLISHED)
    assert published.ended() == 0, published.text
    key = next(line for line in published.lines if line.startswith("key ")).split()[1]
    assert not [process for process in command.note_family() if serves(process)]
    url = f"http://127.0.0.1:{environment['FOLDLINE_PORT']}/v1"
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as caller:
        job = caller.post("/models/sleepy/jobs", json={"inputs": {"seconds": 0}}).json()
        wait_until(lambda: caller.get(f"/jobs/{job['id']}").json()["state"] == "succeeded")
    assert [process for process in command.note_family() if serves(process)]
    command.process.send_signal(signal.SIGINT)
    stopped_cleanly(command)


def serves(process: psutil.Process) -> bool:
    """Whether it is a worker, which only the scaler starts."""
    try:
        return "tasks.worker" in process.cmdline()
    except psutil.NoSuchProcess:
        return False
