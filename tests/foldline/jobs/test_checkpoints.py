from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from foldline.ids import uuid7
from foldline.jobs.checkpoints import Ignored, Place, Refused, Subject, discard_ended, keep, latest
from foldline.jobs.models import Job

SUBJECT = Subject(job=str(uuid7()), revision="r" * 64, fingerprint="f" * 64, degraded=False)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Settings) -> Path:
    settings.HOME = tmp_path / "home"
    return tmp_path / "home"


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Keep some bytes as attempt 1's step 3, or as keywords say; the file they are kept in."""

    def save(
        data: bytes = b"done", *, subject: Subject = SUBJECT, attempt: int = 1, step: int = 3
    ) -> Path:
        source = tmp_path / "saved"
        source.write_bytes(data)
        keep(subject, place=Place(attempt, step), source=source)
        return tmp_path / "home" / "checkpoints" / subject.job / "latest"

    return save


def reason(subject: Subject = SUBJECT, *, at_least: Place | None = None) -> str:
    with pytest.raises(Ignored) as ignored:
        latest(subject, at_least=at_least)
    return ignored.value.reason


def test_the_next_attempt_gets_what_was_saved_last(put: Callable[..., Path]) -> None:
    assert latest(SUBJECT, at_least=None) is None
    put(b"early", step=1)
    put(b"late\n\0", step=2)
    assert latest(SUBJECT, at_least=Place(1, 2)) == b"late\n\0"


@pytest.mark.parametrize("left", [0, 40, -1])
def test_a_truncated_one_is_ignored(put: Callable[..., Path], left: int) -> None:
    file = put()
    file.write_bytes(file.read_bytes()[:left])
    assert reason() == "truncated"


def test_a_changed_one_is_ignored(put: Callable[..., Path]) -> None:
    file = put(b"done")
    file.write_bytes(file.read_bytes().replace(b"done", b"gone"))
    assert reason() == "truncated"


@pytest.mark.parametrize(
    "change",
    [
        {"job": str(uuid7())},
        {"revision": "0" * 64},
        {"fingerprint": "0" * 64},
        {"degraded": True},
    ],
    ids=str,
)
def test_a_foreign_one_is_ignored(put: Callable[..., Path], change: dict[str, Any]) -> None:
    other = replace(SUBJECT, **change)
    file = put(subject=other)
    mine = file.parent.parent / SUBJECT.job / "latest"
    mine.parent.mkdir(exist_ok=True)
    os.replace(file, mine)
    assert reason() == "foreign"


def test_one_that_is_older_than_the_last_accepted_is_ignored(put: Callable[..., Path]) -> None:
    put(attempt=1, step=8)
    assert reason(at_least=Place(1, 9)) == "stale"
    assert reason(at_least=Place(2, 1)) == "stale"
    assert latest(SUBJECT, at_least=Place(1, 7)) == b"done"


def test_an_attempt_that_lost_its_job_replaces_nothing_newer(put: Callable[..., Path]) -> None:
    put(b"newer", attempt=2, step=1)
    with pytest.raises(Refused):
        put(b"older", attempt=1, step=99)
    assert latest(SUBJECT, at_least=None) == b"newer"


def test_an_unreadable_one_is_replaced(put: Callable[..., Path]) -> None:
    put(b"old", attempt=9).write_bytes(b"garbage")
    put(b"new", attempt=1)
    assert latest(SUBJECT, at_least=None) == b"new"


def test_only_a_plain_file_is_taken_from_a_plugin(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for make in (os.symlink, os.link):
        source = tmp_path / make.__name__
        make(secret, source)
        with pytest.raises(Refused):
            keep(SUBJECT, place=Place(1, 1), source=source)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused):
        keep(SUBJECT, place=Place(1, 1), source=tmp_path / "pipe")


def test_a_write_that_fails_leaves_the_one_before(put: Callable[..., Path]) -> None:
    put(b"before", step=1).with_name("partial-1").mkdir()
    with pytest.raises(IsADirectoryError):
        put(b"after", step=2)
    assert latest(SUBJECT, at_least=None) == b"before"


@pytest.mark.django_db
def test_those_of_ended_jobs_are_removed(
    put: Callable[..., Path], make_job: Callable[..., UUID], home: Path
) -> None:
    waiting, ended = make_job(), make_job(fingerprint="e" * 64)
    Job.objects.filter(id=ended).update(state="cancelled")
    for job_id in (waiting, ended, uuid7()):
        put(subject=replace(SUBJECT, job=str(job_id)))
    assert discard_ended() == 2
    assert os.listdir(home / "checkpoints") == [str(waiting)]


@pytest.mark.django_db
def test_a_state_folder_without_any_is_no_trouble() -> None:
    assert discard_ended() == 0
