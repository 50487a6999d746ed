"""Keeping a revision's Deployment as it should be, without undoing what a person did."""

from __future__ import annotations

import json
from dataclasses import dataclass

from scaler.targets.base import Revision
from scaler.targets.kubernetes import render
from scaler.targets.kubernetes.cluster import RENDERED, Cluster
from scaler.targets.kubernetes.door import Door, Object
from scaler.targets.kubernetes.edits import edits


class Held(Exception):
    """This revision is left alone; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Tended:
    done: str = ""
    trouble: str = ""


def tend(door: Door, revision: Revision, *, cluster: Cluster, found: Object | None) -> Tended:
    """Make the Deployment, or bring it up to date. Raises Fault, CannotRender.

    A new pod template reaches the workers one after another, each when its job has ended.
    Numbers of workers are not looked at.
    """
    wanted = render.deployment(revision, cluster=cluster)
    if found is None:
        door.create_deployment(wanted)
        return Tended(done=f"{revision.name}: a Deployment without workers was made")
    written = found["metadata"].get("annotations", {}).get(RENDERED, "")
    if changes := _changed_by_hand(written, found):
        return Tended(
            trouble=f"The Deployment of {revision.name} was edited by hand ({', '.join(changes)})."
            " It is scaled as it is; delete it to have it made anew."
        )
    if written == wanted["metadata"]["annotations"][RENDERED]:
        return Tended()
    door.replace_deployment(_renewed(found, wanted))
    return Tended(done=f"{revision.name}: new settings reach its workers one after another")


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
