from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.catalog.models import Revision
from foldline.jobs import services
from foldline.jobs.models import Job

MakeLive = Callable[..., Revision]

pytestmark = pytest.mark.django_db


@pytest.fixture
def revision(live_revision: MakeLive) -> Revision:
    return live_revision(name="toy")


def submit(api: Client, **changes: Any) -> dict[str, Any]:
    body = {"inputs": {"sequence": "EVQL"}, **changes}
    answer = api.post("/v1/models/toy/jobs", body, content_type="application/json")
    assert answer.status_code == 202, answer.content
    told: dict[str, Any] = answer.json()
    return told


def finish_one(revision: Revision) -> None:
    (job,) = services.claim(revision_id=revision.id, owner="w1")
    services.finish(job.fence, result={"x": 1})


def test_an_equal_call_says_whose_run_it_waits_for(api: Client, revision: Revision) -> None:
    first, second = submit(api), submit(api)
    assert first["coalesced_with"] is None
    assert (second["coalesced_with"], second["state"]) == (first["id"], "queued")
    assert second["queue"]["blocked_reason"] == "attached"


def test_an_attached_job_shows_the_progress_of_its_run(api: Client, revision: Revision) -> None:
    submit(api)
    second = submit(api)
    (run,) = services.claim(revision_id=revision.id, owner="w1")
    services.progress(run.fence, fraction=0.5, stage="fold")
    assert api.get(second["urls"]["self"]).json()["progress"]["fraction"] == 0.5


def test_a_call_that_was_answered_before_is_answered_at_once(
    api: Client, revision: Revision
) -> None:
    submit(api)
    finish_one(revision)
    hit = submit(api)
    assert (hit["state"], hit["cache"], hit["poll_after_s"]) == ("succeeded", {"hit": True}, None)
    assert api.get(hit["urls"]["result"]).json()["result"] == {"x": 1}


def test_no_cache_computes_it_anew(api: Client, revision: Revision) -> None:
    submit(api)
    finish_one(revision)
    assert submit(api, no_cache=True)["state"] == "queued"


def test_1_and_1_point_0_are_the_same_call(api: Client, revision: Revision) -> None:
    first = submit(api, inputs={"sequence": "EVQL", "copies": 2})
    second = submit(api, inputs={"copies": 2.0, "sequence": "EVQL"})
    assert second["coalesced_with"] == first["id"]


def test_a_default_that_is_spelled_out_is_the_same_call(api: Client, revision: Revision) -> None:
    first = submit(api)
    second = submit(api, inputs={"sequence": "EVQL", "copies": 1})
    assert second["coalesced_with"] == first["id"]


def test_another_tenants_equal_call_is_not_shared(
    api: Client, other_api: Client, revision: Revision
) -> None:
    submit(api)
    finish_one(revision)
    theirs = submit(other_api)
    assert (theirs["state"], theirs["cache"]["hit"]) == ("queued", False)


class TestAGenerator:
    """A model whose `seed_default` is random."""

    @pytest.fixture(autouse=True)
    def revision(self, live_revision: MakeLive) -> Revision:
        return live_revision(name="toy", seed_default="random")

    def test_calls_without_a_seed_are_never_merged_or_cached(
        self, api: Client, revision: Revision
    ) -> None:
        told = [submit(api) for _ in range(5)]
        finish_one(revision)
        told.append(submit(api))
        assert all(job["coalesced_with"] is None and not job["cache"]["hit"] for job in told)
        assert len({job["seed"]["value"] for job in told}) == 6
        assert {job["seed"]["origin"] for job in told} == {"random"}

    def test_calls_with_a_seed_are(self, api: Client, revision: Revision) -> None:
        first, second = submit(api, seed=7), submit(api, seed=7)
        assert second["coalesced_with"] == first["id"]
        assert submit(api, seed=8)["coalesced_with"] is None
        assert Job.objects.filter(attached_to=None).count() == 2
