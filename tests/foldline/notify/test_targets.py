"""The table of hosts: what a URL may look like, and where a name may lead."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from foldline.notify.targets import Refused, target_of

ACCEPTED = [
    "https://hooks.example.com",
    "https://hooks.example.com/",
    "https://hooks.example.com:443/a/b?c=d&e=%20",
    "HTTPS://Hooks.Example.COM/Path",
    "https://xn--bcher-kva.example.com/",
    "https://1and1.com/",
    "https://a.b.c.d.e.example.org/",
    "https://127.0.0.1.nip.io/",  # a name; where it leads is judged when it is called
]
REFUSED = {
    # Only https, only 443, nothing but a host in front of the path.
    "http://hooks.example.com/": "Only https",
    "ftp://hooks.example.com/": "begins with https",
    "file:///etc/passwd": "begins with https",
    "gopher://hooks.example.com/": "begins with https",
    "javascript:alert(1)": "begins with https",
    "//hooks.example.com/": "begins with https",
    "hooks.example.com": "begins with https",
    "https://": "begins with https",
    "https:///path": "begins with https",
    "https://hooks.example.com:80/": "Only port 443",
    "https://hooks.example.com:8443/": "Only port 443",
    "https://hooks.example.com:6379/": "Only port 443",
    "https://hooks.example.com:0/": "Only port 443",
    "https://hooks.example.com:99999/": "no URL",
    "https://hooks.example.com:x/": "no URL",
    "https://user@hooks.example.com/": "no user",
    "https://user:password@hooks.example.com/": "no user",
    "https://hooks.example.com@127.0.0.1/": "no user",
    "https://@hooks.example.com/": "no user",
    "https://hooks.example.com/#fragment": "no fragment",
    "https://hooks.example.com/#": "no fragment",
    # What one reader takes for a host and another does not.
    "https://hooks.example.com\\@127.0.0.1/": "ASCII",
    "https://hooks.example.com/a b": "ASCII",
    "https://hooks.example.com/\r\nHost: inside": "ASCII",
    "https://hooks.example.com/\t": "ASCII",
    "https://hooks.example.com/\x00": "ASCII",
    "https://b\u00fccher.example.com/": "ASCII",
    "https://\uff11\uff12\uff17.0.0.1/": "ASCII",
    "https://127\u30020\u30020\u30021/": "ASCII",
    "https://loc\u00adalhost/": "ASCII",
    "https://hooks%2eexample.com/": "no host name",
    "https://hooks_example.com/": "no host name",
    "https://-hooks.example.com/": "no host name",
    "https://hooks..example.com/": "no host name",
    f"https://{'a' * 64}.example.com/": "no host name",
    f"https://{'a.' * 130}com/": "no host name",
    f"https://hooks.example.com/{'a' * 1000}": "at most 1000",
    # Addresses, however they are written.
    "https://127.0.0.1/": "A host is a name",
    "https://127.1/": "A host is a name",
    "https://2130706433/": "A host is a name",
    "https://0x7f000001/": "A host is a name",
    "https://0x7f.0x0.0x0.0x1/": "A host is a name",
    "https://0177.0.0.1/": "A host is a name",
    "https://017700000001/": "A host is a name",
    "https://127.0.0.1./": "A host is a name",
    "https://0/": "A host is a name",
    "https://10.0.0.1/": "A host is a name",
    "https://169.254.169.254/latest/meta-data/": "A host is a name",
    "https://93.184.216.34/": "A host is a name",
    "https://[::1]/": "A host is a name",
    "https://[::ffff:127.0.0.1]/": "A host is a name",
    "https://[64:ff9b::7f00:1]/": "A host is a name",
    "https://[fe80::1%25eth0]/": "A host is a name",
    "https://[fd00:ec2::254]/": "A host is a name",
    # Names of networks of their own.
    "https://localhost/": "gateway itself",
    "https://receiver/": "private network",
    "https://a.localhost/": "private network",
    "https://printer.local/": "private network",
    "https://metadata.google.internal/": "private network",
    "https://gateway.foldline.svc/": "private network",
    "https://kubernetes.default.svc.cluster.local/": "private network",
    "https://1.0.0.127.in-addr.arpa/": "private network",
    "https://hooks.example.com./": "no dot at its end",
    "https://localhost./": "no dot at its end",
    # The gateway.
    "https://foldline.example.com/v1/jobs": "gateway itself",
    "https://FOLDLINE.example.com/": "gateway itself",
    "https://also.example.com/": "gateway itself",
}


@pytest.fixture(autouse=True)
def _gateway(settings: Settings) -> None:
    settings.BASE_URL = "https://foldline.example.com"
    settings.ALLOWED_HOSTS = ["foldline.example.com", "also.example.com", "localhost"]
    settings.WEBHOOK_HOSTS = []


@pytest.mark.parametrize("url", ACCEPTED)
def test_it_may_be_registered(url: str) -> None:
    target = target_of(url)
    assert (target.scheme, target.port, target.exempt) == ("https", 443, False)


@pytest.mark.parametrize("url", REFUSED)
def test_it_is_refused_with_words(url: str) -> None:
    with pytest.raises(Refused, match=REFUSED[url]):
        target_of(url)


def test_the_parts_of_a_url() -> None:
    target = target_of("https://Hooks.example.com?x=1")
    assert (target.host, target.path, target.authority) == (
        "hooks.example.com",
        "/?x=1",
        "hooks.example.com",
    )


class TestListedHosts:
    def test_a_listed_host_may_be_private_and_speak_http(self, settings: Settings) -> None:
        settings.WEBHOOK_HOSTS = ["receiver:9000", "127.0.0.1:80", "::1:9000"]
        for url in ("http://receiver:9000/x", "https://receiver:9000/", "http://127.0.0.1/"):
            assert target_of(url).exempt
        assert target_of("http://receiver:9000/x").authority == "receiver:9000"
        assert target_of("http://[::1]:9000/").authority == "[::1]:9000"

    def test_another_port_of_it_may_not(self, settings: Settings) -> None:
        settings.WEBHOOK_HOSTS = ["receiver:9000"]
        for url in ("http://receiver:9001/", "http://receiver/", "https://receiver/"):
            with pytest.raises(Refused):
                target_of(url)

    def test_the_gateway_itself_cannot_be_listed(self, settings: Settings) -> None:
        settings.BASE_URL = "http://127.0.0.1:8000"
        settings.WEBHOOK_HOSTS = ["127.0.0.1:8000", "127.0.0.1:9000"]
        with pytest.raises(Refused, match="gateway itself"):
            target_of("http://127.0.0.1:8000/v1/models")
        assert target_of("http://127.0.0.1:9000/").exempt
