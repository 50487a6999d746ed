"""Lines of the ledger: what they cost, what a day adds up to, and who may see and export them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from foldline.clock import day_of
from foldline.tenants import ledger_csv
from foldline.tenants.ledger import Kind, cost_of, post
from foldline.tenants.ledger_csv import csv_rows
from foldline.tenants.models import AuditEntry, DailyUse, LedgerLine, Tenant
from foldline.tenants.usage import spent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_day")]
LIST = "/admin/tenants/ledgerline/"


@pytest.fixture
def write(tenant: Tenant) -> Callable[..., LedgerLine]:
    """Post a line of `tenant` as of now; keywords override its fields."""

    def make(kind: Kind = Kind.COMPUTE, seconds: float = 1.0, **changes: Any) -> LedgerLine:
        fields: dict[str, Any] = {
            "at": timezone.now(),
            "tenant_id": tenant.id,
            "tenant": tenant.slug,
            "model": "toy",
        }
        line = LedgerLine(kind=kind, gpu_seconds=seconds, **{**fields, **changes})
        post([line])
        return line

    return make


Write = Callable[..., LedgerLine]


@pytest.mark.parametrize(
    ("seconds", "price", "cost"),
    [
        (100.0, "0.25", "25.000000"),
        (0.1, "0.00001", "0.000001"),
        (0.5, "0.000001", "0.000000"),  # half to even
        (1.5, "0.000001", "0.000002"),
        (-100.0, "0.25", "-25.000000"),
        (1.0, "0", "0.000000"),
    ],
)
def test_a_cost_is_rounded_half_to_even_to_a_millionth(
    seconds: float, price: str, cost: str
) -> None:
    assert str(cost_of(seconds, price=Decimal(price))) == cost


class TestPost:
    def test_a_line_is_kept_as_it_was_told(self, write: Write, tenant: Tenant) -> None:
        told = write(
            seconds=0.1, cost=Decimal("1.500001"), session="s", job_id=UUID(int=5), attempt=2,
            worker="w",
        )  # fmt: skip
        kept = LedgerLine.objects.get()
        for name in ("at", "kind", "tenant_id", "gpu_seconds", "cost", "session", "job_id"):
            assert getattr(kept, name) == getattr(told, name)
        assert (kept.attempt, kept.worker, kept.tenant) == (2, "w", tenant.slug)

    def test_the_day_is_raised_by_what_was_used_and_by_nothing_else(self, write: Write) -> None:
        for kind in Kind:
            write(kind, 10)
        assert DailyUse.objects.get().gpu_seconds == 20

    def test_a_correction_lowers_it(self, write: Write) -> None:
        write(Kind.WASTED, 10)
        write(Kind.WASTED, -10)
        assert DailyUse.objects.get().gpu_seconds == 0

    def test_days_are_those_of_utc(self, write: Write) -> None:
        late = datetime.fromisoformat("2026-03-02T00:30:00+02:00")
        write(at=late)
        assert DailyUse.objects.get().day == date(2026, 3, 1) == day_of(late)

    def test_a_line_is_never_changed_or_deleted(self, write: Write) -> None:
        line = write()
        with pytest.raises(DatabaseError), transaction.atomic():
            LedgerLine.objects.filter(pk=line.pk).update(gpu_seconds=0)


def test_what_was_spent_is_of_the_day_and_of_its_month(write: Write, tenant: Tenant) -> None:
    for at, model in (
        ("2026-03-15T12:00", "a"),
        ("2026-03-15T13:00", "b"),
        ("2026-03-01T00:00", "a"),
        ("2026-02-28T23:59", "a"),
        ("2026-03-16T00:00", "a"),
    ):
        write(seconds=1, at=datetime.fromisoformat(at).replace(tzinfo=UTC), model=model)
    told = spent([tenant.id], today=date(2026, 3, 15))[tenant.id]
    assert (told.day, told.month) == ({"a": 1, "b": 1}, {"a": 2, "b": 1})


@pytest.mark.django_db(transaction=True)
def test_finishes_at_once_all_count(write: Write, tenant: Tenant) -> None:
    def one(_: int) -> None:
        try:
            write()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(24)))
    assert DailyUse.objects.get().gpu_seconds == 24


def exported(answer: Any) -> list[dict[str, str]]:
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


class TestAdmin:
    def test_the_list_is_of_this_month_with_its_sums(
        self, write: Write, admin_client: Client
    ) -> None:
        write(seconds=1234.5, cost=Decimal("7.5"))
        write(seconds=-234.5, cost=Decimal("-1.5"))
        write(seconds=5000, at=timezone.now() - timedelta(days=40))
        shown: Any = admin_client.get(LIST)
        ((label, told),) = shown.context_data["totals"]
        assert label == "computed an answer"
        assert (told.gpu_seconds, told.cost, told.lines) == (1000, 6, 2)
        assert "1000.0" in shown.content.decode()

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("period=all", {"mine", "theirs", "idle", "old"}),
            ("period=today", {"mine", "theirs", "idle"}),
            ("period=yesterday", set()),
            ("period=nonsense", {"mine", "theirs", "idle"}),
            ("kind__exact=idle", {"idle"}),
            ("of=nobody", {"idle"}),
            ("of=TENANT", {"mine"}),
            ("of=nonsense", {"mine", "theirs", "idle"}),
            ("model=rare", {"theirs"}),
            ("q=mine", {"mine"}),
        ],
    )
    def test_the_list_is_filtered(
        self,
        write: Write,
        admin_client: Client,
        tenant: Tenant,
        other_tenant: Tenant,
        query: str,
        found: set[str],
    ) -> None:
        write(session="mine")
        write(session="theirs", tenant_id=other_tenant.id, model="rare")
        write(Kind.IDLE, session="idle", tenant_id=None, tenant="")
        write(session="old", at=timezone.now() - timedelta(days=70))
        query = query.replace("TENANT", str(tenant.id))
        lines = exported(admin_client.get(f"{LIST}export/?{query}"))
        assert {line["session"] for line in lines} == found
        shown: Any = admin_client.get(f"{LIST}?{query}")
        assert {line.session for line in shown.context_data["cl"].queryset} == found

    def test_a_month_can_be_chosen(self, write: Write, admin_client: Client) -> None:
        before = timezone.now().replace(day=1) - timedelta(days=3)
        write(session="then", at=before)
        write(session="now")
        lines = exported(admin_client.get(f"{LIST}export/?period={before:%Y-%m}"))
        assert [line["session"] for line in lines] == ["then"]

    def test_nothing_of_it_can_be_changed(self, write: Write, admin_client: Client) -> None:
        page = f"{LIST}{write().pk}/"
        assert admin_client.get(f"{LIST}add/").status_code == 403
        assert admin_client.post(f"{page}change/", {"gpu_seconds": 0}).status_code == 403
        assert admin_client.post(f"{page}delete/", {"post": "yes"}).status_code == 403

    def test_a_wrong_filter_leads_back_to_the_list(self, admin_client: Client) -> None:
        answer = admin_client.get(f"{LIST}export/?nonsense=1")
        assert (answer.status_code, answer.headers["Location"]) == (302, LIST)


class TestExport:
    def test_has_every_column_of_a_line(self, write: Write, admin_client: Client) -> None:
        line = write(
            seconds=1.5,
            cost=Decimal("0.75"),
            session="s",
            job_id=UUID(int=7),
            attempt=1,
            worker="w",
        )
        answer = admin_client.get(f"{LIST}export/")
        assert answer.headers["Content-Type"].startswith("text/csv")
        assert answer.headers["Content-Disposition"].startswith("attachment")
        (told,) = exported(answer)
        assert told == {
            "at": line.at.isoformat(),
            "kind": "compute",
            "tenant": "lab-a",
            "tenant_id": str(line.tenant_id),
            "model": "toy",
            "session": "s",
            "job_id": str(UUID(int=7)),
            "attempt": "1",
            "worker": "w",
            "gpu_seconds": "1.500000",
            "cost": "0.750000",
            "currency": "USD",
        }

    def test_of_a_selection_has_only_that(self, write: Write, admin_client: Client) -> None:
        chosen, _ = write(session="a"), write(session="b")
        form = {"action": "export_selected", "_selected_action": [str(chosen.pk)]}
        assert [line["session"] for line in exported(admin_client.post(LIST, form))] == ["a"]

    @pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
    def test_holds_no_formula(self, write: Write, text: str) -> None:
        write(session=text, seconds=-1)
        _, row = csv.reader(io.StringIO("".join(csv_rows(LedgerLine.objects.all())), newline=""))
        assert row[5] == f"'{text}"
        assert row[9] == "-1.000000"  # a number stays one

    def test_is_read_page_by_page(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ledger_csv, "PAGE", 2)
        for number in range(5):
            write(session=f"s{number}")
        with CaptureQueriesContext(connection) as seen:
            text = "".join(csv_rows(LedgerLine.objects.order_by("-id")))
        sessions = [row["session"] for row in csv.DictReader(io.StringIO(text))]
        assert sessions == [f"s{number}" for number in range(5)]
        assert len(seen) == 4
        assert all("LIMIT 2" in query["sql"] for query in seen)

    def test_is_for_those_who_may_see_the_ledger(
        self, write: Write, client: Client, django_user_model: Any
    ) -> None:
        write()
        bob = django_user_model.objects.create_user("bob", is_staff=True)
        client.force_login(bob)
        assert client.get(f"{LIST}export/").status_code == 403
        assert client.get(LIST).status_code == 403
        bob.user_permissions.add(Permission.objects.get(codename="view_ledgerline"))
        assert len(exported(client.get(f"{LIST}export/"))) == 1
        client.logout()
        assert client.get(f"{LIST}export/").status_code == 302

    def test_leaves_a_trace_in_the_audit(self, write: Write, admin_client: Client) -> None:
        write()
        admin_client.get(f"{LIST}export/?kind__exact=compute")
        entry = AuditEntry.objects.get()
        assert (entry.actor, entry.action, entry.kind) == (
            "admin",
            "export",
            "tenants.ledgerline",
        )
        assert entry.changes == {"exported": [None, "kind__exact=compute"]}
