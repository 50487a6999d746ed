"""Who works, how many an admin wants, and what the scaler decided."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from foldline.catalog.models import Model, Revision
from foldline.ids import uuid7

MOST_WORKERS = 1000
_ANY_NUMBER = [MaxValueValidator(MOST_WORKERS, f"At most {MOST_WORKERS} workers.")]


class Worker(models.Model):
    """A worker process of one revision. Written by the worker, read by everybody else."""

    class State(models.TextChoices):
        STARTING = "starting", "starting"
        LOADING = "loading", "loading"
        READY = "ready", "ready"
        BUSY = "busy", "busy"
        DRAINING = "draining", "draining"
        GONE = "gone", "gone"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=120, unique=True)
    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="workers")
    state = models.CharField(max_length=8, choices=State, default=State.STARTING)
    node = models.CharField(max_length=120)
    pid = models.PositiveIntegerField()
    card = models.CharField(max_length=80, blank=True, help_text="The card's UUID; empty on a CPU.")
    share = models.FloatField(default=1.0, help_text="Part of the card it holds, 0 to 1.")
    started_at = models.DateTimeField()
    last_seen = models.DateTimeField()
    load_seconds = models.JSONField(default=dict, help_text="Seconds of loading, by phase.")
    placing = models.JSONField(
        null=True,
        blank=True,
        help_text="As the scaler saw it: its node, and the seconds it waited for that and its"
        " image.",
    )
    peak_memory_bytes = models.PositiveBigIntegerField(default=0)
    peak_gpu_bytes = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="The most it held of its card; 0 unknown."
    )
    card_bytes = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="All memory of its card; 0 unknown."
    )
    current_job = models.UUIDField(null=True, blank=True)
    ticket = models.CharField(max_length=36, blank=True, help_text="The ticket it holds.")
    failure = models.JSONField(null=True, blank=True, help_text="Why it could not start or ended.")

    class Meta:
        indexes = [
            models.Index(
                fields=["revision", "state"], condition=~Q(state="gone"), name="worker_present"
            ),
            models.Index(fields=["revision", "-started_at"], name="worker_newest"),
        ]

    def __str__(self) -> str:
        return self.name


class ModelPolicy(models.Model):
    """What an admin wants of the workers of one model. Without a row the defaults hold."""

    model = models.OneToOneField(
        Model, on_delete=models.CASCADE, primary_key=True, related_name="policy"
    )
    min_workers = models.PositiveSmallIntegerField(
        default=0, db_default=0, validators=_ANY_NUMBER, help_text="Stay without jobs, too."
    )
    max_workers = models.PositiveSmallIntegerField(
        default=64,
        db_default=64,
        validators=_ANY_NUMBER,
        help_text="0 keeps the model from starting any.",
    )
    pinned = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=_ANY_NUMBER,
        help_text="Exactly so many workers, whatever waits.",
    )
    omega = models.FloatField(
        default=0.2,
        db_default=0.2,
        validators=[MinValueValidator(0.0), MaxValueValidator(100.0)],
        help_text="Card-seconds that one second of one job's waiting is worth.",
    )
    floor_workers = models.PositiveSmallIntegerField(
        default=1,
        db_default=1,
        validators=_ANY_NUMBER,
        help_text="Workers it has a right to while jobs wait.",
    )
    floor_after_s = models.PositiveIntegerField(
        default=0, db_default=0, help_text="The right begins when a job has waited this long."
    )
    floor_step_s = models.PositiveIntegerField(
        default=0, db_default=0, help_text="One worker more each so many seconds; 0: all at once."
    )
    sharing = models.BooleanField(
        "may share a card",
        default=False,
        db_default=False,
        help_text="Its next workers get the part that was measured, and others the rest. Its"
        " memory is then bounded where the cluster can.",
    )
    latency_strict = models.BooleanField(
        "latency must be steady",
        default=False,
        db_default=False,
        help_text="A slice that hardware keeps apart (MIG), or a whole card.",
    )
    rare_and_expensive = models.BooleanField(
        default=False, db_default=False, help_text="Nobody may disturb its jobs: a whole card."
    )
    several_cards = models.BooleanField(
        "uses several cards",
        default=False,
        db_default=False,
        help_text="It gets no part of a card.",
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "scaling of a model"
        verbose_name_plural = "scaling"
        constraints = [
            models.CheckConstraint(
                condition=Q(min_workers__lte=models.F("max_workers")), name="policy_min_below_max"
            )
        ]

    def __str__(self) -> str:
        return f"workers of {self.model}"


class ScalingDecision(models.Model):
    """What the scaler decided for a revision: the newest row is how it stands, others were before.

    A row begins when desired changes, and is renewed while it holds.
    """

    revision = models.ForeignKey(
        Revision, on_delete=models.CASCADE, related_name="decisions", db_index=False
    )
    at = models.DateTimeField(help_text="Since when it is decided so.")
    as_of = models.DateTimeField(help_text="When the scaler last said so.")
    desired = models.PositiveIntegerField()
    actual = models.PositiveIntegerField(default=0, db_default=0)
    starts = models.PositiveIntegerField(default=0, db_default=0, help_text="Workers ordered.")
    tier = models.CharField(max_length=8, blank=True, default="", db_default="")
    zero_in_s = models.FloatField(
        null=True, blank=True, help_text="From `as_of` on, until no worker is left without a job."
    )
    reason = models.TextField()
    warnings = models.JSONField(default=list)
    piece = models.JSONField(
        default=dict, help_text="Of a card, that a worker should get: kind, bytes, rule, warning."
    )
    waiting = models.PositiveIntegerField(null=True, blank=True, help_text="Startable jobs.")
    running = models.PositiveIntegerField(null=True, blank=True)
    ready = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tickets in Redis; only shown, never decided by."
    )
    unacked = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["revision", "-at"], name="decision_of_revision")]

    def __str__(self) -> str:
        return f"{self.revision}: {self.desired}"


class NodeWeights(models.Model):
    """The weights of a revision as they were found on one node, ahead of any worker."""

    revision = models.ForeignKey(
        Revision, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    node = models.CharField(max_length=253)
    at = models.DateTimeField(help_text="When they were read last.")
    size_bytes = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    trouble = models.TextField(blank=True, help_text="Empty: as reviewed.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["revision", "node"], name="weights_once_per_node")
        ]

    def __str__(self) -> str:
        return f"{self.revision} on {self.node}"
