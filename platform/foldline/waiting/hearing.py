"""Hearing the news of jobs: one subscription of this process, for everybody who waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

import redis.asyncio as redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from foldline.jobs.news import CHANNEL

log = logging.getLogger(__name__)

CONNECT_S = 1.0
PING_S = 2.0
AGAIN_S = 1.0


class Hearing:
    """Calls `heard` with the id of each job that has changed, and `turned` whenever news begins to
    come or stops, since some may have been missed. `up`: whether news is coming."""

    def __init__(
        self, url: str, *, heard: Callable[[UUID], None], turned: Callable[[], None]
    ) -> None:
        self._url = url
        self._heard, self._turned = heard, turned
        self.up = False

    async def run(self) -> None:
        """Until cancelled. A Redis that is away is tried again every second; one that has stopped
        answering is noticed within twice `PING_S`."""
        client = redis.Redis.from_url(
            self._url,
            socket_connect_timeout=CONNECT_S,
            socket_timeout=CONNECT_S,
            retry=Retry(NoBackoff(), 0),
        )
        async with client:
            while True:
                await self._hear(client)
                await asyncio.sleep(AGAIN_S)

    async def _hear(self, client: redis.Redis) -> None:
        """Until Redis is away."""
        try:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe(CHANNEL)
                await self._listen(pubsub)
        except (redis.RedisError, OSError, TimeoutError) as error:
            reason = " ".join(str(error).split())
            level = logging.WARNING if self.up else logging.DEBUG
            log.log(level, "no news of jobs: the database is read", extra={"reason": reason})
        self._turn(up=False)

    async def _listen(self, pubsub: PubSub) -> None:
        silent = False
        while True:
            message = await pubsub.get_message(timeout=PING_S)
            if message is None:
                if silent:
                    raise TimeoutError("Redis does not answer")
                silent = True
                await pubsub.ping()
                continue
            silent = False
            self._take(message["type"], message["data"])

    def _take(self, kind: str, data: bytes) -> None:
        if kind == "subscribe":
            self._turn(up=True)
        elif kind == "message" and len(data) == 16:
            self._heard(UUID(bytes=data))

    def _turn(self, *, up: bool) -> None:
        if up != self.up:
            self.up = up
            self._turned()
