from __future__ import annotations

import re

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


def test_the_first_page_leads_to_what_is_there(client: Client) -> None:
    page = client.get("/")
    assert page.headers["Content-Type"].startswith("text/html")
    addresses = re.findall(r'<a href="([^"]+)"', page.content.decode())
    assert {"/admin/", "/calibration", "/v1/openapi.json", "/v1/errors"} == set(addresses)
    for address in addresses:
        assert client.get(address, follow=True).status_code == 200


def test_who_sends_something_to_the_first_page_is_told_that_it_takes_nothing() -> None:
    answer = Client(enforce_csrf_checks=True).post("/", "{}", content_type="application/json")
    assert (answer.status_code, answer.content) == (405, b"")
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"
