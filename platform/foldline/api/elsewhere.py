"""What else could serve a call: the alternatives that problems, jobs and models name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django import db

from foldline.catalog.alternatives import Alternative, alternatives_of, near, shelf
from foldline.catalog.selectors import LiveModel
from foldline.errors import CATALOGUE, FoldlineError, ModelNotFound
from foldline.jobs.absence import absence_of
from foldline.jobs.blocked import Blocked
from foldline.tenants.quotas import limits_of

Body = dict[str, Any]

_AWAY = (Blocked.PAUSED, Blocked.CRASH_LOOPING)


def name_alternatives(
    error: FoldlineError, *, model: str, inputs: object = None, tenant_id: UUID
) -> None:
    """Add to a problem about a call what else could serve it, where that may help.

    Named are live models that take work, whose schema takes these inputs where they are known,
    and which the tenant may use. A limit over all models is no reason to try another one.
    """
    if not error.elsewhere or "alternatives" in error.extra or _is_of_all(error):
        return
    try:
        found = near(model) if isinstance(error, ModelNotFound) else _usable(model, inputs)
        named = _allowed(found, tenant_id=tenant_id)
    except db.Error:
        return  # what is already known is told all the same
    if named:
        error.extra["alternatives"] = named


def of_failed(
    error: Mapping[str, Any], *, model: str, inputs: object, tenant_id: UUID
) -> list[Body]:
    """What could serve a call that has failed as a job."""
    kind = CATALOGUE.get(str(error.get("code")))
    if kind is None or not kind.elsewhere:
        return []
    return _allowed(_usable(model, inputs), tenant_id=tenant_id)


def of_waiting(
    blocked: Blocked | None, *, model: str, inputs: object, tenant_id: UUID
) -> list[Body]:
    """What could serve a call that waits for a model that is away."""
    return _allowed(_usable(model, inputs), tenant_id=tenant_id) if blocked in _AWAY else []


def of_model(name: str) -> list[Body]:
    """What stands in for a model in general, whatever is sent to it and now away or not."""
    return [_body(each) for each in alternatives_of(name)]


def is_allowed(name: str, *, tenant_id: UUID) -> bool:
    """Whether the model is live and the tenant's quota lets it use it."""
    model = shelf().live.get(name)
    return model is not None and limits_of(tenant_id, model_id=model.model_id).allowed


def _usable(model: str, inputs: object) -> Sequence[Alternative]:
    known = inputs if isinstance(inputs, Mapping) else None
    found = alternatives_of(model, inputs=known)
    # The shelf may be another one by now.
    live: Mapping[str, LiveModel] = shelf().live
    return [each for each in found if each.model in live and absence_of(live[each.model]) is None]


def _is_of_all(error: FoldlineError) -> bool:
    limit = error.extra.get("limit")
    return limit is not None and limit["model"] is None


def _allowed(found: Sequence[Alternative], *, tenant_id: UUID) -> list[Body]:
    return [_body(each) for each in found if is_allowed(each.model, tenant_id=tenant_id)]


def _body(each: Alternative) -> Body:
    return {"model": each.model, "why": each.why}
