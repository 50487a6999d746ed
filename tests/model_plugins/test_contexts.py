from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest

from model_plugins.contexts import MAX_OUTPUTS, MAX_WARNINGS, PROGRESS_PER_S, Job, Phases
from model_plugins.frames import MAX_CHECKPOINT_BYTES

Sent = list[dict[str, Any]]


@pytest.fixture
def sent() -> Sent:
    return []


@pytest.fixture
def job(tmp_path: Path, sent: Sent) -> Job:
    item = {"job": "a", "attempt": 2, "seed": 9, "scratch": str(tmp_path), "inputs": {"x": 1}}
    item["checkpoints"] = str(tmp_path)
    return Job(
        item, is_cancelled=lambda: False, send=lambda kind, fields: sent.append(dict(fields))
    )


def test_it_tells_what_the_frame_said(job: Job, tmp_path: Path) -> None:
    assert (job.job_id, job.attempt, job.seed, job.scratch) == ("a", 2, 9, tmp_path)
    assert job.inputs == {"x": 1}
    assert not job.cancelled


def test_progress_is_clamped_and_never_goes_back(job: Job, sent: Sent) -> None:
    for fraction in (-1, 0.5, 0.2, math.nan, 7):
        job.progress(fraction)

    assert [told["fraction"] for told in sent] == [0.0, 0.5, 0.5, 0.5, 1.0]


def test_progress_carries_bounded_texts(job: Job, sent: Sent) -> None:
    job.progress(0, stage="s" * 1000, message="\0\ud800" + "m" * 10_000)

    assert len(sent[0]["stage"]) == 64
    assert len(sent[0]["message"]) == 500
    assert sent[0]["message"].startswith("\ufffd?m")


def test_much_progress_is_thinned_out(job: Job, sent: Sent) -> None:
    began = time.monotonic()
    for step in range(5000):
        job.progress(step / 5000)

    seconds = time.monotonic() - began
    assert PROGRESS_PER_S <= len(sent) <= PROGRESS_PER_S * (1 + seconds) + 1


def test_an_output_file_lies_in_the_scratch_folder(job: Job, tmp_path: Path) -> None:
    file = job.output("design.pdb", media_type="chemical/x-pdb")

    assert file.path == tmp_path / "design.pdb"
    assert job.outputs == {"design.pdb": file}


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".x", "", "x" * 129])
def test_a_strange_file_name_is_refused(job: Job, name: str) -> None:
    with pytest.raises(ValueError, match="no name for an output file"):
        job.output(name, media_type="text/plain")


def test_a_file_name_is_used_once(job: Job) -> None:
    job.output("a.txt", media_type="text/plain")

    with pytest.raises(ValueError, match="already"):
        job.output("a.txt", media_type="text/plain")


def test_a_media_type_has_two_parts(job: Job) -> None:
    with pytest.raises(ValueError, match="media type"):
        job.output("a.txt", media_type="text")


def test_files_and_warnings_are_bounded(job: Job) -> None:
    for number in range(MAX_OUTPUTS):
        job.output(f"{number}.txt", media_type="text/plain")
        job.warn("many", "too many")

    assert len(job.warnings) == MAX_WARNINGS
    with pytest.raises(ValueError, match="at most"):
        job.output("last.txt", media_type="text/plain")


def test_phases_add_up_by_name() -> None:
    phases = Phases()
    phases.enter("import")
    time.sleep(0.01)
    phases.enter("weights")
    phases.enter("import")
    time.sleep(0.01)
    phases.enter("")

    assert phases.seconds["import"] >= 0.02
    assert set(phases.seconds) == {"import", "weights"}


class TestCheckpoints:
    def test_one_is_whole_before_it_is_announced(
        self, job: Job, sent: Sent, tmp_path: Path
    ) -> None:
        job.save_checkpoint(b"done so far", step=4)

        assert sent == [{"job": "a", "step": 4, "file": "step-4"}]
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
            "step-4": b"done so far"
        }

    def test_steps_go_forward(self, job: Job) -> None:
        job.save_checkpoint(b"", step=4)
        for step in (4, 3, -1):
            with pytest.raises(ValueError, match="go forward"):
                job.save_checkpoint(b"", step=step)

    def test_a_checkpoint_is_bounded(self, job: Job, sent: Sent) -> None:
        with pytest.raises(ValueError, match="at most"):
            job.save_checkpoint(bytes(MAX_CHECKPOINT_BYTES + 1), step=1)
        assert sent == []

    def test_a_first_attempt_has_nothing_to_resume(self, job: Job, tmp_path: Path) -> None:
        assert job.resume() is None
        (tmp_path / "resume").write_bytes(b"done before")
        assert job.resume() == b"done before"
