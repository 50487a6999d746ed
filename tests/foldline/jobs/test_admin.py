from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.test import Client

from foldline.catalog.models import Model, Revision
from foldline.catalog.selectors import live_models_kept
from foldline.clock import database_now
from foldline.errors import job_error
from foldline.jobs import services
from foldline.jobs.breaker import Breaker, Cause, written
from foldline.jobs.models import Job, QueueState
from foldline.tenants.models import AuditEntry

pytestmark = pytest.mark.django_db
MakeJob = Callable[..., UUID]
JOBS = "/admin/jobs/job/"
QUEUES = "/admin/jobs/queuestate/"
TRACEBACK = (
    'Traceback …\n  File "/plugins/a/plugin.py", line {line}, in infer\nValueError: {word}\n'
)


@pytest.fixture
def fail(make_job: MakeJob, revision: Revision) -> Callable[..., Job]:
    """A job that failed with an error."""
    revision.input_schema = {"type": "object"}
    revision.save()
    live_models_kept.clear()

    def run(code: str = "model_error", **details: Any) -> Job:
        make_job(fingerprint=f"{uuid4().hex:0<64}")
        (job,) = services.claim(revision_id=revision.id, owner="w1")
        services.fail(job.fence, error=job_error(code, details.pop("message", ""), **details))
        return Job.objects.get(id=job.fence.job_id)

    return run


def text(client: Client, url: str) -> str:
    return html.unescape(client.get(url).content.decode())


def listed(client: Client, query: str = "") -> set[str]:
    """Ids of the jobs in the list."""
    return set(re.findall(rf"{JOBS}([0-9a-f-]{{36}})/change/", text(client, JOBS + query)))


def ids(*jobs: Job) -> set[str]:
    return {str(job.id) for job in jobs}


def choose(client: Client, *jobs: Job, url: str = JOBS, **more: str) -> str:
    data = {"action": "redrive_selected", "_selected_action": [str(job.id) for job in jobs], **more}
    answer = client.post(url, data, follow=True)
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


class TestDeadLetters:
    def test_the_list_shows_code_message_and_digest(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        job = fail(message="ValueError: too hot", traceback=TRACEBACK.format(line=3, word="hot"))
        shown = text(admin_client, JOBS)
        assert job.error is not None
        for part in ("model_error", "ValueError: too hot", job.error["details"]["digest"]):
            assert part in shown

    def test_jobs_that_failed_in_the_same_way_are_found_together(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        same = [fail(traceback=TRACEBACK.format(line=3, word=word)) for word in "ab"]
        other = fail(traceback=TRACEBACK.format(line=4, word="a"))
        assert same[0].error is not None
        digest = same[0].error["details"]["digest"]
        assert f"{digest} (2)" in text(admin_client, JOBS)
        assert listed(admin_client, f"?failure={digest}") == ids(*same)
        assert listed(admin_client, "?code=model_error") == ids(*same, other)

    def test_those_that_wait_are_told_from_those_redriven(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        first, second, wrong = fail(), fail("gpu_oom"), fail("invalid_input")
        services.claim(revision_id=second.revision_id, owner="w1")
        choose(admin_client, first, confirmed="yes")
        assert listed(admin_client, "?dead=waiting") == set()
        assert (
            listed(admin_client, "?dead=redriven")
            == listed(admin_client, "?dead=all")
            == ids(first)
        )
        assert str(wrong.id) in listed(admin_client)

    def test_a_jobs_page_has_every_column_once(self) -> None:
        sets = site.get_model_admin(Job).fieldsets or ()
        shown = [str(name).removesuffix("_text") for _, part in sets for name in part["fields"]]
        assert len(shown) == len(set(shown))
        assert {field.name for field in Job._meta.fields} <= set(shown)

    def test_a_jobs_page_shows_the_traceback_as_it_was_printed(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        job = fail(traceback=TRACEBACK.format(line=3, word="<script>"))
        raw = admin_client.get(f"{JOBS}{job.id}/change/").content.decode()
        assert TRACEBACK.format(line=3, word="<script>") in html.unescape(raw)
        assert "ValueError: <script>" not in raw

    def test_a_poison_jobs_message_is_that_of_its_last_death(
        self, admin_client: Client, fail: Callable[..., Job], revision: Revision
    ) -> None:
        fail("plugin_crashed", message="ended by signal 11")
        for _ in range(2):
            (job,) = services.claim(revision_id=revision.id, owner="w1")
            services.fail(job.fence, error=job_error("plugin_crashed", "ended by signal 11"))
        shown = text(admin_client, JOBS)
        assert "poison" in shown
        assert "ended by signal 11" in shown


class TestRedriving:
    def test_it_asks_first_and_tells_how_many(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        jobs = [fail(), fail(), fail("output_too_large"), fail("invalid_input")]
        shown = choose(admin_client, *jobs)
        assert "Redrive 3 dead letters?" in shown
        assert "2 of sleepy: model_error" in shown
        assert "1 selected job will be left alone" in shown
        assert not Job.objects.filter(redrive_of__isnull=False).exists()

    def test_once_confirmed_the_new_jobs_are_in_line_and_the_log_knows_who(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        jobs = [fail(), fail()]
        assert "New jobs in line: 2." in choose(admin_client, *jobs, confirmed="yes")
        made = Job.objects.filter(redrive_of__isnull=False)
        assert {job.redrive_of for job in made} == set(jobs)
        entry = LogEntry.objects.filter(object_id=str(jobs[0].id)).get()
        assert entry.change_message.startswith("Redriven as ")

    def test_a_whole_filtered_list_can_be_chosen(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        wanted, other = [fail("model_error"), fail("model_error")], fail("output_too_large")
        url = f"{JOBS}?code=model_error"
        shown = choose(admin_client, wanted[0], url=url, select_across="1")
        assert "Redrive 2 dead letters?" in shown
        choose(admin_client, wanted[0], url=url, select_across="1", confirmed="yes")
        redriven = set(Job.objects.filter(redrives__isnull=False))
        assert redriven == set(wanted)
        assert other not in redriven

    def test_one_is_redriven_from_its_page(
        self, admin_client: Client, fail: Callable[..., Job]
    ) -> None:
        job = fail()
        url = f"{JOBS}{job.id}/redrive_this/"
        assert url in text(admin_client, f"{JOBS}{job.id}/change/")
        admin_client.post(url, {"_form_submitted": "on"})
        new = job.redrives.get()
        shown = text(admin_client, f"{JOBS}{job.id}/change/")
        assert f"{new.id} (queued)" in shown
        assert url not in shown

    def test_who_may_only_look_redrives_nothing(
        self, client: Client, fail: Callable[..., Job], django_user_model: Any
    ) -> None:
        job = fail()
        bob = django_user_model.objects.create_user("bob", is_staff=True)
        bob.user_permissions.set(
            django_user_model._meta.apps.get_model("auth.Permission").objects.filter(
                codename="view_job"
            )
        )
        client.force_login(bob)
        assert client.get(JOBS).status_code == 200
        choose(client, job, confirmed="yes")
        client.post(f"{JOBS}{job.id}/redrive_this/", {"_form_submitted": "on"})
        assert not job.redrives.exists()


class TestQueues:
    def test_a_model_is_paused_with_a_reason_and_resumed(
        self, admin_client: Client, revision: Revision
    ) -> None:
        page = f"{QUEUES}{revision.model_id}"
        assert "sleepy" in text(admin_client, QUEUES)
        admin_client.post(f"{page}/pause_model/", {"_form_submitted": "on"})
        assert QueueState.objects.get().paused == ""
        admin_client.post(
            f"{page}/pause_model/", {"_form_submitted": "on", "reason": "new weights"}
        )
        assert QueueState.objects.get().paused == "new weights"
        assert "new weights" in text(admin_client, QUEUES)
        admin_client.post(f"{page}/resume_model/", {"_form_submitted": "on"})
        assert QueueState.objects.get().paused == ""
        messages = LogEntry.objects.order_by("id").values_list("change_message", flat=True)
        assert list(messages) == ["Paused: new weights", "Resumed."]
        changed = [entry.changes.get("paused") for entry in AuditEntry.objects.order_by("pk")]
        assert [each for each in changed if each] == [["", "new weights"], ["new weights", ""]]

    def test_a_crash_looping_model_is_told_above_the_lists(
        self, admin_client: Client, revision: Revision
    ) -> None:
        breaker = Breaker(revision=str(revision.id)).opened(
            Cause.CRASHES, "It crashed a lot.", now=database_now()
        )
        QueueState.objects.create(model_id=revision.model_id, breaker=written(breaker))
        for url in (QUEUES, JOBS):
            shown = text(admin_client, url)
            assert "sleepy is crash looping. It crashed a lot." in shown
        assert "crash_looping" in text(admin_client, QUEUES)

    def test_who_may_only_look_pauses_nothing(
        self, client: Client, revision: Revision, django_user_model: Any
    ) -> None:
        QueueState.objects.create(model=Model.objects.get())
        client.force_login(django_user_model.objects.create_user("bob", is_staff=True))
        url = f"{QUEUES}{revision.model_id}/pause_model/"
        answer = client.post(url, {"_form_submitted": "on", "reason": "because"})
        assert answer.status_code == 403
        assert QueueState.objects.get().paused == ""
