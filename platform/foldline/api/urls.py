from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from foldline.api.views.artifacts import ArtifactView, ContentView, DownloadView, UploadView
from foldline.api.views.batches import BatchesView, BatchView, CancelBatchView
from foldline.api.views.calibration import CalibrationView
from foldline.api.views.document import DocumentView
from foldline.api.views.errors import ErrorsView, ErrorView
from foldline.api.views.estimate import EstimateView
from foldline.api.views.events import EventsView
from foldline.api.views.jobs import CancelView, JobsView, JobView, ResultView
from foldline.api.views.models import ModelsView, ModelView
from foldline.api.views.submit import SubmitView
from foldline.api.views.tools import ToolsView
from foldline.api.views.usage import UsageView
from foldline.api.views.webhooks import (
    DeliveriesView,
    EnableWebhookView,
    PingView,
    RedeliverView,
    RotateWebhookView,
    WebhookEndpointsView,
    WebhookEndpointView,
)

# Ids and names are plain text here: one that is malformed is as unknown as any other.
urlpatterns: list[URLPattern | URLResolver] = [
    path("models/<str:model>/jobs", SubmitView.as_view(), name="submit"),
    path("models/<str:model>/estimate", EstimateView.as_view(), name="estimate"),
    path("batches", BatchesView.as_view(), name="batches"),
    path("batches/<str:batch>", BatchView.as_view(), name="batch"),
    path("batches/<str:batch>/cancel", CancelBatchView.as_view(), name="cancel_batch"),
    path("jobs/<str:job>", JobView.as_view(), name="job"),
    path("jobs/<str:job>/events", EventsView.as_view(), name="events"),
    path("jobs/<str:job>/result", ResultView.as_view(), name="result"),
    path("jobs/<str:job>/cancel", CancelView.as_view(), name="cancel"),
    path("jobs", JobsView.as_view(), name="jobs"),
    path("models", ModelsView.as_view(), name="models"),
    path("models/<str:model>", ModelView.as_view(), name="model"),
    path("tools", ToolsView.as_view(), name="tools"),
    path("artifacts", UploadView.as_view(), name="upload"),
    path("artifacts/<str:artifact>", ArtifactView.as_view(), name="artifact"),
    path("artifacts/<str:artifact>/content", ContentView.as_view(), name="content"),
    path("errors", ErrorsView.as_view(), name="errors"),
    path("errors/<str:code>", ErrorView.as_view(), name="error"),
    path("webhook-endpoints", WebhookEndpointsView.as_view(), name="webhooks"),
    path("webhook-endpoints/<str:endpoint>", WebhookEndpointView.as_view(), name="webhook"),
    path("webhook-endpoints/<str:endpoint>/rotate", RotateWebhookView.as_view(), name="rotate"),
    path("webhook-endpoints/<str:endpoint>/enable", EnableWebhookView.as_view(), name="enable"),
    path("webhook-endpoints/<str:endpoint>/test", PingView.as_view(), name="test"),
    path(
        "webhook-endpoints/<str:endpoint>/deliveries", DeliveriesView.as_view(), name="deliveries"
    ),
    path(
        "webhook-endpoints/<str:endpoint>/deliveries/<str:delivery>/redeliver",
        RedeliverView.as_view(),
        name="redeliver",
    ),
    path("downloads/<str:token>", DownloadView.as_view(), name="download"),
    path("usage", UsageView.as_view(), name="usage"),
    path("calibration", CalibrationView.as_view(), name="calibration"),
    path("openapi.json", DocumentView.as_view(), name="openapi"),
]
