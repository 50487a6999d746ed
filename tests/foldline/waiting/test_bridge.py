"""The bridge under a real uvicorn, asked over real sockets."""

from __future__ import annotations

import contextvars
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.waiting.bridge import Bridge, WSGIApp
from foldline.waiting.server import MAX_HEAD_BYTES
from tests.served import served

MAX_BODY = 3 * 1024 * 1024
Serve = Callable[..., int]
seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:

        def start(app: WSGIApp, *, threads: int = 2) -> int:
            bridge = Bridge(app, threads=threads, max_body=MAX_BODY)
            running.callback(bridge.close)
            return running.enter_context(served(bridge)).port

        yield start


def get(url: str, **request: Any) -> httpx.Response:
    return httpx.get(url, timeout=60, **request)


def post(url: str, **request: Any) -> httpx.Response:
    return httpx.post(url, timeout=60, **request)


def answer(start: Any, body: bytes, *headers: tuple[str, str]) -> Iterable[bytes]:
    start("200 OK", [("Content-Length", str(len(body))), *headers])
    return [body]


def hello(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    return answer(start, b"hello " + environ["PATH_INFO"].encode("latin-1"), ("X-Kind", "plain"))


def echo(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    body = environ["wsgi.input"].read()
    return answer(start, body, ("X-Length", environ.get("CONTENT_LENGTH", "none")))


def test_an_answer_arrives_with_status_headers_and_body(serve: Serve) -> None:
    reply = get(f"http://127.0.0.1:{serve(hello)}/%C3%A9?a=1")
    assert (reply.status_code, reply.headers["x-kind"]) == (200, "plain")
    assert reply.content == b"hello /\xc3\xa9"


@pytest.mark.parametrize("size", [0, 10, 300_000, 2_500_000])
def test_a_body_arrives_whole_with_its_length(serve: Serve, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    reply = post(f"http://127.0.0.1:{serve(echo)}/", content=body)
    assert reply.content == body
    assert reply.headers["x-length"] == str(size)


def test_a_chunked_body_gets_a_length(serve: Serve) -> None:
    pieces = iter([b"one", b"two" * 400_000])
    reply = post(f"http://127.0.0.1:{serve(echo)}/", content=pieces)
    assert reply.headers["x-length"] == str(3 + 3 * 400_000) == str(len(reply.content))


def test_a_body_beyond_the_limit_is_left_unread(serve: Serve) -> None:
    port = serve(echo)
    declared = post(f"http://127.0.0.1:{port}/", content=b"x" * (MAX_BODY + 1))
    assert (declared.content, declared.headers["x-length"]) == (b"", str(MAX_BODY + 1))
    chunked = post(f"http://127.0.0.1:{port}/", content=iter([b"x" * 2**20] * 8))
    assert MAX_BODY < int(chunked.headers["x-length"]) < MAX_BODY + 2**20


def test_a_slow_upload_holds_no_thread(serve: Serve) -> None:
    port = serve(hello, threads=1)
    with closing(socket.create_connection(("127.0.0.1", port))) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
        assert get(f"http://127.0.0.1:{port}/").status_code == 200
        slow.sendall(b"-there")
        assert slow.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_slow_download_holds_no_thread_and_its_file_is_closed(
    serve: Serve, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * 30_000_000)
    closed = threading.Event()
    files: list[Any] = []

    def app(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/large":
            return hello(environ, start)
        start("200 OK", [("Content-Length", str(large.stat().st_size))])
        body = environ["wsgi.file_wrapper"](large.open("rb"), 4096)
        body.file.close, body.file.really_close = closed.set, body.file.close
        files.append(body.file)
        return body  # type: ignore[no-any-return]  # the environ is untyped

    port = serve(app, threads=1)
    with httpx.stream("GET", f"http://127.0.0.1:{port}/large", timeout=60) as slow:
        pieces = slow.iter_raw(1_000_000)
        received = len(next(pieces))
        assert get(f"http://127.0.0.1:{port}/").status_code == 200
        assert received + sum(map(len, pieces)) == large.stat().st_size
    assert closed.wait(60)
    files[0].really_close()


def test_a_client_that_leaves_while_sending_is_forgotten(serve: Serve) -> None:
    port = serve(hello, threads=1)
    with closing(socket.create_connection(("127.0.0.1", port))) as gone:
        gone.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
    assert get(f"http://127.0.0.1:{port}/").status_code == 200


def test_a_crash_of_the_application_is_a_500_and_the_next_call_is_served(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/crash":
            raise ValueError("boom")
        return hello(environ, start)

    port = serve(app, threads=1)
    assert get(f"http://127.0.0.1:{port}/crash").status_code == 500
    assert get(f"http://127.0.0.1:{port}/").status_code == 200


def test_nothing_of_one_request_is_seen_by_the_next(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        before = seen.get()
        seen.set(environ["PATH_INFO"])
        return answer(start, before.encode())

    port = serve(app, threads=1)
    replies = [get(f"http://127.0.0.1:{port}/{n}").text for n in range(2)]
    assert replies == ["nothing", "nothing"]


def test_a_header_with_an_underscore_does_not_pass_for_its_twin(serve: Serve) -> None:
    def app(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        return answer(start, environ.get("HTTP_X_FORWARDED_PROTO", "none").encode())

    headers = {"X-Forwarded_Proto": "https"}
    assert get(f"http://127.0.0.1:{serve(app)}/", headers=headers).text == "none"


def test_an_endless_header_is_refused(serve: Serve) -> None:
    port = serve(hello)
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as endless:
        endless.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):  # noqa: PT012 - whichever send fails
            for _ in range(3000):
                endless.sendall(b"x" * MAX_HEAD_BYTES)
    fine = get(f"http://127.0.0.1:{port}/", headers={"X-Long": "x" * 20_000})
    assert fine.status_code == 200


def test_many_requests_over_one_connection_are_not_counted_together(serve: Serve) -> None:
    with httpx.Client(timeout=60) as client:
        url = f"http://127.0.0.1:{serve(hello)}/"
        for _ in range(4):
            assert client.get(url, headers={"X-Long": "x" * 20_000}).status_code == 200
