"""Weights on a node before a worker comes: read, checked by hash, and told if they are wrong."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import NodeWeights
from foldline.fleet.weights_ahead import TOLD_DAYS, weights_of, wrong_weights
from tests.worker_process import PLUGINS

pytestmark = pytest.mark.django_db

WEIGHTS = b"w" * 1_000_000


@pytest.fixture
def file(tmp_path: Path, settings: Settings) -> Path:
    """A weight file in a package of a runtime of its own."""
    settings.HOME = tmp_path / "home"
    runtime = tmp_path / "home" / "runtimes" / "plain"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", runtime], check=True)
    [packages] = runtime.glob("lib/python*/site-packages")
    (packages / "heavy").mkdir()
    (packages / "heavy" / "model.bin").write_bytes(WEIGHTS)
    return packages / "heavy" / "model.bin"


@pytest.fixture
def heavy(tmp_path: Path, live_revision: Callable[..., Revision]) -> Revision:
    """A model with these weights."""
    folder = tmp_path / "plugins" / "heavy"
    shutil.copytree(PLUGINS / "dice", folder)
    manifest = folder / "manifest.toml"
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    manifest.write_text(
        manifest.read_text().replace('name = "dice"', 'name = "heavy"')
        + f'\n[[weights]]\nname = "main"\npackage = "heavy"\npath = "model.bin"\n'
        f'sha256 = "{sha256}"\n'
    )
    return live_revision(folder=folder)


def test_the_weights_of_a_revision_are_read_and_found_to_be_the_reviewed_ones(
    file: Path, heavy: Revision, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOLDLINE_NODE", "gpu-1")
    call_command("weights", "heavy@r1")
    call_command("weights", "heavy")
    assert "1.0 MB of weights are on gpu-1 and as reviewed" in capsys.readouterr().out
    [found] = weights_of(heavy.pk)
    assert (found.node, found.size_bytes, found.trouble) == ("gpu-1", len(WEIGHTS), "")
    assert wrong_weights([heavy.pk]) == {}


@pytest.mark.parametrize("what", ["changed", "missing"])
def test_weights_that_are_not_the_reviewed_ones_are_told_in_words(
    file: Path, heavy: Revision, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_NODE", "gpu-1")
    if what == "changed":
        file.write_bytes(WEIGHTS[:-1] + b"x")
    else:
        file.unlink()
    with pytest.raises(CommandError):
        call_command("weights", "heavy")
    [words] = wrong_weights([heavy.pk])[heavy.pk]
    assert words.startswith("its weights cannot be used on the node gpu-1: The weights 'main'")
    file.write_bytes(WEIGHTS)
    call_command("weights", "heavy")
    assert wrong_weights([heavy.pk]) == {}, "the newest reading counts"


def test_a_folder_that_was_changed_after_its_review_is_trouble(file: Path, heavy: Revision) -> None:
    (Path(heavy.folder) / "plugin.py").write_text("pass\n")
    with pytest.raises(CommandError, match="has changed since r1 was reviewed"):
        call_command("weights", "heavy")


@pytest.mark.parametrize("name", ["ghost", "../heavy", "heavy@r9"])
def test_a_revision_that_is_not_there_is_a_clear_error(name: str) -> None:
    with pytest.raises(CommandError, match="no live revision"):
        call_command("weights", name)


def test_a_node_that_nobody_has_read_on_for_a_week_is_not_spoken_of(
    live_revision: Callable[..., Revision],
) -> None:
    toy = live_revision(name="toy")
    long_ago = database_now() - timedelta(days=TOLD_DAYS, seconds=1)
    NodeWeights.objects.create(revision=toy, node="gone", at=long_ago, trouble="missing")
    assert wrong_weights([toy.pk]) == {}
    assert weights_of(toy.pk) == []
