from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from foldline.api.answers import ToolList
from foldline.api.views.tools import paces_of, tools_kept
from foldline.catalog.models import Revision
from foldline.catalog.selectors import live_models
from foldline.catalog.services import retire

pytestmark = pytest.mark.django_db

FORMATS = ("openai", "anthropic", "mcp")


@pytest.mark.parametrize("form", FORMATS)
def test_the_tools_are_told_in_each_vendors_words(api: Client, toy: Revision, form: str) -> None:
    told = ToolList.model_validate_json(api.get(f"/v1/tools?format={form}").content)
    assert told.format == form
    names = [tool["name"] for tool in told.tools]
    assert names == ["toy", "wait_for_job", "get_job", "cancel_job", "estimate"]


@pytest.mark.parametrize(
    "query", ["", "format=", "format=gemini", "format=mcp&format=openai", "format=mcp&page=2"]
)
def test_another_format_is_a_400_that_names_the_formats(
    api: Client, toy: Revision, query: str
) -> None:
    answer = api.get(f"/v1/tools?{query}")
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
    (error,) = answer.json()["errors"]
    assert error["pointer"] in ("?format", "?page")


def test_the_list_and_its_etag_stay_while_nothing_changes(
    api: Client, live_revision: Callable[..., Revision]
) -> None:
    for name in ("b", "a"):
        live_revision(name=name)
    first = api.get("/v1/tools?format=mcp")
    tools_kept.clear()
    again = api.get("/v1/tools?format=mcp")
    assert (first.content, first.headers["ETag"]) == (again.content, again.headers["ETag"])
    assert [tool["name"] for tool in first.json()["tools"]][:2] == ["a", "b"]
    other = api.get("/v1/tools?format=openai").headers["ETag"]
    assert other != first.headers["ETag"]


@pytest.mark.parametrize("given", ["{}", "W/{}", '"other", {}', "*"])
def test_who_has_it_already_is_told_so(api: Client, toy: Revision, given: str) -> None:
    etag = api.get("/v1/tools?format=mcp").headers["ETag"]
    answer = api.get("/v1/tools?format=mcp", headers={"If-None-Match": given.format(etag)})
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", etag)
    stale = api.get("/v1/tools?format=mcp", headers={"If-None-Match": '"stale"'})
    assert stale.status_code == 200


def test_a_retired_model_is_no_tool_any_more(api: Client, toy: Revision) -> None:
    before = api.get("/v1/tools?format=mcp")
    retire(toy)
    tools_kept.clear()
    after = api.get("/v1/tools?format=mcp")
    assert "toy" not in [tool["name"] for tool in after.json()["tools"]]
    assert before.headers["ETag"] != after.headers["ETag"]


def test_without_a_forecast_no_pace_is_claimed(toy: Revision) -> None:
    assert paces_of(live_models()) == {}


def test_the_tools_are_for_callers_only(client: Client, toy: Revision) -> None:
    answer: Any = client.get("/v1/tools?format=mcp")
    assert answer.status_code == 401
    assert client.post("/v1/tools?format=mcp").status_code == 401
