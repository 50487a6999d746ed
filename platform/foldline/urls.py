from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import TemplateView

from foldline.api.views.calibration import calibration_page

urlpatterns = [
    # No form is here: a program that was given this address in place of its own is told so.
    path("", csrf_exempt(TemplateView.as_view(template_name="landing.html"))),
    path("v1/", include("foldline.api.urls")),
    path("calibration", calibration_page),
    path("admin/", admin.site.urls),
    path("", include("foldline.ops.urls")),
]

handler400 = "foldline.api.problems.bad_request"
handler404 = "foldline.api.problems.not_found"
handler500 = "foldline.api.problems.server_error"
