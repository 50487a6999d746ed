"""The catalogue of errors as callers see it, and its page."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from foldline.api.answers import CataloguedError, ErrorCatalogue
from foldline.api.management.commands.errors import page
from foldline.environment import ROOT
from foldline.errors import CATALOGUE
from foldline.findings import FINDINGS


def test_the_catalogue_lists_every_code_without_a_key(client: Client) -> None:
    answer = client.get("/v1/errors")
    told = ErrorCatalogue.model_validate_json(answer.content)
    assert [each.code for each in told.errors] == sorted(CATALOGUE)
    assert {each.code: each.description for each in told.findings} == FINDINGS


@pytest.mark.parametrize("code", CATALOGUE)
def test_what_a_problems_type_points_at_is_there(client: Client, code: str) -> None:
    told = CataloguedError.model_validate_json(client.get(f"/v1/errors/{code}").content)
    assert told.code == code
    assert told.type == f"/v1/errors/{code}"
    assert told.description.endswith(".")


def test_a_browser_gets_a_page(client: Client) -> None:
    answer = client.get("/v1/errors/gpu_oom", headers={"Accept": "text/html,*/*;q=0.8"})
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "Out of GPU memory" in answer.content.decode()


@pytest.mark.parametrize(
    "accept", ["application/json, text/html;q=0.1", "*/*", "", "text/html;q=0, */*", "image/png"]
)
def test_who_would_rather_have_json_gets_it(client: Client, accept: str) -> None:
    answer = client.get("/v1/errors/gpu_oom", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("code", ["nothing", "GPU_OOM", "%00", "x" * 500, "..%2f"])
def test_an_unknown_code_is_a_404(client: Client, code: str) -> None:
    answer = client.get(f"/v1/errors/{code}")
    assert answer.status_code == 404
    body: dict[str, Any] = answer.json()
    assert body["code"] in ("error_code_not_found", "not_found")


def test_the_page_in_the_docs_is_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("errors")
    written = (ROOT / "docs" / "errors.md").read_text()
    assert written == page() == capsys.readouterr().out, "manage.py errors > docs/errors.md"
