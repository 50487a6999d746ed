"""The dead letter: failed jobs that an admin looks at, and may have computed once more.

A job that has failed stays failed. Redriving makes a new job of the same tenant with the same
inputs and seed, on the model's live revision, without a deadline and without an idempotency
key; it is linked by `redrive_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.db.models.fields.json import KT

from foldline.catalog.selectors import LiveModel, live_model
from foldline.clock import database_now
from foldline.errors import ModelNotFound, ModelRetired
from foldline.jobs import tickets
from foldline.jobs.admission import Submission, admit
from foldline.jobs.events import record
from foldline.jobs.models import Job, JobArtifact
from foldline.jobs.states import State


class Refused(Exception):
    """Why a job cannot be redriven; a sentence for the admin."""


@dataclass(frozen=True, kw_only=True)
class Redriven:
    """What came of redriving: new jobs by the old ones' ids, and reasons where there is none."""

    made: Mapping[UUID, UUID]
    refused: Mapping[UUID, str]


@dataclass(frozen=True, kw_only=True)
class Pile:
    """Dead letters of one kind."""

    model: str
    code: str
    count: int


def dead_letters(*, model: str = "", code: str = "") -> QuerySet[Job]:
    """Failed jobs that wait for an admin: those not redriven since, oldest first."""
    handled = Job.objects.filter(redrive_of=OuterRef("pk")).exclude(
        state__in=[State.CANCELLED, State.EXPIRED]
    )
    jobs = Job.objects.filter(~Exists(handled), dead_letter=True).order_by("id")
    if model:
        jobs = jobs.filter(model__name=model)
    return jobs.filter(error__code=code) if code else jobs


def piles(jobs: QuerySet[Job]) -> list[Pile]:
    """How many of these jobs there are by model and code, for a look before a redrive."""
    counted = (
        jobs.order_by()
        .values("model__name", told=KT("error__code"))
        .annotate(count=Count("id"))
        .order_by("model__name", "told")
    )
    return [
        Pile(model=row["model__name"], code=row["told"] or "", count=row["count"])
        for row in counted
    ]


def redrive(jobs: Iterable[UUID], *, by: str) -> Redriven:
    """Have dead letters computed once more, each in a transaction of its own.

    Refused are jobs that are no dead letters, that are being redriven or were answered that
    way already, and those whose model is retired or takes other inputs by now.
    """
    made: dict[UUID, UUID] = {}
    refused: dict[UUID, str] = {}
    for job_id in jobs:
        try:
            made[job_id] = _redrive(job_id, by=by)
        except Refused as reason:
            refused[job_id] = str(reason)
    return Redriven(made=made, refused=refused)


def _redrive(job_id: UUID, *, by: str) -> UUID:
    with transaction.atomic():
        # Locked, so that two admins do not redrive it at the same moment.
        job = Job.objects.select_for_update(of=("self",)).filter(id=job_id)
        old = job.select_related("model").first()
        if old is None or not old.dead_letter:
            raise Refused("This job is no dead letter.")
        _check_not_redriven(old)
        submission = _submission(old, _live(old.model.name))
        accepted = admit(submission)
        if accepted is None:  # a job that shares nothing and has no key has no rival
            raise Refused("The new job could not be written.")
        Job.objects.filter(id=accepted.job_id).update(redrive_of=old)
        now = database_now()
        record(old.id, "redriven", at=now, by=by, job=str(accepted.job_id))
        record(accepted.job_id, "redrive", at=now, by=by, of=str(old.id))
        transaction.on_commit(lambda: tickets.send(submission.queue))
    return accepted.job_id


def _check_not_redriven(old: Job) -> None:
    for redriven in old.redrives.order_by("id"):
        if redriven.open:
            raise Refused(f"It is being redriven already, by the job {redriven.id}.")
        if redriven.state == State.SUCCEEDED:
            raise Refused(f"It has been redriven; the job {redriven.id} has the answer.")


def _live(name: str) -> LiveModel:
    try:
        return live_model(name)
    except ModelRetired:
        raise Refused(f"The model {name} is retired: set a revision live first.") from None
    except ModelNotFound:
        raise Refused(f"The model {name} has no live revision.") from None


def _submission(old: Job, model: LiveModel) -> Submission:
    findings = model.compiled.findings(old.inputs)
    if findings:
        places = ", ".join(f"{found['pointer']}: {found['code']}" for found in findings[:3])
        raise Refused(f"Its inputs are not what {model.revision} takes ({places}).")
    links = JobArtifact.objects.filter(job=old, role=JobArtifact.Role.INPUT)
    files = list(links.values_list("name", "artifact_id", "artifact__sha256"))
    normalized = model.compiled.normalized(old.inputs)
    return Submission(
        tenant_id=old.tenant_id,
        model_id=model.model_id,
        revision_id=model.revision_id,
        queue=tickets.queue_name(model.name, number=model.number),
        inputs=old.inputs,
        normalized_input=normalized,
        seed=old.seed,
        seed_origin=old.seed_origin,
        fingerprint=model.fingerprint(normalized, files, tenant_id=old.tenant_id, seed=old.seed),
        payload_digest=old.payload_digest,
        priority=old.priority,
        session=old.session,
        notify=old.notify,
        webhook=old.webhook,
        # It is to be computed, not answered by what an equal call left.
        shared=False,
        artifacts=[(place, artifact) for place, artifact, _ in files],
    )
