"""One try against real sockets: what is sent, what counts as taken, what a bad receiver gets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pytest_django import Settings

from foldline.notify.schedule import Outcome
from foldline.notify.sending import MOST_READ, Letter, Network, send
from tests.foldline.notify.conftest import Receiver
from tests.redis_server import free_port

Serve = Callable[[Callable[[socket.socket], None]], str]
BODY = b'{"type":"ping"}'


def post(url: str, **more: Any) -> Outcome:
    return send(Letter(url=url, headers={"webhook-id": "1"}, body=BODY), **more)


@pytest.fixture
def serve(settings: Settings) -> Iterator[Serve]:
    """Let a function talk to whoever connects; gives the URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(talk: Callable[[socket.socket], None]) -> str:
        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        talk(connection)
                    except OSError:
                        continue

        threads.append(threading.Thread(target=run, daemon=True))
        threads[0].start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        settings.WEBHOOK_HOSTS = [host]
        return f"http://{host}/hook"

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    for thread in threads:
        thread.join(60)


def answering(*parts: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        for part in parts:
            connection.sendall(part)

    return talk


class TestWhatIsSent:
    def test_a_post_with_its_headers_and_exactly_the_body(self, receiver: Receiver) -> None:
        outcome = post(f"{receiver.url}/a?b=%20c")
        assert (outcome.status, outcome.error, outcome.taken) == (200, "", True)
        (came,) = receiver.received
        assert (came.path, came.body) == ("/hook/a?b=%20c", BODY)
        assert came.headers == {
            "host": receiver.host,
            "user-agent": "Foldline-Webhooks/1",
            "content-type": "application/json",
            "content-length": str(len(BODY)),
            "connection": "close",
            "webhook-id": "1",
        }

    def test_no_proxy_is_asked(self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert post(receiver.url).taken


class TestWhatCountsAsTaken:
    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    def test_only_2xx(self, receiver: Receiver, status: int) -> None:
        receiver.status = status
        assert post(receiver.url).taken

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_redirect_is_a_failure_that_is_named_and_not_followed(
        self, make_receiver: Callable[..., Receiver], status: int
    ) -> None:
        other = make_receiver()
        first = make_receiver(status=status, headers={"Location": other.url})
        outcome = post(first.url)
        assert outcome.error == f"It answered {status}: redirects are not followed."
        assert other.received == []

    @pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
    def test_everything_else_is_a_failure(self, receiver: Receiver, status: int) -> None:
        receiver.status, receiver.headers = status, {"Retry-After": "7"}
        outcome = post(receiver.url)
        assert (outcome.status, outcome.retry_after) == (status, "7")
        assert outcome.error == f"It answered {status}."

    def test_410_says_what_it_means(self, receiver: Receiver) -> None:
        receiver.status = 410
        assert post(receiver.url).error == "It answered 410: it wants no more messages."


class TestBadReceivers:
    @pytest.mark.parametrize(
        ("parts", "status", "error"),
        [
            ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"], 200, ""),
            ([b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", b"HTTP/1.0 204\r\n\r\n"], 204, ""),
            ([b"HTTP/1.1 200 OK\n\n"], 200, ""),
            ([b"HTTP/1.1 200 OK\r\nX: \xff\xfe\r\n\r\n"], 200, ""),
            ([b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000], 200, ""),
            ([b"HTTP/1.1 500 no\r\nX: " + b"y" * 100_000], 500, "It answered 500."),
            ([b"HTTP/1.1 100 Continue\r\n\r\n"], None, "What came back is no HTTP answer."),
            ([b"HTTP/1.1 100 Continue\r\n\r\n" * 1000], None, "What came back is no HTTP answer."),
            ([b"HTTP/2 200\r\n\r\n"], None, "What came back is no HTTP answer."),
            ([b"HTTP/1.1 2000 OK\r\n\r\n"], None, "What came back is no HTTP answer."),
            ([b"SSH-2.0-OpenSSH_9.2\r\n"], None, "What came back is no HTTP answer."),
            ([b"\x00" * 10_000], None, "What came back is no HTTP answer."),
            ([], None, "No answer came back."),
        ],
        ids=range(13),
    )
    def test_whatever_comes_back_is_an_outcome(
        self, serve: Serve, parts: list[bytes], status: int | None, error: str
    ) -> None:
        outcome = post(serve(answering(*parts)))
        assert (outcome.status, outcome.error) == (status, error)

    def test_an_answer_without_end_is_read_to_4_kib_at_most(self, serve: Serve) -> None:
        sent: list[int] = []

        def talk(connection: socket.socket) -> None:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while True:
                sent.append(connection.send(b"y" * MOST_READ))

        outcome = post(serve(talk), timeout_s=120)
        assert outcome.taken
        assert outcome.ms < 120_000

    def test_a_receiver_that_says_nothing_gets_its_time_and_no_more(self, serve: Serve) -> None:
        outcome = post(serve(lambda connection: _hold(connection)), timeout_s=0.5)
        assert outcome.error == "No answer within 0.5 s."
        assert 450 <= outcome.ms < 60_000

    def test_a_receiver_that_drips_gets_no_more_than_that(self, serve: Serve) -> None:
        """Each byte comes in time; together they would take minutes."""

        def talk(connection: socket.socket) -> None:
            connection.recv(65536)
            for byte in b"HTTP/1.1 200 OK\r\n" * 100:
                connection.sendall(bytes([byte]))
                connection.settimeout(0.1)
                try:
                    connection.recv(1)
                except TimeoutError:
                    continue

        outcome = post(serve(talk), timeout_s=0.5)
        assert outcome.error == "No answer within 0.5 s."
        assert outcome.ms < 60_000

    def test_nobody_there(self, settings: Settings) -> None:
        host = f"127.0.0.1:{free_port()}"
        settings.WEBHOOK_HOSTS = [host]
        assert post(f"http://{host}/").error == "It refused the connection."

    def test_a_url_that_may_no_longer_be_told_is_not_called(
        self, receiver: Receiver, settings: Settings
    ) -> None:
        settings.WEBHOOK_HOSTS, settings.BASE_URL = [], "https://foldline.example.com"
        settings.ALLOWED_HOSTS = ["foldline.example.com"]
        assert post(receiver.url).error == "Only https is called."
        assert receiver.received == []


def _hold(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path)

    def test_the_name_goes_with_the_checked_address_and_the_certificate_is_the_names(
        self, serve: Serve, authority: Authority, settings: Settings
    ) -> None:
        asked: list[str | None] = []
        requests: list[bytes] = []
        url = serve(authority.talk("hooks.example.com", asked=asked, requests=requests))
        network = authority.network(url)
        address = self.listed(url, "hooks.example.com", settings)
        assert post(address, network=network).taken
        assert asked == ["hooks.example.com"]
        assert f"Host: {address.split('/')[2]}\r\n".encode() in requests[0]

    def test_a_certificate_of_another_name_is_refused(
        self, serve: Serve, authority: Authority, settings: Settings
    ) -> None:
        requests: list[bytes] = []
        url = serve(authority.talk("other.example.com", asked=[], requests=requests))
        network = authority.network(url)
        outcome = post(self.listed(url, "hooks.example.com", settings), network=network)
        assert outcome.error.startswith("Its certificate is not accepted: Hostname mismatch")
        assert requests == []

    def test_a_certificate_of_nobody_we_know_is_refused(
        self, serve: Serve, authority: Authority, settings: Settings
    ) -> None:
        url = serve(authority.talk("hooks.example.com", asked=[], requests=[]))
        network = Network(resolve=authority.network(url).resolve)
        outcome = post(self.listed(url, "hooks.example.com", settings), network=network)
        assert outcome.error.startswith("Its certificate is not accepted: ")

    def test_a_receiver_without_tls(self, receiver: Receiver) -> None:
        url = receiver.url.replace("http:", "https:")
        assert post(url).error == "No TLS connection came about."

    def listed(self, url: str, name: str, settings: Settings) -> str:
        """The https URL of that name on the server's port, listed because it is not 443."""
        port = url.split(":")[2].split("/")[0]
        settings.WEBHOOK_HOSTS = [f"{name}:{port}"]
        return f"https://{name}:{port}/hook"


class Authority:
    """Issues certificates that only its own `network` accepts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        self._certificate = self._signed(self._name, self._key, authority=True)

    def network(self, url: str) -> Network:
        """Every name leads to the server at `url`."""
        port = int(url.split(":")[2].split("/")[0])
        pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()
        tls = ssl.create_default_context(cadata=pem)
        place = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        return Network(resolve=lambda *_, **__: [place], tls=lambda: tls)

    def talk(
        self, name: str, *, asked: list[str | None], requests: list[bytes]
    ) -> Callable[[socket.socket], None]:
        """A server with a certificate of `name`; notes the names it is asked for."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key, host=name)
        files = self._folder / "certificate", self._folder / "key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*files)
        tls.sni_callback = lambda _, host, __: asked.append(host)

        def talk(connection: socket.socket) -> None:
            with tls.wrap_socket(connection, server_side=True) as secure:
                requests.append(secure.recv(65536))
                secure.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        return talk

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        host: str = "",
        authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.DNSName(host or "authority.example.com")])
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=authority,
            crl_sign=authority, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
