"""An ASGI application under a real uvicorn, in a thread of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from foldline.waiting.server import BoundedProtocol


class Served(uvicorn.Server):
    """A server in a thread, which has no signals to handle."""

    def __init__(self, app: Any, *, lifespan: Any = "off") -> None:
        config = uvicorn.Config(
            app,
            port=0,
            http=BoundedProtocol,
            loop="uvloop",
            lifespan=lifespan,
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=10,
        )
        super().__init__(config)
        self.is_up = threading.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.loop = asyncio.get_running_loop()
        self.is_up.set()

    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])


@contextmanager
def served(app: Any, *, lifespan: str = "off") -> Iterator[Served]:
    """Serve until the end of the block; leaving it ends the server as SIGTERM would."""
    server = Served(app, lifespan=lifespan)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.is_up.wait(60)
        yield server
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
