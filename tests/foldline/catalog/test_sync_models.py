from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from foldline.catalog.models import Model

pytestmark = pytest.mark.django_db
WritePlugin = Callable[..., Path]


@pytest.fixture
def no_builtins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave the built-in models out: they are somebody else's tests."""
    empty = tmp_path / "builtin"
    empty.mkdir()
    monkeypatch.setattr("foldline.catalog.management.commands.sync_models.BUILTIN_ROOT", empty)


def test_the_command_tells_what_became_of_each_plugin(
    write_plugin: WritePlugin, settings: Settings, no_builtins: None
) -> None:
    settings.PLUGIN_DIRS = [write_plugin().parent]
    out = StringIO()
    call_command("sync_models", stdout=out)
    assert out.getvalue().split() == ["echo", "r1", "drafted"]


def test_the_command_fails_when_a_plugin_is_refused_and_takes_the_others(
    write_plugin: WritePlugin, settings: Settings, no_builtins: None
) -> None:
    write_plugin("bad", run_timeout_s=0)
    settings.PLUGIN_DIRS = [write_plugin("good").parent]
    with pytest.raises(CommandError, match=r"1 of the plugins"):
        call_command("sync_models", stdout=StringIO())
    assert list(Model.objects.values_list("name", flat=True)) == ["good"]


def test_a_plugin_folder_that_is_missing_is_said(
    settings: Settings, tmp_path: Path, no_builtins: None
) -> None:
    settings.PLUGIN_DIRS = [tmp_path / "nowhere"]
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("sync_models", stdout=out)
    assert "is missing" in out.getvalue()


def test_a_plugin_installed_in_a_runtime_is_found(
    write_plugin: WritePlugin, settings: Settings, tmp_path: Path, no_builtins: None
) -> None:
    settings.HOME = tmp_path
    site = tmp_path / "runtimes" / "other" / "lib" / "python3.11" / "site-packages"
    info = site / "echo_plugin-1.dist-info"
    info.mkdir(parents=True)
    write_plugin().rename(site / "echo_plugin")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[foldline.plugins]\necho = echo_plugin\n")
    call_command("sync_models", stdout=StringIO())
    assert Model.objects.filter(name="echo").exists()
