"""The target that only says what it would do."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.targets.advise import AdviseTarget
from scaler.targets.base import Problem, Report, Revision, Seen, Target, Wanted, Worker

FOLD = Revision(model="fold", number=1, lane="online")
DOCK = Revision(model="dock", number=2, lane="bulk")


def test_it_writes_what_is_wanted_and_does_nothing() -> None:
    kept: list[Sequence[Wanted]] = []
    seen = Seen(workers=(Worker(name="w", revision="fold@r1", phase="ready"),), cards=("a",))
    trouble = Problem(words="fold@r1 has no image", revision="fold@r1")

    def keep(wanted: Sequence[Wanted]) -> Report:
        kept.append(wanted)
        return Report(done=("dock@r2: a worker for the job x",), problems=(trouble,))

    target: Target = AdviseTarget(look=lambda: seen, keep=keep)
    orders = [Wanted(revision=FOLD, workers=3), Wanted(revision=DOCK, jobs=("x",))]
    report = target.act(orders)
    assert kept == [orders]
    assert target.look() is seen
    assert report.done == ("dock@r2: a worker for the job x", "advised fold@r1: 3 workers")
    assert report.problems == (trouble,), "what stands in the way is told"


def test_of_what_could_not_be_read_it_advises_nothing() -> None:
    target = AdviseTarget(look=Seen)
    assert target.act([Wanted(revision=FOLD, hold=True)]) == Report()
