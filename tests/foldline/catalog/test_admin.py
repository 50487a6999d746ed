from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from foldline.catalog.models import Revision
from foldline.catalog.rules import SETTINGS
from foldline.catalog.services import publish, sync
from model_plugins.registry import discover

pytestmark = pytest.mark.django_db
WritePlugin = Callable[..., Path]
LIST = "/admin/catalog/revision/"


@pytest.fixture
def draft(write_plugin: WritePlugin) -> Revision:
    sync(discover([write_plugin().parent]))
    return Revision.objects.select_related("model").get()


def page(revision: Revision, action: str = "change") -> str:
    return f"{LIST}{revision.pk}/{action}/"


def settings_of(revision: Revision, **changes: Any) -> dict[str, Any]:
    return {**{name: getattr(revision, name) for name in SETTINGS}, **changes}


def test_the_list_shows_each_revision_with_its_state(admin_client: Client, draft: Revision) -> None:
    shown = admin_client.get(LIST).content.decode()
    assert "echo" in shown
    assert "draft" in shown


def test_a_draft_is_reviewed_with_its_schema_and_weights(
    admin_client: Client, draft: Revision
) -> None:
    shown = admin_client.get(page(draft)).content.decode()
    assert "Answers with its input." in shown
    assert "^[a-z]+$" in shown
    assert "No other revision is live." in shown
    assert "Set live" in shown


def test_the_review_shows_what_changed_since_the_live_revision(
    admin_client: Client, draft: Revision, write_plugin: WritePlugin
) -> None:
    publish(draft, by=None)
    sync(discover([write_plugin(title="Echo two").parent]))
    shown = admin_client.get(page(Revision.objects.get(number=2))).content.decode()
    assert "-    &quot;title&quot;: &quot;Echo&quot;" in shown
    assert "+    &quot;title&quot;: &quot;Echo two&quot;" in shown


def test_settings_are_changed_on_a_draft(admin_client: Client, draft: Revision) -> None:
    answer = admin_client.post(page(draft), settings_of(draft, run_timeout_s=90))
    assert answer.status_code == 302
    draft.refresh_from_db()
    assert draft.run_timeout_s == 90


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"run_timeout_s": 0}, "whole number from 1"),
        ({"run_timeout_s": 7200}, "choose a longer lane"),
        ({"threads": 999}, "whole number from 1 to 128"),
        ({"description": ""}, "This field is required."),
        ({"description": "   "}, "This field is required."),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_with_a_reason(
    admin_client: Client, draft: Revision, change: dict[str, Any], reason: str
) -> None:
    answer = admin_client.post(page(draft), settings_of(draft, **change))
    assert answer.status_code == 200
    assert reason in answer.content.decode()
    before = draft.run_timeout_s
    draft.refresh_from_db()
    assert draft.run_timeout_s == before


def test_a_draft_is_set_live_by_its_button(
    admin_client: Client, draft: Revision, admin_user: Any
) -> None:
    asked = admin_client.get(page(draft, "set_live"))
    assert "New jobs go to it at once" in asked.content.decode()
    draft.refresh_from_db()
    assert draft.state == "draft"
    answer = admin_client.post(page(draft, "set_live"), {"_form_submitted": "on"})
    assert answer.status_code == 302
    draft.refresh_from_db()
    assert (draft.state, draft.published_by) == ("live", admin_user)
    assert LogEntry.objects.filter(object_id=str(draft.pk), change_message="Set live.").exists()


def test_the_dialog_leads_back_by_htmx(admin_client: Client, draft: Revision) -> None:
    answer = admin_client.post(
        page(draft, "set_live"), {"_form_submitted": "on"}, headers={"HX-Request": "true"}
    )
    assert answer.headers["HX-Redirect"] == page(draft)


def test_a_live_revision_is_retired_by_its_button(admin_client: Client, draft: Revision) -> None:
    publish(draft, by=None)
    admin_client.post(page(draft, "retire"), {"_form_submitted": "on"})
    draft.refresh_from_db()
    assert draft.state == "retired"


def test_a_draft_cannot_be_retired(admin_client: Client, draft: Revision) -> None:
    answer = admin_client.post(page(draft, "retire"), {"_form_submitted": "on"})
    assert answer.status_code == 403


def test_revisions_are_set_live_and_retired_from_the_list(
    admin_client: Client, draft: Revision
) -> None:
    for action, state in (("set_live_selected", "live"), ("retire_selected", "retired")):
        admin_client.post(LIST, {"action": action, "_selected_action": [str(draft.pk)]})
        draft.refresh_from_db()
        assert draft.state == state


def test_an_old_draft_is_not_set_live_and_the_reason_is_shown(
    admin_client: Client, draft: Revision, write_plugin: WritePlugin
) -> None:
    sync(discover([write_plugin(code="# new\n").parent]))
    answer = admin_client.post(page(draft, "set_live"), {"_form_submitted": "on"}, follow=True)
    assert "has changed since" in answer.content.decode()
    draft.refresh_from_db()
    assert draft.state == "draft"


def test_revisions_are_neither_added_nor_deleted_by_hand(
    admin_client: Client, draft: Revision
) -> None:
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(page(draft, "delete"), {"post": "yes"}).status_code == 403


def test_who_may_not_change_models_sets_nothing_live(
    client: Client, draft: Revision, django_user_model: Any
) -> None:
    staff = django_user_model.objects.create_user("bob", is_staff=True)
    client.force_login(staff)
    answer = client.post(page(draft, "set_live"), {"_form_submitted": "on"})
    assert answer.status_code == 403
    draft.refresh_from_db()
    assert draft.state == "draft"
