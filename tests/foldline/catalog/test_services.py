from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.catalog.models import Model, Revision
from foldline.catalog.selectors import live_model
from foldline.catalog.services import Outcome, publish, retire, sync
from foldline.errors import ModelNotFound, ModelRetired, RevisionNotPublishable
from foldline.tenants.models import User
from model_plugins.registry import discover

pytestmark = pytest.mark.django_db
WritePlugin = Callable[..., Path]


def synced(home: Path) -> tuple[Outcome, ...]:
    return sync(discover([home.parent])).outcomes


def test_a_new_plugin_becomes_a_draft(write_plugin: WritePlugin) -> None:
    home = write_plugin()
    assert synced(home) == (Outcome(name="echo", outcome="drafted", revision=1),)
    draft = Revision.objects.get()
    assert (draft.model.name, draft.state, draft.title) == ("echo", "draft", "Echo")
    assert draft.folder == str(home)
    assert draft.manifest["entry"] == "plugin:Plugin"
    with pytest.raises(ModelNotFound):
        live_model("echo")


def test_an_unchanged_plugin_stays_as_it_is(write_plugin: WritePlugin) -> None:
    home = write_plugin()
    synced(home)
    assert synced(home) == (Outcome(name="echo", outcome="unchanged", revision=1),)
    assert Revision.objects.count() == 1


def test_a_plugin_that_moved_is_found_at_its_new_place(write_plugin: WritePlugin) -> None:
    home = write_plugin()
    synced(home)
    moved = home.rename(home.with_name("elsewhere"))
    assert synced(moved)[0].outcome == "unchanged"
    assert Revision.objects.get().folder == str(moved)


def test_changed_code_makes_the_next_revision(write_plugin: WritePlugin) -> None:
    synced(write_plugin())
    outcomes = synced(write_plugin(code="class Plugin: pass\n"))
    assert outcomes == (Outcome(name="echo", outcome="drafted", revision=2),)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": {"type": "string", "pattern": "(?=a)b"}}, "look-around"),
        ({"text": {"type": "integer"}}, "refuses its own example 1 at /inputs/text"),
        ({"text": {"type": "string", "pattern": "["}}, "no regular expression"),
        ({"text": {"$ref": "https://example.com/x.json"}}, "only references inside the file"),
        ({"text": {"type": "strange"}}, "no JSON Schema"),
        ({"name": "../echo", "folder": "echo"}, "model.name"),
        ({"run_timeout_s": 0}, "run_timeout_s"),
        ({"run_timeout_s": 7200}, "choose a longer lane"),
        ({"lane": "fast"}, "lane"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_plugin_is_refused_with_its_reason(
    write_plugin: WritePlugin, change: dict[str, Any], reason: str
) -> None:
    (outcome,) = synced(write_plugin(**change))
    assert outcome.outcome == "refused"
    assert reason in outcome.reason
    assert not Revision.objects.exists()


def test_a_default_that_the_schema_refuses_is_found(write_plugin: WritePlugin) -> None:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"n": {"type": "integer", "default": "many"}},
        "examples": [{}],
    }
    (outcome,) = synced(write_plugin(schema=schema))
    assert "/inputs/n" in outcome.reason


def test_a_catastrophic_pattern_is_harmless_and_taken(write_plugin: WritePlugin) -> None:
    (outcome,) = synced(write_plugin(text={"type": "string", "pattern": "^(a+)+$|abc"}))
    assert outcome.outcome == "drafted"


def test_two_plugins_of_one_name_are_both_refused_and_the_others_are_taken(
    write_plugin: WritePlugin,
) -> None:
    write_plugin("twin", folder="one")
    write_plugin("twin", folder="two")
    report = sync(discover([write_plugin("good").parent]))
    assert [o.outcome for o in report.outcomes if o.name == "good"] == ["drafted"]
    assert len(report.refused) == 2
    assert all("rename one of them" in outcome.reason for outcome in report.refused)


@pytest.fixture
def draft(write_plugin: WritePlugin) -> Revision:
    synced(write_plugin())
    return Revision.objects.get()


def test_a_published_revision_can_be_called(draft: Revision, django_user_model: Any) -> None:
    admin: User = django_user_model.objects.create_user("ann")
    publish(draft, by=admin)
    draft.refresh_from_db()
    assert (draft.state, draft.published_by) == ("live", admin)
    assert live_model("echo").revision == "echo@r1"


def test_publishing_retires_the_revision_before(draft: Revision, write_plugin: WritePlugin) -> None:
    publish(draft, by=None)
    synced(write_plugin(code="# new\n"))
    newest = Revision.objects.get(number=2)
    publish(newest, by=None)
    states = dict(Revision.objects.values_list("number", "state"))
    assert states == {1: "retired", 2: "live"}


def test_only_the_newest_revision_can_go_live(draft: Revision, write_plugin: WritePlugin) -> None:
    synced(write_plugin(code="# new\n"))
    with pytest.raises(RevisionNotPublishable, match="has changed since"):
        publish(draft, by=None)


def test_a_live_revision_is_not_published_again(draft: Revision) -> None:
    publish(draft, by=None)
    with pytest.raises(RevisionNotPublishable, match="live already"):
        publish(draft, by=None)


def test_wrong_settings_never_go_live(draft: Revision) -> None:
    draft.description = " "
    with pytest.raises(RevisionNotPublishable, match="description: Must not be empty"):
        publish(draft, by=None)


@pytest.mark.django_db(transaction=True)
def test_a_retired_model_takes_no_calls_until_it_is_set_live_again(draft: Revision) -> None:
    publish(draft, by=None)
    assert live_model("echo").number == 1
    assert retire(draft)
    assert not retire(draft)
    with pytest.raises(ModelRetired):
        live_model("echo")
    publish(draft, by=None)
    assert live_model("echo").number == 1


def test_the_database_keeps_one_live_revision_per_model(
    draft: Revision, write_plugin: WritePlugin
) -> None:
    publish(draft, by=None)
    assert Model.objects.get().revisions.filter(state="live").count() == 1


def test_a_plugin_folder_of_these_tests_goes_the_whole_way(
    live_revision: Callable[..., Revision],
) -> None:
    folder = Path(__file__).parents[2] / "plugins" / "sleepy"
    assert live_revision(folder=folder).state == "live"
    assert live_model("sleepy").compiled is not None
