"""News of jobs: which one has changed, told to whoever waits for it.

A message names a job and says nothing of it: the database is the truth, and who hears it
reads there. News that is lost (Redis away, nobody listening) is made up for by reading
again now and then, so nothing is ever retried here.
"""

from __future__ import annotations

import logging
from functools import cache
from uuid import UUID

from django.conf import settings
from django.db import transaction

from foldline.jobs.wire import BrokerUnavailable, Wire

log = logging.getLogger(__name__)

CHANNEL = "foldline.news"


class Herald(Wire):
    """Publishes on a connection of its own."""

    def publish(self, job_id: UUID) -> None:
        """Tell that a job has changed. Raises BrokerUnavailable."""
        self.guarded(lambda: self._redis.publish(CHANNEL, job_id.bytes))


@cache
def herald(url: str) -> Herald:
    """This process's herald."""
    return Herald(url)


def tell(job_id: UUID) -> None:
    """Tell that a job has changed, once that is committed; costs nobody more than a moment."""
    transaction.on_commit(lambda: _publish(job_id), robust=True)


def _publish(job_id: UUID) -> None:
    try:
        herald(settings.EVENTS_URL).publish(job_id)
    except BrokerUnavailable as error:
        log.debug("news not told", extra={"job": str(job_id), "reason": str(error)})
