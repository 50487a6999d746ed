"""Files in and out, addressed by what they contain."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from foldline.ids import uuid7
from foldline.tenants.models import Tenant


class Artifact(models.Model):
    """A file of one tenant. The same bytes twice are the same artifact."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="artifacts")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    media_type = models.CharField(max_length=120)
    name = models.CharField(max_length=128, help_text="A suggestion for saving it; never a path.")
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(default=timezone.now, help_text="Last uploaded or produced.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "sha256"], name="artifact_once_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.sha256[:12]})"
