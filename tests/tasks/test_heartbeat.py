from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet import services as fleet
from foldline.fleet.models import Worker
from foldline.ids import uuid7
from tasks.heartbeat import Heartbeat

pytestmark = pytest.mark.django_db


def test_a_worker_that_was_buried_by_mistake_comes_back_with_what_it_does(
    live_revision: Callable[..., Revision],
) -> None:
    worker = fleet.register(name="w", revision_id=live_revision().id, node="n", pid=1)
    heartbeat, job = Heartbeat(worker), uuid7()
    heartbeat.say(state="busy", current_job=job)
    heartbeat.beat()
    Worker.objects.update(last_seen=database_now() - timedelta(hours=1))
    assert fleet.bury_silent_workers(before=database_now() - timedelta(minutes=1)) == 1
    heartbeat.beat()
    row = Worker.objects.get()
    assert (row.state, row.current_job) == ("busy", job)
