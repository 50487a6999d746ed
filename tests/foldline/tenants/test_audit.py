"""Every door of the admin through which something can be changed leaves an entry."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.db import DatabaseError, connection, transaction
from django.test import Client, RequestFactory
from django.utils import timezone

from foldline.catalog.models import Model, Revision
from foldline.errors import job_error
from foldline.fleet.models import ModelPolicy
from foldline.jobs.admission import Submission
from foldline.jobs.models import Job, QueueState
from foldline.jobs.services import submit
from foldline.notify import deliveries, endpoints
from foldline.notify.models import Delivery, WebhookEndpoint
from foldline.tenants.models import ApiKey, AuditEntry, LedgerLine, Quota, Tenant, User
from foldline.tenants.services import KEY, issue_key

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
Door = Callable[[Client, "Rows"], Any]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One row of everything that an admin can change."""

    tenant: Tenant
    other_tenant: Tenant
    key: ApiKey
    quota: Quota
    user: User
    group: Group
    model: Model
    live: Revision
    draft: Revision
    queue: QueueState
    policy: ModelPolicy
    job: Job
    webhook: WebhookEndpoint
    disabled_webhook: WebhookEndpoint
    delivery: Delivery


@pytest.fixture
def rows(
    tenant: Tenant,
    other_tenant: Tenant,
    live_revision: Callable[..., Revision],
    monkeypatch: pytest.MonkeyPatch,
) -> Rows:
    monkeypatch.setattr("foldline.jobs.tickets.send", lambda queue, *, count=1: True)
    live = live_revision()
    draft = Revision.objects.get(pk=live.pk)
    draft.pk, draft.number, draft.state = None, 2, Revision.State.DRAFT
    draft._state.adding = True
    draft.published_at = None
    draft.save()
    group = Group.objects.create(name="operators")
    group.permissions.add(Permission.objects.get(codename="view_job"))
    return Rows(
        tenant=tenant,
        other_tenant=other_tenant,
        key=issue_key(tenant, name="agent")[0],
        quota=Quota.objects.create(tenant=tenant, waiting=5),
        user=User.objects.create(username="bob", password="!", is_staff=True),
        group=group,
        model=live.model,
        live=live,
        draft=draft,
        queue=QueueState.objects.create(model=live.model, paused="old weights"),
        policy=ModelPolicy.objects.create(model=live.model, pinned=1),
        job=dead_letter(tenant, live),
        **webhooks(tenant),
    )


def webhooks(tenant: Tenant) -> Any:
    well = endpoints.register(tenant.pk, url="https://a.example.com/")[0]
    disabled = endpoints.register(tenant.pk, url="https://b.example.com/")[0]
    endpoints.disable(disabled.pk, reason="It broke.")
    delivery = deliveries.ping(well)
    Delivery.objects.update(state="dead", next_at=None, ended_at=timezone.now())
    return {"webhook": well, "disabled_webhook": disabled, "delivery": delivery}


def dead_letter(tenant: Tenant, revision: Revision) -> Job:
    made = submit(
        Submission(
            tenant_id=tenant.pk,
            model_id=revision.model_id,
            revision_id=revision.pk,
            queue="q",
            inputs={"sequence": "EVQ"},
            normalized_input={"sequence": "EVQ", "copies": 1},
            seed=1,
            seed_origin="caller",
            fingerprint="f" * 64,
            payload_digest="",
        )
    )
    Job.objects.filter(pk=made.job_id).update(
        state="failed",
        dead_letter=True,
        finished_at=timezone.now(),
        error=job_error("model_error"),
    )
    return Job.objects.get(pk=made.job_id)


def page(row: Any, what: str = "change") -> str:
    return f"/admin/{row._meta.app_label}/{row._meta.model_name}/{row.pk}/{what}/"


def add(kind: str, /, **form: Any) -> Door:
    return lambda client, _: client.post(f"/admin/{kind}/add/", form)


def change(row: str, /, **changes: Any) -> Door:
    """Fill in the form as it is shown, but for the changes."""

    def act(client: Client, rows: Rows) -> Any:
        url = page(getattr(rows, row))
        return client.post(url, {**filled(client.get(url)), **changes})

    return act


def filled(shown: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for inline in shown.context["inline_admin_formsets"]:
        management = inline.formset.management_form
        data |= {f"{management.prefix}-{name}": value for name, value in management.initial.items()}
    for bound in shown.context["adminform"].form:
        value, widget = bound.value(), bound.field.widget
        if hasattr(widget, "decompress"):
            parts = widget.decompress(value)
            data |= {f"{bound.name}_{n}": part for n, part in enumerate(parts) if part is not None}
        elif isinstance(value, list):
            data[bound.name] = [getattr(each, "pk", each) for each in value]
        elif value is not None and value is not False:
            data[bound.name] = "on" if value is True else value
    return data


def delete(row: str) -> Door:
    return lambda client, rows: client.post(page(getattr(rows, row), "delete"), {"post": "yes"})


def press(row: str, button: str, /, **form: Any) -> Door:
    """A button on a row's page, its dialog confirmed."""
    return lambda client, rows: client.post(
        page(getattr(rows, row), button), {"_form_submitted": "on", **form}
    )


def choose(of: str, action: str, /, **form: Any) -> Door:
    """An action of the list, on one selected row."""

    def act(client: Client, rows: Rows) -> Any:
        row = getattr(rows, of)
        url = f"/admin/{row._meta.app_label}/{row._meta.model_name}/"
        return client.post(url, {"action": action, "_selected_action": [str(row.pk)], **form})

    return act


def add_quota(client: Client, rows: Rows) -> Any:
    form = {"tenant": str(rows.other_tenant.pk), "waiting": 3}
    return client.post("/admin/tenants/quota/add/", form)


def add_key(client: Client, rows: Rows) -> Any:
    form = {"tenant": str(rows.tenant.pk), "name": "new", "scopes": ["read"]}
    return client.post("/admin/tenants/apikey/add/", form)


EXAMPLES: Mapping[str, Door] = {
    "auth.group:add": add("auth/group", name="readers"),
    "auth.group:change": change("group", name="helpers"),
    "auth.group:delete": delete("group"),
    "auth.group:delete_selected": choose("group", "delete_selected", post="yes"),
    "catalog.model:change": change("model", price="2.5"),
    "catalog.revision:change": change("draft", run_timeout_s=77),
    "catalog.revision:retire": press("live", "retire"),
    "catalog.revision:retire_selected": choose("live", "retire_selected"),
    "catalog.revision:set_live": press("draft", "set_live"),
    "catalog.revision:set_live_selected": choose("draft", "set_live_selected"),
    "fleet.modelpolicy:change": change("policy", min_workers=1),
    "fleet.modelpolicy:pause_model": press("policy", "pause_model", reason="new weights"),
    "fleet.modelpolicy:resume_model": press("policy", "resume_model"),
    "fleet.modelpolicy:pin_workers": press("policy", "pin_workers", workers=3),
    "fleet.modelpolicy:unpin_workers": press("policy", "unpin_workers"),
    "jobs.job:redrive_selected": choose("job", "redrive_selected", confirmed="yes"),
    "jobs.job:redrive_this": press("job", "redrive_this"),
    "jobs.queuestate:pause_model": press("queue", "pause_model", reason="new weights"),
    "jobs.queuestate:resume_model": press("queue", "resume_model"),
    "notify.delivery:redeliver_selected": choose("delivery", "redeliver_selected"),
    "notify.delivery:redeliver_this": press("delivery", "redeliver_this"),
    "notify.webhookendpoint:disable_this": press("webhook", "disable_this", reason="It broke."),
    "notify.webhookendpoint:enable_this": press("disabled_webhook", "enable_this"),
    "tenants.apikey:add": add_key,
    "tenants.apikey:revoke": press("key", "revoke"),
    "tenants.apikey:revoke_selected": choose("key", "revoke_selected"),
    "tenants.apikey:rotate": press("key", "rotate", overlap_h=1),
    "tenants.quota:add": add_quota,
    "tenants.quota:change": change("quota", waiting=7),
    "tenants.quota:delete": delete("quota"),
    "tenants.quota:delete_selected": choose("quota", "delete_selected", post="yes"),
    "tenants.tenant:add": add("tenants/tenant", slug="lab-n", name="N", active="on"),
    "tenants.tenant:change": change("tenant", name="Renamed"),
    "tenants.user:add": add(
        "tenants/user", username="eve", password1=PASSWORD, password2=PASSWORD,
        usable_password="true",
    ),
    "tenants.user:change": change("user", is_superuser="on"),
    "tenants.user:delete": delete("user"),
    "tenants.user:delete_selected": choose("user", "delete_selected", post="yes"),
}  # fmt: skip
# They show or hand out, and change nothing.
READING = {"fleet.worker:paid", "tenants.ledgerline:export_selected"}


def doors() -> Iterator[str]:
    """Everything a superuser may do in the admin but look."""
    request = RequestFactory().get("/admin/")
    request.user = User(is_superuser=True, is_staff=True, is_active=True)
    for model, site in admin.site._registry.items():
        label = model._meta.label_lower
        if site.has_add_permission(request):
            yield f"{label}:add"
        if site.has_change_permission(request, model()):
            yield f"{label}:change"
        if site.has_delete_permission(request, model()):
            yield f"{label}:delete"
        buttons: Any = [
            getattr(site, f"actions_{place}") for place in ("list", "detail", "row", "submit_line")
        ]
        for names in (site.get_actions(request), *buttons):
            yield from (f"{label}:{name}" for name in names)


def everything() -> dict[tuple[str, str], Any]:
    """Each row of each table, but for the logs themselves."""
    aside = {"sessions.session", "admin.logentry", "tenants.auditentry"}
    return {
        (model._meta.label_lower, str(row["pk"])): row
        for model in apps.get_models(include_auto_created=True)
        if model._meta.label_lower not in aside
        for row in model._base_manager.values("pk", *(c.name for c in model._meta.concrete_fields))
    }


def test_every_door_has_an_example() -> None:
    assert set(doors()) == EXAMPLES.keys() | READING


@pytest.mark.parametrize("door", EXAMPLES)
def test_what_is_changed_is_audited(admin_client: Client, rows: Rows, door: str) -> None:
    before = everything()
    assert EXAMPLES[door](admin_client, rows).status_code == 302
    after = everything()
    changed = {key for key in before | after if before.get(key) != after.get(key)}
    entries = list(AuditEntry.objects.all())
    assert {entry.actor for entry in entries} == {"admin"}
    assert all(entry.changes for entry in entries)
    told = {(entry.kind, entry.object_id) for entry in entries}
    notes = " ".join(str(entry.changes.get("note")) for entry in entries)
    shown = {model._meta.label_lower for model in admin.site._registry}
    # A row is told of by an entry of its own, or by one that names it ("Redriven as …").
    missing = {
        (kind, key)
        for kind, key in changed
        if kind in shown and (kind, key) not in told and key not in notes
    }
    assert changed
    assert not missing


class TestEntries:
    def test_a_form_tells_before_and_after(self, admin_client: Client, rows: Rows) -> None:
        change("quota", waiting=7, running=2)(admin_client, rows)
        entry = AuditEntry.objects.get()
        assert (entry.actor, entry.action, entry.kind) == ("admin", "change", "tenants.quota")
        assert (entry.object_id, entry.label) == (str(rows.quota.pk), "lab-a")
        assert entry.changes == {"waiting": [5, 7], "running": [None, 2]}

    def test_an_action_tells_before_and_after_and_what_it_said(
        self, admin_client: Client, rows: Rows
    ) -> None:
        press("queue", "pause_model", reason="new weights")(admin_client, rows)
        changed, said = AuditEntry.objects.order_by("id")
        assert changed.changes["paused"] == ["old weights", "new weights"]
        assert said.changes == {"note": [None, "Paused: new weights"]}
        assert (changed.actor, changed.object_id) == (said.actor, said.object_id)

    def test_an_action_that_says_nothing_is_found_out(
        self, admin_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("foldline.tenants.admin.ApiKeyAdmin.log_change", lambda *_: None)
        press("key", "revoke")(admin_client, rows)
        entry = AuditEntry.objects.get()
        assert (entry.actor, entry.label) == ("admin", str(rows.key))
        assert [entry.changes["revoked_at"][0], list(entry.changes)] == [None, ["revoked_at"]]

    def test_what_is_deleted_is_told_whole(self, admin_client: Client, rows: Rows) -> None:
        delete("quota")(admin_client, rows)
        entry = AuditEntry.objects.get()
        assert (entry.action, entry.changes["waiting"]) == ("delete", [5, None])

    def test_permissions_are_told_by_name(self, admin_client: Client, rows: Rows) -> None:
        wanted = Permission.objects.get(codename="change_job")
        change("user", groups=[rows.group.pk], user_permissions=[wanted.pk])(admin_client, rows)
        told = [entry.changes for entry in AuditEntry.objects.filter(kind="tenants.user")]
        assert {"groups": [[], ["operators"]]} in told
        assert {"user_permissions": [[], [str(wanted)]]} in told

    def test_a_form_that_changes_nothing_leaves_nothing(
        self, admin_client: Client, rows: Rows
    ) -> None:
        assert change("tenant")(admin_client, rows).status_code == 302
        assert not AuditEntry.objects.exists()

    def test_a_form_that_is_refused_leaves_nothing(self, admin_client: Client, rows: Rows) -> None:
        assert change("quota", weight=0)(admin_client, rows).status_code == 200
        assert not AuditEntry.objects.exists()

    def test_changes_outside_the_admin_are_none_of_its_business(self, rows: Rows) -> None:
        rows.tenant.name = "Other"
        rows.tenant.save()
        assert not AuditEntry.objects.exists()

    def test_no_secret_is_written_down(self, admin_client: Client, rows: Rows) -> None:
        shown = admin_client.post(
            "/admin/tenants/apikey/add/",
            {"tenant": str(rows.tenant.pk), "name": "new", "scopes": ["read"]},
            follow=True,
        )
        found = KEY.search(shown.content.decode())
        assert found is not None
        url = page(rows.user, "password")
        form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
        assert admin_client.post(url, form).status_code == 302
        entries = str(list(AuditEntry.objects.values()))
        rows.user.refresh_from_db()
        for secret in (
            found[0], found[0][-43:], ApiKey.objects.get(name="new").digest,
            PASSWORD, rows.user.password,
        ):  # fmt: skip
            assert secret not in entries
        told = AuditEntry.objects.filter(kind="tenants.user").values_list("changes", flat=True)
        assert {"password": ["(hidden)", "(hidden)"]} in told

    def test_the_page_shows_them_and_lets_nobody_change_them(
        self, admin_client: Client, rows: Rows
    ) -> None:
        change("quota", waiting=7)(admin_client, rows)
        entry = AuditEntry.objects.get()
        url = "/admin/tenants/auditentry/"
        assert "waiting" in admin_client.get(url).content.decode()
        assert admin_client.get(page(entry)).status_code == 200
        assert admin_client.post(page(entry), {}).status_code == 403
        assert admin_client.post(page(entry, "delete"), {"post": "yes"}).status_code == 403
        assert admin_client.get(f"{url}add/").status_code == 403


@pytest.mark.parametrize("table", ["tenants_auditentry", "tenants_ledgerline"])
@pytest.mark.parametrize("change", ["update {} set id = id", "delete from {}"])
def test_the_database_refuses_to_change_a_line(table: str, change: str) -> None:
    AuditEntry.objects.create(actor="a", action="add", kind="k", object_id="1", label="l")
    LedgerLine.objects.create(
        at=timezone.now(), kind=LedgerLine.Kind.COMPUTE, model="toy", gpu_seconds=1
    )
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            _create_triggers_again(cursor)
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(change.format(table))


def _create_triggers_again(cursor: Any) -> None:
    """On SQLite the tests run without those on delete; this is undone with the test."""
    for table in ("tenants_auditentry", "tenants_ledgerline"):
        cursor.execute(f"drop trigger {table}_update")
    migration = importlib.import_module("foldline.tenants.migrations.0003_append_only")
    editor = SimpleNamespace(connection=connection, execute=cursor.execute)
    migration.create(None, editor)
