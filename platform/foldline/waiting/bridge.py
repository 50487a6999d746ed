"""From ASGI to WSGI, on a bounded number of threads.

Django stays WSGI: under ASGI it holds a thread per open request. What this adds to an
ordinary request is one hand-over to a thread and one back. A thread is taken only while
the application computes: a body is read whole before, and a file is sent after, so that
slow clients hold no thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from io import BytesIO
from queue import SimpleQueue
from typing import IO, Any, TypeVar

from foldline.tenants.visits import VISIT

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]
WSGIApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

IN_MEMORY = 1024 * 1024
BLOCK = 256 * 1024

# The same few header names come with every request.
_names: dict[bytes, str] = {b"content-length": "CONTENT_LENGTH", b"content-type": "CONTENT_TYPE"}


@dataclass(slots=True)
class Answer:
    """What the application answered: `body` whole, or a `file` still to be sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    file: FileBody | None = None


class FileBody:
    """`wsgi.file_wrapper`: Django hands over an open file instead of its blocks."""

    def __init__(self, file: IO[bytes], _block_size: int = BLOCK) -> None:
        self.file = file

    def __iter__(self) -> Iterable[bytes]:
        return iter(lambda: self.file.read(BLOCK), b"")

    def close(self) -> None:
        self.file.close()


class Bridge:
    """An ASGI application (scope `http`) in front of a WSGI application.

    `max_body`: bytes of a request's body that are read. A longer body is not: the
    application sees its length and no content, and refuses it in its own words.
    """

    def __init__(self, app: WSGIApp, *, threads: int, max_body: int) -> None:
        self.app = app
        self.max_body = max_body
        self.calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.most_threads = threads
        self.threads: list[threading.Thread] = []
        self.idle = threading.Semaphore(0)

    def close(self) -> None:
        """End the threads once the calls they have are answered."""
        for _ in self.threads:
            self.calls.put(None)

    def _put(self, call: Callable[[], None]) -> None:
        """Give a call to a thread. A further thread begins only when all are busy: each has
        a database connection, and one that is in use is warm."""
        self.calls.put(call)
        if not self.idle.acquire(blocking=False) and len(self.threads) < self.most_threads:
            name = f"django-{len(self.threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self.threads.append(thread)
            thread.start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        environ = environ_of(scope)
        try:
            if not await self._read_body(environ, receive):
                return  # the client left while sending
            answer = await self.run(lambda: answer_of(self.app, environ))
        finally:
            environ["wsgi.input"].close()
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        if answer.file is not None:
            await send_file(answer.file, send)
        else:
            await send({"type": "http.response.body", "body": answer.body})

    async def _read_body(self, environ: Environ, receive: Receive) -> bool:
        """Put the whole body into `wsgi.input`, in memory or (beyond 1 MiB) on disk."""
        length = environ.get("CONTENT_LENGTH")
        if length is None and "HTTP_TRANSFER_ENCODING" not in environ:
            return True
        if length is not None and length.isdecimal() and int(length) > self.max_body:
            return True
        message = await receive()
        if message["type"] == "http.disconnect":
            return False
        if message.get("more_body"):
            return await self._spool(environ, message["body"], receive)
        body = message.get("body", b"")
        environ["wsgi.input"] = BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        return True

    async def _spool(self, environ: Environ, first: bytes, receive: Receive) -> bool:
        spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - see __call__
        environ["wsgi.input"] = spool
        size = spool.write(first)
        more = True
        while more and size <= self.max_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            size += spool.write(message.get("body", b""))
            more = message.get("more_body", False)
        spool.seek(0)
        environ["CONTENT_LENGTH"] = str(size)
        return True

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work on one of the threads."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                done = work()
            except Exception as error:  # carried over to the loop
                loop.call_soon_threadsafe(_fail, future, error)
            else:
                loop.call_soon_threadsafe(_resolve, future, done)

        self._put(call)
        return await future

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            contextvars.Context().run(call)  # nothing of one request is seen by the next
            self.idle.release()


def _resolve(future: asyncio.Future[T], done: T) -> None:
    if not future.done():
        future.set_result(done)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def answer_of(app: WSGIApp, environ: Environ) -> Answer:
    """Run the application to its end, or until it hands over a file."""
    answer = Answer(status=500, headers=[])

    def start_response(status: str, headers: list[tuple[str, str]], _exc: Any = None) -> None:
        answer.status = int(status[:3])
        answer.headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]

    chunks = app(environ, start_response)
    if isinstance(chunks, FileBody):
        answer.file = chunks
        return answer
    try:
        answer.body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    return answer


async def send_file(body: FileBody, send: Send) -> None:
    """Send an open file block by block, at the client's pace, and close it."""
    try:
        while block := await asyncio.to_thread(body.file.read, BLOCK):
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        body.close()


def environ_of(scope: Scope) -> Environ:
    """The WSGI environ (PEP 3333) of an ASGI `http` scope, without its body."""
    host, port = scope.get("server") or ("localhost", 80)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": "HTTP/" + scope["http_version"],
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "wsgi.input": BytesIO(),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileBody,
    }
    if VISIT in scope:
        environ[VISIT] = scope[VISIT]
    if client := scope.get("client"):
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = client[0], str(client[1])
    for name, value in scope["headers"]:
        if b"_" in name:
            continue  # would pass for its twin with a hyphen, X-Forwarded_Proto for one
        key = _names.get(name) or _name_of(name)
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    return environ


def _name_of(name: bytes) -> str:
    key = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
    if len(_names) < 256:  # a client may send any number of different ones
        _names[name] = key
    return key
