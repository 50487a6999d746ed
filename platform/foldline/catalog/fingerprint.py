"""What makes two calls the same call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson

EXACT = 2**63


def fingerprint(
    *,
    tenant_id: UUID,
    revision_id: UUID,
    weights_digest: str,
    inputs: Mapping[str, Any],
    seed: int,
) -> str:
    """SHA-256 of everything that decides an answer. The revision's id stands for its model.

    `inputs` have their defaults filled in and artifacts replaced by their content's hash.
    """
    return digest([tenant_id, revision_id, weights_digest, inputs, seed])


def digest(value: Any) -> str:
    """SHA-256 of a value as canonical JSON: sorted keys; 1 and 1.0 are equal, true is not 1."""
    return hashlib.sha256(orjson.dumps(_canonical(value), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT else value
    if isinstance(value, dict):
        return {name: _canonical(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return value
