"""What may be asked: models, and the reviewed revisions of them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from foldline.ids import uuid7


class Lane(models.TextChoices):
    """How long a model's jobs take; decides how its workers come and go."""

    ONLINE = "online", "online (seconds)"
    LONG = "long", "long (minutes to 30)"
    BULK = "bulk", "bulk (30 minutes and more)"


class Model(models.Model):
    """A tool an agent can call by name. What it does is told by its live revision."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=48, unique=True)
    price = models.DecimalField(
        max_digits=12, decimal_places=6, default=0, db_default=0, help_text="Of one GPU-second."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Alternative(models.Model):
    """What an admin offers where a model cannot serve a call, beside its family.

    The rows may form a loop; what follows them visits each model once.
    """

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="alternatives")
    instead = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="+")
    place = models.PositiveSmallIntegerField(default=1, help_text="The smallest is tried first.")
    why = models.CharField(
        max_length=200, blank=True, help_text="A sentence for agents: when it is as good."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "instead"], name="alternative_once"),
            models.CheckConstraint(
                condition=~Q(model=models.F("instead")), name="alternative_is_another"
            ),
        ]
        ordering = ["place", "id"]

    def __str__(self) -> str:
        return f"{self.instead} instead of {self.model}"


class Revision(models.Model):
    """One reviewed state of a model: the unit of queue, runtime, image and scaling.

    `manifest`, the schemas and `digest` are what the plugin's folder said when it was
    read; the settings below them are the admin's and start as the manifest proposes.
    """

    class State(models.TextChoices):
        DRAFT = "draft", "draft"
        LIVE = "live", "live"
        RETIRED = "retired", "retired"

    class SeedDefault(models.TextChoices):
        FIXED = "fixed", "fixed: the same call gives the same answer"
        RANDOM = "random", "random: each call without a seed draws a new one"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField(editable=False)
    state = models.CharField(max_length=8, choices=State, default=State.DRAFT, editable=False)

    folder = models.CharField(max_length=500, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    manifest = models.JSONField(editable=False)
    input_schema = models.JSONField(editable=False)
    output_schema = models.JSONField(editable=False)
    weights_digest = models.CharField(max_length=64, editable=False)
    runtime = models.CharField(max_length=48, editable=False)

    title = models.CharField(max_length=80)
    description = models.TextField(help_text="Written for an agent: what it does, when to use it.")
    lane = models.CharField(max_length=8, choices=Lane)
    seed_default = models.CharField(max_length=8, choices=SeedDefault)
    max_batch_size = models.PositiveSmallIntegerField(default=1)
    threads = models.PositiveSmallIntegerField(default=1, help_text="CPU threads of one worker.")
    load_timeout_s = models.PositiveIntegerField(help_text="Seconds the weights may take to load.")
    run_timeout_s = models.PositiveIntegerField(help_text="Seconds one job may run.")
    memory_mb = models.PositiveIntegerField(help_text="Host memory of one worker, in MiB.")

    created_at = models.DateTimeField(auto_now_add=True)
    published_at = models.DateTimeField(null=True, blank=True, editable=False)
    published_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, editable=False
    )
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "number"], name="revision_number"),
            models.UniqueConstraint(
                fields=["model"], condition=Q(state="live"), name="one_live_revision"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["draft", "live", "retired"]), name="revision_state"
            ),
        ]
        ordering = ["model__name", "-number"]

    def __str__(self) -> str:
        return f"{self.model.name}@r{self.number}"
