"""The process that tells callers. One notifier leads; others stand by. It needs no Redis.

One thread asks the database and writes to it; a pool of others does nothing but send. What is
under way is remembered here only: whoever follows a notifier that was killed sends it again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import connection

from foldline.clock import database_now
from foldline.jobs.faults import DATABASE_AWAY, contained, note
from foldline.jobs.leading import Leader
from foldline.notify import deliveries
from foldline.notify.endpoints import secrets_of
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.notify.retention import A_ROUND, clean
from foldline.notify.schedule import Outcome
from foldline.notify.sending import Letter, Network, send
from foldline.notify.settling import give_up, settle
from foldline.notify.signing import Unreadable, signed_headers
from foldline.notify.spreading import spread

log = logging.getLogger(__name__)

DUTY = "notify"
BEAT_S = 0.5
LEAST_PAUSE_S = 0.02
LEAD_EVERY_S = 2.0
SILENCE_S = 10.0
"""After which another one takes over."""
CLEAN_EVERY_S = 3600.0

AT_ONCE = 32
AT_ONCE_OF_TENANT = 4
AT_ONCE_OF_ENDPOINT = 2
AT_ONCE_WHILE_FAILING = 1

OUR_FAULT = Outcome(error="It could not be sent: a fault of Foldline.")


@dataclass(frozen=True, kw_only=True)
class Flight:
    """A message under way."""

    delivery: Delivery
    tenant_id: UUID
    outcome: Future[Outcome]

    def told(self) -> Outcome:
        """What came of it, once it is done. A fault of ours is a failed try, too."""
        fault = self.outcome.exception()
        if fault is not None:
            log.error("sending failed", exc_info=fault)
            return OUR_FAULT
        return self.outcome.result()


class Notifier:
    """Looks every half second while it leads, and as soon as a receiver has answered."""

    def __init__(self, *, name: str = "", network: Network | None = None) -> None:
        self._leader = Leader(DUTY, keep_s=SILENCE_S, name=name)
        self._network = network or Network()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="send")
        self._flights: dict[UUID, Flight] = {}
        self._served: dict[UUID, float] = {}
        self._landed = threading.Event()
        self._leads_until = 0.0
        self._clean_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Tell until `stop` is set; then write down what is still under way, and let the next
        one begin at once. A database that is away ends no notifier."""
        while not stop.is_set():
            self._guarded(self.beat)
            self._landed.wait(BEAT_S)
            stop.wait(LEAST_PAUSE_S)
        self.close()
        connection.close()

    def close(self) -> None:
        """Wait for what is under way, write it down, and give the duty up."""
        self._pool.shutdown(wait=True)
        self._guarded(self._settle)
        self._leader.end()

    @property
    def under_way(self) -> int:
        """Messages that were handed out and not yet written down."""
        return len(self._flights)

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            contained("notify", act, otherwise=None)
        except DATABASE_AWAY as error:
            self._leads_until = 0.0
            log.warning("notify failed", extra={"reason": str(error)})
            connection.close()

    def beat(self) -> bool:
        """One round, if this one leads. Raises DatabaseError."""
        self._landed.clear()
        # What has been sent is written down even by one that leads no more.
        self._settle()
        if not self._leads():
            return False
        contained("notify: outbox", spread, otherwise=0)
        self._hand_out(now=database_now())
        contained("notify: retention", self._clean, otherwise=None)
        return True

    def _leads(self) -> bool:
        """Asked of the database every two seconds: between them a silence is far off."""
        if time.monotonic() < self._leads_until:
            return True
        asked = time.monotonic()
        if not self._leader():
            return False
        self._leads_until = asked + LEAD_EVERY_S
        return True

    def _settle(self) -> None:
        for delivery_id, flight in list(self._flights.items()):
            if flight.outcome.done():
                land = partial(self._land, flight)
                contained("notify: outcome", land, otherwise=None, of=delivery_id)

    def _land(self, flight: Flight) -> None:
        _write_down(flight.delivery, flight.told())
        del self._flights[flight.delivery.id]

    def _hand_out(self, *, now: datetime) -> None:
        """Fill the pool, those that were served longest ago first."""
        waiting = deliveries.endpoints_with_due(now=now)
        for endpoint in sorted(waiting, key=lambda each: self._served.get(each.id, 0.0)):
            fill = partial(self._hand_out_to, endpoint, now=now)
            contained("notify: endpoint", fill, otherwise=None, of=endpoint.id)
        self._served = {each.id: self._served.get(each.id, 0.0) for each in waiting}

    def _hand_out_to(self, endpoint: WebhookEndpoint, *, now: datetime) -> None:
        places = self._places(endpoint)
        if places > 0:
            without = self._flights.keys()
            for delivery in deliveries.due_of(endpoint, now=now, without=without, limit=places):
                self._send(delivery, endpoint, now=now)

    def _places(self, endpoint: WebhookEndpoint) -> int:
        """How many more messages this endpoint may be sent at this moment."""
        of_endpoint = Counter(each.delivery.endpoint_id for each in self._flights.values())
        of_tenant = Counter(each.tenant_id for each in self._flights.values())
        own = AT_ONCE_WHILE_FAILING if endpoint.failures else AT_ONCE_OF_ENDPOINT
        return min(
            AT_ONCE - len(self._flights),
            AT_ONCE_OF_TENANT - of_tenant[endpoint.tenant_id],
            own - of_endpoint[endpoint.id],
        )

    def _send(self, delivery: Delivery, endpoint: WebhookEndpoint, *, now: datetime) -> None:
        try:
            letter = _letter(delivery, endpoint, now=now)
        except Unreadable:
            unsigned = Outcome(error="Its secret cannot be read any more: rotate it.")
            _write_down(delivery, unsigned)
            return
        except DATABASE_AWAY:
            raise
        except Exception as error:
            note("notify: message", error, of=delivery.id)
            _write_down(delivery, OUR_FAULT)
            return
        outcome = self._pool.submit(send, letter, network=self._network)
        outcome.add_done_callback(lambda _: self._landed.set())
        self._flights[delivery.id] = Flight(
            delivery=delivery, tenant_id=endpoint.tenant_id, outcome=outcome
        )
        self._served[endpoint.id] = time.monotonic()

    def _clean(self) -> None:
        """Once an hour, and on at once while there is more than a round's work."""
        if time.monotonic() < self._clean_at:
            return
        if clean(now=database_now()) < A_ROUND:
            self._clean_at = time.monotonic() + CLEAN_EVERY_S


def _letter(delivery: Delivery, endpoint: WebhookEndpoint, *, now: datetime) -> Letter:
    """Raises Unreadable."""
    body, sealed = delivery.body.encode(), secrets_of(endpoint, now=now)
    headers = signed_headers(delivery.event, body, sealed=sealed, now=now)
    return Letter(url=endpoint.url, headers=headers, body=body)


def _write_down(delivery: Delivery, outcome: Outcome) -> None:
    """What came of a try. A message of which that cannot be written is given up: else it would
    be sent again with each round."""
    try:
        settle(delivery, outcome)
    except DATABASE_AWAY:
        raise
    except Exception as error:
        note("notify: outcome", error, of=delivery.id)
        give_up(delivery)
