"""How many workers a model should have, for whoever scales in our place: KEDA's `metrics-api`."""

from __future__ import annotations

from django.db import Error
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from foldline.clock import database_now
from foldline.fleet.models import ScalingDecision
from foldline.fleet.policies import is_fresh, latest_decisions
from foldline.fleet.services import NoRevision, named, published


class _NoNumber(Exception):
    """There is none to be told; status and words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@require_safe
def advice(_request: HttpRequest, model: str) -> JsonResponse:
    """The number for a model's live revision, or for `MODEL@rNUMBER`.

    404 when there is no such revision; 503 when nobody has decided, or not lately. What is not
    known is an error and never a zero: whoever asks then keeps what there is.
    """
    try:
        decision = _decision(model)
    except _NoNumber as missing:
        return JsonResponse({"model": model, "error": str(missing)}, status=missing.status)
    except Error as error:
        reason = f"database: {type(error).__name__}"
        return JsonResponse({"model": model, "error": reason}, status=503)
    return JsonResponse(
        {
            "model": model,
            "revision": str(decision.revision),
            "desired_replicas": decision.desired,
            "waiting": decision.waiting,
            "running": decision.running,
            "reason": decision.reason,
        }
    )


def _decision(name: str) -> ScalingDecision:
    try:
        model, number = named(name)
        revision = published(model, number=number)
    except NoRevision:
        raise _NoNumber(404, "No revision of this name is live or was.") from None
    decision = latest_decisions([revision.pk]).get(revision.pk)
    if decision is None:
        raise _NoNumber(503, "No scaler has decided about it yet.")
    if not is_fresh(decision, now=database_now()):
        raise _NoNumber(503, f"The last decision is of {decision.as_of:%Y-%m-%d %H:%M:%S} UTC.")
    return decision
