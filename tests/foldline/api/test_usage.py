"""`GET /v1/usage`: what a tenant used, saved and has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foldline.api.answers import UsageReport
from foldline.catalog.models import Model
from foldline.clock import database_now
from foldline.ids import uuid7
from foldline.tenants.ledger import Kind, post
from foldline.tenants.models import ApiKey, LedgerLine, Quota, Tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_day")]
MakeKey = Callable[..., tuple[ApiKey, str]]
MARCH = "from=2026-03-01&to=2026-03-31"
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def line(tenant: Tenant, kind: Kind, seconds: float, **changes: Any) -> LedgerLine:
    fields: dict[str, Any] = {
        "at": NOON,
        "tenant_id": tenant.id,
        "model": "toy",
        "session": "s1",
        "job_id": uuid7(),
        "cost": seconds / 2,
    }
    return LedgerLine(kind=kind, gpu_seconds=seconds, **{**fields, **changes})


def usage(api: Client, query: str = MARCH) -> Any:
    answer = api.get(f"/v1/usage?{query}")
    assert answer.status_code == 200, answer.content
    UsageReport.model_validate_json(answer.content)
    return answer.json()


class TestWhatIsTold:
    @pytest.fixture(autouse=True)
    def _lines(self, tenant: Tenant, other_tenant: Tenant) -> None:
        post(
            [
                line(tenant, Kind.COMPUTE, 100),
                line(tenant, Kind.WASTED, 20, session="s2"),
                line(tenant, Kind.COMPUTE, 300, model="other", session=""),
                line(tenant, Kind.CACHE, 50),
                line(tenant, Kind.CACHE, 50),
                line(tenant, Kind.COALESCED, 7, session="s2"),
                line(tenant, Kind.EXPIRED, 3),
                line(tenant, Kind.CANCELLED, 2),
                line(other_tenant, Kind.COMPUTE, 9999),
            ]
        )

    def test_is_used_saved_and_their_cost(self, api: Client) -> None:
        told = usage(api)
        assert told["currency"] == "USD"
        assert told["used"] == {
            "gpu_seconds": 420,
            "cost": "210.000000",
            "compute_gpu_seconds": 400,
            "wasted_gpu_seconds": 20,
        }
        saved = told["saved"]
        assert (saved["gpu_seconds"], saved["cost"]) == (112, "56.000000")
        assert saved["cache"] == {"gpu_seconds": 100, "cost": "50.000000", "jobs": 2}
        kinds = ("coalesced", "expired", "cancelled")
        assert [saved[kind]["gpu_seconds"] for kind in kinds] == [7, 3, 2]

    def test_is_told_by_model_and_by_session_the_largest_first(self, api: Client) -> None:
        told = usage(api)
        models = [(each["model"], each["used"]["gpu_seconds"]) for each in told["models"]]
        assert models == [("other", 300), ("toy", 120)]
        sessions = [(each["session"], each["used"]["gpu_seconds"]) for each in told["sessions"]]
        assert sessions == [("", 300), ("s1", 100), ("s2", 20)]
        assert told["other_sessions"]["used"] == {"gpu_seconds": 0, "cost": "0.000000"}

    @pytest.mark.parametrize(
        ("query", "used"),
        [
            ("session=s2", 20),
            ("session=", 300),
            ("model=toy", 120),
            ("model=toy&session=s1", 100),
            ("model=nothing", 0),
        ],
    )
    def test_is_narrowed_to_a_session_or_a_model(
        self, api: Client, query: str, used: float
    ) -> None:
        assert usage(api, f"{MARCH}&{query}")["used"]["gpu_seconds"] == used

    def test_of_another_tenant_is_its_own(self, other_api: Client) -> None:
        assert usage(other_api)["used"]["gpu_seconds"] == 9999

    def test_counts_the_first_and_the_last_day_whole(self, api: Client) -> None:
        for query, used in (
            ("from=2026-03-10&to=2026-03-10", 420),
            ("from=2026-03-11&to=2026-03-12", 0),
            ("from=2026-03-01&to=2026-03-09", 0),
        ):
            assert usage(api, query)["used"]["gpu_seconds"] == used

    @pytest.mark.usefixtures("clock_stands_still")
    def test_takes_five_queries_at_most(self, api: Client) -> None:
        usage(api)
        with CaptureQueriesContext(connection) as seen:
            usage(api)
        assert len(seen) <= 5

    def test_needs_a_key_that_may_read(
        self, client: Client, make_key: MakeKey, tenant: Tenant
    ) -> None:
        assert client.get("/v1/usage").status_code == 401
        _, key = make_key(scopes=["submit"])
        answer = client.get("/v1/usage", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 403
        _, key = make_key(scopes=["read"])
        answer = client.get("/v1/usage", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200


def test_without_days_it_is_this_month(api: Client, tenant: Tenant) -> None:
    now = database_now()
    before = now.replace(day=1, hour=0, minute=0) - timedelta(minutes=1)
    post([line(tenant, Kind.COMPUTE, 5, at=now), line(tenant, Kind.COMPUTE, 9, at=before)])
    told = usage(api, "")
    assert told["used"]["gpu_seconds"] == 5
    assert (told["from"], told["to"]) == (f"{now:%Y-%m}-01", f"{now:%Y-%m-%d}")


def test_a_correction_leaves_what_is_right(api: Client, tenant: Tenant) -> None:
    post([line(tenant, Kind.WASTED, 0.1 + 0.2)])
    post([line(tenant, Kind.WASTED, -(0.1 + 0.2)), line(tenant, Kind.COMPUTE, 4)])
    used = usage(api)["used"]
    assert (used["gpu_seconds"], used["wasted_gpu_seconds"]) == (4, 0)


def test_a_hundred_sessions_are_listed_and_the_rest_is_summed(api: Client, tenant: Tenant) -> None:
    lines = [line(tenant, Kind.COMPUTE, n, session=f"s{n:03}") for n in range(1, 131)]
    post([*lines, line(tenant, Kind.CACHE, 8, session="s001")])
    told = usage(api)
    assert len(told["sessions"]) == 100
    assert told["sessions"][0]["session"] == "s130"
    rest = told["other_sessions"]
    assert rest["used"]["gpu_seconds"] == sum(range(1, 31))
    assert rest["saved"]["gpu_seconds"] == 8
    listed = sum(each["used"]["gpu_seconds"] for each in told["sessions"])
    assert listed + rest["used"]["gpu_seconds"] == told["used"]["gpu_seconds"]


class TestLeft:
    def test_is_nothing_without_a_budget(self, api: Client) -> None:
        assert usage(api)["left"] == {"day": None, "month": None, "models": []}

    def test_is_the_budget_without_what_was_used(self, api: Client, tenant: Tenant) -> None:
        toy, _ = Model.objects.get_or_create(name="toy")
        Quota.objects.create(tenant=tenant, gpu_seconds_day=1000, gpu_seconds_month=50)
        Quota.objects.create(tenant=tenant, model=toy, gpu_seconds_day=100)
        idle = Model.objects.create(name="idle")
        Quota.objects.create(tenant=tenant, model=idle, waiting=3)
        now = database_now()
        post(
            [
                line(tenant, Kind.COMPUTE, 30, at=now),
                line(tenant, Kind.WASTED, 40, at=now, model="other"),
                line(tenant, Kind.CACHE, 500, at=now),
            ]
        )
        left = usage(api)["left"]
        day = left["day"]
        assert (day["allowed"], day["used"], day["left"]) == (1000, 70, 930)
        tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        assert day["until"] == f"{tomorrow:%Y-%m-%dT%H:%M:%SZ}"
        assert left["month"]["left"] == 0
        assert left["month"]["until"].endswith("-01T00:00:00Z")
        (model,) = left["models"]
        assert (model["model"], model["day"]["left"], model["month"]) == ("toy", 70, None)


@pytest.mark.parametrize(
    "query",
    [
        "from=yesterday",
        "from=2026-02-30",
        "to=2026-3-1",
        "to=20260301",
        "from=2026-W01-1",
        "from=٢٠٢٦-03-01",
        "from=2026-03-01T00:00:00Z",
        "to=0001-01-01",
        "to=9999-12-31",
        "from=%00",
        "from=",
        "from=2026-03-02&to=2026-03-01",
        "from=2025-01-01&to=2026-01-01",
        "from=2026-01-01&from=2026-01-02",
        "since=2026-01-01",
    ],
)
def test_a_wrong_query_is_a_400_that_names_the_parameter(api: Client, query: str) -> None:
    answer = api.get(f"/v1/usage?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == f"?{query.partition('=')[0]}"


def test_a_quarter_is_the_longest_time(api: Client) -> None:
    usage(api, "from=2026-01-01&to=2026-04-02")
    assert api.get("/v1/usage?from=2026-01-01&to=2026-04-03").status_code == 400


def test_it_goes_by_the_index(api: Client, tenant: Tenant) -> None:
    """Lines of other tenants and of other times are not even looked at."""
    _filled(tenant)
    with CaptureQueriesContext(connection) as seen:
        usage(api)
    for query in seen:
        if "tenants_ledgerline" in query["sql"]:
            assert "ledger_of_tenant" in _plan(query["sql"])


def _filled(tenant: Tenant) -> None:
    """Enough lines of others that a plan which reads them all would be the dearer one."""
    others = [uuid7() for _ in range(20)]
    post([line(tenant, Kind.CACHE, 1)])
    LedgerLine.objects.bulk_create(
        line(tenant, Kind.CACHE, 1, tenant_id=others[n % 20]) for n in range(2000)
    )
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("analyze tenants_ledgerline")


def _plan(statement: str) -> str:
    explain = "explain" if connection.vendor == "postgresql" else "explain query plan"
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {statement}")
        rows: Iterable[tuple[Any, ...]] = cursor.fetchall()
    return " ".join(str(part) for row in rows for part in row)


def test_a_price_is_shown_with_its_currency(
    api: Client, live_revision: Callable[..., Any], settings: Any
) -> None:
    live_revision()
    Model.objects.update(price=Decimal("0.00125"))
    settings.CURRENCY = "EUR"
    for shown in (api.get("/v1/models/toy").json(), api.get("/v1/models").json()["models"][0]):
        assert shown["price"] == {"per_gpu_second": "0.001250", "currency": "EUR"}
