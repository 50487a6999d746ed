"""What a call would come to: asked and answered without accepting it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from foldline.api.elsewhere import name_alternatives, of_waiting
from foldline.api.waits import wait_body, with_doubts
from foldline.catalog.selectors import LiveModel
from foldline.errors import FoldlineError, QuotaExceeded, QuotaForbids, RepeatFailure, problem
from foldline.forecasts.prospects import UNKNOWN, Prospect
from foldline.forecasts.reading import memory_of, prospect_of, prospect_of_new
from foldline.jobs.admission import Submission, counted, refuse_exceeded
from foldline.jobs.blocked import Blocked
from foldline.jobs.failing import refuse_repeated
from foldline.jobs.limits import is_counted, refuse_forbidden, spared
from foldline.jobs.models import Job
from foldline.jobs.selectors import run_of_call
from foldline.jobs.states import State
from foldline.tenants.ledger import cost_of

Body = dict[str, Any]


def estimate_body(model: LiveModel, call: Submission, *, request_id: str) -> Body:
    """The answer to a dry run of a call that is in order."""
    now = datetime.now(UTC)
    run = run_of_call(tenant_id=call.tenant_id, fingerprint=call.fingerprint)
    run = run if call.shared else None
    hit = run is not None and run.state == State.SUCCEEDED
    refusal = _refusal(call, run)
    prospect, blocked = _wait(call, run, now=now)
    gpu_s = 0.0 if run is not None else call.estimate_gpu_s
    start_by = _start_by(call, now=now)
    others = of_waiting(blocked, model=model.name, inputs=call.inputs, tenant_id=call.tenant_id)
    return {
        "model": model.name,
        "revision": model.revision,
        "normalized_inputs": call.normalized_input,
        "warnings": with_doubts(call.warnings, prospect, start_by=start_by),
        "refusal": problem(refusal, request_id) if refusal is not None else None,
        "cache": {"hit": hit},
        "coalesced_with": run.id if run is not None and not hit else None,
        "usage": _usage(model, gpu_s),
        "memory": memory_of(call.revision_id, now=now),
        **wait_body(prospect, blocked=blocked, alternatives=others, now=now),
    }


def _refusal(call: Submission, run: Job | None) -> FoldlineError | None:
    """Why a submit would be refused at this moment; `run` is that of an equal call."""
    limits = call.limits
    try:
        refuse_repeated(call.tenant_id, call.fingerprint)
        if limits is not None:
            refuse_forbidden(limits, tenant_id=call.tenant_id, model=call.model, inputs=call.inputs)
        if limits is not None and is_counted(limits):
            refuse_exceeded(call, counted(call, limits, locked=False))
    except (QuotaForbids, QuotaExceeded, RepeatFailure) as refusal:
        attached = run is not None and run.state != State.SUCCEEDED
        if run is not None and spared(refusal, attached=attached):
            return None
        name_alternatives(refusal, model=call.model, inputs=call.inputs, tenant_id=call.tenant_id)
        return refusal
    return None


def _wait(call: Submission, run: Job | None, *, now: datetime) -> tuple[Prospect, Blocked | None]:
    if run is None:
        return prospect_of_new(call, None, now=now)
    if run.state == State.SUCCEEDED:
        return UNKNOWN, None
    return prospect_of(run, now=now), Blocked.ATTACHED


def _start_by(call: Submission, *, now: datetime) -> datetime | None:
    bounds = [s for s in (call.start_within_s, call.deadline_s) if s is not None]
    return datetime.fromtimestamp(now.timestamp() + min(bounds), UTC) if bounds else None


def _usage(model: LiveModel, gpu_s: float | None) -> Body:
    cost = None if gpu_s is None else f"{cost_of(gpu_s, price=model.price):f}"
    return {
        "gpu_seconds": None if gpu_s is None else round(gpu_s, 3),
        "cost": cost,
        "currency": settings.CURRENCY,
    }
