"""Where a name leads: which addresses are called, and that one answer is all that counts."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import pytest
from pytest_django import Settings

from foldline.notify.addresses import addresses_of, is_public
from foldline.notify.sending import Letter, Network, send
from foldline.notify.targets import Refused, target_of

PUBLIC = ["93.184.216.34", "1.1.1.1", "8.8.8.8", "2606:2800:220:1::1", "2a00:1450::1"]
CLOSED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.1", "0.1.2.3", "10.0.0.1", "172.16.0.1"),
    *("172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254"),
    *("169.254.170.2", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    "255.255.255.255",
    *("::1", "::", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1"),
    *("64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:20::1"),
    *("2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1"),
    *("fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1"),
]  # fmt: skip


class Names:
    """A resolver that is told what to say, each time one of `answers` and the last for ever."""

    def __init__(self, *answers: Sequence[str], gateway: Sequence[str] = ()) -> None:
        self.answers = list(answers)
        self.gateway = gateway
        self.asked: list[str] = []

    def __call__(self, name: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        if name == "foldline.example.com":
            return [(0, 0, 0, "", (address, port)) for address in self.gateway]
        self.asked.append(name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return [(0, 0, 0, "", (address, port)) for address in answer]


class Connections:
    """Notes who is called; nobody answers."""

    def __init__(self) -> None:
        self.called: list[tuple[str, int]] = []

    def __call__(self, place: tuple[str, int], *, timeout: float) -> socket.socket:
        assert 0 < timeout <= 15
        self.called.append(place)
        raise ConnectionRefusedError


@pytest.fixture(autouse=True)
def _gateway(settings: Settings) -> None:
    settings.BASE_URL = "https://foldline.example.com"
    settings.WEBHOOK_HOSTS = []


@pytest.mark.parametrize("address", PUBLIC)
def test_it_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", CLOSED)
def test_it_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))
    with pytest.raises(Refused, match="not public"):
        addresses_of(target_of("https://hooks.example.com"), Names([address]))


def call(names: Names, url: str = "https://hooks.example.com/") -> tuple[list[str], str]:
    """(addresses that were called, what is said of it)"""
    connections = Connections()
    outcome = send(
        Letter(url=url, headers={}, body=b"{}"),
        network=Network(resolve=names, connect=connections),
    )
    assert all(port == 443 for _, port in connections.called)
    return [address for address, _ in connections.called], outcome.error


def test_the_checked_address_is_the_one_that_is_called() -> None:
    """Rebinding: public when asked first, this machine a moment later."""
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    assert call(names) == (["93.184.216.34"], "It refused the connection.")
    assert names.asked == ["hooks.example.com."]
    # The next try asks again, and is refused.
    assert call(names) == ([], "The name leads to an address that is not public.")


def test_one_private_address_among_many_is_enough_to_refuse() -> None:
    assert call(Names([*PUBLIC, "10.0.0.1"]))[0] == []
    assert call(Names(["127.0.0.1", *PUBLIC]))[0] == []


def test_an_address_of_the_gateway_is_refused() -> None:
    names = Names(["93.184.216.34"], gateway=["93.184.216.34"])
    assert call(names) == ([], "The name leads to the gateway itself.")


def test_a_scope_hides_nothing() -> None:
    assert call(Names(["fe80::1%eth0"]))[0] == []


def test_a_name_that_leads_nowhere_is_a_failure_in_words() -> None:
    assert call(Names([])) == ([], "Its name leads nowhere.")


def test_several_addresses_are_tried_in_order_and_not_too_many() -> None:
    called, _ = call(Names(PUBLIC))
    assert called == PUBLIC[:3]


def test_no_search_domain_makes_another_name_of_it(settings: Settings) -> None:
    """The name is absolute, but for hosts that are listed: those may be short."""
    settings.WEBHOOK_HOSTS = ["receiver:443"]
    names = Names(["10.0.0.7"])
    assert call(names, "https://receiver/")[0] == ["10.0.0.7"]
    assert names.asked == ["receiver"]
