"""How gunicorn runs the door: uvicorn inside each of its workers."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn_worker import UvicornWorker

MAX_HEAD_BYTES = 32 * 1024
LEAVE = "foldline.leave"
"""In the state of the application's life: what to call when the server begins to end."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1, with a bound on the request line and headers together.

    The parser itself would collect an endless header in memory.
    """

    _head_bytes = 0
    _in_head = True

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self._ends_within(data):
                self.send_400_response("Request header fields too large.")
                return
        super().data_received(data)

    def _ends_within(self, data: bytes) -> bool:
        """A body may follow the headers in the same piece; only those count."""
        before = self._head_bytes - len(data)
        return data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES - before) >= 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def shutdown(self) -> None:
        """The server is ending. It waits for its connections, so those that wait must hear of it;
        the application's own shutdown comes after them."""
        if (leave := self.app_state.get(LEAVE)) is not None:
            leave()
        super().shutdown()


class GatewayWorker(UvicornWorker):  # type: ignore[misc]  # it has no types
    """One gateway process: no access log, no proxy headers (Django reads those it trusts)."""

    CONFIG_KWARGS = {
        "loop": "uvloop",
        "http": BoundedProtocol,
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": 25,
    }
