"""Secrets of endpoints and what they sign, as Standard Webhooks asks for.

The database holds secrets sealed (Fernet: AES-128-CBC with HMAC-SHA256) with a key that is
derived from `SECRET_KEY`: a copy of the database alone signs nothing.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

PREFIX = "whsec_"
SECRET_BYTES = 32


class Unreadable(Exception):
    """A secret was sealed with another `SECRET_KEY`."""


def new_secret() -> str:
    return PREFIX + b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def seal(secret: str) -> str:
    return _safe(settings.SECRET_KEY).encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """Raises Unreadable."""
    try:
        return _safe(settings.SECRET_KEY).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable from None


@cache
def _safe(secret_key: str) -> Fernet:
    derived = hmac.digest(secret_key.encode(), b"foldline: secrets of webhook endpoints", "sha256")
    return Fernet(urlsafe_b64encode(derived))


def signed_headers(
    event: UUID, body: bytes, *, sealed: Sequence[str], now: datetime
) -> Mapping[str, str]:
    """The three headers: one signature for each secret, the current one first. Raises
    Unreadable when the current one cannot be opened."""
    stamp = str(int(now.timestamp()))
    signed = b".".join([str(event).encode(), stamp.encode(), body])
    opened = [unseal(sealed[0]), *_readable(sealed[1:])]
    return {
        "webhook-id": str(event),
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in opened),
    }


def _readable(sealed: Sequence[str]) -> list[str]:
    found = []
    for each in sealed:
        try:
            found.append(unseal(each))
        except Unreadable:
            continue  # an old one, beside one that can be read
    return found


def _signature(secret: str, signed: bytes) -> str:
    key = b64decode(secret.removeprefix(PREFIX))
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"
