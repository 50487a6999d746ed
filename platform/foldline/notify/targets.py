"""Which URLs may be told anything: decided by their form, before any name is looked up.

https on port 443, to a full name that is neither ours nor of a network of its own. What
`FOLDLINE_WEBHOOK_HOSTS` lists (`host:port`) is exempt, but for the gateway itself. Where a
name leads is judged at each delivery: `addresses`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from foldline.notify.models import URL_CHARACTERS

PORTS = {"https": 443, "http": 80}
# RFC 6761, 6762, 7686, 8375, ICANN's `internal`, and what companies and clusters call themselves.
PRIVATE_DOMAINS = frozenset(
    {
        *("localhost", "local", "internal", "arpa", "test", "invalid", "example", "onion", "alt"),
        *("localdomain", "lan", "home", "corp", "intranet", "private", "svc", "cluster"),
    }
)
_PRINTABLE = re.compile(r"[!-~]+")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Refused(Exception):
    """This URL is told nothing; the message says why, in words."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A URL in its parts."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""
    exempt: bool
    """Listed in `FOLDLINE_WEBHOOK_HOSTS`: its addresses are not judged."""

    @property
    def authority(self) -> str:
        """As the header `Host` has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """The target of a URL. Raises Refused."""
    target = _parsed(url)
    ours = _own()
    if (target.host, target.port) == ours:
        raise Refused("This is the gateway itself.")
    if target.exempt:
        return target
    if target.host in {ours[0], *settings.ALLOWED_HOSTS}:
        raise Refused("This is the gateway itself.")
    if target.scheme != "https":
        raise Refused("Only https is called.")
    if target.port != PORTS["https"]:
        raise Refused("Only port 443 is called.")
    _check_name(target.host)
    return target


def _parsed(url: str) -> Target:
    if len(url) > URL_CHARACTERS:
        raise Refused(f"A URL has at most {URL_CHARACTERS} characters.")
    if not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise Refused("A URL has ASCII characters only; write a name of other letters as xn--….")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Refused("This is no URL.") from None
    if parts.scheme not in PORTS or not host:
        raise Refused("A URL begins with https:// and a host.")
    if "@" in parts.netloc:
        raise Refused("A URL names no user and no password.")
    if "#" in url:
        raise Refused("A URL has no fragment.")
    port = PORTS[parts.scheme] if port is None else port
    return Target(
        scheme=parts.scheme,
        host=host,
        port=port,
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        exempt=f"{host}:{port}" in settings.WEBHOOK_HOSTS,
    )


def _check_name(host: str) -> None:
    """Raises Refused for what is no full name of the public network."""
    labels = host.split(".")
    if ":" in host or _NUMBER.fullmatch(labels[-1] or (labels[-2] if labels[1:] else "")):
        raise Refused("A host is a name: addresses are not called, however they are written.")
    if not labels[-1]:
        raise Refused("A host has no dot at its end.")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise Refused("This is no host name.")
    if len(labels) < 2 or labels[-1] in PRIVATE_DOMAINS:
        raise Refused("This name is of a private network.")


def _own() -> tuple[str, int]:
    """The gateway's host and port, as callers know it."""
    parts = urlsplit(settings.BASE_URL)
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


def own_host() -> str:
    return _own()[0]
