from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from django.db import OperationalError

from foldline.catalog.models import Revision
from foldline.forecasts.forecaster import WALK_S, Forecaster, pause_after
from foldline.forecasts.history import History, Run
from foldline.forecasts.models import Forecast
from foldline.forecasts.reading import STALE_S
from foldline.forecasts.walker import Walker
from foldline.jobs.models import Attempt, Fault, Leadership, QueueState
from tests.ends_after import EndsAfter

pytestmark = pytest.mark.django_db


def test_one_forecaster_leads(revision: Revision) -> None:
    first, second = Forecaster(name="first"), Forecaster(name="second")
    assert first.walk()
    Forecast.objects.all().delete()
    assert not second.walk()
    assert not Forecast.objects.exists()
    assert first.walk()
    assert Forecast.objects.exists()


def test_a_silent_one_is_replaced(revision: Revision) -> None:
    assert Forecaster(name="first").walk()
    Leadership.objects.update(until="2020-01-01T00:00:00Z")
    assert Forecaster(name="second").walk()


def test_one_that_ends_lets_the_next_begin_at_once(
    revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldline.forecasts.forecaster.connection.close", lambda: None)
    Forecaster(name="first").run(EndsAfter(2))
    assert Forecaster(name="second").walk()


def test_a_database_that_is_away_ends_no_forecaster(
    revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[bool] = []

    def walk(self: Walker) -> int:
        walks.append(True)
        if len(walks) == 1:
            raise OperationalError("gone")
        return 0

    monkeypatch.setattr(Walker, "walk", walk)
    monkeypatch.setattr("foldline.forecasts.forecaster.connection.close", lambda: None)
    Forecaster().run(EndsAfter(4))
    assert len(walks) == 3
    assert gc.isenabled()


def counted() -> dict[str, int]:
    return dict(Fault.objects.values_list("part", "times"))


def test_a_line_that_cannot_be_walked_keeps_no_other_from_its_forecast(
    revision: Revision, live_revision: Callable[..., Revision]
) -> None:
    """Its breaker is of no shape that this release knows."""
    other = live_revision(name="other")
    queue, _ = QueueState.objects.get_or_create(model_id=revision.model_id)
    QueueState.objects.filter(pk=queue.pk).update(breaker={"of": "another release"})
    forecaster = Forecaster()
    forecaster.walk()
    assert [each.revision_id for each in Forecast.objects.all()] == [other.pk]
    assert counted() == {"forecast: walk": 1}
    QueueState.objects.filter(pk=queue.pk).update(breaker=None)
    forecaster.walk()
    assert Forecast.objects.count() == 2


def test_a_forecast_of_another_release_is_made_anew(revision: Revision) -> None:
    Forecaster(name="first").walk()
    Forecast.objects.update(document={"of": "another release"})
    Leadership.objects.all().delete()
    assert Forecaster(name="second").walk()
    assert "tails" in Forecast.objects.get().document
    assert counted() == {"forecast: begin": 1}


def test_a_run_that_cannot_be_learned_from_keeps_no_other_from_it(
    revision: Revision, past: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    past(3, seconds=10.0)
    odd = Attempt.objects.order_by("id")[0].job_id
    learn = History._learn_from

    def fails_once(self: History, run: Run, *, share: float) -> None:
        learn(self, run, share=share if run.job_id != odd else 1 // 0)

    monkeypatch.setattr(History, "_learn_from", fails_once)
    history = History()
    history.begin()
    assert history.times(revision.model_id).wall.model.count == 2
    assert counted() == {"forecast: history": 1}


@pytest.mark.parametrize("part", ["refresh", "begin"])
def test_a_round_that_fails_ends_no_forecaster_and_the_next_begins_anew(
    revision: Revision, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr("foldline.forecasts.forecaster.connection.close", lambda: None)
    works = getattr(History, part)
    tries: list[bool] = []

    def fails_once(self: History) -> object:
        tries.append(True)
        return 1 // 0 if len(tries) == 1 else works(self)

    monkeypatch.setattr(History, part, fails_once)
    Forecaster().run(EndsAfter(3))
    assert counted() == {"forecast": 1}
    assert Forecast.objects.exists()


def test_it_walks_every_two_seconds(revision: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldline.forecasts.forecaster.connection.close", lambda: None)
    monkeypatch.setattr("time.process_time", lambda: 0.0)  # a walk that costs nothing
    rounds = EndsAfter(2)
    Forecaster().run(rounds)
    assert rounds.pauses == [0.0, WALK_S]


def test_a_slow_walk_is_made_less_often_but_before_the_forecast_is_old() -> None:
    assert pause_after(0.1) == WALK_S
    assert pause_after(0.5) == pytest.approx(5)
    assert pause_after(100) < STALE_S


def test_a_walker_that_failed_half_way_is_not_asked_again(
    revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    forecaster = Forecaster()
    forecaster.walk()
    before = forecaster._walker
    with monkeypatch.context() as broken:
        broken.setattr(Walker, "walk", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            forecaster.walk()
    forecaster.walk()
    assert forecaster._walker is not before
