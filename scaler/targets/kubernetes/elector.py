"""Which scaler leads: a Lease, and a deadline by this machine's own clock.

A leader counts its time from before it asked to renew, and gives up before the Lease can be
taken. A follower counts from when it last saw the Lease change, never from times written in it.
So neither wrong clocks nor an API server that freezes and thaws make two leaders.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.faults import Conflict, Fault, Missing
from scaler.targets.kubernetes.objects import Object

log = logging.getLogger(__name__)

LEASE = "foldline-scaler"


def steady_now() -> float:
    """Seconds that also pass while the machine sleeps, and never step."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Elector(threading.Thread):
    """Keeps or seeks the Lease every `retry_s`; a thread.

    `duration_s`: after this long without a change others may take it. `renew_s`: after this long
    without a success its holder stops. The door must be one of its own, whose time limit is below
    `renew_s`. Who is not `well`, because its work hangs, neither takes nor renews.
    """

    def __init__(
        self,
        door: Door,
        *,
        identity: str = "",
        duration_s: int = 15,
        renew_s: float = 10.0,
        retry_s: float = 2.0,
        well: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = steady_now,
    ) -> None:
        if not duration_s > renew_s > retry_s > 0:
            raise ValueError("A lease must outlast its renewal, and that more than one try.")
        super().__init__(name="elector", daemon=True)
        self.identity = identity or f"{socket.gethostname()}_{uuid4().hex[:8]}"
        self._door, self._clock, self._well = door, clock, well
        self._duration_s, self._renew_s, self._retry_s = duration_s, renew_s, retry_s
        self._deadline = float("-inf")
        self._seen: tuple[object, float] = (None, 0.0)
        self._ended = threading.Event()

    def leads_for_s(self) -> float:
        """Seconds for which nobody else can lead; 0 for a follower."""
        return max(0.0, self._deadline - self._clock())

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self.step()
            except Fault as fault:
                log.warning("the lease could not be kept", extra={"reason": str(fault)})
            except Exception:  # a thread that ended would leave a scaler that never leads
                log.exception("the lease could not be kept")
            self._ended.wait(self._retry_s)

    def end(self) -> None:
        """Stop leading, and let the next one begin at once."""
        led = self.leads_for_s() > 0
        self._ended.set()
        if self.is_alive():
            self.join(self._renew_s)
        self._deadline = float("-inf")
        if led:
            try:
                self._release()
            except Fault as fault:
                log.warning("the lease was not given back", extra={"reason": str(fault)})

    def step(self) -> None:
        """One try to take or renew. Raises Fault; the deadline stands then."""
        if not self._well():
            return
        began = self._clock()
        try:
            lease = self._door.lease(LEASE)
        except Missing:
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            lease["metadata"] = {"name": LEASE}
        spec = lease.setdefault("spec", {})
        if not self._may_take(spec):
            return
        self._sign(spec)
        try:
            if "resourceVersion" in lease["metadata"]:
                lease = self._door.replace_lease(lease)
            else:
                lease = self._door.create_lease(lease)
        except Conflict:
            return  # another one was quicker
        if self._ended.is_set():
            return
        self._deadline = began + self._renew_s
        self._seen = (_mark(lease["spec"]), self._clock())

    def _may_take(self, spec: Object) -> bool:
        mark = _mark(spec)
        if mark != self._seen[0]:
            self._seen = (mark, self._clock())
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True
        lasts = spec.get("leaseDurationSeconds") or self._duration_s
        return self._clock() >= self._seen[1] + lasts

    def _sign(self, spec: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if spec.get("holderIdentity") != self.identity:
            before = spec.get("leaseTransitions")
            spec["leaseTransitions"] = 0 if before is None else before + 1
            spec["acquireTime"] = now
        spec["holderIdentity"] = self.identity
        spec["leaseDurationSeconds"] = self._duration_s
        spec["renewTime"] = now

    def _release(self) -> None:
        lease = self._door.lease(LEASE)
        if lease["spec"].get("holderIdentity") == self.identity:
            lease["spec"]["holderIdentity"] = ""
            self._door.replace_lease(lease)


def _mark(spec: Object) -> tuple[object, ...]:
    return spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions")
