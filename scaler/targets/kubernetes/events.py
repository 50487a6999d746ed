"""Events: what the scaler did, where `kubectl describe` shows it."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from uuid import uuid4

from scaler.targets.kubernetes.objects import Object

LONGEST = 1024


def told(about: Object, *, reason: str, words: str) -> Object:
    """An event of `about`, ready to be created."""
    meta = about["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{uuid4().hex[:16]}"},
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": "foldline.io/scaler",
        "reportingInstance": socket.gethostname()[:128],
        "action": "Scale",
        "reason": reason,
        "type": "Normal",
        "note": words[:LONGEST],
        "regarding": {
            "apiVersion": about.get("apiVersion", "apps/v1"),
            "kind": about.get("kind", "Deployment"),
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
    }
