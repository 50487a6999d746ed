"""A batch through the real door: who waits for it is answered when its jobs have ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import Answer, House, built
from tests.redis_server import running_redis

pytestmark = pytest.mark.processes

LONG_S = 600
WAIT_S = 50


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with (
        running_redis(tmp_path_factory.mktemp("redis")) as redis,
        built(tmp_path_factory.mktemp("house"), redis=redis) as house,
    ):
        house.start_gateway()
        house.start_sweeper()
        house.start_worker()
        yield house


def send(house: House, *seconds: float) -> Answer:
    jobs = [{"model": "sleepy", "inputs": {"seconds": each, "echo": str(each)}} for each in seconds]
    answer = house.post("/v1/batches", {"jobs": [*jobs, {"model": "none"}]})
    assert answer.status == 202
    return answer


def test_waiting_for_all_is_answered_once_all_have_ended(house: House) -> None:
    url = send(house, 0.1, 0.2, 0.3).body["urls"]["self"]
    answer = house.get(f"{url}?wait=all&timeout_s={WAIT_S}")
    assert (answer.status, answer.body["state"]) == (200, "done")
    assert answer.body["counts"]["succeeded"] == 3
    assert answer.seconds < WAIT_S
    assert house.get(f"{url}?wait=all&timeout_s={WAIT_S}").seconds < WAIT_S


def test_waiting_for_any_is_answered_once_one_has_ended(house: House) -> None:
    urls = send(house, 0.5, LONG_S).body["urls"]
    answer = house.get(f"{urls['self']}?wait=any&timeout_s={WAIT_S}")
    assert (answer.status, answer.body["state"]) == (200, "open")
    assert answer.body["counts"]["succeeded"] == 1
    assert answer.seconds < WAIT_S
    assert house.post(urls["cancel"], {}).status == 200
    ended = house.get(f"{urls['self']}?wait=all&timeout_s={WAIT_S}")
    assert ended.body["counts"]["cancelled"] == 1
    assert ended.body["state"] == "done"


def test_when_the_time_is_over_it_is_shown_as_it_stands(house: House) -> None:
    urls = send(house, LONG_S).body["urls"]
    answer = house.get(f"{urls['self']}?wait=all&timeout_s=1")
    assert (answer.status, answer.body["state"]) == (200, "open")
    assert 1 <= answer.seconds < WAIT_S
    house.post(urls["cancel"], {})
