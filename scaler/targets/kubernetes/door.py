"""The one door to the API server: every call has a time limit, every fault is a sentence.

Objects are plain mappings, as the server sends them. Nothing is retried here, and nothing that
changes workers is written unless this scaler leads for as long as the call may take.
"""

from __future__ import annotations

import http.client
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from kubernetes import client

from scaler.targets.kubernetes.faults import (
    REFUSALS,
    Expired,
    Fault,
    NotLeading,
    Refused,
    TooMany,
    Unreachable,
)
from scaler.targets.kubernetes.objects import Object

PAGE = 500
LEAST_S = 0.2
"""A call with less time than this would only fail."""
LONGEST_PATIENCE_S = 120.0


class Door:
    """Calls within one namespace.

    `leads_for_s` tells for how many seconds this process may write; `timeout_s` bounds a call.
    Raises Fault only.
    """

    def __init__(
        self,
        api: client.ApiClient,
        *,
        namespace: str,
        timeout_s: float = 10.0,
        leads_for_s: Callable[[], float] = lambda: math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namespace = namespace
        self._timeout_s, self._leads_for_s, self._clock = timeout_s, leads_for_s, clock
        self._patient_until = -math.inf
        self._apps, self._core = client.AppsV1Api(api), client.CoreV1Api(api)
        self._batch, self._events = client.BatchV1Api(api), client.EventsV1Api(api)
        self._leases = client.CoordinationV1Api(api)

    # Reading

    def deployments(self, labels: str) -> list[Object]:
        return self._list(
            self._apps.list_namespaced_deployment, self.namespace, label_selector=labels
        )

    def pods(self, labels: str) -> list[Object]:
        return self._list(self._core.list_namespaced_pod, self.namespace, label_selector=labels)

    def jobs(self, labels: str) -> list[Object]:
        return self._list(self._batch.list_namespaced_job, self.namespace, label_selector=labels)

    def nodes(self, labels: str) -> list[Object]:
        return self._list(self._core.list_node, label_selector=labels)

    def lease(self, name: str) -> Object:
        return self._ask(self._leases.read_namespaced_lease, name, self.namespace)

    # Writing

    def create_deployment(self, body: Object) -> Object:
        return self._write(self._apps.create_namespaced_deployment, self.namespace, body)

    def replace_deployment(self, body: Object) -> Object:
        """With the `resourceVersion` it was read with."""
        name = body["metadata"]["name"]
        return self._write(self._apps.replace_namespaced_deployment, name, self.namespace, body)

    def scale(self, deployment: Object, *, replicas: int) -> Object:
        """Conflict when anybody changed the Deployment since it was read."""
        meta = deployment["metadata"]
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "spec": {"replicas": replicas},
        }
        return self._write(
            self._apps.patch_namespaced_deployment_scale, meta["name"], self.namespace, body
        )

    def annotate_pod(self, name: str, annotations: Mapping[str, str | None]) -> Object:
        body = {"metadata": {"annotations": dict(annotations)}}
        return self._write(self._core.patch_namespaced_pod, name, self.namespace, body)

    def create_job(self, body: Object) -> Object:
        return self._write(self._batch.create_namespaced_job, self.namespace, body)

    def create_event(self, body: Object) -> Object:
        return self._write(self._events.create_namespaced_event, self.namespace, body)

    def create_lease(self, body: Object) -> Object:
        return self._write(self._leases.create_namespaced_lease, self.namespace, body)

    def replace_lease(self, body: Object) -> Object:
        name = body["metadata"]["name"]
        return self._write(self._leases.replace_namespaced_lease, name, self.namespace, body)

    # How

    def _list(self, call: Callable[..., Any], *where: str, label_selector: str) -> list[Object]:
        """All pages; from the first one again when the server has forgotten what they were of."""
        try:
            return self._pages(call, *where, label_selector=label_selector)
        except Expired:
            return self._pages(call, *where, label_selector=label_selector)

    def _pages(self, call: Callable[..., Any], *where: str, label_selector: str) -> list[Object]:
        items: list[Object] = []
        more: dict[str, Any] = {}
        while True:
            page = self._ask(call, *where, label_selector=label_selector, limit=PAGE, **more)
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items
            more = {"_continue": token}

    def _write(self, call: Callable[..., Any], *what: Any) -> Object:
        left = self._leads_for_s()
        if left < LEAST_S:
            raise NotLeading("this scaler does not lead, or not for long enough to write.")
        return self._ask(call, *what, at_most_s=left)

    def _ask(
        self, call: Callable[..., Any], *what: Any, at_most_s: float = math.inf, **how: Any
    ) -> Object:
        if (wait := self._patient_until - self._clock()) > 0:
            raise TooMany(f"the API server asked for patience for another {wait:.0f} s.")
        limit = min(self._timeout_s, at_most_s)
        try:
            answer = call(*what, **how, _preload_content=False, _request_timeout=limit)
            body: Object = json.loads(answer.data)
        except client.ApiException as error:
            raise self._fault(error) from error
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise Unreachable(
                f"the API server did not answer within {limit:.3g} s ({type(error).__name__})."
            ) from error
        except ValueError as error:
            raise Unreachable("what answered is no API server: it sent no JSON.") from error
        return body

    def _fault(self, error: client.ApiException) -> Fault:
        words = _message(error)
        if not error.status:
            return Unreachable(f"the API server could not be asked: {words}")
        patience = _retry_after_s(error.headers)
        if error.status == 429 or patience is not None:
            wait = min(patience if patience is not None else 1.0, LONGEST_PATIENCE_S)
            self._patient_until = self._clock() + wait
            return TooMany(f"the API server asked for patience for {wait:.0f} s: {words}")
        if error.status >= 500:
            return Unreachable(f"the API server answered {error.status}: {words}")
        kind = REFUSALS.get(error.status, Refused)
        return kind(f"the API server answered {error.status}: {words}", status=error.status)


def _message(error: client.ApiException) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _retry_after_s(headers: Mapping[str, str] | None) -> float | None:
    value = headers.get("Retry-After", "") if headers else ""
    return float(value) if value.isdigit() else None
