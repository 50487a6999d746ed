"""What is kept out: browsers that were led here, and bodies with two meanings."""

from __future__ import annotations

import json
from typing import Any, NoReturn
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from foldline.errors import FoldlineError, HostRefused, OriginRefused
from foldline.waiting.bridge import Scope


def stranger(scope: Scope) -> FoldlineError | None:
    """A foreign Host (a name that was rebound to this address) or a foreign Origin (a page of
    another site). Programs send no Origin."""
    headers = dict(scope["headers"])
    if not _is_our_host(headers.get(b"host", b"").decode("latin-1")):
        return HostRefused()
    origin = headers.get(b"origin")
    if origin is not None and not _is_our_page(origin.decode("latin-1")):
        return OriginRefused()
    return None


def _is_our_host(text: str) -> bool:
    host, _ = split_domain_port(text)
    return bool(host) and validate_host(host, settings.ALLOWED_HOSTS)


def _is_our_page(origin: str) -> bool:
    """On whatever port."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and _is_our_host(parts.netloc)


class _AmbiguousError(Exception):
    pass


def is_unambiguous(body: bytes) -> bool:
    """Whether nothing in the body has two meanings, as in every other body: no key twice, no
    NaN. What is no JSON at all, the SDK says."""
    try:
        json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant)
    except _AmbiguousError:
        return False
    except (ValueError, RecursionError):
        return True
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise _AmbiguousError
    return table


def _no_constant(_name: str) -> NoReturn:
    raise _AmbiguousError
