"""A real Redis or Valkey for a test, on a port of its own, gone afterwards."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from foldline.ops.broker import server_binary


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(kw_only=True)
class RedisServer:
    """A server that a test may freeze, kill and start again on the same port."""

    folder: Path
    port: int = field(default_factory=free_port)
    durable: bool = False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        """Start empty, or with what it had if `durable`, and wait until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        keeps = "yes" if self.durable else "no"
        quiet = ["--save", "", "--appendonly", keeps, "--maxmemory-policy", "noeviction"]
        if self.durable:
            quiet += ["--appendfsync", "always"]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen([server_binary(), *options, *quiet], stdout=log)
        deadline = time.monotonic() + 20
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"no Redis on port {self.port}: see {self.folder}/redis.log")
            time.sleep(0.02)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


@contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder=folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
