"""What both drivers say to httpx, and how they read its answers and failures."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from foldline.client.asks import Ask, Lost, Reply

CONNECT_S = 10.0
_KEY = re.compile(r"[\x21-\x7e]+")


def base_url(url: str) -> str:
    """Where the server is, without a slash at the end. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("The URL of Foldline begins with http:// or https:// and names a host.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("The URL of Foldline holds neither a password nor a query.")
    return url.rstrip("/").removesuffix("/v1")


def headers(key: str) -> Mapping[str, str]:
    """Raises ValueError for what cannot be an API key; the message does not repeat it."""
    if not _KEY.fullmatch(key):
        raise ValueError("The API key is empty, or has characters that no key has.")
    return {"Authorization": f"Bearer {key}", "User-Agent": "foldline-client"}


def request_of(ask: Ask, http: httpx.Client | httpx.AsyncClient, *, body: Any) -> httpx.Request:
    """`body`: the blocks of the ask's file, or None."""
    length = {"Content-Length": str(ask.file.stat().st_size)} if ask.file else {}
    kind = {"Content-Type": "application/octet-stream"} if ask.file else {}
    return http.build_request(
        ask.method,
        ask.path,
        params=ask.query or None,
        headers={**length, **kind, **ask.headers},
        json=ask.content,
        content=body,
        timeout=httpx.Timeout(ask.silence_s, connect=CONNECT_S),
    )


def reply_of(response: httpx.Response, *, content: bytes = b"", stream: Any = None) -> Reply:
    told = {name.lower(): value for name, value in response.headers.items()}
    return Reply(status=response.status_code, headers=told, content=content, stream=stream)


def lost(error: httpx.RequestError) -> Lost:
    """A certificate that is refused once is refused again."""
    why = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return Lost(why=why, final=cause is not None)
