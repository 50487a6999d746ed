from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from foldline.api.answers import Job as JobAnswer
from foldline.api.answers import JobList, Result
from foldline.errors import job_error
from foldline.forecasts.reading import forecasts_kept
from foldline.forecasts.walker import Walker
from foldline.jobs.models import Job

pytestmark = pytest.mark.django_db
Submit = Callable[..., Any]  # the test client's answer


def names(api: Client, query: str = "") -> list[str]:
    answer = api.get(f"/v1/jobs{query}")
    assert answer.status_code == 200, answer.content
    JobList.model_validate_json(answer.content)
    return [job["id"] for job in answer.json()["jobs"]]


@pytest.fixture
def job(submit: Submit) -> Job:
    return Job.objects.get(pk=json.loads(submit().content)["id"])


def test_a_job_shows_where_it_stands(api: Client, job: Job) -> None:
    answer = api.get(f"/v1/jobs/{job.id}")
    shown = JobAnswer.model_validate_json(answer.content)
    assert (shown.state, shown.queue.blocked_reason) == ("queued", "no_capacity")
    assert answer.headers["Retry-After"] == "1"


def test_a_finished_job_asks_for_no_more_polling(api: Client, job: Job) -> None:
    Job.objects.update(state="succeeded", result={"x": 1}, finished_at=job.created_at)
    answer = api.get(f"/v1/jobs/{job.id}")
    assert answer.json()["poll_after_s"] is None
    assert "Retry-After" not in answer.headers


def test_a_job_that_others_went_ahead_of_says_so(
    submit: Submit, api: Client, other_api: Client
) -> None:
    for letters in ("A", "AC"):
        mine = {"inputs": {"sequence": letters}, "priority": "batch"}
        job_id = json.loads(submit(mine).content)["id"]
    walker = Walker()
    for sender in (None, other_api):
        if sender is not None:
            submit({"inputs": {"sequence": "A"}}, by=sender)
        walker.walk()
        forecasts_kept.clear()
    shown = JobAnswer.model_validate_json(api.get(f"/v1/jobs/{job_id}").content).queue
    assert (shown.position, shown.reason, shown.blocked_reason) == (3, "fair_share", "fair_share")
    assert shown.message is not None
    assert shown.message.endswith("jobs of others go first")


def test_progress_is_shown(api: Client, job: Job) -> None:
    progress = {
        "fraction": 0.5,
        "stage": "folding",
        "message": "",
        "updated_at": job.created_at.isoformat(),
    }
    Job.objects.update(progress=progress)
    answer = api.get(f"/v1/jobs/{job.id}")
    assert JobAnswer.model_validate_json(answer.content).progress is not None


def test_jobs_are_listed_newest_first_and_page_by_page(submit: Submit, api: Client) -> None:
    made = [json.loads(submit().content)["id"] for _ in range(5)][::-1]
    assert names(api) == made
    seen: list[str] = []
    query = "?limit=2"
    for _ in range(3):
        page = api.get(f"/v1/jobs{query}").json()
        seen += [job["id"] for job in page["jobs"]]
        query = f"?limit=2&cursor={page['next_cursor']}"
    assert seen == made
    assert page["next_cursor"] is None


def test_a_cursor_of_another_tenant_shows_nothing_of_theirs(
    submit: Submit, api: Client, other_api: Client
) -> None:
    mine = json.loads(submit().content)["id"]
    for sequence in "EVQ":
        submit({"inputs": {"sequence": sequence}}, by=other_api)
    theirs = other_api.get("/v1/jobs?limit=1").json()["next_cursor"]
    assert names(api, f"?cursor={theirs}") == [mine]


def test_jobs_are_filtered(submit: Submit, api: Client, live_revision: Callable[..., Any]) -> None:
    live_revision(name="other")
    one = json.loads(submit({"inputs": {"sequence": "A"}, "session": "s1"}).content)["id"]
    other = json.loads(submit(model="other").content)["id"]
    Job.objects.filter(pk=other).update(state="cancelled")
    assert names(api, "?session=s1") == [one]
    assert names(api, "?state=cancelled") == [other]
    assert names(api, "?model=other") == [other]
    assert names(api, "?model=toy&state=cancelled") == []


def test_jobs_are_listed_by_their_ids_and_those_of_nobody_are_passed_over(
    submit: Submit, api: Client, other_api: Client
) -> None:
    mine = [submit({"inputs": {"sequence": each}}).json()["id"] for each in ("A", "C", "D")]
    theirs = submit({"inputs": {"sequence": "E"}}, by=other_api).json()["id"]
    wanted = [mine[0], str(uuid4()), theirs, mine[2].upper(), mine[0]]
    assert names(api, f"?ids={','.join(wanted)}") == [mine[2], mine[0]]
    assert names(api, f"?ids={','.join(wanted)}&state=running") == []
    page = api.get(f"/v1/jobs?ids={','.join(mine)}&limit=2").json()
    assert len(page["jobs"]) == 2
    assert names(api, f"?ids={','.join(mine)}&cursor={page['next_cursor']}") == [mine[0]]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=-1",
        "limit=99999999999999999999",
        "limit=0100999999",  # large behind its first digits
        "limit=" + "0001" * 2000,
        "limit=²",
        "cursor=x",
        "cursor=",
        "cursor=%00",
        "cursor=%C3%A9%C3%A9",
        "cursor=AZ00sAAAcACAAAAAAAAAAA!!",
        "cursor=0199d3b4-0000-7000-8000-000000000000",
        "state=waiting",
        "session=%00",
        "unknown=1",
        "limit=1&limit=2",
        "ids=",
        "ids=x",
        "ids=0199d3b4-0000-7000-8000-000000000000,",
        "ids=" + ",".join(["0199d3b4-0000-7000-8000-000000000000"] * 101),
        "ids=0199d3b4-0000-7000-8000-00000000000%EF%BC%90",  # a digit, but none of ASCII
    ],
)
def test_a_wrong_query_is_a_400_that_names_the_parameter(api: Client, query: str) -> None:
    answer = api.get(f"/v1/jobs?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == f"?{query.partition('=')[0]}"


def test_a_waiting_job_is_cancelled_at_once_and_again_without_harm(api: Client, job: Job) -> None:
    for _ in range(2):
        answer = api.post(f"/v1/jobs/{job.id}/cancel")
        assert answer.status_code == 200
        shown = JobAnswer.model_validate_json(answer.content)
        assert (shown.state, shown.cancelling) == ("cancelled", False)
        assert shown.error is not None
        assert shown.error.code == "cancelled"


def test_a_running_job_is_cancelling_until_its_worker_has_stopped(api: Client, job: Job) -> None:
    Job.objects.update(state="running", owner="w", lease_until=job.created_at, attempt=1)
    shown = api.post(f"/v1/jobs/{job.id}/cancel").json()
    assert (shown["state"], shown["cancelling"]) == ("running", True)


def test_the_result_of_an_open_job_is_a_409_that_says_when_to_ask(api: Client, job: Job) -> None:
    answer = api.get(f"/v1/jobs/{job.id}/result")
    assert answer.status_code == 409
    assert answer.json()["code"] == "job_not_finished"
    assert answer.headers["Retry-After"] == "1"


def test_the_result_of_a_finished_job_is_given_with_its_seed(api: Client, job: Job) -> None:
    Job.objects.update(state="succeeded", result={"structure": {"artifact": "x"}})
    answer = api.get(f"/v1/jobs/{job.id}/result")
    result = Result.model_validate_json(answer.content)
    assert result.result == {"structure": {"artifact": "x"}}
    assert result.seed.value == 0


@pytest.mark.parametrize(
    ("code", "status"), [("plugin_crashed", 409), ("invalid_input", 422), ("cancelled", 409)]
)
def test_the_result_of_a_failed_job_is_the_problem_that_ended_it(
    api: Client, job: Job, code: str, status: int
) -> None:
    error = job_error(code, "signal 11", traceback="File /secret/place.py")
    Job.objects.update(state="failed", error=error)
    answer = api.get(f"/v1/jobs/{job.id}/result")
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (answer.json()["code"], answer.json()["detail"]) == (code, "signal 11")
    assert answer.json()["request_id"] == answer.headers["X-Request-ID"]
    assert b"secret" not in answer.content
    shown = api.get(f"/v1/jobs/{job.id}")
    assert JobAnswer.model_validate_json(shown.content).error is not None
    assert b"secret" not in shown.content


def test_the_error_of_an_attempt_is_not_shown_while_the_job_may_succeed(
    api: Client, job: Job
) -> None:
    Job.objects.update(error=job_error("worker_lost"))
    assert api.get(f"/v1/jobs/{job.id}").json()["error"] is None


def test_another_tenant_sees_nothing(other_api: Client, job: Job) -> None:
    assert names(other_api) == []
    other_api.post(f"/v1/jobs/{job.id}/cancel")
    job.refresh_from_db()
    assert job.state == "queued"
