"""Webhook endpoints as the API takes and shows them. A secret is shown where it is made."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from foldline.api.envelope import PRINTABLE
from foldline.notify.models import NOTE_CHARACTERS, URL_CHARACTERS, Delivery, WebhookEndpoint

Body = dict[str, Any]
Event = Literal["job.cancelled", "job.expired", "job.failed", "job.succeeded"]


class EndpointBody(BaseModel):
    """An endpoint to be registered."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"url": "https://hooks.example.com/foldline", "all_jobs": True}]
        },
    )

    url: str = Field(
        max_length=URL_CHARACTERS,
        description="https, a public host name, port 443. Redirects are not followed.",
    )
    events: list[Event] = Field(
        default=[], max_length=4, description="Types it hears of; without any: all."
    )
    all_jobs: bool = Field(
        default=False,
        description="Hear of every job submitted from now on, not only of those that name it.",
    )
    description: str = Field(default="", max_length=NOTE_CHARACTERS, pattern=PRINTABLE)


def endpoint_body(endpoint: WebhookEndpoint) -> Body:
    here = f"/v1/webhook-endpoints/{endpoint.id}"
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "description": endpoint.description,
        "events": endpoint.events,
        "all_jobs": endpoint.all_jobs,
        "state": "disabled" if endpoint.disabled_at else "enabled",
        "disabled_reason": endpoint.disabled_reason or None,
        "old_secret_until": endpoint.old_secret_until,
        "health": {
            "failures": endpoint.failures,
            "failing_since": endpoint.failing_since,
            "paused_until": endpoint.paused_until,
            "answered_at": endpoint.answered_at,
        },
        "created_at": endpoint.created_at,
        "urls": {
            "self": here,
            **{name: f"{here}/{name}" for name in ("deliveries", "test", "rotate", "enable")},
        },
    }


def delivery_body(delivery: Delivery) -> Body:
    here = f"/v1/webhook-endpoints/{delivery.endpoint_id}/deliveries/{delivery.id}"
    return {
        "id": delivery.id,
        "event": delivery.event,
        "type": delivery.type,
        "job": delivery.job_id,
        "state": str(delivery.state),
        "tries": delivery.tries,
        "next_try_at": delivery.next_at,
        "note": delivery.note or None,
        "created_at": delivery.created_at,
        "urls": {"redeliver": f"{here}/redeliver"},
    }
