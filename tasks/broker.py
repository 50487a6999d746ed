"""kombu's Redis transport, for queues into which anybody could push anything.

In kombu 5.7 and Celery 5.7 a message that is no message ends the worker, and one whose body
is no call keeps it waiting for ever. Here whatever is no ticket is dropped with a word in
the log. Nothing is lost by that: jobs are in the database, and the sweeper counts tickets.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from kombu.transport import redis

from foldline.jobs.tickets import TASK

log = logging.getLogger(__name__)

QUEUES = "foldline."
LONGEST_BODY = 1024


class NotATicket(ValueError):
    """What was read from a queue is not a ticket; the text says why."""


class Channel(redis.Channel):
    """Reads one message at a time; one that is no JSON is dropped."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # private to kombu
        except (RecursionError, ValueError) as error:
            log.error("not a ticket: dropped", extra={"reason": str(error)[:200]})
            return True


class Transport(redis.Transport):
    """Hands tickets to their consumer, and Celery's own messages as they are."""

    Channel = Channel

    def _deliver(self, message: Any, queue: str | None) -> None:
        if queue and queue.startswith(QUEUES):
            require_ticket(message)
        super()._deliver(message, queue)


def require_ticket(message: Any) -> None:
    """Raises NotATicket unless a message is one, down to the arguments of its call.

    A ticket of another version is one: what to do with it is for the task to say.
    """
    try:
        headers, properties = message["headers"], message["properties"]
        if headers["task"] != TASK or not isinstance(headers["id"], str):
            raise NotATicket(f"it asks for the task {headers['task']!r}")
        if message["content-type"] != "application/json" or message["content-encoding"] != "utf-8":
            raise NotATicket(f"its content is {message['content-type']!r}")
        if headers.get("eta") is not None or headers.get("expires") is not None:
            raise NotATicket("it wants to be served at a time of its own")
        _require_delivery(properties)
        _require_call(message["body"])
    except (KeyError, TypeError, AttributeError) as error:
        raise NotATicket(f"a field is missing or of another kind: {error!r}") from error


def _require_delivery(properties: Mapping[str, Any]) -> None:
    place = properties["delivery_info"]
    texts = (properties["delivery_tag"], place["exchange"], place["routing_key"])
    if not all(isinstance(text, str) for text in texts):
        raise NotATicket("it does not say where it came from")


def _require_call(body: str) -> None:
    if len(body) > LONGEST_BODY:
        raise NotATicket(f"its body has {len(body)} characters")
    call = json.loads(b64decode(body))
    arguments, keywords, chain = call
    (version,) = arguments
    if type(version) is not int or keywords != {} or not isinstance(chain, dict):
        raise NotATicket("its body is no call of the task")
