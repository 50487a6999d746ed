"""Where a call goes whose caller would not wait for a model that is away: `on_unavailable`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from foldline.api.elsewhere import is_allowed, name_alternatives
from foldline.catalog.alternatives import Alternative, neighbours, shelf
from foldline.catalog.selectors import LiveModel, live_model
from foldline.errors import ModelRetired, ModelUnavailable
from foldline.jobs.absence import Absence, absence_of

RETRY_AFTER_S = 60
"""Told where nobody knows when a model comes back."""

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Route:
    """The model that a call goes to, and what its caller should know about that."""

    model: LiveModel
    warnings: Sequence[Mapping[str, str]] = ()


class _Reason(NamedTuple):
    reason: str
    message: str
    until: datetime | None = None


def route(name: str, payload: Mapping[str, Any], *, tenant_id: UUID) -> Route:
    """The model called, which need not be there for a call that waits.

    With `on_unavailable`: the model if it takes work, else what its caller wished. Raises
    ModelNotFound, ModelRetired, ModelUnavailable.
    """
    wish = payload.get("on_unavailable")
    if wish is None:
        return Route(model=live_model(name))
    inputs = payload.get("inputs")
    if wish == "switch" and isinstance(inputs, Mapping):
        return _switched(name, inputs, tenant_id=tenant_id)
    model = live_model(name)
    absence = absence_of(model)
    if absence is not None and wish in ("fail", "suggest"):
        why = _of_absence(absence)
        error = _unavailable(name, why, alternatives=[])
        if wish == "suggest":
            del error.extra["alternatives"]
            name_alternatives(error, model=name, inputs=inputs, tenant_id=tenant_id)
        raise error
    return Route(model=model)


def _switched(name: str, inputs: Mapping[str, Any], *, tenant_id: UUID) -> Route:
    """The model if it takes work, else the first alternative that takes this call.

    Looks at alternatives of alternatives as well, near ones first, and at each model once.
    """
    why = _why_called_is_away(name)
    if why is None:
        return Route(model=live_model(name))
    tried: list[Body] = []
    waiting, seen = deque([name]), {name}
    while waiting:
        for other in neighbours(waiting.popleft()):
            if other.model in seen:
                continue
            seen.add(other.model)
            taker = _taker(other.model, inputs, tenant_id=tenant_id)
            if isinstance(taker, LiveModel):
                return Route(model=taker, warnings=[_told(name, why, other)])
            waiting.append(other.model)
            tried.append({"model": other.model, "reason": taker.reason, "message": taker.message})
    raise _unavailable(name, why, alternatives=[], tried=tried)


def _why_called_is_away(name: str) -> _Reason | None:
    try:
        absence = absence_of(live_model(name))
    except ModelRetired as error:
        return _Reason("retired", error.message)
    return None if absence is None else _of_absence(absence)


def _taker(name: str, inputs: Mapping[str, Any], *, tenant_id: UUID) -> LiveModel | _Reason:
    """An alternative that takes a call, or why it does not."""
    model = shelf().live.get(name)
    if model is None:
        return _Reason("retired", "It takes no new jobs.")
    if (absence := absence_of(model)) is not None:
        return _of_absence(absence)
    if not is_allowed(name, tenant_id=tenant_id):
        return _Reason("quota", "Your quota does not allow it.")
    if found := model.compiled.findings(inputs):
        return _Reason("inputs", f"It does not take {found[0]['pointer']}: {found[0]['code']}.")
    return model


def _of_absence(absence: Absence) -> _Reason:
    return _Reason(absence.reason, absence.message, absence.until)


def _told(name: str, why: _Reason, to: Alternative) -> Mapping[str, str]:
    return {
        "code": "switched",
        "of": "call",
        "message": f"{name} is away ({why.reason}): the call goes to {to.model}. {to.why}",
        "from": name,
        "to": to.model,
        "why": why.message,
    }


def _unavailable(name: str, why: _Reason, **members: Any) -> ModelUnavailable:
    # A text, as all of a problem is: that of a batch's item is kept in the database.
    until = why.until and f"{why.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    away = {"model": name, "reason": why.reason, "message": why.message, "until": until}
    message = f"{name} takes no work at the moment. {why.message}"
    if tried := members.get("tried"):
        others = "; ".join(f"{each['model']}: {each['message']}" for each in tried)
        message = f"{message} None of its alternatives takes the call: {others}"
    return ModelUnavailable(
        message, retry_after_s=_retry_after_s(why.until), unavailable=away, **members
    )


def _retry_after_s(until: datetime | None) -> int:
    if until is None:
        return RETRY_AFTER_S
    return max(1, math.ceil((until - datetime.now(UTC)).total_seconds()))
