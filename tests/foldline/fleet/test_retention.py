"""Rows of workers that are gone do not pile up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet import retention
from foldline.fleet.models import Worker
from foldline.fleet.peaks import peaks_of
from foldline.jobs.retention import clean
from tests.conftest import MakeLive

pytestmark = pytest.mark.django_db


@pytest.fixture
def toy(live_revision: MakeLive, monkeypatch: pytest.MonkeyPatch) -> Revision:
    monkeypatch.setattr(retention, "STARTS", 2)
    return live_revision()


def worker(revision: Revision, *, days: float, **changes: Any) -> str:
    at = database_now() - timedelta(days=days)
    told = {"name": f"w{days:g}", "node": "n", "pid": 1, "started_at": at, "last_seen": at}
    return Worker.objects.create(revision=revision, **{**told, "state": "gone", **changes}).name


def names() -> set[str]:
    return set(Worker.objects.values_list("name", flat=True))


def test_rows_of_workers_that_are_long_gone_are_removed_but_for_the_newest(toy: Revision) -> None:
    stay = {worker(toy, days=days) for days in (1, 2, 31, 32)}
    stay.add(worker(toy, days=90, state="ready"))
    for days in (33, 34, 35):
        worker(toy, days=days)
    assert clean(now=database_now()).workers == 3
    assert names() == stay


def test_the_size_of_a_whole_card_is_not_forgotten(toy: Revision) -> None:
    worker(toy, days=99, peak_gpu_bytes=8, card_bytes=80)
    for days in range(31, 41):
        worker(toy, days=days, peak_gpu_bytes=9, card_bytes=11, share=0.14)
    before = peaks_of([toy.pk])
    clean(now=database_now())
    assert len(names()) == 3
    assert peaks_of([toy.pk])[toy.pk].card_bytes == before[toy.pk].card_bytes == 80
