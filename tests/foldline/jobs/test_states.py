from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.jobs.states import OPEN, STEPS, TERMINAL, State, may_follow, sources_of


def test_nothing_follows_a_terminal_state() -> None:
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED} == TERMINAL
    assert not any(may_follow(ended, state) for ended in TERMINAL for state in State)


def test_every_open_state_can_reach_an_end() -> None:
    assert all(STEPS[state] & TERMINAL for state in OPEN)


def test_a_job_is_born_waiting_or_answered_from_the_cache() -> None:
    assert STEPS[None] == {State.QUEUED, State.SUCCEEDED}


@given(st.sampled_from(State), st.sampled_from(State))
def test_sources_are_the_table_read_backwards(source: State, target: State) -> None:
    assert (source in sources_of(target)) == may_follow(source, target)


@pytest.mark.parametrize("state", [State.CANCELLED, State.FAILED, State.SUCCEEDED])
def test_a_running_job_can_end_as(state: State) -> None:
    assert may_follow(State.RUNNING, state)
