"""How long starts of workers took, phase by phase, over all nodes and on each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from foldline.fleet.models import Worker

FIRST = ("schedule", "image", "start_worker", "start_process", "check_weights", "import", "load")
"""In the order they come: a node, the image, the worker's process, the plugin's, its weights read
and checked, its imports, its `load`. Further ones are a plugin's own; `total` is what loading took
without the first three."""
LAST = "total"


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """Seconds of one phase."""

    name: str
    p50_s: float
    p90_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Starts:
    """Of one node, or of all (`node` is ""); so many that have loaded."""

    node: str
    count: int
    phases: Sequence[Phase]


def starts_of(workers: Iterable[Worker]) -> Sequence[Starts]:
    """All together, then each node where there are several; empty while none has loaded."""
    by_node = defaultdict(list)
    for worker in workers:
        if LAST in worker.load_seconds:
            by_node[_node(worker)].append(_seconds(worker))
    together = [each for starts in by_node.values() for each in starts]
    several = sorted(by_node) if len(by_node) > 1 else []
    found = [("", together)] if together else []
    found += [(node, by_node[node]) for node in several]
    return [Starts(node=node, count=len(s), phases=_phases(s)) for node, s in found]


def _node(worker: Worker) -> str:
    """In a pod the host's name is the pod's, and the scaler knows better."""
    return str((worker.placing or {}).get("node") or worker.node)


def _seconds(worker: Worker) -> Mapping[str, float]:
    told = {**(worker.placing or {}), **worker.load_seconds}
    return {name: float(s) for name, s in told.items() if isinstance(s, int | float)}


def _phases(starts: Sequence[Mapping[str, float]]) -> Sequence[Phase]:
    names = {name for each in starts for name in each}
    own = sorted(names - {*FIRST, LAST})
    return [
        _phase(name, sorted(each[name] for each in starts if name in each))
        for name in (*FIRST, *own, LAST)
        if name in names
    ]


def _phase(name: str, took: Sequence[float]) -> Phase:
    late = took[round(0.9 * (len(took) - 1))]
    return Phase(name=name, p50_s=median(took), p90_s=late)
