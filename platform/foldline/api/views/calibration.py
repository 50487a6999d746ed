"""How right the forecasts were: for everybody, as JSON and as a page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import CalibrationReport
from foldline.api.openapi import describe
from foldline.api.views.base import ApiView
from foldline.forecasts.calibration import LONG_WAIT_S, PROMISED, shown


class CalibrationView(ApiView):
    authentication_classes = []
    permission_classes = []

    @describe(
        "Show how right the forecasts were",
        {200: CalibrationReport},
        public=True,
        detail="By model and class, from jobs that have started. `coverage`: the part that started"
        " before the p90 they were told at submit. `error`: the mean of |p50 - wait| / wait over"
        f" waits of {LONG_WAIT_S:.0f} s and more.",
    )
    def get(self, _request: Request) -> Response:
        rows = [
            {
                "model": row.model,
                "priority": row.priority,
                "jobs": row.jobs,
                "coverage": round(row.coverage, 4),
                "long_waits": row.long_waits,
                "error": None if row.error is None else round(row.error, 4),
                "since": row.since,
                "updated_at": row.updated_at,
            }
            for row in shown()
        ]
        return Response({"promised_coverage": PROMISED, "models": rows})


@require_safe
def calibration_page(request: HttpRequest) -> HttpResponse:
    """The same for people."""
    context = {"rows": shown(), "promised": PROMISED, "long_wait_s": LONG_WAIT_S}
    return render(request, "calibration.html", context)
