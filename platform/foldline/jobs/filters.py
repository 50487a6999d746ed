"""Filters of the admin's list of jobs: the dead letter, what failed, and which way it failed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpRequest

from foldline.jobs.models import Job
from foldline.jobs.redrive import dead_letters

MOST_CHOICES = 20
Choices = list[tuple[str, str]]


class DeadLetterFilter(admin.SimpleListFilter):
    title = "dead letter"
    parameter_name = "dead"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [("waiting", "waits for a decision"), ("redriven", "redriven"), ("all", "all")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        dead = queryset.filter(dead_letter=True)
        waiting = dead_letters().values("pk")
        found = {
            "waiting": queryset.filter(pk__in=waiting),
            "redriven": dead.exclude(pk__in=waiting),
            "all": dead,
        }
        return found.get(self.value() or "", queryset)


class CodeFilter(admin.SimpleListFilter):
    """By the code of the error, with numbers, the most frequent first."""

    title = "error code"
    parameter_name = "code"
    key = "error__code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        failed = Job.objects.filter(dead_letter=True).order_by()
        counted = failed.values(told=KT(self.key)).annotate(count=Count("id")).order_by("-count")
        rows = counted.filter(told__isnull=False)[:MOST_CHOICES]
        return [(row["told"], f"{row['told']} ({row['count']})") for row in rows]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        return queryset.filter(**{self.key: self.value()}) if self.value() else queryset


class FailureFilter(CodeFilter):
    """By the digest: jobs that failed in the same way."""

    title = "failure"
    parameter_name = "failure"
    key = "error__details__digest"
