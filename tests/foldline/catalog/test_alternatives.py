from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.catalog.alternatives import alternatives_of, near, neighbours, shelf, shelf_kept
from foldline.catalog.models import Alternative, Model, Revision
from foldline.catalog.services import retire
from foldline.tenants.models import AuditEntry

pytestmark = pytest.mark.django_db
MakeLive = Callable[..., Revision]
FAMILY = {"entry": "plugin:Plugin", "version": "1", "licence": "MIT", "family": "folding"}


@pytest.fixture
def folding(live_revision: MakeLive) -> Callable[..., Revision]:
    """Make a live model of one family."""

    def make(name: str, **changes: Any) -> Revision:
        return live_revision(name=name, manifest=FAMILY, **changes)

    return make


def named(name: str, **known: Any) -> list[str]:
    shelf_kept.clear()
    return [other.model for other in alternatives_of(name, **known)]


def offer(model: str, instead: str, **changes: Any) -> None:
    models = {each.name: each for each in Model.objects.all()}
    Alternative.objects.create(model=models[model], instead=models[instead], **changes)


def test_live_models_of_the_same_family_are_alternatives(
    folding: Callable[..., Revision], live_revision: MakeLive
) -> None:
    for name in ("b", "a", "c"):
        folding(name)
    live_revision(name="stranger")
    live_revision(name="other_stranger")  # models that name no family have none in common
    assert named("a") == ["b", "c"]
    assert named("stranger") == []
    assert "folding" in alternatives_of("a")[0].why


def test_those_an_admin_named_come_first_in_their_order(
    folding: Callable[..., Revision], live_revision: MakeLive
) -> None:
    for name in ("a", "b", "c"):
        folding(name)
    live_revision(name="x")
    live_revision(name="y")
    offer("a", "y", place=2)
    offer("a", "x", place=1, why="As good for short sequences.")
    offer("a", "c", place=3)
    assert named("a") == ["x", "y", "c", "b"]
    assert alternatives_of("a")[0].why == "As good for short sequences."
    assert named("x") == []


def test_only_those_whose_schema_takes_the_inputs(folding: Callable[..., Revision]) -> None:
    folding("a")
    folding("short", input_schema={"properties": {"sequence": {"maxLength": 3}}})
    folding("long")
    assert named("a", inputs={"sequence": "EVQL"}) == ["long"]
    assert named("a", inputs={"sequence": "EVQ"}) == ["long", "short"]
    assert named("a", inputs={"text": 1}) == ["short"]


def test_a_retired_model_is_no_alternative_and_still_has_some(
    folding: Callable[..., Revision],
) -> None:
    folding("a")
    folding("b")
    offer("b", "a")
    retire(Revision.objects.get(model__name="a"))
    assert named("a") == ["b"]
    assert named("b") == []
    assert [other.model for other in neighbours("b")] == ["a"]


def test_a_loop_in_the_data_names_each_model_once(folding: Callable[..., Revision]) -> None:
    folding("a")
    folding("b")
    offer("a", "b")
    offer("b", "a")
    assert (named("a"), named("b")) == (["b"], ["a"])


def test_names_that_are_nearly_right_are_told(live_revision: MakeLive) -> None:
    live_revision(name="flash_abb")
    live_revision(name="proteinmpnn")
    for written in ("flashabb", "FLASH_ABB", "Flash-ABB"):
        assert [other.model for other in near(written)] == ["flash_abb"]
    assert near("nothing") == near("x" * 10_000) == []


@pytest.mark.usefixtures("clock_stands_still")
def test_the_catalogue_is_read_once_in_two_seconds(
    folding: Callable[..., Revision], django_assert_num_queries: Callable[..., Any]
) -> None:
    folding("a")
    folding("b")
    shelf_kept.clear()
    with django_assert_num_queries(3):
        for _ in range(5):
            alternatives_of("a", inputs={"sequence": "EVQ"})


class TestAdmin:
    def post(self, admin_client: Client, model: Model, rows: list[dict[str, Any]]) -> Any:
        old = list(model.alternatives.all())
        sent: dict[str, Any] = {
            "price": "0",
            "alternatives-TOTAL_FORMS": len(rows),
            "alternatives-INITIAL_FORMS": len(old),
        }
        for place, row in enumerate(rows):
            known = {"id": old[place].pk} if place < len(old) else {}
            for name, value in {"model": model.pk, **known, **row}.items():
                sent[f"alternatives-{place}-{name}"] = value
        return admin_client.post(f"/admin/catalog/model/{model.pk}/change/", sent)

    def test_an_admin_names_alternatives_in_order_and_it_is_audited(
        self, admin_client: Client, live_revision: MakeLive,
        django_capture_on_commit_callbacks: Any,
    ) -> None:  # fmt: skip
        a, b, c = (live_revision(name=name).model for name in "abc")
        assert shelf().named == {}
        rows = [{"place": 2, "instead": b.pk}, {"place": 1, "instead": c.pk, "why": "Newer."}]
        with django_capture_on_commit_callbacks(execute=True):
            answer = self.post(admin_client, a, rows)
        assert answer.status_code == 302
        assert [other.model for other in alternatives_of("a")] == ["c", "b"]  # at once
        entries = AuditEntry.objects.filter(kind="catalog.alternative", action="add")
        assert {entry.label for entry in entries} == {"b instead of a", "c instead of a"}
        with django_capture_on_commit_callbacks(execute=True):
            self.post(admin_client, a, [{"place": 1, "instead": c.pk, "DELETE": "on"}, {
                "place": 2, "instead": b.pk}])  # fmt: skip
        assert [other.model for other in alternatives_of("a")] == ["b"]
        assert AuditEntry.objects.filter(kind="catalog.alternative", action="delete").count() == 1

    def test_a_model_is_no_alternative_to_itself(
        self, admin_client: Client, live_revision: MakeLive
    ) -> None:
        a = live_revision(name="a").model
        answer = self.post(admin_client, a, [{"place": 1, "instead": a.pk}])
        assert answer.status_code == 200
        assert "no alternative to itself" in answer.content.decode()
        assert not Alternative.objects.exists()
