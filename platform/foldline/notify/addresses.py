"""Where a name leads, looked up once for each try, and whether that may be called.

What is checked is what is connected to: a name that answers otherwise a moment later gains
nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from foldline.fresh import Fresh
from foldline.notify.targets import Refused, Target, own_host

Resolve = Callable[..., Sequence[tuple[Any, ...]]]
"""Answers as `socket.getaddrinfo` does; raises OSError when a name leads nowhere."""
Address = IPv4Address | IPv6Address

# `is_global` of Python 3.11 takes multicast, NAT64, 6to4 and others for global.
_IPV4_CLOSED = (
    IPv4Network("192.0.0.0/24"),  # protocols' own; Oracle's metadata among them
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # Azure's host, from inside its machines
)
_IPV6_GLOBAL = IPv6Network("2000::/3")  # all that is given out; NAT64 and mapped lie elsewhere
_IPV6_CLOSED = (
    IPv6Network("2001::/23"),  # protocols' own, Teredo among them
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4: an IPv4 address inside
    IPv6Network("3fff::/20"),  # documentation
)

own_addresses_kept: Fresh[str, frozenset[Address]] = Fresh(keep_s=60)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        closed = address.is_multicast or any(address in network for network in _IPV4_CLOSED)
        return address.is_global and not closed
    return address in _IPV6_GLOBAL and not any(address in network for network in _IPV6_CLOSED)


def addresses_of(target: Target, resolve: Resolve = socket.getaddrinfo) -> Sequence[str]:
    """The addresses to try, in the resolver's order. Raises Refused when one of them may not be
    called, OSError when there is none."""
    # Absolute, so that no search domain of this machine makes another name of it.
    name = target.host if target.exempt else f"{target.host}."
    found = _look_up(name, target.port, resolve)
    if not target.exempt:
        if not all(is_public(address) for address in found):
            raise Refused("The name leads to an address that is not public.")
        if own_addresses(resolve).intersection(found):
            raise Refused("The name leads to the gateway itself.")
    return [str(address) for address in found]


def own_addresses(resolve: Resolve = socket.getaddrinfo) -> frozenset[Address]:
    """Where the gateway's own name leads; nowhere when it cannot be looked up."""

    def look_up() -> frozenset[Address]:
        try:
            return frozenset(_look_up(own_host(), 0, resolve))
        except OSError:
            return frozenset()

    return own_addresses_kept.get(own_host(), look_up)


def _look_up(name: str, port: int, resolve: Resolve) -> list[Address]:
    answers = resolve(name, port, type=socket.SOCK_STREAM)
    # A scope ("fe80::1%eth0") is of addresses that are refused anyway.
    return list(dict.fromkeys(ip_address(str(place[0]).partition("%")[0]) for *_, place in answers))
