"""Keeping a revision's Deployment as it should be, without undoing what a person did."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from scaler.targets.base import GpuRequest, Revision
from scaler.targets.kubernetes import render
from scaler.targets.kubernetes.cluster import MEASURED, RENDERED, Cluster
from scaler.targets.kubernetes.door import Door
from scaler.targets.kubernetes.edits import edits
from scaler.targets.kubernetes.objects import Object, annotation


class Held(Exception):
    """This revision is left alone; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Tended:
    done: str = ""
    trouble: str = ""


def tend(
    door: Door, revision: Revision, *, cluster: Cluster, found: Object | None, blocked: bool = False
) -> Tended:
    """Make the Deployment, or bring it up to date. Raises Fault, CannotRender.

    A new pod template reaches the workers one after another, each when its job has ended. What
    was measured is not worth that: it waits until there are no workers, or (`blocked`) they do
    not start. Numbers of workers are not looked at.
    """
    if found is None:
        door.create_deployment(render.deployment(revision, cluster=cluster))
        return Tended(done=f"{revision.name}: a Deployment without workers was made")
    works = bool(found["spec"].get("replicas")) and not blocked
    revision = _as_it_runs(revision, found) if works else revision
    wanted = render.deployment(revision, cluster=cluster)
    written = annotation(found, RENDERED)
    if changes := _changed_by_hand(written, found):
        return Tended(
            trouble=f"The Deployment of {revision.name} was edited by hand ({', '.join(changes)})."
            " It is scaled as it is; delete it to have it made anew."
        )
    if written == wanted["metadata"]["annotations"][RENDERED]:
        return Tended()
    door.replace_deployment(_renewed(found, wanted))
    whom = "reach its workers one after another" if works else "are for its next workers"
    return Tended(done=f"{revision.name}: new settings {whom}")


def request_of(deployment: Object) -> GpuRequest:
    """What its next pod will ask for."""
    request, _ = _measured(deployment)
    return request


def _as_it_runs(revision: Revision, found: Object) -> Revision:
    request, startup_s = _measured(found)
    return replace(revision, gpu=request, startup_s=startup_s)


def _measured(deployment: Object) -> tuple[GpuRequest, int]:
    """Of one that says nothing: a whole card, and no measured start."""
    try:
        said = json.loads(annotation(deployment, MEASURED))
        return GpuRequest(**said["gpu"]), int(said["startup_s"])
    except (ValueError, TypeError, KeyError):
        return GpuRequest(), 0


def _changed_by_hand(written: str, found: Object) -> list[str]:
    try:
        spec = json.loads(written)
    except ValueError:
        return [f"metadata.annotations[{RENDERED}]"]
    spec.pop("replicas", None)
    return edits(spec, found["spec"], path="spec")


def _renewed(found: Object, wanted: Object) -> Object:
    """The selector cannot change, and the number of replicas is not ours here."""
    spec = {
        **wanted["spec"],
        "selector": found["spec"]["selector"],
        "replicas": found["spec"].get("replicas", 0),
    }
    meta = found["metadata"]
    return {
        **found,
        "metadata": {
            **meta,
            "labels": {**meta.get("labels", {}), **wanted["metadata"]["labels"]},
            "annotations": {**meta["annotations"], **wanted["metadata"]["annotations"]},
        },
        "spec": spec,
    }
