"""What is signed, checked by the public library of Standard Webhooks."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings
from standardwebhooks import Webhook, WebhookVerificationError

from foldline.ids import uuid7
from foldline.notify.signing import Unreadable, new_secret, seal, signed_headers, unseal

BODY = b'{"type":"job.succeeded","data":{"id":"\xc3\xa9"}}'


def signed(*secrets: str, at: datetime | None = None) -> dict[str, str]:
    sealed: Sequence[str] = [seal(secret) for secret in secrets]
    return dict(signed_headers(uuid7(), BODY, sealed=sealed, now=at or datetime.now(UTC)))


def test_a_secret_is_whsec_and_32_random_bytes() -> None:
    first, second = new_secret(), new_secret()
    assert first.startswith("whsec_")
    assert len(b64decode(first.removeprefix("whsec_"), validate=True)) == 32
    assert first != second


def test_the_public_library_accepts_it() -> None:
    secret = new_secret()
    assert Webhook(secret).verify(BODY, signed(secret))["type"] == "job.succeeded"


def test_after_a_rotation_both_secrets_are_accepted() -> None:
    new, old = new_secret(), new_secret()
    headers = signed(new, old)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (new, old):
        Webhook(secret).verify(BODY, headers)


def test_another_secret_another_body_and_another_id_are_refused() -> None:
    secret = new_secret()
    headers = signed(secret)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY, {**headers, "webhook-id": str(uuid7())})


@pytest.mark.parametrize("minutes", [-6, 6])
def test_an_old_or_future_time_is_refused(minutes: int) -> None:
    secret = new_secret()
    headers = signed(secret, at=datetime.now(UTC) + timedelta(minutes=minutes))
    with pytest.raises(WebhookVerificationError, match="too"):
        Webhook(secret).verify(BODY, headers)


class TestSealing:
    def test_the_database_alone_does_not_hold_it(self) -> None:
        secret = new_secret()
        sealed = seal(secret)
        assert secret not in sealed
        assert secret.removeprefix("whsec_") not in sealed
        assert unseal(sealed) == secret
        assert seal(secret) != sealed

    def test_another_secret_key_cannot_open_it(self, settings: Settings) -> None:
        sealed = seal(new_secret())
        settings.SECRET_KEY = "another one"
        with pytest.raises(Unreadable):
            unseal(sealed)

    def test_an_old_secret_that_cannot_be_read_stands_in_nobodys_way(
        self, settings: Settings
    ) -> None:
        old = seal(new_secret())
        settings.SECRET_KEY = "another one"
        new = seal(new_secret())
        headers = signed_headers(uuid7(), BODY, sealed=[new, old], now=datetime.now(UTC))
        assert len(headers["webhook-signature"].split(" ")) == 1
        with pytest.raises(Unreadable):
            signed_headers(uuid7(), BODY, sealed=[old, new], now=datetime.now(UTC))
