"""Asking a worker in a pod to take no more jobs, before its pod is given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from celery import Celery
from django.conf import settings
from kombu.exceptions import OperationalError

from foldline.fleet.selectors import Present, present
from foldline.jobs import demand

log = logging.getLogger(__name__)

ANSWER_S = 1.0
REPORT_S = 0.5
"""Within this a worker's row says which ticket it took last."""
ASK_AGAIN_S = 30.0


class Quiescing:
    """Stops and resumes workers by the names of their pods. Raises DatabaseError.

    It remembers for a while whom it has stopped, so that one at work is asked now and then and
    else only looked at: another scaler may have let it take jobs again in between.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = Celery("foldline", broker=settings.REDIS_URL)
        self._clock = clock
        self._stopped: dict[str, float] = {}

    def stop(self, pod: str) -> bool:
        """Let it take no more jobs; whether it has none now. False also while it does not
        answer."""
        worker = _in_pod(pod)
        if worker is None or (self._was_stopped(worker) and not _is_idle(worker)):
            return False
        # Asked again when it is idle: a broker that lost its memory may have brought it back.
        if not self._ask("cancel_consumer", worker):
            return False
        self._stopped[worker.name] = self._clock()
        time.sleep(REPORT_S)
        worker = _in_pod(pod)
        return worker is not None and _is_idle(worker)

    def resume(self, pod: str) -> bool:
        """Let it take jobs again; whether it said that it does."""
        worker = _in_pod(pod)
        if worker is None or not self._ask("add_consumer", worker):
            return False
        self._stopped.pop(worker.name, None)
        return True

    def _was_stopped(self, worker: Present) -> bool:
        """Lately, and by this one."""
        since = self._clock() - ASK_AGAIN_S
        self._stopped = {name: at for name, at in self._stopped.items() if at > since}
        return worker.name in self._stopped

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
