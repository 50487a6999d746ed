"""What every test may use: a tenant with a key, a live model, an HTTP client, clean caches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoDbBlocker, Settings

from foldline.api.outage import outage
from foldline.api.views.tools import tools_kept
from foldline.catalog.alternatives import shelf_kept
from foldline.catalog.models import Model, Revision
from foldline.catalog.preflight import helpers
from foldline.catalog.selectors import live_models_kept
from foldline.catalog.services import publish, sync
from foldline.environment import ROOT
from foldline.jobs.absence import absences_kept
from foldline.jobs.failing import failing_kept
from foldline.jobs.limits import stored_kept
from foldline.jobs.rooms import past_use_kept
from foldline.notify.addresses import own_addresses_kept
from foldline.notify.endpoints import hears_all_kept, named_kept
from foldline.tenants.models import ApiKey, Tenant, User
from foldline.tenants.quotas import quotas_kept
from foldline.tenants.services import callers, issue_key
from model_plugins.registry import discover

# A busy machine is slow for reasons no test is about.
hypothesis.settings.register_profile(
    "foldline", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("foldline")

MakeLive = Callable[..., Revision]

SEQUENCE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["sequence"],
    "properties": {
        "sequence": {
            "type": "string",
            "pattern": "^[A-Z]+$",
            "maxLength": 1000,
            "description": "Amino acids in one-letter code.",
            "examples": ["EVQLVESGG"],
        },
        "copies": {"type": "integer", "minimum": 1, "maximum": 8, "default": 1},
        "template": {"type": "string", "format": "artifact", "description": "A structure."},
    },
    "examples": [{"sequence": "EVQLVESGG"}],
}


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Between tests the database is emptied. On SQLite that deletes rows, which the ledger and
    the audit refuse; PostgreSQL truncates."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("drop trigger tenants_ledgerline_delete")
            cursor.execute("drop trigger tenants_auditentry_delete")


REMEMBERED = (
    callers,
    quotas_kept,
    stored_kept,
    failing_kept,
    past_use_kept,
    hears_all_kept,
    named_kept,
    own_addresses_kept,
    live_models_kept,
    shelf_kept,
    absences_kept,
    helpers,
    tools_kept,
    outage,
)


@pytest.fixture(autouse=True)
def _clean_room(tmp_path: Path, settings: Settings) -> Iterator[None]:
    """Files of a test stay in its folder; what a process remembers is forgotten."""
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    for each in REMEMBERED:
        each.clear()
    yield
    for each in REMEMBERED:
        each.clear()


@pytest.fixture
def one_day() -> None:
    """What is counted by days of UTC does not run across midnight: where that is near, it waits
    for the next day."""
    left_s = 86_400 - time.time() % 86_400
    if left_s < 30:
        time.sleep(left_s)


@pytest.fixture
def clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for a moment is kept, however slow this machine is."""
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now)


@pytest.fixture(scope="session")
def builtin_python() -> Path:
    """The interpreter of the runtime `builtin`."""
    # FOLDLINE_HOME is the test run's own; the runtime is the one of the checkout.
    installed = ROOT / "var" / "runtimes" / "builtin" / "bin" / "python"
    python = Path(os.environ.get("FOLDLINE_TEST_RUNTIME", installed))
    if not python.exists():
        sentence = f"no runtime `builtin` at {python}: manage.py runtime install builtin"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return python


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="lab-a", name="Laboratory A")


@pytest.fixture
def other_tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="lab-b", name="Laboratory B")


@pytest.fixture
def api_key(tenant: Tenant) -> str:
    """A key of `tenant` with all scopes, in plaintext."""
    return issue_key(tenant, name="test")[1]


@pytest.fixture
def other_key(other_tenant: Tenant) -> str:
    return issue_key(other_tenant, name="test")[1]


@pytest.fixture
def make_key(tenant: Tenant) -> Callable[..., tuple[ApiKey, str]]:
    """Issue further keys of `tenant`; keywords as in `issue_key`."""

    def make(**changes: Any) -> tuple[ApiKey, str]:
        return issue_key(tenant, **{"name": "further", **changes})

    return make


@pytest.fixture
def admin_user(db: None) -> User:
    """For pytest-django's `admin_client`. Without a password: hashing one takes 0.3 s."""
    return User.objects.create(username="admin", password="!", is_staff=True, is_superuser=True)


@pytest.fixture
def client() -> Client:
    """Nobody in particular. A failing view answers 500 instead of raising into the test."""
    return Client(raise_request_exception=False)


@pytest.fixture
def api(api_key: str) -> Client:
    """`tenant`, carrying its key."""
    return _client_of(api_key)


@pytest.fixture
def other_api(other_key: str) -> Client:
    return _client_of(other_key)


@pytest.fixture
def live_revision(db: None) -> MakeLive:
    """Make a live revision: of a plugin folder, or of a schema that is written down here.

    `live_revision(folder=Path)` goes the real way, through sync and publish.
    `live_revision(name=..., input_schema=..., **settings)` needs no folder.
    """

    def make(*, folder: Path | None = None, name: str = "toy", **settings: Any) -> Revision:
        return _from_folder(folder) if folder else _from_schema(name, **settings)

    return make


def _client_of(key: str) -> Client:
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key}"})


def _from_folder(folder: Path) -> Revision:
    found = discover([folder.parent])
    mine = [manifest for manifest in found.found if manifest.folder == folder.resolve()]
    assert mine, [refusal.reason for refusal in found.refused]
    sync(type(found)(found=tuple(mine), refused=()))
    revision = Revision.objects.filter(model__name=mine[0].name).latest("number")
    publish(revision, by=None)
    revision.refresh_from_db()
    return revision


def _from_schema(name: str, **changes: Any) -> Revision:
    fields: dict[str, Any] = {
        "folder": "/nowhere",
        "digest": "0" * 64,
        "manifest": {"entry": "plugin:Plugin", "version": "1", "licence": "MIT", "family": ""},
        "input_schema": SEQUENCE_SCHEMA,
        "output_schema": {"type": "object"},
        "weights_digest": "0" * 64,
        "runtime": "none",
        "title": "Toy",
        "description": "Answers quickly.",
        "lane": "online",
        "seed_default": "fixed",
        "load_timeout_s": 10,
        "run_timeout_s": 60,
        "memory_mb": 100,
    }
    model, _ = Model.objects.get_or_create(name=name)
    revision = Revision.objects.create(
        model=model, number=model.revisions.count() + 1, **{**fields, **changes}
    )
    publish(revision, by=None)
    revision.refresh_from_db()
    return revision
