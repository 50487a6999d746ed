"""Checks objects of Kubernetes against the schemas of its API, strictly: no unknown field."""

from __future__ import annotations

from typing import Any

import kubernetes_validate

VERSION = "1.36"


def check(body: dict[str, Any]) -> None:
    """Raises kubernetes_validate.ValidationError."""
    kubernetes_validate.validate(body, VERSION, strict=True)
