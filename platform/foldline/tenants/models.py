"""Who asks: people (users), paying parties (tenants) and the keys agents carry."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models

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
