"""Tickets: the messages that tell a worker "one job of this model can be claimed".

A ticket names no job, so all tickets of a queue are alike but for their ids. That is why
one message is encoded once and pushed with LPUSH, as kombu would: it costs a tenth of
`apply_async`, and `tests/foldline/jobs/test_tickets.py` shows that Celery takes it.
"""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any
from uuid import uuid4

from django.conf import settings

from foldline.jobs.wire import BrokerUnavailable as BrokerUnavailable
from foldline.jobs.wire import Wire

log = logging.getLogger(__name__)

TASK = "foldline.serve"
VERSION = 1


def queue_name(model: str, *, number: int) -> str:
    """The queue of one revision."""
    return f"foldline.{model}.r{number}"


def transport_options(queue: str, *, run_timeout_s: int, load_timeout_s: int) -> dict[str, Any]:
    """kombu's options for the workers of one queue.

    The visibility timeout is beyond the longest job, so that it never redelivers a running
    one. The `unacked` keys carry the queue's name, because by default all queues of a Redis
    share them and the smallest timeout among them would redeliver everybody's jobs.
    """
    return {
        "visibility_timeout": max(3600, run_timeout_s + load_timeout_s + 600),
        "unacked_key": f"unacked.{queue}",
        "unacked_index_key": f"unacked_index.{queue}",
        "unacked_mutex_key": f"unacked_mutex.{queue}",
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "priority_steps": [0],
        "socket_keepalive": True,
        "socket_timeout": 30,
        "health_check_interval": 25,
    }


class Publisher(Wire):
    """Sends tickets. While Redis is away the sweeper's next rounds send what is owed."""

    def publish(self, queue: str, *, count: int = 1) -> None:
        """Push `count` tickets. Raises BrokerUnavailable, at once while the breaker is open."""
        self.guarded(lambda: self._redis.lpush(queue, *(_ticket(queue) for _ in range(count))))

    def publish_all(self, counts: Mapping[str, int]) -> None:
        """Push so many tickets to each queue, in one message. Raises BrokerUnavailable."""

        def command() -> None:
            with self._redis.pipeline(transaction=False) as all_queues:
                for queue, count in counts.items():
                    all_queues.lpush(queue, *(_ticket(queue) for _ in range(count)))
                all_queues.execute()

        self.guarded(command)

    def ready(self, queue: str) -> int:
        """Tickets waiting in Redis. Raises BrokerUnavailable: unreadable is not zero."""
        return int(self.guarded(lambda: self._redis.llen(queue)))

    def unacked(self, queue: str) -> int:
        """Tickets that workers hold. Raises BrokerUnavailable."""
        return int(self.guarded(lambda: self._redis.hlen(f"unacked.{queue}")))

    def withdraw(self, queue: str, *, count: int) -> None:
        """Take tickets back that nobody needs any more."""
        self.guarded(lambda: self._redis.rpop(queue, count))

    def run_id(self) -> str:
        """Changes with every start of Redis, which may have come back empty."""
        return str(self.guarded(lambda: self._redis.info("server"))["run_id"])

    def held(self, queue: str, *, since: float) -> set[str]:
        """Ids of tickets that workers took before `since` (epoch seconds) and did not
        acknowledge: those of busy workers, and those of dead ones."""
        index = f"unacked_index.{queue}"
        tags = self.guarded(lambda: self._redis.zrangebyscore(index, "-inf", since))
        return {tag.decode() for tag in tags}

    def forget(self, queue: str, ids: Collection[str]) -> None:
        """Drop tickets of workers that are gone. Their jobs are in line again, with new ones."""

        def command() -> None:
            with self._redis.pipeline() as both:
                both.zrem(f"unacked_index.{queue}", *ids)
                both.hdel(f"unacked.{queue}", *ids)
                both.execute()

        if ids:
            self.guarded(command)


@cache
def publisher() -> Publisher:
    """This process's publisher."""
    return Publisher(settings.REDIS_URL)


def send(queue: str, *, count: int = 1) -> bool:
    """Publish and tell whether it worked; a missing ticket is the sweeper's to notice."""
    try:
        publisher().publish(queue, count=count)
    except BrokerUnavailable as error:
        log.warning("ticket not sent", extra={"queue": queue, "reason": str(error)})
        return False
    return True


def send_all(counts: Mapping[str, int]) -> bool:
    """The same for many queues at once: so many tickets to each."""
    try:
        publisher().publish_all(counts)
    except BrokerUnavailable as error:
        log.warning("tickets not sent", extra={"queues": list(counts), "reason": str(error)})
        return False
    return True


_ID_MARK = "<ticket>"


def _ticket(queue: str) -> bytes:
    """One ticket with an id of its own: Flower and the `unacked` hash tell tickets apart by it."""
    return _template(queue).replace(_ID_MARK.encode(), str(uuid4()).encode())


@cache
def _template(queue: str) -> bytes:
    """The message that `apply_async` would push to this queue (Celery's protocol 2)."""
    arguments = [[VERSION], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    message = {
        "body": b64encode(json.dumps(arguments).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": TASK,
            "id": _ID_MARK,
            "root_id": _ID_MARK,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "eta": None,
            "expires": None,
            "timelimit": [None, None],
            "argsrepr": f"({VERSION},)",
            "kwargsrepr": "{}",
            "origin": "foldline",
            "ignore_result": True,
        },
        "properties": {
            "correlation_id": _ID_MARK,
            "delivery_tag": _ID_MARK,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
        },
    }
    return json.dumps(message).encode()
