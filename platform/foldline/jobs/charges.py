"""What fair accounts were charged for attempts, replaced by what those used once they ended."""

from __future__ import annotations

from foldline.jobs.models import Attempt, QueueState
from foldline.jobs.rooms import weight_of
from foldline.scheduling.fairness import Accounts, settle
from foldline.scheduling.flows import flow_of
from foldline.tenants.quotas import limits_of

MOST_AT_ONCE = 50


def settled(queue: QueueState) -> Accounts:
    """The accounts of a locked queue with what has ended since settled.

    Here and not at the end of an attempt, because a claim holds the queue anyway.
    """
    accounts: Accounts = queue.accounts
    ended = Attempt.objects.filter(
        settled=False, ended_at__isnull=False, job__model_id=queue.model_id
    )
    chosen = list(ended.order_by("ended_at").values_list(*_FIELDS)[:MOST_AT_ONCE])
    if not chosen:
        return accounts
    Attempt.objects.filter(id__in=[each[0] for each in chosen]).update(settled=True)
    for _, tenant_id, priority, charged_gpu_s, actual_gpu_s in chosen:
        accounts = settle(
            accounts,
            flow=flow_of(tenant_id, priority),
            weight=weight_of(tenant_id, limits_of(tenant_id, model_id=queue.model_id)),
            priority=priority,
            charged_gpu_s=charged_gpu_s or 0.0,
            actual_gpu_s=actual_gpu_s,
        )
    return accounts


_FIELDS = ("id", "job__tenant_id", "job__priority", "charged_gpu_s", "gpu_seconds")
