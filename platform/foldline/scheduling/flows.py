"""What a flow, the unit of fairness, is called: tenant and class in one word."""

from __future__ import annotations

from uuid import UUID


def flow_of(tenant_id: UUID, priority: str) -> str:
    """The flow of a tenant's jobs of one class."""
    return f"{tenant_id}:{priority}"


def unknown_flow(priority: str) -> str:
    """The flow of a tenant that nobody has heard of: it stands where any newcomer would."""
    return f":{priority}"


def class_of(flow: str) -> str:
    """The class of a flow's jobs."""
    return flow.rpartition(":")[2]
