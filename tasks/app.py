"""The Celery application: one for Flower, and the same with a queue's options for its worker."""

from __future__ import annotations

from celery import Celery
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

from foldline.jobs.tickets import transport_options

# Under the name `redis`, which is also the one that Flower knows.
TRANSPORT_ALIASES.update(redis="tasks.broker:Transport", rediss="tasks.broker:Transport")

app = Celery("foldline", broker=settings.REDIS_URL, include=["tasks.serve"])
app.conf.update(
    # A ticket is acknowledged after the result is durable, and a worker holds one at a time.
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_disable_prefetch=True,
    # Model code runs in a process of its own, so the pool is only a place to wait in.
    worker_pool="threads",
    worker_concurrency=1,
    # The database keeps the results; Redis only carries tickets, and only JSON.
    task_ignore_result=True,
    result_backend=None,
    accept_content=["json"],
    task_serializer="json",
    # True would end running jobs, and lose them, whenever Redis restarts.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A Redis that is full, read-only or out of disk refuses commands. That passes, like a
    # lost connection, and ends no worker.
    broker_channel_error_retry=True,
    worker_send_task_events=True,
    task_send_sent_event=True,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    task_create_missing_queues=True,
    timezone="UTC",
    enable_utc=True,
)


def consume(queue: str, *, run_timeout_s: int, load_timeout_s: int) -> None:
    """Give this process's application the options of the one queue it serves."""
    app.conf.task_default_queue = queue
    app.conf.broker_transport_options = transport_options(
        queue, run_timeout_s=run_timeout_s, load_timeout_s=load_timeout_s
    )
