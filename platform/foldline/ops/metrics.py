"""`/metrics`: what the gateway's processes count, and what the database knows of webhooks."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from django import db
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from django_prometheus.exports import ExportToDjangoView
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from foldline.notify import counts

log = logging.getLogger(__name__)


class Webhooks(Collector):
    """Read anew for each answer, and the same from every gateway."""

    def collect(self) -> Iterator[Metric]:
        tries = CounterMetricFamily(
            "foldline_webhook_tries", "Tries to send a message", labels=["result"]
        )
        for result, number in counts.tries().items():
            tries.add_metric([result], number)
        yield tries
        waiting = GaugeMetricFamily(
            "foldline_webhook_undelivered", "Messages nobody has taken yet", labels=["place"]
        )
        oldest = GaugeMetricFamily(
            "foldline_webhook_oldest_undelivered_seconds", "Age of the oldest", labels=["place"]
        )
        for place, each in counts.undelivered().items():
            waiting.add_metric([place], each.number)
            oldest.add_metric([place], each.oldest_s)
        yield from (waiting, oldest)
        endpoints = GaugeMetricFamily(
            "foldline_webhook_endpoints", "Endpoints that are not deleted", labels=["state"]
        )
        for state, number in counts.endpoints_by_state().items():
            endpoints.add_metric([state], number)
        yield endpoints


_STORED = CollectorRegistry()
_STORED.register(Webhooks())


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    answer: HttpResponse = ExportToDjangoView(request)
    try:
        answer.content += generate_latest(_STORED)
    except db.Error as error:
        # Left out, since what cannot be read is not zero. The rest is told.
        log.warning("no metrics of webhooks", extra={"reason": " ".join(str(error).split())})
    return answer
