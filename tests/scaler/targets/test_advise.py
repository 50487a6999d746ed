"""The target that only says what it would do."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.targets.advise import AdviseTarget
from scaler.targets.base import Revision, Seen, Target, Wanted, Worker


def test_it_writes_what_is_wanted_and_does_nothing() -> None:
    kept: list[Sequence[Wanted]] = []
    seen = Seen(workers=(Worker(name="w", revision="fold@r1", phase="ready"),), cards=("a",))
    target: Target = AdviseTarget(look=lambda: seen, write=kept.append)
    orders = [
        Wanted(revision=Revision(model="fold", number=1, lane="online"), workers=3),
        Wanted(revision=Revision(model="dock", number=2, lane="bulk"), jobs=("x", "y")),
    ]
    report = target.act(orders)
    assert kept == [orders]
    assert target.look() is seen
    assert report.done == (
        "advised fold@r1: 3 workers",
        "advised dock@r2: 2 jobs of their own",
    )
