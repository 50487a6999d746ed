"""Duties that one process does at a time: who does, and how it passes to another."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q

from foldline.jobs.models import Leadership


def lead(duty: str, *, name: str, now: datetime, keep_s: float) -> bool:
    """Become or stay the one who does a duty; it passes when its holder is silent for `keep_s`."""
    until = now + timedelta(seconds=keep_s)
    mine = Leadership.objects.filter(Q(holder=name) | Q(until__lt=now), duty=duty)
    if mine.update(holder=name, until=until):
        return True
    defaults = {"holder": name, "until": until}
    _, created = Leadership.objects.get_or_create(duty=duty, defaults=defaults)
    return bool(created)


def give_up(duty: str, *, name: str) -> None:
    """Let the next one begin at once; nothing happens unless `name` holds the duty."""
    Leadership.objects.filter(duty=duty, holder=name).delete()
