from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
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
    worker(toy, ago_s=20, peak_gpu_bytes=5, card_bytes=25, share=0.25)
    worker(toy, ago_s=10)
    assert peaks_of([toy.pk]) == {toy.pk: Peak(gpu_bytes=7, card_bytes=100, share=0.25)}


def test_a_part_of_a_card_is_never_taken_for_a_card(
    toy: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under HAMi and MIG the driver shows a worker its part as if it were all."""
    monkeypatch.setattr(peaks, "STARTS", 2)
    for number in range(3):
        worker(toy, ago_s=number, peak_gpu_bytes=9, card_bytes=11, share=0.14)
    assert peaks_of([toy.pk])[toy.pk].card_bytes == 0
    worker(toy, ago_s=99, peak_gpu_bytes=8, card_bytes=80)
    assert peaks_of([toy.pk])[toy.pk] == Peak(gpu_bytes=9, card_bytes=80, share=0.14)


@pytest.mark.parametrize(
    ("last", "worst_s"),
    [
        ({"state": "gone", "load_seconds": {"total": 12.0}}, 30.0),
        ({"state": "loading"}, 30.0),
        # A start that ended before it had loaded may have needed longer than all before it.
        ({"state": "gone"}, 0.0),
    ],
)
def test_the_longest_load_counts_until_a_start_fails(
    toy: Revision, last: dict[str, Any], worst_s: float
) -> None:
    worker(toy, ago_s=9, state="gone", load_seconds={"total": 30.0, "weights": 29.0})
    worker(toy, ago_s=8, load_seconds={"total": 20.0})
    worker(toy, ago_s=7, **last)
    assert peaks_of([toy.pk])[toy.pk].worst_load_s == worst_s


def test_many_revisions_are_one_query(
    toy: Revision,
    live_revision: MakeLive,
    django_assert_num_queries: Callable[[int], AbstractContextManager[None]],
) -> None:
    others = [live_revision(name=name).pk for name in ("b", "c", "d")]
    worker(toy, ago_s=1, peak_gpu_bytes=1, card_bytes=2)
    with django_assert_num_queries(1):
        peaks_of([toy.pk, *others])


def test_without_a_measurement_nothing_is_known(toy: Revision) -> None:
    worker(toy, ago_s=1)
    assert peaks_of([toy.pk]) == {toy.pk: Peak()}
