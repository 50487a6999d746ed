"""One job's life in the database. Only `jobs.services`, and the steps it is made of, write here."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from foldline.artifacts.models import Artifact
from foldline.catalog.models import Model, Revision
from foldline.ids import uuid7
from foldline.jobs.states import OPEN, State
from foldline.tenants.models import Tenant

STATES = [(state.value, state.value) for state in State]


class Priority(models.TextChoices):
    """The class of a job. A flow, the unit of fairness, is (tenant, class)."""

    INTERACTIVE = "interactive", "interactive"
    BATCH = "batch", "batch"


class SeedOrigin(models.TextChoices):
    CALLER = "caller", "caller"
    DEFAULT = "default", "default"
    RANDOM = "random", "random"


class QueueState(models.Model):
    """What the order of one model's jobs remembers. Locked by every claim of that model."""

    model = models.OneToOneField(Model, on_delete=models.CASCADE, primary_key=True)
    paused = models.CharField(max_length=200, blank=True, help_text="Why nothing is claimed.")
    breaker = models.JSONField(
        null=True, blank=True, help_text="Crashes in a row, as jobs.breaker keeps them."
    )
    accounts = models.JSONField(default=dict, help_text="Fair accounts by flow.")
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"queue of {self.model}"


class Job(models.Model):
    """One call. `attempt`, `owner` and `lease_until` are the fence every worker's write passes."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The accept path pays for every index of this table, so there is none that another one
    # or a partial one covers.
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, related_name="jobs", db_index=False
    )
    model = models.ForeignKey(Model, on_delete=models.PROTECT, db_index=False)
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, db_index=False)
    priority = models.CharField(max_length=12, choices=Priority, default=Priority.INTERACTIVE)
    session = models.CharField(max_length=120, blank=True)
    state = models.CharField(max_length=10, choices=STATES, default=State.QUEUED.value)

    inputs = models.JSONField(help_text="As the caller sent them.")
    normalized_input = models.JSONField(help_text="Defaults filled in; what the model computes.")
    seed = models.BigIntegerField()
    seed_origin = models.CharField(max_length=8, choices=SeedOrigin)
    fingerprint = models.CharField(max_length=64)
    shared = models.BooleanField(default=True, help_text="Equal calls are answered by its run.")
    warnings = models.JSONField(default=list)
    next_models = models.JSONField(
        null=True, blank=True, help_text="Models its caller means to call with the result."
    )
    notify = models.BooleanField(
        default=False, db_default=False, help_text="Its end is written into the outbox."
    )
    webhook = models.UUIDField(
        null=True, blank=True, help_text="The endpoint its caller named to be told of its end."
    )
    idempotency_key = models.CharField(max_length=255, blank=True)
    payload_digest = models.CharField(max_length=64)

    estimate_gpu_s = models.FloatField(null=True, blank=True)
    input_size = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Characters of the input; its estimate goes by it."
    )
    not_before = models.DateTimeField(null=True, blank=True)
    start_by = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, blank=True)

    attempt = models.PositiveSmallIntegerField(default=0)
    owner = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    attached_to = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="followers",
        db_index=False,
    )
    cache_of = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    redrive_of = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="redrives",
        db_index=False,
    )

    progress = models.JSONField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    dead_letter = models.BooleanField(default=False)
    gpu_seconds = models.FloatField(default=0.0)
    traceparent = models.CharField(max_length=55, blank=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    artifacts = models.ManyToManyField(Artifact, through="JobArtifact", related_name="jobs")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in State]), name="job_state"
            ),
            models.CheckConstraint(
                condition=~Q(state="running") | Q(lease_until__isnull=False) & ~Q(owner=""),
                name="running_has_lease",
            ),
            models.UniqueConstraint(
                fields=["tenant", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="job_once_per_key",
            ),
            # Equal calls share one run and its result. A second one violates this, which costs
            # the accept path nothing, and is then attached or answered.
            models.UniqueConstraint(
                fields=["tenant", "fingerprint"],
                condition=Q(shared=True, state__in=["queued", "running", "succeeded"]),
                name="one_run_per_call",
            ),
        ]
        indexes = [
            # A claim reads the head of each flow from here, and nothing else.
            models.Index(
                fields=["revision", "tenant", "priority", "id"],
                condition=Q(state="queued", attached_to__isnull=True),
                name="job_line",
            ),
            # What a tenant's limits on jobs at once are counted from, and what those will cost.
            models.Index(
                fields=["tenant", "state", "model", "estimate_gpu_s"],
                condition=Q(state__in=["queued", "running"]),
                name="job_open",
            ),
            models.Index(fields=["lease_until"], condition=Q(state="running"), name="job_lease"),
            models.Index(
                fields=["start_by"],
                condition=Q(state="queued", start_by__isnull=False),
                name="job_expiry",
            ),
            models.Index(fields=["tenant", "-id"], name="job_of_tenant"),
            models.Index(
                fields=["-finished_at"], condition=Q(dead_letter=True), name="job_dead_letter"
            ),
            *(
                models.Index(
                    fields=[link], condition=Q(**{f"{link}__isnull": False}), name=f"job_{link}"
                )
                for link in ("attached_to", "cache_of", "redrive_of")
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def open(self) -> bool:
        return State(self.state) in OPEN


class Batch(models.Model):
    """Jobs that came in one request, in its order. Written in the transaction of the jobs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    session = models.CharField(max_length=120, blank=True)
    jobs = models.JSONField(help_text="The id of each item's job, in hex; null for a refused item.")
    refusals = models.JSONField(default=dict, help_text="The problems of refused items, by index.")
    idempotency_key = models.CharField(max_length=255, blank=True)
    payload_digest = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "batches"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="batch_once_per_key",
            )
        ]

    def __str__(self) -> str:
        return str(self.id)


class JobArtifact(models.Model):
    """Which files a job reads and which it made. Keeps a file from being cleaned away."""

    class Role(models.TextChoices):
        INPUT = "input", "input"
        OUTPUT = "output", "output"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, db_index=False)
    # Restricted, not protected: a tenant's jobs and files may go together.
    artifact = models.ForeignKey(Artifact, on_delete=models.RESTRICT)
    role = models.CharField(max_length=6, choices=Role)
    name = models.CharField(max_length=128)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "role", "name"], name="file_once_per_job")
        ]


class Attempt(models.Model):
    """One try of a job by one worker: what it cost and how it ended."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveSmallIntegerField()
    worker = models.CharField(max_length=120)
    share = models.FloatField(default=1.0)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(
        max_length=40, blank=True, help_text="succeeded, or an error's code."
    )
    gpu_seconds = models.FloatField(default=0.0)
    charged_gpu_s = models.FloatField(
        null=True, blank=True, help_text="What its flow's account was charged at the start."
    )
    settled = models.BooleanField(
        default=True, db_default=True, help_text="That charge has been corrected by the actual."
    )
    peak_memory_bytes = models.PositiveBigIntegerField(default=0)
    peak_gpu_bytes = models.PositiveBigIntegerField(default=0)
    checkpoint_step = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The furthest step that was saved."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="attempt_number")]
        indexes = [
            models.Index(
                fields=["ended_at"],
                condition=Q(settled=False, ended_at__isnull=False),
                name="attempt_unsettled",
            )
        ]


class Event(models.Model):
    """What happened to a job, in order. `sequence` starts at 1 for each job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events", db_index=False)
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    data = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "sequence"], name="event_sequence")]


class Outbox(models.Model):
    """Something the outside must be told, written in the transaction that made it true."""

    topic = models.CharField(max_length=40)
    job = models.ForeignKey(Job, on_delete=models.CASCADE)
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    not_before = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["not_before"], condition=Q(delivered_at__isnull=True), name="outbox_due"
            )
        ]


class FailingCall(models.Model):
    """A call of a tenant that has failed again and again, and of what it failed first."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    fingerprint = models.CharField(max_length=64)
    failures = models.PositiveIntegerField(help_text="In a row.")
    first_error = models.JSONField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "fingerprint"], name="one_failing_call")
        ]


class Leadership(models.Model):
    """Which process leads a duty that only one may do at a time: sweep, forecast, scale."""

    duty = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=120)
    until = models.DateTimeField()


class Fault(models.Model):
    """A part of a process's rounds that has failed: how often, and of what the last time."""

    WORDS = 300

    part = models.CharField(max_length=60, primary_key=True)
    times = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()
    words = models.CharField(max_length=WORDS)

    def __str__(self) -> str:
        return self.part
