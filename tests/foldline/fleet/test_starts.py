from __future__ import annotations

from typing import Any

from foldline.fleet.models import Worker
from foldline.fleet.starts import starts_of


def worker(node: str = "here", *, placing: dict[str, Any] | None = None, **loaded: float) -> Worker:
    return Worker(name="w", node=node, placing=placing, load_seconds=loaded)


def test_nothing_is_told_while_none_has_loaded() -> None:
    assert starts_of([worker()]) == []


def test_phases_come_in_their_order_with_a_plugins_own_before_the_sum() -> None:
    told = {"load": 4.0, "check_weights": 1.0, "warm_up": 2.0, "total": 9.0, "start_worker": 0.8}
    placing = {"node": "gpu-1", "schedule": 1.0, "image": 30.0}
    [starts] = starts_of([worker("pod-1", placing=placing, **told)])
    assert [each.name for each in starts.phases] == [
        *("schedule", "image", "start_worker", "check_weights", "load", "warm_up", "total")
    ]


def test_each_phase_has_its_middle_and_its_late_start() -> None:
    [starts] = starts_of([worker(total=float(number)) for number in range(1, 12)])
    assert (starts.node, starts.count) == ("", 11)
    [total] = starts.phases
    assert (total.p50_s, total.p90_s) == (6.0, 10.0)


def test_where_there_are_several_nodes_each_is_told_beside_the_whole() -> None:
    both = [
        worker("pod-1", placing={"node": "gpu-1", "image": 40.0}, total=2.0),
        worker("pod-2", placing={"node": "gpu-2", "image": 1.0}, total=3.0),
    ]
    assert [(each.node, each.count) for each in starts_of(both)] == [
        ("", 2),
        ("gpu-1", 1),
        ("gpu-2", 1),
    ]
