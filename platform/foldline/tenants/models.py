"""Who asks: people (users), paying parties (tenants), the keys agents carry, what each may
use and has used, and what admins changed."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from foldline.ids import uuid7


class User(AbstractUser):
    """Somebody who signs in to the admin. Agents never do: they carry an `ApiKey`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)


class Tenant(models.Model):
    """The party that owns jobs and artifacts; nothing is ever seen across tenants."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=48, unique=True)
    name = models.CharField(max_length=120)
    active = models.BooleanField(default=True, help_text="Off: its keys are refused.")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug


class ApiKey(models.Model):
    """A key as the database knows it: its public prefix and the SHA-256 of the whole."""

    class Scope(models.TextChoices):
        SUBMIT = "submit", "submit and cancel jobs, upload files"
        READ = "read", "see jobs, results and files"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Quota(models.Model):
    """What a tenant may use: as a whole, or of one model. Empty is no limit of its own.

    Both rows of a call must have room for it: the tenant's and the one of its model.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="quotas")
    # By name: the catalog stands above this room, and only the database follows the link.
    model = models.ForeignKey(
        "catalog.Model",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Empty: the tenant as a whole.",
    )
    allowed = models.BooleanField(
        default=True, help_text="May be called. As a whole: models without a row of their own."
    )
    weight = models.FloatField(
        null=True, blank=True, help_text="Share of a busy model beside other tenants; 1 is usual."
    )
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    polls_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="Questions about jobs, results and files."
    )
    waiting = models.PositiveIntegerField(null=True, blank=True, help_text="Jobs at once.")
    running = models.PositiveIntegerField(null=True, blank=True, help_text="Jobs at once.")
    gpu_seconds_day = models.PositiveIntegerField(null=True, blank=True)
    gpu_seconds_month = models.PositiveIntegerField(null=True, blank=True)
    artifact_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    input_bytes = models.PositiveIntegerField(
        null=True, blank=True, help_text="Largest body of one call."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(model__isnull=True), name="one_quota_per_tenant"
            ),
            models.UniqueConstraint(
                fields=["tenant", "model"],
                condition=Q(model__isnull=False),
                name="one_quota_per_tenant_and_model",
            ),
            models.CheckConstraint(
                condition=Q(weight__isnull=True) | Q(weight__gte=0.01, weight__lte=100),
                name="quota_weight",
            ),
            # Files and questions belong to no model.
            models.CheckConstraint(
                condition=Q(model__isnull=True)
                | Q(artifact_bytes__isnull=True, polls_per_minute__isnull=True),
                name="quota_of_model",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant} on {self.model}" if self.model_id else str(self.tenant)


class LedgerLine(models.Model):
    """Seconds of a card: used by a tenant, saved for it, or used by nobody. Append-only.

    Names and ids, not links: the line outlives the job and the tenant it tells of.
    """

    class Kind(models.TextChoices):
        COMPUTE = "compute", "computed an answer"
        WASTED = "wasted", "computed and lost"
        COLD_START = "cold_start", "loaded a model"
        IDLE = "idle", "held a card and waited"
        CACHE = "cache", "saved: answered before"
        COALESCED = "coalesced", "saved: an equal call ran"
        EXPIRED = "expired", "saved: expired before it started"
        CANCELLED = "cancelled", "saved: cancelled before it started"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField()
    kind = models.CharField(max_length=10, choices=Kind)
    tenant_id = models.UUIDField(null=True, help_text="Empty: nobody's.")
    tenant = models.CharField(max_length=48, blank=True)
    model = models.CharField(max_length=48)
    session = models.CharField(max_length=120, blank=True)
    job_id = models.UUIDField(null=True)
    attempt = models.PositiveSmallIntegerField(null=True)
    worker = models.CharField(max_length=120, blank=True)
    gpu_seconds = models.FloatField(help_text="Wall seconds times the share of the card.")
    cost = models.DecimalField(max_digits=16, decimal_places=6, default=0)

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "at"], name="ledger_of_tenant"),
            models.Index(fields=["at"], name="ledger_by_time"),
            models.Index(fields=["worker"], condition=~Q(worker=""), name="ledger_of_worker"),
        ]

    def __str__(self) -> str:
        return f"{self.model}, {self.get_kind_display()}, {self.at:%Y-%m-%d %H:%M:%S} UTC"


class DailyUse(models.Model):
    """What a tenant used of a model on one day (UTC): the ledger's sum that budgets go by."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    model = models.CharField(max_length=48)
    day = models.DateField()
    gpu_seconds = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "day", "model"], name="one_use_per_day")
        ]


class AuditEntry(models.Model):
    """One change somebody made in the admin. Append-only."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=10)
    kind = models.CharField(max_length=60, help_text="What was changed: application.model.")
    object_id = models.CharField(max_length=64)
    label = models.CharField(max_length=200)
    changes = models.JSONField(default=dict, help_text="Field: [before, after].")

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["kind", "object_id"], name="audit_of_object")]

    def __str__(self) -> str:
        return f"{self.action} of {self.label} by {self.actor}"
