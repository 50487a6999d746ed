"""Webhook endpoints of the caller, and what became of the messages to them."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import (
    Delivery,
    DeliveryList,
    WebhookEndpoint,
    WebhookList,
    WebhookSecret,
)
from foldline.api.envelope import checked
from foldline.api.openapi import PAGE, describe
from foldline.api.pages import next_cursor, page_size, page_start
from foldline.api.parsing import json_body
from foldline.api.views.base import ApiView, caller, identifier
from foldline.api.webhooks import EndpointBody, delivery_body, endpoint_body
from foldline.errors import DeliveryNotFound, WebhookNotFound
from foldline.notify import deliveries, endpoints
from foldline.notify.models import WebhookEndpoint as EndpointRow
from foldline.tenants.models import ApiKey


class OwnerView(ApiView):
    """Looking needs the scope `read`, changing `submit`."""

    http_method_names = ["get", "head", "post", "delete"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method not in SAFE_METHODS:
            self.scope = ApiKey.Scope.SUBMIT
        super().initial(request, *args, **kwargs)


class WebhookEndpointsView(OwnerView):
    @describe("List your webhook endpoints", {200: WebhookList})
    def get(self, request: Request) -> Response:
        found = endpoints.endpoints_of(caller(request).tenant_id)
        return Response({"endpoints": [endpoint_body(each) for each in found]})

    @describe(
        "Register a webhook endpoint",
        {201: WebhookSecret},
        request=EndpointBody,
        errors=(400, 409, 411, 413, 415),
        detail="The ends of jobs are posted to it, signed as Standard Webhooks asks for. The"
        " secret is shown this once only. At most"
        f" {endpoints.MOST_OF_A_TENANT} endpoints.",
        name="registerwebhook",
    )
    def post(self, request: Request) -> Response:
        form = checked(EndpointBody, json_body(request._request))
        made, secret = endpoints.register(
            caller(request).tenant_id,
            url=form.url,
            events=form.events,
            all_jobs=form.all_jobs,
            description=form.description,
        )
        body = {**endpoint_body(made), "secret": secret}
        return Response(body, status=201, headers={"Location": body["urls"]["self"]})


class WebhookEndpointView(OwnerView):
    @describe("Show a webhook endpoint", {200: WebhookEndpoint}, errors=(404,))
    def get(self, request: Request, endpoint: str) -> Response:
        return Response(endpoint_body(_endpoint(request, endpoint)))

    @describe(
        "Delete a webhook endpoint",
        {204: None},
        errors=(404,),
        detail="What waits for it is dropped.",
        name="deletewebhook",
    )
    def delete(self, request: Request, endpoint: str) -> Response:
        endpoints.delete(_endpoint(request, endpoint).pk)
        return Response(status=204)


class RotateWebhookView(OwnerView):
    @describe(
        "Rotate a webhook endpoint's secret",
        {200: WebhookSecret},
        errors=(404,),
        detail="The new secret is shown this once only. For 24 hours the one before it signs as"
        " well: there are two signatures, and a receiver that knows either accepts.",
    )
    def post(self, request: Request, endpoint: str) -> Response:
        found = _endpoint(request, endpoint)
        secret = endpoints.rotate(found)
        return Response({**endpoint_body(found), "secret": secret})


class EnableWebhookView(OwnerView):
    @describe(
        "Enable a webhook endpoint again",
        {200: WebhookEndpoint},
        errors=(404,),
        detail="What was dropped meanwhile is sent when you ask for it with `redeliver`.",
    )
    def post(self, request: Request, endpoint: str) -> Response:
        endpoints.enable(_endpoint(request, endpoint).pk)
        return Response(endpoint_body(_endpoint(request, endpoint)))


class PingView(OwnerView):
    @describe(
        "Send a test message",
        {202: Delivery},
        errors=(404, 409),
        detail="A message of the type `ping`, tried once; look at the deliveries for what came"
        " of it.",
    )
    def post(self, request: Request, endpoint: str) -> Response:
        sent = deliveries.ping(_endpoint(request, endpoint))
        return Response(delivery_body(sent), status=202)


class DeliveriesView(OwnerView):
    parameters = ("cursor", "limit")

    @describe(
        "List a webhook endpoint's deliveries, newest first",
        {200: DeliveryList},
        parameters=PAGE,
        errors=(400, 404),
    )
    def get(self, request: Request, endpoint: str) -> Response:
        limit = page_size(self.asked)
        found = deliveries.deliveries_of(
            _endpoint(request, endpoint).pk, before=page_start(self.asked), limit=limit + 1
        )
        return Response(
            {
                "deliveries": [delivery_body(each) for each in found[:limit]],
                "next_cursor": next_cursor(found, limit=limit),
            }
        )


class RedeliverView(OwnerView):
    @describe(
        "Send a message again",
        {202: Delivery},
        errors=(404, 409),
        detail="Now, whatever became of it, and with all its tries. It keeps its `webhook-id`.",
    )
    def post(self, request: Request, endpoint: str, delivery: str) -> Response:
        found = deliveries.delivery_of(
            _endpoint(request, endpoint),
            delivery_id=identifier(delivery, missing=DeliveryNotFound),
        )
        return Response(delivery_body(deliveries.redeliver(found)), status=202)


def _endpoint(request: Request, endpoint: str) -> EndpointRow:
    return endpoints.endpoint_of(
        tenant_id=caller(request).tenant_id,
        endpoint_id=identifier(endpoint, missing=WebhookNotFound),
    )
