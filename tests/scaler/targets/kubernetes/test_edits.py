"""What counts as edited by hand."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.targets.kubernetes.edits import edits

WRITTEN: dict[str, Any] = {
    "replicas": 0,
    "template": {"token": False, "shm": {}, "items": [{"image": "a"}, {"memory": "1024Mi"}]},
}


def changed(**template: Any) -> dict[str, Any]:
    return {"replicas": 0, "template": {**WRITTEN["template"], **template}}


@pytest.mark.parametrize(
    "found",
    [
        WRITTEN,
        changed(dnsPolicy="ClusterFirst"),
        changed(shm=None),
        changed(items=[{"image": "a"}, {"memory": "1Gi"}]),
    ],
    ids=["itself", "a default", "an empty mapping left out", "a quantity spelled anew"],
)
def test_what_the_server_does_is_no_edit(found: dict[str, Any]) -> None:
    assert edits(WRITTEN, found) == []


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (changed(token=True), "template.token"),
        (changed(token=None), "template.token"),
        (changed(items=[{"image": "b"}, {"memory": "1Gi"}]), "template.items[0].image"),
        (changed(items=[{"image": "a"}, {"memory": "2Gi"}]), "template.items[1].memory"),
        (changed(items=[{"image": "a"}, {"memory": "much"}]), "template.items[1].memory"),
        (changed(items=[{"image": "a"}]), "template.items"),
    ],
)
def test_what_a_person_does_is_told_by_its_path(found: dict[str, Any], path: str) -> None:
    assert edits(WRITTEN, found) == [path]
