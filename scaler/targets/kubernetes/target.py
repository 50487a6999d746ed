"""The target: looks, lets workers go, then lets workers come; holds what it may not touch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from scaler.targets.base import Report, Revision, Seen, Unseen, Wanted
from scaler.targets.kubernetes.ahead import prepare
from scaler.targets.kubernetes.cluster import Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.faults import Fault
from scaler.targets.kubernetes.leaving import Consumers
from scaler.targets.kubernetes.pods import Ages
from scaler.targets.kubernetes.round import Round
from scaler.targets.kubernetes.sight import Sight, look


class KubernetesTarget:
    """Workers as pods. Give it a door that knows whether this scaler leads.

    `consumers` stops workers from taking jobs; `clock` is a steady one, in seconds.
    """

    def __init__(
        self,
        door: Door,
        *,
        cluster: Cluster,
        consumers: Consumers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._door, self._cluster, self._consumers = door, cluster, consumers
        self._ages = Ages(clock)
        self._looked: Sight | None = None

    def look(self) -> Seen:
        """Raises Unseen."""
        try:
            self._looked = self._read()
        except Fault as fault:
            raise Unseen(str(fault)) from fault
        return self._looked.seen

    def act(self, wanted: Sequence[Wanted]) -> Report:
        """See `Target.act`. What may not be written, because another scaler leads, is told too."""
        return self._round(wanted).run()

    def tend(self, wanted: Sequence[Wanted]) -> Report:
        """Make and renew the Deployments, for somebody else to scale, and send the Jobs."""
        return self._round(wanted).run(scale=False)

    def prepare(self, revisions: Sequence[Revision]) -> Report:
        """See `Prepares.prepare`."""
        return prepare(self._door, revisions, cluster=self._cluster)

    def _round(self, wanted: Sequence[Wanted]) -> Round:
        return Round(
            wanted,
            door=self._door,
            cluster=self._cluster,
            consumers=self._consumers,
            read=self._read,
            looked=self._looked,
        )

    def _read(self) -> Sight:
        return look(self._door, cluster=self._cluster, ages=self._ages)
