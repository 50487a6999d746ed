"""What a terminal is shown: nothing that a server says can steer it."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from foldline.client.cli.screen import Screen
from foldline.client.cli.words import clean, one_line, pretty, problem_lines, span, state_of
from foldline.client.reading import read
from foldline.client.shapes import Job, Problem

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
HOSTILE = "\x1b]0;owned\x07 \x9b31m \u202e \r\n [bold red]x[/] \x00 \x7f \ud800 \u2028"


def after(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def job(state: str = "queued", **more: Any) -> Job:
    return read(Job, {"id": "j1", "state": state, "model": "sleepy", **more})


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize(
    ("p50_s", "p90_s", "words"),
    [
        (40, 90, "in 40-90 s"),
        (-5, 1, "any moment"),
        (0, 0, "any moment"),
        (5, 5, "in 5 s"),
        (60, 300, "in 1-5 min"),
        (3600, 3 * 3600, "in 1-3 h"),
        (90, 60, "in 90 s"),
    ],
)
def test_a_time_is_a_band(p50_s: float, p90_s: float, words: str) -> None:
    early, late = NOW + timedelta(seconds=p50_s), NOW + timedelta(seconds=p90_s)
    assert span(early, late, NOW) == words


def test_a_queued_job_tells_place_time_and_reason() -> None:
    waits = job(
        queue={"position": 3, "blocked_reason": "model_loading"},
        eta={"start_p50": after(40), "start_p90": after(90)},
    )
    assert state_of(waits, NOW) == "queued, place 3, start in 40-90 s, model loading"


def test_a_running_job_tells_stage_and_end() -> None:
    runs = job(
        "running",
        progress={"fraction": 0.5, "stage": "fold", "message": "recycle 2"},
        eta={"finish_p50": after(10), "finish_p90": after(20)},
    )
    assert state_of(runs, NOW) == "fold, recycle 2, done in 10-20 s"


def test_a_job_of_which_nothing_is_known_is_told_all_the_same() -> None:
    assert state_of(job(), NOW) == "queued"
    assert state_of(job("running"), NOW) == "running"
    assert state_of(job("running", cancelling=True), NOW) == "is being cancelled"


def test_no_control_character_of_a_server_reaches_the_terminal() -> None:
    assert is_harmless(clean(HOSTILE))
    assert "\\x1b]0;owned\\x07" in clean(HOSTILE)
    assert is_harmless(pretty({"echo": HOSTILE, HOSTILE: [HOSTILE]}))
    assert one_line({"echo": HOSTILE}).isascii()
    assert json.loads(one_line({"echo": HOSTILE})) == {"echo": HOSTILE}
    problem = Problem(code=HOSTILE, detail=HOSTILE, suggested_action=HOSTILE)
    assert all(is_harmless(line) for line in problem_lines(problem))


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_of_a_hostile_server_is_text(*, terminal: bool) -> None:
    shown = io.StringIO()
    console = Console(
        file=shown, force_terminal=terminal, color_system=None, width=200, markup=False
    )
    hostile = job(
        "running",
        id=HOSTILE,
        model=HOSTILE,
        progress={"fraction": 7.5, "stage": HOSTILE, "message": HOSTILE},
        queue={"blocked_reason": HOSTILE},
    )
    with Screen(console) as screen:
        screen.show([hostile])
    told = shown.getvalue()
    assert "[bold red]x[/]" in told, "it is no markup"
    assert "\x1b]0" not in told
    assert "\x9b" not in told
    assert "\u202e" not in told


def test_more_jobs_than_bars_are_summed_up() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system=None, width=100)
    many = [job("succeeded" if n < 30 else "queued", id=f"j{n}") for n in range(100)]
    with Screen(console) as screen:
        screen.show(many)
    assert "30 of 100 ended: 30 succeeded, 70 queued" in shown.getvalue()
