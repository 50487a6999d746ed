"""Weights on this machine: read once for each revision, one after another."""

from __future__ import annotations

import sys

from scaler.targets.base import Prepares, Revision
from scaler.targets.local import LocalTarget
from scaler.targets.weights_ahead import Reader, reader_command
from tests.worker_process import wait_until

TOY, OTHER = (Revision(model=name, number=1, lane="online") for name in ("toy", "other"))


def test_the_weights_of_each_revision_are_read_once_and_one_at_a_time() -> None:
    told: list[str] = []
    reader = Reader(
        write=lambda name, line: told.append(f"{name} {line}"),
        command=lambda revision: (sys.executable, "-c", f"print({revision.name!r})"),
    )
    try:
        assert reader.prepare([TOY, OTHER]).done == ("toy@r1: its weights are read",)
        wait_until(lambda: reader.prepare([TOY, OTHER]).done)
        wait_until(lambda: len(told) == 2)
        assert told == ["toy toy@r1", "other other@r1"]
        reader.close()
        assert reader.prepare([TOY, OTHER]).done == ()
    finally:
        reader.close()


def test_while_one_is_read_no_other_is_and_it_ends_with_the_scaler() -> None:
    stays = (sys.executable, "-c", "import time; time.sleep(600)")
    reader = Reader(write=lambda *_: None, command=lambda _revision: stays)
    assert len(reader.prepare([TOY, OTHER]).done) == 1
    assert reader.prepare([TOY, OTHER]).done == ()
    reader.close()
    assert len(reader.prepare([TOY, OTHER]).done) == 1, "the next one"
    reader.close()


def test_the_local_target_reads_them_with_the_command_an_admin_has() -> None:
    assert reader_command(TOY)[1:] == ("manage.py", "weights", "toy@r1")
    target = LocalTarget(places=1, memory_mb=1, write=lambda *_: None, say=lambda _: None)
    assert isinstance(target, Prepares)
