"""One round: each order is carried out on what is there now, or held with a reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from scaler.targets.base import GpuRequest, Problem, Report, Revision, Wanted
from scaler.targets.kubernetes.cluster import LEAVES, Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.events import told
from scaler.targets.kubernetes.faults import Conflict, Fault, Missing, Refused
from scaler.targets.kubernetes.flavours import CannotRender
from scaler.targets.kubernetes.leaving import Consumers, Leaving, give_up
from scaler.targets.kubernetes.objects import Object
from scaler.targets.kubernetes.pods import leaves
from scaler.targets.kubernetes.render import job, object_name, warning
from scaler.targets.kubernetes.sight import Sight
from scaler.targets.kubernetes.tending import Held, request_of, tend

log = logging.getLogger(__name__)

TRIES = 3
STORM = 3
"""So many pods refused by their nodes are a storm: the ReplicaSet makes a new one each time."""


class Round:
    """One act: its orders, what became of them. `looked`: what they were decided on."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        *,
        door: Door,
        cluster: Cluster,
        consumers: Consumers,
        read: Callable[[], Sight],
        looked: Sight | None = None,
    ) -> None:
        self._wanted, self._door, self._cluster, self._looked = wanted, door, cluster, looked
        self._consumers, self._read = consumers, read
        self._held: set[str] = set()
        self._done: list[str] = []
        self._problems: list[Problem] = []

    def run(self, *, scale: bool = True) -> Report:
        try:
            sight = self._again(self._keep)
            if scale:
                self._again(self._let_go)
                self._again(self._let_come)
            else:
                # Nobody else would: there is no number to scale.
                self._again(self._send_jobs)
            self._tell_strangers(sight)
        except Fault as fault:
            self._problems.append(Problem(words=f"Everything is held as it is: {fault}"))
        return Report(done=tuple(self._done), problems=tuple(dict.fromkeys(self._problems)))

    def _again(self, step: Callable[[Sight, Wanted], None]) -> Sight:
        """Do a step for every revision, on what is there now. Where somebody else changed a
        thing in the meantime, read again and decide again."""
        open_orders = [each for each in self._wanted if each.revision.name not in self._held]
        for _ in range(TRIES):
            sight = self._read()
            open_orders = [each for each in open_orders if not self._finished(step, sight, each)]
            if not open_orders:
                break
        for each in open_orders:
            self._hold(each.revision, f"somebody else changes it at the same time, {TRIES} times")
        return sight

    def _finished(
        self, step: Callable[[Sight, Wanted], None], sight: Sight, wanted: Wanted
    ) -> bool:
        try:
            step(sight, wanted)
        except (Conflict, Missing):
            return False
        except (Held, CannotRender) as reason:
            self._hold(wanted.revision, str(reason))
        except Refused as refusal:  # of this one thing; of the server nothing is known
            self._hold(wanted.revision, str(refusal))
        return True

    def _hold(self, revision: Revision, why: str) -> None:
        self._held.add(revision.name)
        words = f"{revision.name} is held as it is: {why}"
        self._problems.append(Problem(words=words, revision=revision.name, blocks=True))

    # The steps

    def _keep(self, sight: Sight, wanted: Wanted) -> None:
        revision = wanted.revision
        if words := warning(revision, cluster=self._cluster):
            self._problems.append(
                Problem(words=f"{revision.name}: {words}", revision=revision.name)
            )
        if revision.lane == "bulk":
            return
        found = sight.deployments.get(object_name(revision))
        outcome = tend(
            self._door,
            revision,
            cluster=self._cluster,
            found=found,
            blocked=bool(sight.blocked(revision.name)),
        )
        if outcome.done:
            self._done.append(outcome.done)
        if outcome.trouble:
            self._problems.append(Problem(words=outcome.trouble, revision=revision.name))

    def _let_go(self, sight: Sight, wanted: Wanted) -> None:
        if wanted.revision.lane == "bulk":
            return  # each leaves with its job
        name = wanted.revision.name
        deployment, replicas = self._deployment(sight, wanted.revision)
        crew = sight.crew(name)
        # More pods than ordered: an earlier scale-in is under way, and its costs must stand.
        if len(crew) > replicas:
            return
        staying = self._staying(sight, name, replicas=replicas)
        want = staying if wanted.hold else max(0, wanted.workers)
        if self._storm(sight, wanted.revision):
            want = min(want, sum(each.phase == "ready" for each in crew))
        leaving = Leaving(
            self._door,
            sight,
            name,
            replicas=replicas,
            want=want,
            consumers=self._consumers,
        )
        exits = leaving.choose(wanted)
        left = give_up(
            self._door, sight, deployment, exits=exits, crew=crew, cluster=self._cluster, want=want
        )
        if left < replicas:
            self._note(deployment, "ScaledIn", f"{name}: {replicas} → {left} workers")

    def _let_come(self, sight: Sight, wanted: Wanted) -> None:
        if wanted.revision.lane == "bulk":
            self._send_jobs(sight, wanted)
            return
        deployment, replicas = self._deployment(sight, wanted.revision)
        missing = wanted.workers - self._staying(sight, wanted.revision.name, replicas=replicas)
        if missing <= 0 or self._blocked(sight, wanted.revision):
            return
        gpu = request_of(deployment)
        more = sum(self._fitting(sight, wanted.revision, missing, gpu=gpu))
        if more:
            self._door.scale(deployment, replicas=replicas + more)
            words = f"{wanted.revision.name}: {replicas} → {replicas + more} workers"
            self._note(deployment, "ScaledOut", words)

    def _staying(self, sight: Sight, revision: str, *, replicas: int) -> int:
        """Replicas beside those that were told to leave and are not given up yet."""
        given_up = max(0, len(sight.crew(revision)) - replicas)
        return replicas - max(0, len(sight.leaving(revision)) - given_up)

    def _send_jobs(self, sight: Sight, wanted: Wanted) -> None:
        """A Job for each worker that was awarded and has none. Which job it serves its worker
        finds out, so one that has ended stands for no job any more."""
        # Who had one when this was decided counts also if it has ended since.
        sights = [each for each in (self._looked, sight) if each is not None]
        there: dict[str, str] = {}
        for each in sights:
            there |= each.open_jobs(wanted.revision.name)
        marked = {name for each in sights for name, pod in each.pods.items() if leaves(pod)}
        told = marked & {*there.values()}
        self._mark_leaving({*there.values()} & {*wanted.drains} & {*sight.pods} - marked)
        missing = max(0, wanted.workers - len(there) + len(told))
        new = [each for each in wanted.jobs if each not in there][:missing]
        if not new or self._blocked(sight, wanted.revision):
            return
        fitting = self._fitting(sight, wanted.revision, len(new), gpu=wanted.revision.gpu)
        for job_id, _ in zip(new, fitting, strict=False):
            body = job(wanted.revision, job_id=job_id, cluster=self._cluster, taken=sight.jobs)
            try:
                made = self._door.create_job(body)
            except Conflict:
                continue  # it is there already
            self._note(made, "Started", f"{wanted.revision.name}: a worker for the job {job_id}")

    def _mark_leaving(self, names: Collection[str]) -> None:
        """Each leaves with its job by itself. The mark is for the next look, which else would ask
        for it anew."""
        for name in sorted(names):
            self._door.annotate_pod(name, {LEAVES: "true"})
            self._done.append(f"{name} leaves with its job")

    # What they ask

    def _deployment(self, sight: Sight, revision: Revision) -> tuple[Object, int]:
        name = object_name(revision)
        if name not in sight.deployments:
            raise Held("its Deployment is gone; the next round makes it anew")
        deployment = sight.deployments[name]
        return deployment, deployment["spec"].get("replicas") or 0

    def _storm(self, sight: Sight, revision: Revision) -> bool:
        failed = [each for each in sight.seen.of(revision.name) if each.phase == "failed"]
        return sum(each.for_s < self._cluster.failed_s for each in failed) >= STORM

    def _blocked(self, sight: Sight, revision: Revision) -> bool:
        why = sight.blocked(revision.name)
        if why:
            self._hold(revision, f"it gets no further worker. {why}")
        return bool(why)

    def _fitting(
        self, sight: Sight, revision: Revision, most: int, *, gpu: GpuRequest
    ) -> Iterator[int]:
        """1 for each further worker that finds room, up to `most`; the lack of room is told."""
        for number in range(most):
            if not sight.room(gpu):
                words = (
                    f"{revision.name} waits for room for {most - number} more workers:"
                    f" {_holders(sight)}."
                )
                self._problems.append(Problem(words=words, revision=revision.name))
                return
            yield 1

    def _note(self, about: Object, reason: str, words: str) -> None:
        self._done.append(words)
        try:
            self._door.create_event(told(about, reason=reason, words=words))
        except Fault as fault:
            log.warning("an event was not written", extra={"reason": str(fault)})

    def _tell_strangers(self, sight: Sight) -> None:
        known = {object_name(each.revision) for each in self._wanted}
        for name in sorted(set(sight.deployments) - known):
            words = f"The Deployment {name} serves no revision that is live. It is left as it is."
            self._problems.append(Problem(words=words))


def _holders(sight: Sight) -> str:
    ending = sum(each.phase == "ending" for each in sight.seen.workers)
    holding = sum(each.holds for each in sight.seen.workers)
    return (
        f"{len(sight.seen.cards)} cards are there, and {holding} workers hold them,"
        f" of which {ending} are ending"
    )
