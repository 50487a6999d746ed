"""A live model `toy`, and short ways to submit to it and to read the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.catalog.models import Revision

Submit = Callable[..., Any]  # the test client's answer


@pytest.fixture
def toy(live_revision: Callable[..., Revision]) -> Revision:
    return live_revision()


@pytest.fixture
def submit(toy: Revision, api: Client, unsent: None) -> Submit:
    """POST a job to `toy` as `tenant`. `body` is JSON-ready, or bytes to be sent as they are."""

    def post(
        body: Any = None, *, model: str = "toy", content_type: str = "application/json",
        by: Client | None = None, **headers: str,
    ) -> Any:  # fmt: skip
        sent = {"inputs": {"sequence": "EVQ"}} if body is None else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (by or api).post(
            f"/v1/models/{model}/jobs", sent, content_type=content_type, headers=named
        )

    return post


@pytest.fixture
def unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Redis here: an accepted job stands without its ticket."""
    monkeypatch.setattr("foldline.jobs.tickets.send", lambda queue, *, count=1: True)
    monkeypatch.setattr("foldline.jobs.tickets.send_all", lambda counts: True)
