from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES

from foldline.jobs.tickets import TASK, VERSION, _ticket
from tasks.app import app
from tasks.broker import NotATicket, require_ticket
from tests.redis_server import running_redis

QUEUE = "foldline.sleepy.r1"


def ticket(**changes: Any) -> dict[str, Any]:
    return {**json.loads(_ticket(QUEUE)), **changes}


def test_our_own_ticket_is_one() -> None:
    require_ticket(ticket())


def test_what_celery_itself_would_publish_is_one(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server, Connection(server.url) as connection:
        app.send_task(TASK, args=(VERSION,), queue=QUEUE, connection=connection)
        with server.client() as client:
            require_ticket(json.loads(client.rpop(QUEUE)))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (None, "a field is missing"),
        (ticket(headers=None), "a field is missing"),
        (ticket(headers={"task": "os.system", "id": "1"}), "the task 'os.system'"),
        (ticket(headers={"task": TASK}), "a field is missing"),
        (ticket(properties={"delivery_info": {}}), "a field is missing"),
        (ticket(body="W1s" * 1000), "3000 characters"),
        (ticket(body="e30="), "a field is missing|not enough values"),
        (ticket(**{"content-type": "application/x-python-serialize"}), "its content is"),
    ],
)
def test_anything_else_is_not_and_the_reason_is_told(message: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        require_ticket(message)


def test_a_reason_is_a_value_error_as_unreadable_json_is() -> None:
    assert issubclass(NotATicket, ValueError)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_every_connection_of_the_application_reads_this_way(scheme: str) -> None:
    assert TRANSPORT_ALIASES[scheme] == "tasks.broker:Transport"
