"""The gateway's door, an ASGI application: `foldline.waiting.app:app`.

An ordinary request goes straight through to Django.
"""

from __future__ import annotations

from django.conf import settings

from foldline.waiting.bridge import Bridge, Receive, Scope, Send
from foldline.wsgi import application

# Room for the frame around an upload of the greatest size.
FRAME_BYTES = 64 * 1024


class Door:
    """Tells kinds of requests apart; each kind is served by one callable."""

    def __init__(self) -> None:
        max_body = settings.MAX_UPLOAD_BYTES + FRAME_BYTES
        self.django = Bridge(application, threads=settings.THREADS, max_body=max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.django(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        self.django.close()
        await send({"type": "lifespan.shutdown.complete"})


app = Door()
