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
    """Stops and resumes workers by the names of their pods. Raises DatabaseError.

    It remembers whom it has stopped, so that one at work is asked once and then only looked at.
    """

    def __init__(self) -> None:
        self._app = Celery("foldline", broker=settings.REDIS_URL)
        self._stopped: set[str] = set()

    def stop(self, pod: str) -> bool:
        """Let it take no more jobs; whether it has none now. False also while it does not
        answer."""
        worker = _in_pod(pod)
        if worker is None or (worker.name in self._stopped and not _is_idle(worker)):
            return False
        # Asked again when it is idle: a broker that lost its memory may have brought it back.
        if not self._ask("cancel_consumer", worker):
            return False
        self._stopped = {each.name for each in present()} & {*self._stopped, worker.name}
        time.sleep(REPORT_S)
        worker = _in_pod(pod)
        return worker is not None and _is_idle(worker)

    def resume(self, pod: str) -> bool:
        """Let it take jobs again; whether it said that it does."""
        worker = _in_pod(pod)
        if worker is None or not self._ask("add_consumer", worker):
            return False
        self._stopped.discard(worker.name)
        return True

    def _ask(self, word: str, worker: Present) -> bool:
        queues = {each.revision_id: each.queue for each in demand.served()}
        if (queue := queues.get(worker.revision_id)) is None:
            return False  # it has ended by now, as the last one of a retired revision
        try:
            answers = self._app.control.broadcast(
                word,
                arguments={"queue": queue},
                destination=[worker.name],
                reply=True,
                timeout=ANSWER_S,
                limit=1,
            )
        except OperationalError as error:
            log.warning("worker not asked", extra={"worker": worker.name, "reason": str(error)})
            return False
        return bool(answers)


def _in_pod(pod: str) -> Present | None:
    return next((each for each in reversed(present()) if each.node == pod), None)


def _is_idle(worker: Present) -> bool:
    return worker.name not in demand.runs() and worker.state == "ready" and not worker.ticket
