"""A real Redis or Valkey for a test, on a port of its own, gone afterwards."""

from __future__ import annotations

import errno
import random
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

# Below the ports that outgoing connections are given (ip_local_port_range).
PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port that stays free until it is used, and again between two servers on it: while this
    process lives no other run of tests draws it, and no connection is made from it."""
    for port in random.sample(PORTS, len(PORTS)):
        if _is_drawn_first(port) and _is_free(port):
            return port
    raise RuntimeError("no port is free")


def _is_drawn_first(port: int) -> bool:
    """Take the port's name, an abstract socket that is gone with this process."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0foldline-tests-port-{port}")
    except OSError as error:
        claim.close()
        return error.errno != errno.EADDRINUSE  # there are such names on Linux only
    claim.detach()  # held until this process ends
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


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
        deadline = time.monotonic() + 120
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
