"""A server that answers what a test wrote down, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Says:
    """One answer. `cut`: the connection ends without one, after the request was read."""

    status: int = 200
    body: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False

    @property
    def content(self) -> bytes:
        return json.dumps(self.body).encode() if self.raw is None else self.raw


@dataclass(frozen=True, kw_only=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(kw_only=True)
class Scripted:
    """The last answer is repeated for whatever comes after it."""

    url: str
    answers: list[Says] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def will_say(self, *answers: Says) -> None:
        self.answers[:], self.asked[:] = list(answers), []

    def next(self) -> Says:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def paths(self) -> Sequence[str]:
        return [each.path for each in self.asked]


@contextmanager
def scripted() -> Iterator[Scripted]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(
                method=self.command,
                path=self.path,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.rfile.read(length),
            )
            with lock:
                script.asked.append(asked)
                says = script.next()
            if says.cut:
                return
            self.send_response(says.status)
            for name, value in {"Content-Type": "application/json", **says.headers}.items():
                self.send_header(name, value)
            if "Content-Length" not in says.headers:
                self.send_header("Content-Length", str(len(says.content)))
            self.end_headers()
            self.wfile.write(says.content)

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script = Scripted(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
