"""gunicorn's settings. `python -m gunicorn`, started in this folder, serves the gateway."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))

from foldline.environment import home

wsgi_app = "foldline.waiting.app:app"
worker_class = "foldline.waiting.server.GatewayWorker"
bind = f"{os.environ.get('FOLDLINE_BIND', '127.0.0.1')}:{os.environ.get('FOLDLINE_PORT', '8000')}"
workers = int(os.environ.get("FOLDLINE_GATEWAY_PROCESSES", "2"))
keepalive = 15
graceful_timeout = 30
# One path for every gunicorn of a user, by default; nothing here needs it.
control_socket_disable = True

# Who waits holds a connection; the usual limit of 1,024 open files is meant for other programs.
_, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))

# Its sessions with the database are impatient: foldline/settings.py.
os.environ["FOLDLINE_ROLE"] = "gateway"

# All processes add to one set of counters. The client library reads the variable on import.
metrics = home() / "metrics"
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)


def on_starting(_server: Any) -> None:
    """Counters of an earlier run would be added to this run's."""
    shutil.rmtree(metrics, ignore_errors=True)
    metrics.mkdir(parents=True)


def child_exit(_server: Any, worker: Any) -> None:
    """A dead process's gauges must not be shown as its last word."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
