"""Is it alive, is it ready: for load balancers, Kubernetes and `manage.py up`."""

from __future__ import annotations

import tempfile
from typing import Any

import redis
from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

PROBE_BYTES = 64 * 1024


@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the process answers. Nothing else is looked at."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when a submit would be accepted; 503 with the reason otherwise.

    Redis is reported and not required: an accepted job is a row, its ticket can wait.
    """
    reasons = [reason for reason in (database_trouble(), storage_trouble()) if reason]
    answer: dict[str, Any] = {
        "status": "unavailable" if reasons else "ready",
        "reasons": reasons,
        "redis": redis_trouble() or "ok",
    }
    return JsonResponse(answer, status=503 if reasons else 200)


def database_trouble() -> str:
    """Why no job can be written down now, or ""."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except Error as error:
        return f"database: {type(error).__name__}"
    return ""


def storage_trouble() -> str:
    """Why no file can be kept in the artifacts' folder now, or ""."""
    try:
        settings.ARTIFACTS_DIR.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.ARTIFACTS_DIR, buffering=0) as file:
            file.write(bytes(PROBE_BYTES))  # a full disk still makes empty files
    except OSError as error:
        return f"artifacts: {error.strerror}"
    return ""


def redis_trouble() -> str:
    """Why no ticket can be sent now, or ""."""
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=0.2, socket_timeout=0.2, retry=None
    )
    try:
        client.ping()
    except redis.RedisError as error:
        return type(error).__name__
    finally:
        client.close()
    return ""
