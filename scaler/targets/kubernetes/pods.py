"""What a pod says of the worker in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import pairwise

from scaler.targets.base import Phase, Problem
from scaler.targets.kubernetes.cluster import CARDS, LEAVES, MODEL, REVISION, SHARE, Cluster
from scaler.targets.kubernetes.objects import Object, annotation

HAMI_DEVICES = "hami.io/vgpu-devices-allocated"
STUCK = {
    "CrashLoopBackOff": "crashes again and again",
    "ImagePullBackOff": "cannot get its image",
    "ErrImagePull": "cannot get its image",
    "InvalidImageName": "cannot get its image",
    "CreateContainerConfigError": "lacks a ConfigMap or a Secret",
    "CreateContainerError": "cannot be created",
}
EXITS = {
    75: "the model could not be loaded",
    78: "there is nothing to serve, or its folder is not as reviewed",
    137: "it was killed, most likely for its memory",
}


class Ages:
    """How long something has been as it is, by a steady clock: dates in objects are the server's,
    and a step of either clock would make a pod look old, or not yet born."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}

    def look(self, states: Iterable[tuple[str, str]]) -> None:
        now = self._clock()
        self._since = {state: self._since.get(state, now) for state in states}

    def of(self, uid: str, phase: str) -> float:
        now = self._clock()
        return now - self._since.get((uid, phase), now)


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def revision(pod: Object) -> str:
    labels = pod["metadata"].get("labels", {})
    return f"{labels.get(MODEL, '?')}@{labels.get(REVISION, '?')}"


def phase(pod: Object) -> Phase | None:
    """None for one that has ended well and holds nothing."""
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return None
    if status.get("phase") == "Failed":
        return "failed"
    if pod["metadata"].get("deletionTimestamp"):
        return "ending"
    if not pod.get("spec", {}).get("nodeName"):
        return "pending"
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in _conditions(pod))
    return "ready" if ready else "loading"


def placing(pod: Object) -> tuple[tuple[str, float], ...]:
    """What it waited for a node, and for its image, in the server's whole seconds; () until its
    worker runs, and for one that was started again."""
    scheduled = next(
        (each.get("lastTransitionTime") for each in _conditions(pod) if _is_scheduled(each)), None
    )
    for container in pod.get("status", {}).get("containerStatuses", []):
        began = container.get("state", {}).get("running", {}).get("startedAt")
        made = pod["metadata"].get("creationTimestamp")
        if scheduled and began and made and not container.get("restartCount"):
            times = [datetime.fromisoformat(each) for each in (made, scheduled, began)]
            waited = [max(0.0, (b - a).total_seconds()) for a, b in pairwise(times)]
            return (("schedule", waited[0]), ("image", waited[1]))
    return ()


def _is_scheduled(condition: Object) -> bool:
    return bool(condition["type"] == "PodScheduled" and condition["status"] == "True")


def leaves(pod: Object) -> bool:
    """Whether it was told to leave: its worker takes no more jobs."""
    return bool(annotation(pod, LEAVES))


def share(pod: Object) -> float:
    return float(annotation(pod, SHARE) or 1.0)


def count(pod: Object) -> int:
    return int(annotation(pod, CARDS) or 1)


def known_cards(pod: Object) -> tuple[str, ...]:
    """The cards HAMi gave it: `UUID,type,MiB,cores` each, with colons between them."""
    text = annotation(pod, HAMI_DEVICES)
    devices = text.replace(";", ":").split(":")
    return tuple(each.split(",")[0] for each in devices if "," in each)


def trouble(pod: Object, *, for_s: float, cluster: Cluster) -> Iterator[Problem]:
    """What a person should know of this pod."""
    name, now = pod["metadata"]["name"], phase(pod)
    if now == "failed" and for_s < cluster.failed_s:
        status = pod["status"]
        words = f"{status.get('reason', 'Failed')}: {status.get('message', 'no reason given')}"
        yield _blocking(pod, f"The pod {name} failed ({_sentence(words)})")
    if now == "pending" and for_s >= cluster.pending_s:
        yield _blocking(
            pod, f"The pod {name} has found no node for {for_s:.0f} s ({_unschedulable(pod)})"
        )
    if now in ("pending", "loading", "ready"):
        yield from _stuck(pod)


def _stuck(pod: Object) -> Iterator[Problem]:
    for container in pod.get("status", {}).get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if (what := STUCK.get(waiting.get("reason", ""))) is None:
            continue
        why = _last_exit(container) or _sentence(waiting.get("message") or waiting["reason"])
        yield _blocking(pod, f"The pod {pod['metadata']['name']} {what} ({why})")


def _last_exit(container: Object) -> str:
    ended = container.get("lastState", {}).get("terminated")
    if not ended:
        return ""
    code = ended.get("exitCode")
    why = f": {EXITS[code]}" if code in EXITS else ""
    return f"{container.get('restartCount', 0)} restarts, last exit code {code}{why}"


def _unschedulable(pod: Object) -> str:
    for each in _conditions(pod):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return _sentence(each.get("message") or each.get("reason", ""))
    return "the scheduler has not said why"


def _blocking(pod: Object, words: str) -> Problem:
    return Problem(words=f"{words}.", revision=revision(pod), blocks=True)


def _sentence(words: str) -> str:
    return words.strip().rstrip(".")


def _conditions(pod: Object) -> list[Object]:
    conditions: list[Object] = pod.get("status", {}).get("conditions") or []
    return conditions
