from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from foldline.artifacts.services import store_upload
from foldline.catalog.models import Revision
from foldline.catalog.selectors import live_models_kept
from foldline.catalog.services import retire
from foldline.errors import job_error
from foldline.ids import uuid7
from foldline.jobs import services, tickets
from foldline.jobs.admission import Submission
from foldline.jobs.models import Event, Job
from foldline.jobs.redrive import Pile, dead_letters, piles, redrive
from foldline.jobs.services import claim, submit
from foldline.tenants.models import Tenant

pytestmark = pytest.mark.django_db
Fail = Callable[..., Job]
INPUTS = {"sequence": "EVQ"}


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    queues: list[str] = []
    monkeypatch.setattr(tickets, "send", lambda queue, **_: queues.append(queue))
    return queues


@pytest.fixture
def toy(live_revision: Callable[..., Revision]) -> Revision:
    return live_revision(name="toy")


@pytest.fixture
def fail(tenant: Tenant, toy: Revision) -> Fail:
    """Submit a job, and let it fail with an error."""

    def run(code: str = "model_error", message: str = "", **details: Any) -> Job:
        changes = details.pop("submission", {})
        fields: dict[str, Any] = {
            "tenant_id": tenant.id,
            "model_id": toy.model_id,
            "revision_id": toy.id,
            "queue": "foldline.toy.r1",
            "inputs": INPUTS,
            "normalized_input": {**INPUTS, "copies": 1},
            "seed": 5,
            "seed_origin": "caller",
            "fingerprint": f"{uuid4().hex:0<64}",
            "payload_digest": "d" * 64,
        }
        job_id = submit(Submission(**{**fields, **changes})).job_id
        while Job.objects.get(id=job_id).state == "queued":
            (claimed,) = claim(revision_id=toy.id, owner="w1")
            services.fail(claimed.fence, error=job_error(code, message, **details))
        return Job.objects.get(id=job_id)

    return run


def only_reason(*jobs: UUID) -> str:
    done = redrive(jobs, by="ada")
    assert not done.made
    (reason,) = done.refused.values()
    return reason


def end(job_id: UUID, state: str) -> None:
    Job.objects.filter(id=job_id).update(state=state)


class TestRedrive:
    def test_the_new_job_has_the_inputs_and_seed_of_the_old_one(self, fail: Fail) -> None:
        old = fail(submission={"session": "s1", "priority": "batch", "idempotency_key": "k"})
        new = Job.objects.get(id=redrive([old.id], by="ada").made[old.id])
        for name in ("tenant", "inputs", "normalized_input", "seed", "session", "priority"):
            assert getattr(new, name) == getattr(old, name)
        assert (new.state, new.attempt, new.redrive_of) == ("queued", 0, old)
        assert (new.idempotency_key, new.deadline, new.start_by) == ("", None, None)
        assert not new.shared

    def test_the_old_job_stays_as_it_is(self, fail: Fail) -> None:
        old = fail()
        redrive([old.id], by="ada")
        again = Job.objects.get(id=old.id)
        assert (again.state, again.dead_letter, again.error) == ("failed", True, old.error)

    def test_both_remember_who_did_it(self, fail: Fail) -> None:
        old = fail()
        new = redrive([old.id], by="ada").made[old.id]
        told = Event.objects.get(job=old, kind="redriven").data
        assert told == {"by": "ada", "job": str(new)}
        assert Event.objects.get(job_id=new, kind="redrive").data == {
            "by": "ada",
            "of": str(old.id),
        }

    @pytest.mark.django_db(transaction=True)
    def test_it_is_claimed_like_any_other(self, fail: Fail, toy: Revision, sent: list[str]) -> None:
        old = fail()
        sent.clear()
        new = redrive([old.id], by="ada").made[old.id]
        assert sent == ["foldline.toy.r1"]
        assert [job.fence.job_id for job in claim(revision_id=toy.id, owner="w1")] == [new]

    def test_its_files_come_along(self, fail: Fail, tenant: Tenant) -> None:
        file = store_upload(tenant_id=tenant.id, chunks=[b"ATOM"], name="a.pdb")
        inputs = {**INPUTS, "template": str(file.id)}
        old = fail(
            submission={
                "inputs": inputs,
                "normalized_input": inputs,
                "artifacts": [("/template", file.id)],
            }
        )
        new = Job.objects.get(id=redrive([old.id], by="ada").made[old.id])
        assert [(link.name, link.artifact_id) for link in new.jobartifact_set.all()] == [
            ("/template", file.id)
        ]

    def test_it_goes_to_the_revision_that_is_live_now(
        self, fail: Fail, live_revision: Callable[..., Revision]
    ) -> None:
        old = fail()
        newer = live_revision(name="toy")
        live_models_kept.clear()
        new = Job.objects.get(id=redrive([old.id], by="ada").made[old.id])
        assert (new.revision, old.revision.number) == (newer, 1)
        assert new.fingerprint != old.fingerprint

    def test_a_redrive_that_fails_is_a_dead_letter_of_its_own(
        self, fail: Fail, toy: Revision
    ) -> None:
        old = fail()
        new = redrive([old.id], by="ada").made[old.id]
        (claimed,) = claim(revision_id=toy.id, owner="w1")
        services.fail(claimed.fence, error=job_error("model_error"))
        assert list(dead_letters().values_list("id", flat=True)) == [new]
        assert redrive([new], by="ada").made


class TestRefusal:
    def test_of_a_job_that_is_no_dead_letter(self, fail: Fail) -> None:
        for job_id in (fail("invalid_input").id, uuid7()):
            assert only_reason(job_id) == "This job is no dead letter."

    def test_while_an_earlier_redrive_is_open_or_has_answered(self, fail: Fail) -> None:
        old = fail()
        new = redrive([old.id], by="ada").made[old.id]
        assert "being redriven already" in only_reason(old.id)
        end(new, "succeeded")
        assert str(new) in only_reason(old.id)

    def test_not_after_an_earlier_redrive_was_cancelled(self, fail: Fail) -> None:
        old = fail()
        end(redrive([old.id], by="ada").made[old.id], "cancelled")
        assert list(dead_letters()) == [old]
        assert redrive([old.id], by="ada").made

    def test_of_a_retired_model(self, fail: Fail, toy: Revision) -> None:
        old = fail()
        retire(toy)
        live_models_kept.clear()
        assert "toy is retired" in only_reason(old.id)

    def test_of_inputs_that_the_live_revision_does_not_take(
        self, fail: Fail, live_revision: Callable[..., Revision]
    ) -> None:
        old = fail()
        live_revision(
            name="toy", input_schema={"type": "object", "required": ["other"], "properties": {}}
        )
        live_models_kept.clear()
        assert "/inputs/other: missing_field" in only_reason(old.id)

    def test_of_one_does_not_hold_up_the_others(self, fail: Fail) -> None:
        jobs = [fail(), fail("invalid_input"), fail()]
        done = redrive([job.id for job in jobs], by="ada")
        assert (set(done.made), set(done.refused)) == ({jobs[0].id, jobs[2].id}, {jobs[1].id})


def test_dead_letters_are_counted_by_model_and_code(fail: Fail) -> None:
    for code in ("model_error", "plugin_crashed", "model_error", "invalid_input"):
        fail(code)
    assert piles(dead_letters()) == [
        Pile(model="toy", code="model_error", count=2),
        Pile(model="toy", code="poison", count=1),
    ]
    assert piles(dead_letters(model="other")) == []


class TestCommand:
    def run(self, *arguments: str) -> str:
        out = StringIO()
        call_command("redrive", *arguments, stdout=out)
        return out.getvalue()

    def test_it_counts_first_and_changes_nothing(self, fail: Fail) -> None:
        fail()
        told = self.run("--model", "toy")
        assert "1  toy  model_error" in told
        assert "Add --yes" in told
        assert Job.objects.count() == 1

    def test_it_redrives_with_yes(self, fail: Fail) -> None:
        fail()
        fail("model_output_invalid")
        told = self.run("--model", "toy", "--code", "model_error", "--yes")
        assert "1 new jobs, 0 refused." in told
        assert Job.objects.filter(redrive_of__isnull=False).count() == 1
        assert "No dead letters of toy with code model_error." in self.run(
            "--model", "toy", "--code", "model_error", "--yes"
        )

    def test_it_fails_with_the_reason_when_none_can_be_redriven(
        self, fail: Fail, toy: Revision
    ) -> None:
        fail()
        retire(toy)
        live_models_kept.clear()
        with pytest.raises(CommandError):
            self.run("--model", "toy", "--yes")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, settings: Settings) -> None:
    settings.HOME = tmp_path
