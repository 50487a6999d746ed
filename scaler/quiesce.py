"""Asking a worker in a pod to take no more jobs, before its pod is given up."""

from __future__ import annotations

import logging
import time

from celery import Celery
from django.conf import settings
from kombu.exceptions import OperationalError

from foldline.fleet.selectors import Present, present
from foldline.jobs import demand

log = logging.getLogger(__name__)

ANSWER_S = 1.0
REPORT_S = 0.5
"""Within this a worker's row says which ticket it took last."""


class Quiescing:
    """Call it with a pod's name: True when its worker takes no more jobs and has none.

    A worker that has one, or whose answer does not come, goes on as before.
    """

    def __init__(self) -> None:
        self._app = Celery("foldline", broker=settings.REDIS_URL)

    def __call__(self, pod: str) -> bool:
        worker = _in_pod(pod)
        if worker is None:
            return False
        queue = {each.revision_id: each.queue for each in demand.served()}[worker.revision_id]
        try:
            if not self._ask("cancel_consumer", queue, worker):
                return False
            time.sleep(REPORT_S)
            if _is_idle(pod):
                return True
            self._ask("add_consumer", queue, worker)
        except OperationalError as error:
            log.warning("worker not asked", extra={"worker": worker.name, "reason": str(error)})
        return False

    def _ask(self, word: str, queue: str, worker: Present) -> bool:
        answers = self._app.control.broadcast(
            word,
            arguments={"queue": queue},
            destination=[worker.name],
            reply=True,
            timeout=ANSWER_S,
            limit=1,
        )
        return bool(answers)


def _in_pod(pod: str) -> Present | None:
    return next((each for each in present() if each.node == pod), None)


def _is_idle(pod: str) -> bool:
    worker = _in_pod(pod)
    if worker is None or worker.name in demand.runs():
        return False
    return worker.state == "ready" and not worker.ticket
