"""Where callers want to be told, and what became of each message."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from foldline.ids import uuid7
from foldline.tenants.models import Tenant

URL_CHARACTERS = 1000
NOTE_CHARACTERS = 200


class WebhookEndpoint(models.Model):
    """An address of a tenant's. Its secrets are sealed: `signing` opens them.

    A deleted one is kept, without its secrets, for as long as its log is.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="webhook_endpoints")
    url = models.CharField(max_length=URL_CHARACTERS)
    description = models.CharField(max_length=NOTE_CHARACTERS, blank=True)
    events = models.JSONField(default=list, help_text="Types it hears of; empty: all.")
    all_jobs = models.BooleanField(
        default=False, help_text="Hears of every job of its tenant, not only of those naming it."
    )
    secret = models.TextField(editable=False)
    old_secret = models.TextField(blank=True, editable=False)
    old_secret_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_reason = models.CharField(max_length=NOTE_CHARACTERS, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    # Its breaker, as `schedule.Health` reads it.
    failures = models.PositiveIntegerField(default=0, help_text="In a row.")
    failing_since = models.DateTimeField(null=True, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True, help_text="Took a message last.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "url"],
                condition=Q(deleted_at__isnull=True),
                name="one_endpoint_per_url",
            )
        ]

    def __str__(self) -> str:
        return self.url


class Delivery(models.Model):
    """One message to one endpoint: the bytes that are sent, and every try to send them."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DELIVERED = "delivered", "delivered"
        DEAD = "dead", "dead"
        DROPPED = "dropped", "dropped"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    endpoint = models.ForeignKey(
        WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    event = models.UUIDField(help_text="The header webhook-id: the same in every try.")
    type = models.CharField(max_length=20)
    # No link: the log outlives the job.
    job_id = models.UUIDField(null=True, blank=True)
    body = models.TextField()
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Since it was made or asked for again."
    )
    next_at = models.DateTimeField(null=True, blank=True)
    tries = models.JSONField(default=list, help_text="What came of each try, the latest last.")
    note = models.CharField(
        max_length=NOTE_CHARACTERS, blank=True, help_text="Why it is not sent any more."
    )
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "event"], name="one_delivery_per_event")
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "next_at"], condition=Q(state="waiting"), name="delivery_due"
            ),
            models.Index(fields=["endpoint", "-id"], name="delivery_of_endpoint"),
            models.Index(
                fields=["ended_at"], condition=Q(ended_at__isnull=False), name="delivery_ended"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.event}"


class TryCount(models.Model):
    """How many tries there were with each result; it only rises."""

    class Result(models.TextChoices):
        TAKEN = "taken", "taken"
        REFUSED = "refused", "refused"
        UNANSWERED = "unanswered", "unanswered"

    result = models.CharField(max_length=10, choices=Result, primary_key=True)
    tries = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.result}: {self.tries}"
