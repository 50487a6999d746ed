from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from foldline.api.answers import Model, ModelList
from foldline.catalog.models import Revision
from foldline.catalog.services import retire

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
