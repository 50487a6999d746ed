"""One look at the cluster: Deployments, pods and nodes, read together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scaler.targets.base import GpuRequest, Problem, Seen, Worker
from scaler.targets.kubernetes import pods
from scaler.targets.kubernetes.cluster import JOB, WORKERS, Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.nodes import cards_of, node_of
from scaler.targets.kubernetes.objects import Object, has_ended
from scaler.targets.kubernetes.pods import Ages
from scaler.targets.kubernetes.rooms import Rooms


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What was read, and what it means."""

    deployments: Mapping[str, Object]
    jobs: Mapping[str, Object]
    """Also those that have ended."""
    pods: Mapping[str, Object]
    seen: Seen
    rooms: Rooms

    def crew(self, revision: str) -> list[Worker]:
        """Those that its Deployment counts, also who was told to leave; no Job's."""
        return [
            each
            for each in self.seen.of(revision)
            if _counts(self.pods[each.name]) and _owner(self.pods[each.name]) == revision
        ]

    def leaving(self, revision: str) -> list[Worker]:
        """Those of its crew that were told to leave and go when they have no job."""
        return [each for each in self.crew(revision) if pods.leaves(self.pods[each.name])]

    def open_jobs(self, revision: str) -> dict[str, str]:
        """The names of the pods of its Jobs that have not ended, by the ids of their jobs; "" for
        one without."""
        there = {_owner(pod): name for name, pod in self.pods.items() if _is_there(pod)}
        return {
            job_id(each): there.get(job_id(each), "")
            for each in self.jobs.values()
            if pods.revision(each) == revision and not has_ended(each)
        }

    def blocked(self, revision: str) -> str:
        """Why a revision gets no further worker now, or ""."""
        return next(
            (e.words for e in self.seen.problems if e.blocks and e.revision == revision), ""
        )

    def room(self, request: GpuRequest) -> bool:
        """Take room for one more, if there is any."""
        return self.rooms.take(share=request.share, count=request.cards) is not None


def look(door: Door, *, cluster: Cluster, ages: Ages) -> Sight:
    """Raises Fault."""
    deployments = {each["metadata"]["name"]: each for each in door.deployments(WORKERS)}
    found = {each["metadata"]["name"]: each for each in door.pods(WORKERS)}
    jobs = {each["metadata"]["name"]: each for each in door.jobs(WORKERS)}
    nodes = door.nodes(cluster.node_selector)
    ages.look((pods.uid(each), pods.phase(each) or "") for each in found.values())
    cards, problems = cards_of(nodes, cluster=cluster)
    rooms = Rooms({card: node_of(card, nodes) for card in cards})
    workers, homeless = _place(found, rooms=rooms, ages=ages)
    _expect(rooms, found, deployments=deployments.values(), jobs=jobs.values())
    if homeless:
        problems.append(
            Problem(
                words=f"{len(homeless)} workers hold cards that are no longer there"
                f" or are not ours: {', '.join(homeless)}."
            )
        )
    for pod in found.values():
        age = ages.of(pods.uid(pod), pods.phase(pod) or "")
        problems += pods.trouble(pod, for_s=age, cluster=cluster)
    return Sight(
        deployments=deployments,
        jobs=jobs,
        pods=found,
        seen=Seen(workers=tuple(workers), cards=cards, problems=tuple(problems)),
        rooms=rooms,
    )


def _expect(
    rooms: Rooms,
    found: Mapping[str, Object],
    *,
    deployments: Iterable[Object],
    jobs: Iterable[Object],
) -> None:
    """Keep room for the pods that are ordered and not made yet."""
    made = Counter(_owner(each) for each in found.values() if _counts(each))
    for ordered in deployments:
        template = ordered["spec"]["template"]
        missing = (ordered["spec"].get("replicas") or 0) - made[pods.revision(template)]
        for _ in range(missing):
            rooms.take(share=pods.share(template), count=pods.count(template))
    # The next pod of a Job comes when the one before has gone, and takes its room.
    there = {_owner(each) for each in found.values() if _is_there(each)}
    for job in jobs:
        if not has_ended(job) and job_id(job) not in there:
            template = job["spec"]["template"]
            rooms.take(share=pods.share(template), count=pods.count(template))


def job_id(job: Object) -> str:
    """Of the job that a Job was made for."""
    return str(job["metadata"]["labels"].get(JOB, ""))


def _owner(pod: Object) -> str:
    """The job a pod was made for, else its revision."""
    return str(pod["metadata"]["labels"].get(JOB) or pods.revision(pod))


def _counts(pod: Object) -> bool:
    """As whoever ordered it counts it."""
    return pods.phase(pod) in ("pending", "loading", "ready")


def _is_there(pod: Object) -> bool:
    """Whether it holds its cards."""
    return pods.phase(pod) not in (None, "failed")


def _place(
    found: Mapping[str, Object], *, rooms: Rooms, ages: Ages
) -> tuple[list[Worker], list[str]]:
    """The workers on their cards, those whose cards are known first; and who found no card."""
    workers: list[Worker] = []
    homeless: list[str] = []
    for name, pod in sorted(found.items(), key=lambda each: _certainty(each[1])):
        if (phase := pods.phase(pod)) is None:
            continue
        share, count = pods.share(pod), pods.count(pod)
        node = str(pod.get("spec", {}).get("nodeName", ""))
        cards: tuple[str, ...] | None = ()
        if phase == "failed":
            pass
        elif cards := pods.known_cards(pod):
            if not rooms.hold(cards, share=share):
                homeless.append(name)
        else:
            cards = rooms.take(share=share, count=count, node=node)
            if cards is None and node:
                homeless.append(name)
        workers.append(
            Worker(
                name=name,
                revision=pods.revision(pod),
                phase="ending" if _counts(pod) and pods.leaves(pod) else phase,
                share=share,
                count=count,
                cards=(cards or ()) if node else (),
                node=node,
                for_s=ages.of(pods.uid(pod), phase),
                placing=pods.placing(pod),
            )
        )
    return workers, homeless


def _certainty(pod: Object) -> tuple[bool, bool, str]:
    """Known cards, then known nodes, then those that are still looked for."""
    name: str = pod["metadata"]["name"]
    return not pods.known_cards(pod), not pod.get("spec", {}).get("nodeName"), name
