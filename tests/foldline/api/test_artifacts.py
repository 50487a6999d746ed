from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from foldline.api.answers import Artifact
from foldline.artifacts import storage
from foldline.artifacts.models import Artifact as Row
from foldline.tenants.models import Tenant

pytestmark = pytest.mark.django_db
BODY = b"ATOM      1  N   GLU A   1"


def upload(api: Client, body: bytes = BODY, *, query: str = "?name=a.pdb", **extra: Any) -> Any:
    return api.post(f"/v1/artifacts{query}", body, content_type="text/html", **extra)


def test_a_file_is_uploaded_and_judged_by_its_content(api: Client) -> None:
    answer = upload(api)
    assert answer.status_code == 201
    shown = Artifact.model_validate_json(answer.content)
    assert (shown.name, shown.size, shown.media_type) == ("a.pdb", len(BODY), "chemical/x-pdb")
    assert shown.sha256 == hashlib.sha256(BODY).hexdigest()
    assert answer.headers["Location"] == shown.urls.self
    again, told = api.get(shown.urls.self).json(), answer.json()
    assert again.pop("urls")["self"] == told.pop("urls")["self"]
    assert again == told


def test_the_same_bytes_again_are_the_same_artifact(api: Client) -> None:
    first, again = upload(api), upload(api, query="")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


def test_a_file_of_another_tenant_is_never_deduplicated_with(
    api: Client, other_api: Client
) -> None:
    mine, theirs = upload(api), upload(other_api)
    assert theirs.status_code == 201
    assert mine.json()["id"] != theirs.json()["id"]


def test_a_file_is_downloaded_to_be_saved_never_to_be_shown(api: Client) -> None:
    body = b"<html><script>alert(1)</script>"
    answer = api.get(upload(api, body, query="?name=page.html").json()["urls"]["content"])
    assert answer.getvalue() == body
    assert answer.headers["Content-Disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Length"] == str(len(body))


def test_a_file_that_is_known_already_is_not_sent_again(api: Client) -> None:
    url = upload(api).json()["urls"]["content"]
    tag = f'"{hashlib.sha256(BODY).hexdigest()}"'
    first = api.get(url)
    assert first.headers["ETag"] == tag
    assert first.getvalue() == BODY
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = api.get(url, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
    assert api.get(url, headers={"If-None-Match": '"x"'}).getvalue() == BODY


def test_a_head_request_tells_the_size(api: Client) -> None:
    answer = api.head(upload(api).json()["urls"]["content"])
    assert answer.headers["Content-Length"] == str(len(BODY))


def test_an_empty_file_is_a_file(api: Client) -> None:
    assert upload(api, b"", CONTENT_LENGTH="0").json()["size"] == 0


def test_a_name_in_another_script_survives(api: Client) -> None:
    answer = upload(api, query="?name=%D1%84%22.pdb")
    content = api.get(answer.json()["urls"]["content"])
    assert content.headers["Content-Disposition"].startswith("attachment; filename*=utf-8''")
    content.close()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "a\\b", "%00", "a%0d%0aX:y", "..", "", "x" * 129]
)
def test_a_name_that_could_be_a_path_is_a_400(api: Client, name: str) -> None:
    answer = upload(api, query=f"?name={name}")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"
    assert not Row.objects.exists()


def test_an_upload_that_announces_too_much_is_refused_unread(
    api: Client, settings: Settings
) -> None:
    settings.MAX_UPLOAD_BYTES = 10
    answer = upload(api)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_an_upload_larger_than_a_json_body_may_be_is_taken(api: Client) -> None:
    assert upload(api, b"x" * (2 * 1024 * 1024)).status_code == 201


def test_an_upload_that_breaks_off_leaves_nothing(api: Client, settings: Settings) -> None:
    broken: dict[str, Any] = {"CONTENT_LENGTH": "1000", "wsgi.input": io.BytesIO(BODY)}
    answer = api.generic("POST", "/v1/artifacts", BODY, **broken)
    assert answer.status_code == 400
    assert "broke off" in answer.json()["detail"]
    assert not [p for p in Path(settings.ARTIFACTS_DIR).rglob("*") if p.is_file()]


@pytest.mark.parametrize("length", ["", "x", "-1"])
def test_an_upload_without_a_length_is_a_411(api: Client, length: str) -> None:
    answer = api.generic("POST", "/v1/artifacts", BODY, CONTENT_LENGTH=length)
    assert (answer.status_code, answer.json()["code"]) == (411, "length_required")


def test_a_compressed_transfer_is_a_415(api: Client) -> None:
    answer = upload(api, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415


def test_bytes_that_are_gone_are_a_503(api: Client) -> None:
    url = upload(api).json()["urls"]["content"]
    row = Row.objects.get()
    storage.path_of(row.tenant_id, row.sha256).unlink()
    answer = api.get(url)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage")


class TestLinks:
    def test_a_link_gives_the_file_without_a_key(self, api: Client, client: Client) -> None:
        link = upload(api).json()["urls"]["download"]
        answer: Any = client.get(link)
        assert (answer.status_code, b"".join(answer.streaming_content)) == (200, BODY)
        assert answer.headers["Content-Disposition"].startswith("attachment")
        assert client.head(link).headers["Content-Length"] == str(len(BODY))

    def test_a_link_ends_after_its_time(
        self, api: Client, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = upload(api).json()["urls"]["download"]
        monkeypatch.setattr("foldline.artifacts.links.LINK_S", -1)
        answer = client.get(link)
        assert (answer.status_code, answer.json()["code"]) == (410, "link_expired")

    @pytest.mark.parametrize("cut", [slice(1, None), slice(-1), slice(0)])
    def test_a_forged_link_is_as_unknown_as_any(
        self, api: Client, client: Client, cut: slice
    ) -> None:
        head, _, token = upload(api).json()["urls"]["download"].rpartition("/")
        answer = client.get(f"{head}/{token[cut]}x")
        assert (answer.status_code, answer.json()["code"]) == (404, "artifact_not_found")

    def test_a_link_ends_with_its_file_and_with_its_tenant(
        self, api: Client, client: Client, tenant: Tenant
    ) -> None:
        link = upload(api).json()["urls"]["download"]
        Tenant.objects.filter(pk=tenant.pk).update(active=False)
        assert client.get(link).status_code == 404
        Tenant.objects.filter(pk=tenant.pk).update(active=True)
        assert client.head(link).status_code == 200
        Row.objects.all().delete()
        assert client.get(link).status_code == 404
