"""Files in and out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import Artifact
from foldline.api.bodies import artifact_body
from foldline.api.conditions import matches
from foldline.api.openapi import FILE_NAME, describe
from foldline.api.parsing import announced_bytes
from foldline.api.views.base import ApiView, caller, identifier
from foldline.artifacts import storage
from foldline.artifacts.links import artifact_behind
from foldline.artifacts.models import Artifact as ArtifactRow
from foldline.artifacts.selectors import artifact_of
from foldline.artifacts.services import store_upload
from foldline.errors import (
    ArtifactNotFound,
    BodyTooLarge,
    InvalidRequest,
    UnsupportedMediaType,
)
from foldline.tenants.models import ApiKey

# Whatever a file claims to be, a browser saves it and runs nothing of it.
_INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=3600",
}


class UploadView(ApiView):
    scope = ApiKey.Scope.SUBMIT
    parameters = ("name",)

    @describe(
        "Upload a file",
        {201: Artifact, 200: Artifact},
        request={"application/octet-stream": OpenApiTypes.BINARY},
        parameters=(FILE_NAME,),
        errors=(400, 411, 413, 415, 503),
        detail="The body is the file itself, of any content type; what it is, is judged by its"
        " content. 200 when you have uploaded the same bytes before.",
    )
    def post(self, request: Request) -> Response:
        name = self.asked.get("name", "upload")
        tenant_id = caller(request).tenant_id
        stored = store_upload(tenant_id=tenant_id, chunks=_chunks(request._request), name=name)
        body = artifact_body(stored, tenant_id=tenant_id)
        return Response(
            body,
            status=201 if stored.created else 200,
            headers={"Location": body["urls"]["self"]},
        )


class ArtifactView(ApiView):
    @describe("Show a file's name, size and hash", {200: Artifact}, errors=(404,))
    def get(self, request: Request, artifact: str) -> Response:
        found = _artifact(request, artifact)
        return Response(artifact_body(found, tenant_id=found.tenant_id))


class ContentView(ApiView):
    @describe(
        "Download a file",
        {(200, "*/*"): OpenApiTypes.BINARY},
        errors=(404, 503),
        detail="The `ETag` is the file's SHA-256.",
    )
    def get(self, request: Request, artifact: str) -> HttpResponseBase:
        return _content(request, _artifact(request, artifact))


class DownloadView(ApiView):
    authentication_classes = []
    permission_classes = []

    @describe(
        "Download a file by a link",
        {(200, "*/*"): OpenApiTypes.BINARY},
        errors=(404, 410, 503),
        detail="Where `urls.download` of a file points: no key is needed, and it ends after ten"
        " minutes.",
        public=True,
    )
    def get(self, request: Request, token: str) -> HttpResponseBase:
        return _content(request, artifact_behind(token))


def _content(request: Request, found: ArtifactRow) -> HttpResponseBase:
    headers: dict[str, Any] = {**_INERT, "ETag": f'"{found.sha256}"'}
    if matches(request.META.get("HTTP_IF_NONE_MATCH"), headers["ETag"]):
        return HttpResponseNotModified(headers=headers)
    if request.method == "HEAD":
        headers["Content-Length"] = str(found.size)
        return HttpResponse(content_type=found.media_type, headers=headers)
    return FileResponse(
        storage.open_bytes(found.tenant_id, found.sha256),
        as_attachment=True,
        filename=found.name,
        content_type=found.media_type,
        headers=headers,
    )


def _artifact(request: Request, artifact: str) -> ArtifactRow:
    return artifact_of(
        tenant_id=caller(request).tenant_id,
        artifact_id=identifier(artifact, missing=ArtifactNotFound),
    )


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    """The body in pieces, never held whole. Raises before reading where that is possible."""
    if request.META.get("HTTP_CONTENT_ENCODING"):
        raise UnsupportedMediaType("Send the file as it is, without Content-Encoding.")
    length = announced_bytes(request)
    if length > settings.MAX_UPLOAD_BYTES:
        raise BodyTooLarge(f"A file has at most {settings.MAX_UPLOAD_BYTES} bytes.")
    read = 0
    while chunk := request.read(storage.CHUNK_BYTES):
        read += len(chunk)
        yield chunk
    if read != length:
        raise InvalidRequest(f"The upload broke off after {read} of {length} bytes.")
