"""The number that KEDA asks for: told when it is known, an error when it is not, never a zero."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.catalog.services import retire
from foldline.clock import database_now
from foldline.fleet.models import ScalingDecision
from foldline.fleet.policies import STALE_S
from tests.conftest import MakeLive

pytestmark = pytest.mark.django_db
TOY = "/scaling/v1/models/toy"


@pytest.fixture
def toy(live_revision: MakeLive) -> Revision:
    return live_revision()


def decide(revision: Revision, *, ago_s: float = 0, **changes: Any) -> None:
    at = database_now() - timedelta(seconds=ago_s)
    told = {"at": at, "as_of": at, "reason": "3 jobs wait", "waiting": 3, "running": 1, **changes}
    ScalingDecision.objects.create(revision=revision, **told)


def test_the_newest_decision_is_told_without_a_key(client: Client, toy: Revision) -> None:
    decide(toy, ago_s=5, desired=1)
    decide(toy, desired=2)
    answer = client.get(TOY)
    assert answer.status_code == 200
    assert answer.json() == {
        "model": "toy",
        "revision": "toy@r1",
        "desired_replicas": 2,
        "waiting": 3,
        "running": 1,
        "reason": "3 jobs wait",
    }


def test_zero_is_told_when_it_was_decided(client: Client, toy: Revision) -> None:
    decide(toy, desired=0)
    assert client.get(TOY).json()["desired_replicas"] == 0


def test_each_revision_has_a_number_of_its_own(client: Client, live_revision: MakeLive) -> None:
    decide(live_revision(), desired=1)
    decide(live_revision(), desired=7)
    assert client.get(TOY).json()["desired_replicas"] == 7
    assert client.get(f"{TOY}@r1").json()["desired_replicas"] == 1


def test_without_a_decision_there_is_an_error(client: Client, toy: Revision) -> None:
    answer = client.get(TOY)
    assert (answer.status_code, answer.json()["error"]) == (
        503,
        "No scaler has decided about it yet.",
    )


def test_a_decision_nobody_stands_by_any_more_is_an_error(client: Client, toy: Revision) -> None:
    decide(toy, ago_s=STALE_S + 5, desired=2)
    answer = client.get(TOY)
    assert answer.status_code == 503
    assert "desired_replicas" not in answer.json()


def test_a_database_that_does_not_answer_is_an_error(
    client: Client, toy: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_revisions: object) -> None:
        raise OperationalError

    monkeypatch.setattr("foldline.ops.advice.latest_decisions", fail)
    answer = client.get(TOY)
    assert (answer.status_code, answer.json()["error"]) == (503, "database: OperationalError")


@pytest.mark.parametrize("name", ["nothing", "TOY", "toy@2", "toy@r9", "toy@r1@r1", "x" * 500])
def test_a_model_nobody_has_is_a_404(client: Client, toy: Revision, name: str) -> None:
    decide(toy, desired=2)
    assert client.get(f"/scaling/v1/models/{name}").status_code == 404


def test_a_retired_model_has_a_number_only_by_its_revision(client: Client, toy: Revision) -> None:
    decide(toy, desired=2)
    retire(toy)
    assert client.get(TOY).status_code == 404
    assert client.get(f"{TOY}@r1").status_code == 200


def test_it_is_only_read(client: Client, toy: Revision) -> None:
    assert client.post(TOY).status_code == 405


def test_it_is_asked_by_http_also_where_callers_must_use_https(
    client: Client, toy: Revision, settings: Settings
) -> None:
    decide(toy, desired=2)
    settings.SECURE_SSL_REDIRECT = True
    assert client.get(TOY).status_code == 200
    assert client.get("/v1/models").status_code == 301
