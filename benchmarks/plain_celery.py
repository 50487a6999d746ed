"""The peer of `benchmarks.recovery`: Celery as its documentation advises for long tasks.

https://docs.celeryq.dev: acks_late, reject_on_worker_lost, a prefetch of one, and a
visibility timeout longer than the longest task.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery

VISIBILITY_S = 60

app = Celery("plain", broker=os.environ.get("PLAIN_REDIS_URL", ""))
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_concurrency=1,
    task_ignore_result=True,
    task_default_queue="plain",
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": VISIBILITY_S},
)


@app.task
def work(name: str, seconds: float) -> None:
    """Sleep, and write down when it began and when it ended."""
    _note("begin", name)
    time.sleep(seconds)
    _note("end", name)


def _note(what: str, name: str) -> None:
    worker = os.getppid()  # of Celery's prefork pool
    with Path(os.environ["PLAIN_NOTES"]).open("a") as notes:
        notes.write(f"{what} {name} {worker} {time.time()}\n")
