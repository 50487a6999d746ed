from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.redis_server import free_port, running_redis
from tests.worker_process import wait_until


@pytest.fixture(autouse=True)
def no_redis(settings: Settings) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"


def test_alive_needs_nothing(client: Client) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.django_db
def test_ready_with_database_and_storage_and_redis(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    with running_redis(tmp_path) as server:
        settings.REDIS_URL = server.url

        def is_ready() -> bool:
            answer = client.get("/readyz")
            ready = {"status": "ready", "reasons": [], "redis": "ok"}
            return (answer.status_code, answer.json()) == (200, ready)

        # A Redis that answers late is told as away, and on a busy machine it may.
        wait_until(is_ready)


@pytest.mark.django_db
def test_still_ready_without_redis_and_says_so(client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["redis"] == "ConnectionError"


@pytest.mark.django_db
def test_not_ready_when_files_cannot_be_kept(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    settings.ARTIFACTS_DIR = tmp_path / "file" / "artifacts"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["artifacts: Not a directory"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_only_read(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405


@pytest.mark.django_db
def test_metrics_are_served(client: Client) -> None:
    client.get("/healthz")
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert b"django_http_requests_total_by_view_transport_method_total" in answer.content
