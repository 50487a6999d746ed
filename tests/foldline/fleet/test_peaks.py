from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet import peaks
from foldline.fleet.models import Worker
from foldline.fleet.peaks import Peak, peaks_of
from tests.conftest import MakeLive

pytestmark = pytest.mark.django_db


@pytest.fixture
def toy(live_revision: MakeLive) -> Revision:
    return live_revision()


def worker(revision: Revision, *, ago_s: float, **changes: Any) -> None:
    at = database_now() - timedelta(seconds=ago_s)
    told = {"name": f"w{ago_s:g}", "node": "n", "pid": 1, "started_at": at, "last_seen": at}
    Worker.objects.create(revision=revision, **{**told, **changes})


def test_the_greatest_of_the_newest_workers_counts(
    toy: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peaks, "STARTS", 3)
    worker(toy, ago_s=40, peak_gpu_bytes=99, card_bytes=100)
    worker(toy, ago_s=30, peak_gpu_bytes=7, card_bytes=100, state="gone")
    worker(toy, ago_s=20, peak_gpu_bytes=5, card_bytes=80, share=0.5)
    worker(toy, ago_s=10)
    assert peaks_of([toy.pk]) == {toy.pk: Peak(gpu_bytes=7, card_bytes=80, share=0.5)}


def test_without_a_measurement_nothing_is_known(toy: Revision) -> None:
    worker(toy, ago_s=1)
    assert peaks_of([toy.pk]) == {toy.pk: Peak()}
