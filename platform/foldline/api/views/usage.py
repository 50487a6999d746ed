"""What the caller used, saved and has left."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from foldline.api.answers import UsageReport
from foldline.api.openapi import USAGE_FILTERS, describe
from foldline.api.usage import MOST_DAYS, period, usage_body
from foldline.api.views.base import ApiView, caller
from foldline.clock import database_now, day_of
from foldline.tenants.quotas import quotas_of
from foldline.tenants.usage import MOST_SESSIONS, spent, usage_report


class UsageView(ApiView):
    parameters = ("from", "to", "session", "model")

    @describe(
        "Show what you used, saved and have left",
        {200: UsageReport},
        parameters=USAGE_FILTERS,
        errors=(400,),
        detail="GPU-seconds and their cost by model and by session, on whole UTC days, at most"
        f" {MOST_DAYS}. The {MOST_SESSIONS} sessions that used most are listed. `left` is about"
        " now, whatever the days.",
    )
    def get(self, request: Request) -> Response:
        asked = self.asked
        tenant_id = caller(request).tenant_id
        today = day_of(database_now())
        days = period(asked, today=today)
        report = usage_report(
            tenant_id,
            first=days.first,
            last=days.last,
            session=asked.get("session"),
            model=asked.get("model"),
        )
        used = spent([tenant_id], today=today)[tenant_id]
        quotas = quotas_of(tenant_id)
        return Response(usage_body(report, days, quotas=quotas, spent=used, today=today))
