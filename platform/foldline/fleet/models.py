"""Who works: one row per worker process, from its first second to its last."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from foldline.catalog.models import Revision
from foldline.ids import uuid7


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
    peak_memory_bytes = models.PositiveBigIntegerField(default=0)
    current_job = models.UUIDField(null=True, blank=True)
    ticket = models.CharField(max_length=36, blank=True, help_text="The ticket it holds.")
    failure = models.JSONField(null=True, blank=True, help_text="Why it could not start or ended.")

    class Meta:
        indexes = [
            models.Index(
                fields=["revision", "state"], condition=~Q(state="gone"), name="worker_present"
            )
        ]

    def __str__(self) -> str:
        return self.name
