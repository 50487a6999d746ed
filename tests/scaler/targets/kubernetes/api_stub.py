"""A stand-in for an API server that speaks HTTP, so that the real client is what is tested."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.scaler.targets.kubernetes.api_objects import (
    PLURALS,
    Object,
    Status,
    Store,
    canonical,
    control,
    delete_pod,
    merge,
)

PATH = re.compile(
    r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>scale|status))?"
)


@dataclass
class Trouble:
    """What happens to the next `times` calls that match `VERB /path`."""

    match: str
    times: int = 10**6
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    hang_up: bool = False
    before: Any = None
    """Called with the store before the call is answered."""

    def meets(self, call: str) -> bool:
        """Whether it happens to this call, which is then one of its times."""
        hit = self.times > 0 and re.search(self.match, call) is not None
        self.times -= hit
        return hit


class ApiStub:
    """Answers on loopback from its start to `close`. `calls` lists what was asked."""

    def __init__(self) -> None:
        self.store = Store()
        self.calls: list[str] = []
        self.troubles: list[Trouble] = []
        self.page = 10**6
        self.controllers_run = True
        self._running = threading.Event()
        self._running.set()
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._running.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections and answers nothing; what was asked is done when it thaws."""
        self._running.clear()
        try:
            yield
        finally:
            self._running.set()

    @contextmanager
    def trouble(self, match: str, **what: Any) -> Iterator[Trouble]:
        trouble = Trouble(match, **what)
        self.troubles.append(trouble)
        try:
            yield trouble
        finally:
            self.troubles.remove(trouble)

    def answer(self, verb: str, path: str, body: Object) -> tuple[int, Object, dict[str, str]]:
        url = urlsplit(path)
        call = f"{verb} {url.path}"
        with self._lock:
            self.calls.append(call)
        self._running.wait()
        match = PATH.fullmatch(url.path)
        if match is None:
            return 404, _failure(404, f"no such path: {url.path}"), {}
        with self._lock:
            met = [each for each in self.troubles if each.meets(call)]
        for trouble in met:
            if trouble.before is not None:
                trouble.before(self.store)
            if trouble.hang_up:
                raise ConnectionAbortedError
            if trouble.status:
                return trouble.status, _failure(trouble.status, "injected"), trouble.headers
        with self._lock:
            return self._answer(verb, match.groupdict(), dict(parse_qsl(url.query)), body)

    def _answer(
        self, verb: str, where: dict[str, Any], query: dict[str, str], body: Object
    ) -> tuple[int, Object, dict[str, str]]:
        plural, name, sub = where["plural"], where["name"], where["sub"]
        namespace = where["namespace"] or ""
        try:
            if name is None and verb == "GET":
                return 200, self._list(plural, namespace, query), {}
            if name is None:
                answer = self.store.create(plural, namespace, body)
            else:
                found = self.store.get(plural, namespace, name)
                answer = self._change(verb, plural, found, sub, body, query)
            self._control()
        except Status as status:
            return status.code, _failure(status.code, str(status)), {}
        return 200, answer, {}

    def _control(self) -> None:
        if self.controllers_run:
            control(self.store)

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> Object:
        self._control()
        labels = query.get("labelSelector", "")
        items = self.store.all(plural, namespace=namespace, labels=labels)
        begin = int(query.get("continue", 0))
        end = begin + min(self.page, int(query.get("limit", self.page)))
        more = {"continue": str(end)} if end < len(items) else {}
        return {"kind": f"{PLURALS[plural][1]}List", "metadata": more, "items": items[begin:end]}

    def _change(
        self, verb: str, plural: str, found: Object, sub: str, body: Object, query: dict[str, str]
    ) -> Object:
        if verb == "GET":
            return found
        if verb == "DELETE":
            return self._delete(plural, found, body or {}, query)
        self.store.check(found, body)
        if verb == "PUT":
            if plural == "leases" and "resourceVersion" not in body["metadata"]:
                raise Status(422, "metadata.resourceVersion: must be specified for an update")
            changed = canonical(body)
        else:
            changed = merge(found, body)
        if sub == "scale":
            replicas = body["spec"]["replicas"]
            if replicas < 0:
                raise Status(422, "spec.replicas: must be greater than or equal to 0")
            changed = {**found, "spec": {**found["spec"], "replicas": replicas}}
        changed["metadata"] = {**found["metadata"], **changed["metadata"]}
        return self.store.put(plural, changed)

    def _delete(self, plural: str, found: Object, options: Object, query: dict[str, str]) -> Object:
        if plural == "pods":
            grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
            delete_pod(self.store, found, grace_s=None if grace is None else int(grace))
        else:
            self.store.drop(plural, found)
        return found


def _failure(code: int, message: str) -> Object:
    return {"kind": "Status", "status": "Failure", "message": message, "code": code}


def _handler(stub: ApiStub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Tests read `calls`."""

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            try:
                status, answer, headers = stub.answer(self.command, self.path, body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
            except ConnectionError:  # hung up, or nobody waits any more
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    return Handler
