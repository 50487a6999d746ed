"""One machine with cards: the compose file."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from foldline.environment import ROOT
from model_plugins.registry import BUILTIN_ROOT, discover

FILE = ROOT / "deploy" / "compose.yaml"
STORES = {"database", "broker", "events"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    loaded = yaml.safe_load(FILE.read_text())
    services: dict[str, Any] = loaded["services"]
    return services


def test_every_process_is_there(services: dict[str, Any]) -> None:
    assert {"gateway", "sweeper", "forecaster", "notifier", "migrations"} <= set(services)


def test_workers_are_of_models_that_exist_and_have_a_card(services: dict[str, Any]) -> None:
    models = {plugin.name for plugin in discover([BUILTIN_ROOT]).found}
    workers = {name: each for name, each in services.items() if "worker" in each["image"]}
    assert workers
    for worker in workers.values():
        assert set(worker["command"]) <= models
        [device] = worker["deploy"]["resources"]["reservations"]["devices"]
        assert device["capabilities"] == ["gpu"]


def test_nothing_of_ours_is_writable_or_has_rights(services: dict[str, Any]) -> None:
    for name in set(services) - STORES:
        assert services[name]["read_only"] is True, name
        assert services[name]["cap_drop"] == ["ALL"], name


def test_no_ticket_is_evicted(services: dict[str, Any]) -> None:
    assert "noeviction" in services["broker"]["command"]


def test_news_have_a_redis_of_their_own_that_keeps_nothing(services: dict[str, Any]) -> None:
    command = services["events"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "allkeys-lru"
    assert command[command.index("--appendonly") + 1] == "no"
    urls = services["gateway"]["environment"]
    assert urls["FOLDLINE_EVENTS_URL"] != urls["REDIS_URL"]


def test_it_listens_on_loopback_and_holds_no_secret(services: dict[str, Any]) -> None:
    assert [port for each in services.values() for port in each.get("ports", ())] == [
        "127.0.0.1:8000:8000"
    ]
    secrets = re.findall(r"(?:PASSWORD|SECRET_KEY): (\S+)", FILE.read_text())
    assert all(value.strip('",}').startswith("${") for value in secrets)


def test_a_worker_may_finish_its_job(services: dict[str, Any]) -> None:
    longest = max(plugin.run_timeout_s for plugin in discover([BUILTIN_ROOT]).found)
    for each in services.values():
        if "worker" in each["image"]:
            assert int(each["stop_grace_period"].removesuffix("m")) * 60 > longest
