from __future__ import annotations

import gc
import threading

import pytest
from django.db import OperationalError

from foldline.catalog.models import Revision
from foldline.forecasts.forecaster import WALK_S, Forecaster, pause_after
from foldline.forecasts.models import Forecast
from foldline.forecasts.reading import STALE_S
from foldline.forecasts.walker import Walker
from foldline.jobs.models import Leadership

pytestmark = pytest.mark.django_db


class Rounds(threading.Event):
    """Stops after so many waits; nobody sleeps."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.pauses: list[float | None] = []
        self.number = number

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return len(self.pauses) > self.number


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
    Forecaster(name="first").run(Rounds(1))
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
    Forecaster().run(Rounds(3))
    assert len(walks) == 3
    assert gc.isenabled()


def test_it_walks_every_two_seconds(revision: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldline.forecasts.forecaster.connection.close", lambda: None)
    monkeypatch.setattr("time.process_time", lambda: 0.0)  # a walk that costs nothing
    rounds = Rounds(1)
    Forecaster().run(rounds)
    assert rounds.pauses == [0.0, WALK_S]


def test_a_slow_walk_is_made_less_often_but_before_the_forecast_is_old() -> None:
    assert pause_after(0.1) == WALK_S
    assert pause_after(0.5) == pytest.approx(5)
    assert pause_after(100) < STALE_S
