"""Preflight beside a real gateway: what it refuses is known at once, and what hangs in it holds up
nobody for long and outlives nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psutil
import pytest

from tests.foldline.api.test_preflight import CODE, write_plugin
from tests.house import House, Process, built
from tests.redis_server import RedisServer
from tests.worker_process import PATIENCE_S

pytestmark = pytest.mark.processes

STUCK = """
        if inputs["text"] == "stuck":
            time.sleep(600)
        if inputs["text"] == "bad":
            raise InvalidInput("No.", pointer="/text", reason="not_allowed", hint="Another.")
        return inputs, []
"""
LIVE = """
from foldline.catalog.models import Revision
from foldline.catalog.services import publish
publish(Revision.objects.get(model__name="echo"), by=None)
"""


@pytest.fixture(scope="module")
def preflight_house(
    tmp_path_factory: pytest.TempPathFactory, redis: RedisServer
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    plugins = folder / "plugins"
    write_plugin(plugins / "echo", code=CODE.format(body=STUCK))
    with built(folder, redis=redis) as house:
        house.manage("sync_models", FOLDLINE_PLUGIN_DIRS=str(plugins))
        house.manage("shell", "--verbosity", "0", "--command", LIVE)
        yield house


@pytest.fixture
def gateway(preflight_house: House, request: pytest.FixtureRequest) -> Iterator[Process]:
    seconds = getattr(request, "param", "60")
    started = preflight_house.start_gateway(FOLDLINE_PREFLIGHT_S=seconds)
    yield started
    started.running.terminate()  # its own processes go first; killed, they would go on for a while
    started.running.wait(PATIENCE_S)


@pytest.mark.usefixtures("gateway")
def test_a_wrong_input_is_a_422_while_no_worker_runs(preflight_house: House) -> None:
    assert submit(preflight_house, "bad") == 422
    assert submit(preflight_house, "good") == 202


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("gateway", ["3"], indirect=True)
def test_inputs_it_hangs_on_hold_up_nobody_for_long(preflight_house: House) -> None:
    ask = partial(preflight_house.post, "/v1/models/echo/jobs", {"inputs": {"text": "stuck"}})
    alone = ask().seconds
    answers = preflight_house.together([ask] * 12)
    assert {answer.status for answer in answers} == {202}
    assert preflight_house.get("/healthz").status == 200
    assert max(answer.seconds for answer in answers) < 4 * alone


def test_it_ends_with_a_gateway_that_is_killed(preflight_house: House, gateway: Process) -> None:
    assert submit(preflight_house, "good") == 202
    master = psutil.Process(gateway.running.pid)
    found = helpers_of(master)
    assert found
    for each in [*master.children(), master]:
        each.kill()
    gateway.running.wait()
    gone, alive = psutil.wait_procs(found, timeout=PATIENCE_S)
    assert (len(gone), alive) == (len(found), [])


def submit(house: House, text: str) -> int:
    return house.post("/v1/models/echo/jobs", {"inputs": {"text": text}}).status


def helpers_of(gateway: psutil.Process) -> list[psutil.Process]:
    inside = gateway.children(recursive=True)
    return [each for each in inside if any(a.endswith("preflight.py") for a in each.cmdline())]
