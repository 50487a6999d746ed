"""The peer of `benchmarks.roundtrip`: a Celery no-op with the settings of our workers."""

from __future__ import annotations

import os

from celery import Celery

URL = os.environ["REDIS_URL"]

app = Celery("bare", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_pool="threads",
    worker_concurrency=1,
    worker_send_task_events=True,
    task_default_queue="bare",
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)


@app.task
def nothing() -> None:
    """Does nothing."""
