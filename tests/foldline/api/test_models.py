from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from foldline.api.answers import Model, ModelList
from foldline.catalog.models import Revision
from foldline.catalog.services import retire
from foldline.clock import database_now
from foldline.fleet import services
from foldline.fleet.models import ScalingDecision

pytestmark = pytest.mark.django_db


def test_live_models_are_listed(api: Client, live_revision: Callable[..., Revision]) -> None:
    live_revision(name="b")
    live_revision(name="a")
    answer = api.get("/v1/models")
    assert [model.name for model in ModelList.model_validate_json(answer.content).models] == [
        "a",
        "b",
    ]


def test_a_model_shows_its_schema_and_where_to_submit(api: Client, toy: Revision) -> None:
    shown = Model.model_validate_json(api.get("/v1/models/toy").content)
    assert shown.input_schema["required"] == ["sequence"]
    assert shown.urls.submit == "/v1/models/toy/jobs"
    assert shown.revision == "toy@r1"


@pytest.mark.parametrize("name", ["nothing", "%00", "..%2fetc", "TOY", "x" * 500])
def test_a_model_nobody_has_is_a_404(api: Client, toy: Revision, name: str) -> None:
    answer = api.get(f"/v1/models/{name}")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_retired_model_is_a_410(api: Client, toy: Revision) -> None:
    retire(toy)
    assert api.get("/v1/models/toy").status_code == 410


def test_a_model_tells_how_it_stands(api: Client, toy: Revision) -> None:
    def scaling() -> dict[str, object]:
        told = Model.model_validate_json(api.get("/v1/models/toy").content).scaling
        listed = ModelList.model_validate_json(api.get("/v1/models").content).models[0].scaling
        assert told == listed
        return told.model_dump()

    assert scaling() == {"warm": False, "workers": 0, "desired": None, "tier": None}
    worker = services.register(name="w1", revision_id=toy.id, node="n", pid=1)
    now = database_now()
    decision = ScalingDecision.objects.create(
        revision=toy, at=now, as_of=now, desired=2, tier="hot", reason="3 jobs wait"
    )
    assert scaling() == {"warm": False, "workers": 1, "desired": 2, "tier": "hot"}
    services.report(worker, state="ready")
    ScalingDecision.objects.filter(pk=decision.pk).update(as_of=now - timedelta(minutes=5))
    assert scaling() == {"warm": True, "workers": 1, "desired": None, "tier": None}
