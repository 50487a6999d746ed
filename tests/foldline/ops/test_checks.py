from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from foldline.ops.checks import (
    a_lease_outlives_a_lost_heartbeat,
    a_public_address_is_https,
    folders_can_be_written,
    secrets_are_private,
    the_scaler_knows_where_workers_are,
    webhook_hosts_name_a_port,
    webhooks_stay_outside,
)
from tests.foldline.ops.conftest import StartCommand

Check = Callable[..., object]


def ids_of(check: Check) -> list[str]:
    return [message.id for message in check(None)]  # type: ignore[attr-defined]  # Django's decorator hides it


def test_the_settings_as_they_come_are_fine() -> None:
    assert [message for message in run_checks() if (message.id or "").startswith("foldline")] == []


@pytest.mark.parametrize("setting", ["HOME", "ARTIFACTS_DIR"])
def test_a_folder_below_a_file_is_refused(settings: Settings, tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").touch()
    setattr(settings, setting, tmp_path / "file" / "state")
    assert ids_of(folders_can_be_written) == ["foldline.E001"]


def test_a_lease_shorter_than_two_heartbeats_is_refused(settings: Settings) -> None:
    settings.LEASE_S, settings.HEARTBEAT_S = 9.0, 5.0
    assert ids_of(a_lease_outlives_a_lost_heartbeat) == ["foldline.E002"]


def test_a_scaler_without_a_place_for_workers_is_refused(settings: Settings) -> None:
    settings.SCALER_TARGET, settings.LOCAL_WORKERS = "moon", 0
    assert ids_of(the_scaler_knows_where_workers_are) == ["foldline.E005", "foldline.E006"]


def test_an_unknown_way_to_hand_out_cards_is_refused(settings: Settings) -> None:
    settings.GPU_FLAVOUR = "halves"
    assert ids_of(the_scaler_knows_where_workers_are) == ["foldline.E007"]


@pytest.mark.parametrize("entry", ["receiver", "receiver:", ":9000", "Receiver:9000", "a:b"])
def test_a_webhook_host_without_a_port_is_refused(settings: Settings, entry: str) -> None:
    settings.WEBHOOK_HOSTS = ["receiver:9000", entry]
    assert ids_of(webhook_hosts_name_a_port) == ["foldline.E010"]


def test_webhook_hosts_in_production_are_warned_of(settings: Settings) -> None:
    assert ids_of(webhooks_stay_outside) == []
    settings.WEBHOOK_HOSTS = ["receiver:9000"]
    assert ids_of(webhooks_stay_outside) == ["foldline.W010"]
    assert ids_of(webhook_hosts_name_a_port) == []


def test_a_public_address_without_https_is_refused(settings: Settings) -> None:
    settings.PUBLIC, settings.BASE_URL = True, "http://foldline.example"
    assert ids_of(a_public_address_is_https) == ["foldline.E003"]


def test_a_secret_others_may_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path))
    secret = tmp_path / "secrets" / "thing"
    secret.parent.mkdir()
    secret.write_text("hush")
    secret.chmod(0o644)
    assert ids_of(secrets_are_private) == ["foldline.E004"]
    secret.chmod(0o600)
    assert ids_of(secrets_are_private) == []


@pytest.mark.processes
def test_the_deployment_check_is_clean(start: StartCommand) -> None:
    command = start(
        *("manage.py", "check", "--deploy", "--fail-level", "WARNING"),
        FOLDLINE_PUBLIC="1",
        FOLDLINE_BASE_URL="https://foldline.example",
    )
    assert command.ended() == 0, command.text
    assert "no issues" in command.text
