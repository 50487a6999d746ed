from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from foldline.api.answers import CalibrationReport
from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.forecasts.models import Calibration

pytestmark = pytest.mark.django_db


def learned(revision: Revision, **changes: Any) -> None:
    now = database_now()
    fields: dict[str, Any] = {"priority": "interactive", "jobs": 200, "covered": 181}
    fields |= {"long_waits": 50, "error_sum": 8.0, "since": now, "updated_at": now, **changes}
    Calibration.objects.create(model=revision.model, **fields)


def test_everybody_may_see_how_right_the_forecasts_were(client: Client, toy: Revision) -> None:
    learned(toy)
    learned(toy, priority="batch", long_waits=0, error_sum=0.0)
    answer = client.get("/v1/calibration")
    report = CalibrationReport.model_validate_json(answer.content)
    batch, interactive = sorted(report.models, key=lambda row: row.priority)
    assert (interactive.model, interactive.jobs, interactive.coverage) == ("toy", 200, 0.905)
    assert interactive.error == pytest.approx(0.16)
    assert batch.error is None


def test_the_page_says_the_same_in_a_table(client: Client, toy: Revision) -> None:
    learned(toy)
    page = client.get("/calibration")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    for words in ('<th scope="row">toy</th>', "90.5 %", "16.0 %", "coverage of 90 %"):
        assert words in page.text


def test_without_a_job_it_says_so_in_words(client: Client) -> None:
    assert "No job has been compared yet." in client.get("/calibration").text
    assert client.get("/v1/calibration").json() == {"promised_coverage": 0.9, "models": []}


def test_the_page_only_answers_questions(client: Client) -> None:
    assert client.post("/calibration").status_code == 405
