"""How long it takes: what the forecaster saw on its last walk, and how right it was."""

from __future__ import annotations

from django.db import models

from foldline.catalog.models import Model, Revision
from foldline.jobs.models import Priority


class Forecast(models.Model):
    """One revision's line as the forecaster walked it last. Gateways read it, nobody else writes.

    `document` is what answers are computed from; `places` is a packed table of the jobs that
    wait, sorted by id.
    """

    revision = models.OneToOneField(Revision, on_delete=models.CASCADE, primary_key=True)
    as_of = models.DateTimeField()
    document = models.JSONField()
    places = models.BinaryField()


class Told(models.Model):
    """A forecast that was made for a job, kept until the job starts and shows how right it was."""

    job_id = models.UUIDField(primary_key=True)
    model = models.ForeignKey(Model, on_delete=models.CASCADE, db_index=False)
    priority = models.CharField(max_length=12, choices=Priority)
    at = models.DateTimeField()
    start_p50_s = models.FloatField(help_text="Seconds after `at`.")
    start_p90_s = models.FloatField()


class Calibration(models.Model):
    """How right the forecasts of a model and class were, and what its p90 is stretched by."""

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="calibrations")
    priority = models.CharField(max_length=12, choices=Priority)
    factor = models.FloatField(default=1.0, help_text="Learned: stretched by it, p90s hold 90 %.")
    jobs = models.PositiveIntegerField(default=0)
    covered = models.PositiveIntegerField(default=0, help_text="Started before the p90.")
    long_waits = models.PositiveIntegerField(default=0, help_text="Waited 30 s or more.")
    error_sum = models.FloatField(default=0.0, help_text="Of |p50 - wait| / wait, long waits.")
    since = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "priority"], name="one_calibration")
        ]
