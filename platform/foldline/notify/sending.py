"""One message to one receiver: a connection of its own, a POST, the head of the answer.

By hand and small: the address that was checked is the one that is connected to, nothing is
redirected, no proxy is asked, and neither a slow nor a talkative receiver gets more than its
time and its 4 KiB.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from functools import cache

from foldline.notify.addresses import Resolve, addresses_of
from foldline.notify.schedule import Outcome
from foldline.notify.targets import Refused, Target, target_of

TIMEOUT_S = 15.0
MOST_READ = 4096
MOST_ADDRESSES = 3
CHUNK = 16 * 1024

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")


@cache
def public_tls() -> ssl.SSLContext:
    """Certificates are checked against this machine's authorities."""
    return ssl.create_default_context()


@dataclass(frozen=True, kw_only=True)
class Network:
    """How names are looked up and connections made."""

    resolve: Resolve = socket.getaddrinfo
    connect: Callable[..., socket.socket] = socket.create_connection
    tls: Callable[[], ssl.SSLContext] = public_tls


@dataclass(frozen=True, kw_only=True)
class Letter:
    """What is sent, and where to."""

    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class NoAnswer(Exception):
    """The receiver said nothing that can be read; the message says what happened."""


class _Clock:
    """What is left of the time for one try."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def left(self) -> float:
        """Raises TimeoutError when it is over."""
        seconds = self._ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


def send(
    letter: Letter, *, network: Network | None = None, timeout_s: float = TIMEOUT_S
) -> Outcome:
    """Try once. Whatever happens is an outcome; nothing is raised."""
    began = time.monotonic()
    try:
        head = _exchange(letter, network or Network(), _Clock(timeout_s))
        status, retry_after = _read(head)
    except (Refused, NoAnswer, OSError, ValueError) as error:
        return Outcome(error=_said(error, timeout_s), ms=_ms_since(began))
    return Outcome(
        status=status, error=_judged(status), retry_after=retry_after, ms=_ms_since(began)
    )


def _exchange(letter: Letter, network: Network, clock: _Clock) -> bytes:
    """The first bytes of the answer."""
    target = target_of(letter.url)
    with _connected(target, network, clock) as connection:
        request = memoryview(_request(target, letter))
        for begin in range(0, len(request), CHUNK):
            connection.settimeout(clock.left())
            connection.sendall(request[begin : begin + CHUNK])
        received = b""
        while _final(received) is None and len(received) < MOST_READ:
            connection.settimeout(clock.left())
            more = connection.recv(MOST_READ - len(received))
            if not more:
                break
            received += more
    return received


def _connected(target: Target, network: Network, clock: _Clock) -> socket.socket:
    addresses = addresses_of(target, network.resolve)[:MOST_ADDRESSES]
    plain = _first_that_answers(addresses, target.port, network, clock)
    if target.scheme == "http":
        return plain
    plain.settimeout(clock.left())
    try:
        return network.tls().wrap_socket(plain, server_hostname=target.host)
    except BaseException:
        plain.close()
        raise


def _first_that_answers(
    addresses: Sequence[str], port: int, network: Network, clock: _Clock
) -> socket.socket:
    """A connection to the first address that takes one, its share of the time for each."""
    failure: OSError = ConnectionError("no address")
    for left_over, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            return network.connect((address, port), timeout=clock.left() / left_over)
        except OSError as error:
            failure = error
    raise failure


def _request(target: Target, letter: Letter) -> bytes:
    headers = {
        "Host": target.authority,
        "User-Agent": "Foldline-Webhooks/1",
        "Content-Type": "application/json",
        "Content-Length": str(len(letter.body)),
        "Connection": "close",
        **letter.headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + letter.body


def _final(received: bytes) -> bytes | None:
    """The whole head of the final answer; None until it is there."""
    while end := _HEAD_ENDS.search(received):
        head, received = received[: end.end()], received[end.end() :]
        status = _STATUS.match(head)
        if status is None or not status[1].startswith(b"1"):
            return head
    return None


def _read(received: bytes) -> tuple[int, str]:
    """(status, Retry-After). A head that is longer than what is read still has its status."""
    head = _final(received) or received
    status = _STATUS.match(head)
    if status is None or status[1].startswith(b"1"):
        raise NoAnswer("What came back is no HTTP answer." if received else "No answer came back.")
    headers = BytesHeaderParser().parsebytes(head[status.end() :])
    return int(status[1]), str(headers.get("Retry-After", ""))


def _judged(status: int) -> str:
    """What is wrong with an answer, in words; "" when the message was taken."""
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"It answered {status}: redirects are not followed."
    if status == 410:
        return "It answered 410: it wants no more messages."
    return f"It answered {status}."


def _said(error: Exception, timeout_s: float) -> str:
    """A failure in words of ours: what a receiver or a resolver says stays outside."""
    if isinstance(error, Refused | NoAnswer):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"Its certificate is not accepted: {error.verify_message}"[:200]
    if isinstance(error, ssl.SSLError):
        return "No TLS connection came about."
    if isinstance(error, TimeoutError):
        return f"No answer within {timeout_s:g} s."
    if isinstance(error, socket.gaierror):
        return "Its name leads nowhere."
    if isinstance(error, ConnectionRefusedError):
        return "It refused the connection."
    if isinstance(error, ConnectionError):
        return "The connection broke off."
    return "It could not be reached."


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
