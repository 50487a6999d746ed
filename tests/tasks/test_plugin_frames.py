from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_plugins.frames import FrameError
from tasks.messages import Item, OutputFile, Saved
from tasks.plugin_frames import (
    START_CODES,
    WrongJobs,
    infer_frame,
    read_answers,
    read_checkpoint,
    read_error,
    read_loaded,
    read_progress,
)


@pytest.fixture
def item(tmp_path: Path) -> Item:
    return Item(job="a", attempt=1, inputs={}, seed=0, scratch=tmp_path, checkpoints=tmp_path)


def done(**fields: Any) -> dict[str, Any]:
    return {"type": "done", "call": 1, "items": [{"job": "a", **fields}]}


def test_a_result_with_its_file_is_read(item: Item) -> None:
    (item.scratch / "x.pdb").touch()

    [answer] = read_answers(
        done(
            result={"model": {"$file": "x.pdb"}},
            files=[{"name": "x.pdb", "media_type": "chemical/x-pdb"}],
            warnings=[{"code": "short", "message": "Short."}],
        ),
        [item],
    )

    assert answer.result == {"model": {"$file": "x.pdb"}}
    assert answer.files == (
        OutputFile(name="x.pdb", media_type="chemical/x-pdb", path=item.scratch / "x.pdb"),
    )
    assert answer.warnings == ({"code": "short", "message": "Short."},)
    assert answer.error is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no JSON object"),
        ({"result": [1]}, "no JSON object"),
        ({"result": {"x": math.inf}}, "JSON"),
        ({"result": {"x": "a\0"}}, "NUL"),
        ({"result": {"x": {"$file": "never"}}}, "never announced"),
        ({"result": {"x": {"$file": ["x"]}}}, "never announced"),
        ({"result": {}, "files": [{"name": "../x"}]}, "proper name"),
        ({"result": {}, "files": [{"name": 3}]}, "proper name"),
        ({"result": {}, "files": ["x"]}, "proper name"),
        ({"result": {}, "files": [{"name": "absent"}]}, "cannot be read"),
        ({"result": {}, "files": [{"name": "folder"}]}, "no regular file"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_a_reason(
    item: Item, fields: dict[str, Any], words: str
) -> None:
    (item.scratch / "folder").mkdir()

    [answer] = read_answers(done(**fields), [item])

    assert answer.result is None
    assert answer.error is not None
    assert answer.error["code"] == "model_output_invalid"
    assert words in answer.error["message"]


def test_a_large_result_is_refused_also_when_the_runner_was_passed_by(item: Item) -> None:
    [answer] = read_answers(done(result={"x": "y" * 70_000}), [item])

    assert answer.error is not None
    assert answer.error["code"] == "output_too_large"


@pytest.mark.parametrize("items", [None, [], [1], [{"job": "b"}], [{"job": "a"}, {"job": "a"}]])
def test_answers_for_other_jobs_are_refused_altogether(item: Item, items: Any) -> None:
    with pytest.raises(WrongJobs):
        read_answers({"type": "done", "items": items}, [item])


@pytest.mark.parametrize("told", [None, [], {}, {"code": ["x"]}, {"code": "worker_lost"}])
def test_an_unknown_error_is_a_model_error(told: Any) -> None:
    assert read_error(told)["code"] == "model_error"


def test_the_pointer_of_an_error_is_lifted_out_of_its_details() -> None:
    error = read_error(
        {"code": "invalid_input", "message": "no\0", "details": {"pointer": "/x", "got": 1}}
    )

    assert error == {
        "code": "invalid_input",
        "message": "no\ufffd",
        "pointer": "/x",
        "details": {"pointer": "/x", "got": 1},
    }


@pytest.mark.parametrize("details", [{"x": "y" * 9000}, {"x": "\0"}])
def test_details_that_cannot_be_stored_are_dropped(details: Any) -> None:
    assert set(read_error({"details": details})["details"]) == {"dropped"}


def test_a_start_may_fail_for_its_weights() -> None:
    told = {"code": "weights_mismatch", "message": "x"}

    assert read_error(told, codes=START_CODES)["code"] == "weights_mismatch"
    assert read_error(told)["code"] == "model_error"


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [(0.5, 0.5), (7, 1.0), (-1, 0.0), (True, 0.0), ("x", 0.0), (math.nan, 0.0), (10**400, 0.0)],
)
def test_progress_is_a_number_between_0_and_1(fraction: Any, expected: float) -> None:
    job, progress = read_progress({"job": "a", "fraction": fraction, "stage": 3, "message": None})

    assert job == "a"
    assert progress.fraction == expected
    assert (progress.stage, progress.message) == ("3", "None")


def test_what_no_phase_explains_is_the_start_of_the_process() -> None:
    loaded = read_loaded({"phases": {"import": 1.0, "load": "x"}, "device": "cpu"}, seconds=1.5)

    assert loaded.phases == {"import": 1.0, "load": 0.0, "start_process": 0.5}
    assert loaded.peak_rss_bytes == 0


def test_a_ready_without_phases_is_no_frame_of_ours() -> None:
    with pytest.raises(FrameError):
        read_loaded({}, seconds=1)


def test_inputs_that_are_no_json_make_no_frame(item: Item) -> None:
    bad = replace(item, inputs={"x": math.nan})

    with pytest.raises(FrameError):
        infer_frame(1, [bad])


def test_a_checkpoint_names_a_job_a_step_and_a_plain_file(item: Item, tmp_path: Path) -> None:
    frame = {"type": "checkpoint", "job": "a", "step": 3, "file": "step-3"}
    assert read_checkpoint(frame, [item]) == Saved(job="a", step=3, path=tmp_path / "step-3")
    for wrong in ({"job": "b"}, {"step": -1}, {"step": True}, {"step": 2**60}, {"file": "../x"}):
        assert read_checkpoint({**frame, **wrong}, [item]) is None
