from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from foldline.api.views.artifacts import ArtifactView, ContentView, UploadView
from foldline.api.views.calibration import CalibrationView
from foldline.api.views.document import DocumentView
from foldline.api.views.estimate import EstimateView
from foldline.api.views.events import EventsView
from foldline.api.views.jobs import CancelView, JobsView, JobView, ResultView
from foldline.api.views.models import ModelsView, ModelView
from foldline.api.views.submit import SubmitView
from foldline.api.views.tools import ToolsView
from foldline.api.views.usage import UsageView

# Ids and names are plain text here: one that is malformed is as unknown as any other.
urlpatterns: list[URLPattern | URLResolver] = [
    path("models/<str:model>/jobs", SubmitView.as_view(), name="submit"),
    path("models/<str:model>/estimate", EstimateView.as_view(), name="estimate"),
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
    path("usage", UsageView.as_view(), name="usage"),
    path("calibration", CalibrationView.as_view(), name="calibration"),
    path("openapi.json", DocumentView.as_view(), name="openapi"),
]
