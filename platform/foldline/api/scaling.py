"""How a model stands: what its workers are, and what the scaler wants of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from foldline.api.bodies import Body
from foldline.catalog.selectors import LiveModel
from foldline.clock import database_now
from foldline.fleet.models import Worker
from foldline.fleet.policies import is_fresh, latest_decisions
from foldline.fleet.services import workers_by_state

LOADED = (Worker.State.READY, Worker.State.BUSY)


def scaling_of(models: Sequence[LiveModel]) -> Mapping[UUID, Body]:
    """By revision. `tier` and `desired` are null without a fresh decision."""
    revisions = [model.revision_id for model in models]
    workers, decisions = workers_by_state(revisions), latest_decisions(revisions)
    now = database_now()
    fresh = {key: each for key, each in decisions.items() if is_fresh(each, now=now)}
    return {
        revision: {
            "warm": any(workers[revision].get(state) for state in LOADED),
            "workers": sum(workers[revision].values()),
            "desired": fresh[revision].desired if revision in fresh else None,
            "tier": (fresh[revision].tier or None) if revision in fresh else None,
        }
        for revision in revisions
    }
